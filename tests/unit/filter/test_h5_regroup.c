/* test_h5_regroup.c - records to columns and back, and byte order, against loops that follow the document's words, in
 * memory that ends at a page that may not be touched. */
#include "lmc_test_data.h"

#include "filter/chunk/regroup.h"
#include "filter/chunk/wire.h"
#include "lmc_test.h"

#define NBYTES_MAX 70000

static uint8_t content[NBYTES_MAX], expected[NBYTES_MAX];
static guarded source, target;

/* Byte j of record i is byte i of column j; what fills no record stays at the end. */
static void transpose(const uint8_t *records, size_t nbytes, size_t width, uint8_t *columns)
{
    const size_t count = nbytes / width;
    memcpy(columns, records, nbytes);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < width; j++)
            columns[j * count + i] = records[i * width + j];
}

static void check_columns(size_t nbytes, size_t width)
{
    const uint8_t *const records = guarded_copy(&source, content, nbytes);
    uint8_t *const dst = guarded_end(&target, nbytes);
    memset(dst, 0x55, nbytes);
    transpose(content, nbytes, width, expected);
    lmc_h5_records_to_columns(records, nbytes, width, dst);
    const int is_right = memcmp(dst, expected, nbytes) == 0;
    const uint8_t *const columns = guarded_copy(&source, expected, nbytes);
    memset(dst, 0x55, nbytes);
    lmc_h5_columns_to_records(columns, nbytes, width, dst);
    if (!is_right || memcmp(dst, content, nbytes) != 0) {
        printf("\n%zu bytes in records of %zu\n", nbytes, width);
        CU_FAIL("bytes are not where they should be");
    }
}

LMC_TEST(test_every_width_and_small_size)
{
    for (size_t width = H5_WIRE_WIDTH_MIN; width <= H5_WIRE_WIDTH_MAX; width++)
        for (size_t nbytes = 0; nbytes <= 600; nbytes++)
            check_columns(nbytes, width);
}

/* About the tiles of 256 records. */
LMC_TEST(test_counts_about_tiles)
{
    for (size_t width = H5_WIRE_WIDTH_MIN; width <= H5_WIRE_WIDTH_MAX; width++) {
        const size_t counts[] = {254, 255, 256, 257, 258, NBYTES_MAX / width};
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            const size_t nbytes = counts[i] * width;
            const size_t ragged = nbytes + width - 1;
            check_columns(nbytes, width);
            check_columns(ragged < NBYTES_MAX ? ragged : NBYTES_MAX, width);
        }
    }
}

static void check_swap(size_t nbytes, size_t element_nbytes)
{
    const uint8_t *const src = guarded_copy(&source, content, nbytes);
    uint8_t *const dst = guarded_end(&target, nbytes);
    memcpy(expected, content, nbytes);
    for (size_t i = 0; i + element_nbytes <= nbytes; i += element_nbytes)
        for (size_t j = 0; j < element_nbytes; j++)
            expected[i + j] = content[i + element_nbytes - 1 - j];
    memset(dst, 0x55, nbytes);
    lmc_h5_swap_elements(src, nbytes, element_nbytes, dst);
    const int is_right = memcmp(dst, expected, nbytes) == 0 && memcmp(src, content, nbytes) == 0;
    memcpy(dst, content, nbytes);
    lmc_h5_swap_elements(dst, nbytes, element_nbytes, dst);
    if (!is_right || memcmp(dst, expected, nbytes) != 0) {
        printf("\n%zu bytes in elements of %zu\n", nbytes, element_nbytes);
        CU_FAIL("bytes are not reversed");
    }
}

LMC_TEST(test_every_small_swap)
{
    for (size_t element_nbytes = 2; element_nbytes <= 8; element_nbytes *= 2) {
        for (size_t nbytes = 0; nbytes <= 600; nbytes++)
            check_swap(nbytes, element_nbytes);
        for (size_t nbytes = NBYTES_MAX - 9; nbytes <= NBYTES_MAX; nbytes++)
            check_swap(nbytes, element_nbytes);
    }
}

LMC_TEST_MAIN_WITH("h5_regroup",
                   (source = guarded_open(NBYTES_MAX), target = guarded_open(NBYTES_MAX),
                    random_fill(content, sizeof content)),
                   (guarded_close(&source), guarded_close(&target)))
