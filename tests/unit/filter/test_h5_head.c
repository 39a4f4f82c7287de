/* test_h5_head.c - heads of regrouped chunks: every one that an encoder can write reads the same, stands as the
 * document says, and no damaged one is taken. */
#include "lmc_test_data.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "filter/chunk/chunk_head.h"
#include "lmc_test.h"

static uint32_t sizes[H5_WIRE_WIDTH_MAX];
static guarded memory;

static lmc_h5_head make(unsigned layout, unsigned swap_nbytes, unsigned width)
{
    lmc_h5_head head = {.layout = layout, .swap_nbytes = swap_nbytes, .width = width};
    lmc_h5_head_complete(&head);
    return head;
}

static size_t head_nbytes(unsigned layout, unsigned width)
{
    return 10 + (layout == H5_WIRE_LAYOUT_COLUMNS ? 4 * (width - 1) : 0) + 8;
}

static void store(uint8_t *p, uint64_t value, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

/* As docs/hdf5-filter.md, section 3, has it. */
static void write_by_document(unsigned layout, unsigned swap, unsigned width, uint8_t *dst)
{
    const size_t nbytes = head_nbytes(layout, width);
    memcpy(dst, "\x8cLMH\x01", 5);
    dst[5] = (uint8_t)layout;
    dst[6] = (uint8_t)swap;
    dst[7] = 0;
    store(dst + 8, width, 2);
    for (size_t i = 0; 10 + 4 * i + 8 < nbytes; i++)
        store(dst + 10 + 4 * i, sizes[i], 4);
    store(dst + nbytes - 8, XXH3_64bits(dst, nbytes - 8), 8);
}

static void check_good(unsigned layout, unsigned swap, unsigned width)
{
    uint8_t expected[H5_WIRE_HEAD_NBYTES_MAX];
    const lmc_h5_head written = make(layout, swap, width);
    lmc_h5_head head;
    CU_ASSERT_EQUAL_FATAL(written.nbytes, head_nbytes(layout, width));
    CU_ASSERT_EQUAL(written.frame_count, layout == H5_WIRE_LAYOUT_COLUMNS ? width : 1);
    uint8_t *const bytes = guarded_end(&memory, written.nbytes);
    memset(bytes, 0x55, written.nbytes);
    lmc_h5_head_write(&written, sizes, bytes);
    write_by_document(layout, swap, width, expected);
    CU_ASSERT_EQUAL(memcmp(bytes, expected, written.nbytes), 0);
    CU_ASSERT(lmc_h5_head_is_there(bytes, written.nbytes));
    CU_ASSERT_EQUAL_FATAL(lmc_h5_head_read(bytes, written.nbytes, &head), LMC_OK);
    CU_ASSERT(head.layout == layout && head.swap_nbytes == swap && head.width == width &&
              head.frame_count == written.frame_count && head.nbytes == written.nbytes);
    for (unsigned i = 0; i + 1 < head.frame_count; i++)
        CU_ASSERT_EQUAL(lmc_h5_head_frame_nbytes(&head, bytes, head.nbytes, i, 77), sizes[i]);
    CU_ASSERT_EQUAL(lmc_h5_head_frame_nbytes(&head, bytes, 5000, head.frame_count - 1, 4000), 1000);
    CU_ASSERT_EQUAL(lmc_h5_head_frame_nbytes(&head, bytes, 5000, head.frame_count - 1, 5000), 0);
    CU_ASSERT_EQUAL(lmc_h5_head_frame_nbytes(&head, bytes, 5000, head.frame_count - 1, 5001), 0);
}

LMC_TEST(test_every_good_head)
{
    for (unsigned swap = 0; swap <= 8; swap = swap ? swap * 2 : 2) {
        if (swap)
            check_good(H5_WIRE_LAYOUT_PLAIN, swap, 0);
        for (unsigned width = 2; width <= 256; width++) {
            check_good(H5_WIRE_LAYOUT_RECORDS, swap, width);
            if (!swap)
                check_good(H5_WIRE_LAYOUT_COLUMNS, 0, width);
        }
    }
    CU_ASSERT_EQUAL(H5_WIRE_HEAD_NBYTES_MAX, head_nbytes(H5_WIRE_LAYOUT_COLUMNS, 256));
}

static lmc_status read_fields(const uint8_t fields[6])
{
    uint8_t bytes[H5_WIRE_HEAD_NBYTES_MAX] = {0x8c, 0x4c, 0x4d, 0x48};
    lmc_h5_head head;
    memcpy(bytes + 4, fields, 6);
    const unsigned width = fields[4] | (unsigned)fields[5] << 8;
    const size_t nbytes = fields[1] == H5_WIRE_LAYOUT_COLUMNS && width >= 2 && width <= 256
                              ? head_nbytes(H5_WIRE_LAYOUT_COLUMNS, width)
                              : 18;
    store(bytes + nbytes - 8, XXH3_64bits(bytes, nbytes - 8), 8);
    memcpy(guarded_end(&memory, nbytes), bytes, nbytes);
    return lmc_h5_head_read(guarded_end(&memory, nbytes), nbytes, &head);
}

/* The document's rules for one field at a time and for all pairs of layout and swap, with a check that is right. */
LMC_TEST(test_every_field)
{
    for (unsigned value = 0; value < 256; value++) {
        const uint8_t v = (uint8_t)value;
        CU_ASSERT_EQUAL(read_fields((uint8_t[]){v, 0, 2, 0, 0, 0}), v == 0   ? LMC_ERR_CORRUPT
                                                                    : v == 1 ? LMC_OK
                                                                             : LMC_ERR_UNSUPPORTED);
        CU_ASSERT_EQUAL(read_fields((uint8_t[]){1, 0, 2, v, 0, 0}), v == 0 ? LMC_OK : LMC_ERR_UNSUPPORTED);
        for (unsigned layout = 4; layout < 256; layout++)
            CU_ASSERT_EQUAL(read_fields((uint8_t[]){1, (uint8_t)layout, v, 0, 4, 0}), LMC_ERR_UNSUPPORTED);
        const int is_swap = v == 2 || v == 4 || v == 8;
        CU_ASSERT_EQUAL(read_fields((uint8_t[]){1, 0, v, 0, 0, 0}), is_swap ? LMC_OK : LMC_ERR_CORRUPT);
        CU_ASSERT_EQUAL(read_fields((uint8_t[]){1, 1, v, 0, 4, 0}), v == 0 ? LMC_OK : LMC_ERR_CORRUPT);
        CU_ASSERT_EQUAL(read_fields((uint8_t[]){1, 2, v, 0, 4, 0}),
                        v == 0 || is_swap ? LMC_OK : LMC_ERR_CORRUPT);
    }
}

LMC_TEST(test_every_width)
{
    for (unsigned width = 0; width < 65536; width++) {
        const uint8_t low = (uint8_t)width, high = (uint8_t)(width >> 8);
        const lmc_status status = width >= 2 && width <= 256 ? LMC_OK : LMC_ERR_CORRUPT;
        CU_ASSERT_EQUAL(read_fields((uint8_t[]){1, 0, 4, 0, low, high}),
                        width == 0 ? LMC_OK : LMC_ERR_CORRUPT);
        CU_ASSERT_EQUAL(read_fields((uint8_t[]){1, 1, 0, 0, low, high}), status);
        CU_ASSERT_EQUAL(read_fields((uint8_t[]){1, 2, 0, 0, low, high}), status);
    }
}

/* A head of each form, cut at every place and with every bit flipped. */
static void check_damage(unsigned layout, unsigned swap, unsigned width)
{
    uint8_t bytes[H5_WIRE_HEAD_NBYTES_MAX];
    const lmc_h5_head good = make(layout, swap, width);
    lmc_h5_head head;
    lmc_h5_head_write(&good, sizes, bytes);
    for (size_t nbytes = 4; nbytes < good.nbytes; nbytes++)
        CU_ASSERT_EQUAL(lmc_h5_head_read(guarded_copy(&memory, bytes, nbytes), nbytes, &head),
                        LMC_ERR_TRUNCATED);
    for (size_t nbytes = 0; nbytes < 4; nbytes++)
        CU_ASSERT(!lmc_h5_head_is_there(guarded_copy(&memory, bytes, nbytes), nbytes));
    for (size_t bit = 0; bit < 8 * good.nbytes; bit++) {
        uint8_t *const damaged = guarded_copy(&memory, bytes, good.nbytes);
        damaged[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const int is_taken = lmc_h5_head_is_there(damaged, good.nbytes) &&
                             lmc_h5_head_read(damaged, good.nbytes, &head) == LMC_OK;
        CU_ASSERT(!is_taken);
        CU_ASSERT_EQUAL(lmc_h5_head_is_there(damaged, good.nbytes), bit >= 32);
    }
}

LMC_TEST(test_damaged_heads)
{
    check_damage(H5_WIRE_LAYOUT_PLAIN, 2, 0);
    check_damage(H5_WIRE_LAYOUT_RECORDS, 8, 64);
    check_damage(H5_WIRE_LAYOUT_COLUMNS, 0, 2);
    check_damage(H5_WIRE_LAYOUT_COLUMNS, 0, 256);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < H5_WIRE_WIDTH_MAX; i++)
        sizes[i] = (uint32_t)random_u64();
    memory = guarded_open(H5_WIRE_HEAD_NBYTES_MAX);
    const int status = lmc_test_main("lmc_h5_head", argc, argv);
    guarded_close(&memory);
    return status;
}
