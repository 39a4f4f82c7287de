/* test_dtype_guess.c - the dtype that unknown content is taken for. A wrong guess costs ratio: usual contents must be
 * guessed right, wherever they begin to be themselves. Nothing may be read beyond the content. */
#include "lmc_test_data.h"

#include "lmc.h"
#include "lmc_experimental.h"
#include "lmc_test.h"

#define CONTENT_NBYTES 300000

static uint8_t content[CONTENT_NBYTES];
static guarded memory;

static lmc_dtype dtype_of(size_t nbytes, unsigned element_nbytes)
{
    return lmc_dtype_guess(guarded_copy(&memory, content, nbytes), nbytes, element_nbytes);
}

static unsigned size_of(size_t nbytes)
{
    return lmc_dtype_nbits(lmc_dtype_guess(guarded_copy(&memory, content, nbytes), nbytes, 0)) / 8;
}

static void check_dtype(lmc_dtype content_dtype, data_kind kind, lmc_dtype expected)
{
    static const size_t sizes[] = {4096, 16384, 16392, 20000, 65536, CONTENT_NBYTES};
    const unsigned element_nbytes = lmc_dtype_nbits(content_dtype) / 8;
    data_fill(content, CONTENT_NBYTES, content_dtype, kind);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const lmc_dtype found = dtype_of(sizes[i], element_nbytes);
        if (found != expected)
            printf("\n%s of kind %d, %zu bytes: %s\n", lmc_dtype_name(content_dtype), kind, sizes[i],
                   lmc_dtype_name(found));
        CU_ASSERT_EQUAL(found, expected);
    }
}

LMC_TEST(test_floats_are_seen)
{
    static const data_kind kinds[] = {DATA_WEIGHTS, DATA_HALF_ZEROS, DATA_SPECIAL, DATA_WILD};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        check_dtype(LMC_DTYPE_F16, kinds[i], LMC_DTYPE_BF16);
        check_dtype(LMC_DTYPE_BF16, kinds[i], LMC_DTYPE_BF16);
        check_dtype(LMC_DTYPE_F32, kinds[i], LMC_DTYPE_F32);
    }
    check_dtype(LMC_DTYPE_F8_E4M3, DATA_WEIGHTS, LMC_DTYPE_F8_E4M3);
    check_dtype(LMC_DTYPE_F8_E5M2, DATA_WEIGHTS, LMC_DTYPE_F8_E4M3);
}

/* Numbers below a bound, as indices and counts are. */
static void fill_integers(unsigned element_nbytes, uint64_t bound)
{
    for (size_t i = 0; i + element_nbytes <= CONTENT_NBYTES; i += element_nbytes) {
        const uint64_t value = random_below((size_t)bound);
        memcpy(content + i, &value, element_nbytes);
    }
}

LMC_TEST(test_integers_are_seen)
{
    fill_integers(2, 200);
    CU_ASSERT_EQUAL(dtype_of(CONTENT_NBYTES, 2), LMC_DTYPE_U16);
    CU_ASSERT_EQUAL(dtype_of(16384, 2), LMC_DTYPE_U16);
    fill_integers(1, 100);
    CU_ASSERT_EQUAL(dtype_of(CONTENT_NBYTES, 1), LMC_DTYPE_U8);
    data_fill(content, CONTENT_NBYTES, LMC_DTYPE_I16, DATA_WEIGHTS);
    CU_ASSERT_EQUAL(dtype_of(CONTENT_NBYTES, 2), LMC_DTYPE_U16);
}

static size_t frame_nbytes(lmc_dtype dtype)
{
    static uint8_t frame[2 * CONTENT_NBYTES];
    lmc_params params;
    lmc_ctx *ctx = NULL;
    size_t nbytes = 0;
    lmc_params_init(&params);
    params.dtype = dtype;
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(NULL, &ctx), LMC_OK);
    CU_ASSERT_EQUAL(lmc_encode(ctx, &params, content, CONTENT_NBYTES, frame, sizeof frame, &nbytes), LMC_OK);
    lmc_ctx_free(ctx);
    return nbytes;
}

/* Whatever is guessed of numbers, it costs no more than 5 % over the dtype that they are of. */
LMC_TEST(test_a_guess_costs_little)
{
    static const data_kind kinds[] = {DATA_WEIGHTS, DATA_ONE_SIGN, DATA_HALF_ZEROS,
                                      DATA_SPECIAL, DATA_WILD,     DATA_STEPS};
    static const lmc_dtype dtypes[] = {LMC_DTYPE_U8,  LMC_DTYPE_F8_E4M3, LMC_DTYPE_F8_E5M2, LMC_DTYPE_I16,
                                       LMC_DTYPE_U16, LMC_DTYPE_F16,     LMC_DTYPE_BF16,    LMC_DTYPE_I32,
                                       LMC_DTYPE_F32, LMC_DTYPE_I64,     LMC_DTYPE_F64};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            data_fill(content, CONTENT_NBYTES, dtypes[d], kinds[k]);
            const lmc_dtype guess = dtype_of(CONTENT_NBYTES, lmc_dtype_nbits(dtypes[d]) / 8);
            const size_t nbytes = frame_nbytes(guess), own_nbytes = frame_nbytes(dtypes[d]);
            if (nbytes > own_nbytes / 100 * 105)
                printf("\n%s of kind %d as %s: %zu bytes, %zu as what it is\n", lmc_dtype_name(dtypes[d]),
                       kinds[k], lmc_dtype_name(guess), nbytes, own_nbytes);
            CU_ASSERT(nbytes <= own_nbytes / 100 * 105);
        }
    }
}

/* Either answer codes these as well; it must only be one of the size. */
LMC_TEST(test_contents_without_a_rule)
{
    for (int kind = 0; kind < 3; kind++) {
        if (kind == 0)
            random_fill(content, CONTENT_NBYTES);
        else
            memset(content, kind == 1 ? 0 : 0x3f, CONTENT_NBYTES);
        for (unsigned element_nbytes = 1; element_nbytes <= 8; element_nbytes *= 2)
            for (size_t nbytes = 0; nbytes <= CONTENT_NBYTES; nbytes = nbytes * 2 + 1)
                CU_ASSERT_EQUAL(lmc_dtype_nbits(dtype_of(nbytes, element_nbytes)), 8 * element_nbytes);
        CU_ASSERT_EQUAL(size_of(CONTENT_NBYTES), 1);
        CU_ASSERT_EQUAL(size_of(16384), 1);
    }
    memset(content, 0, CONTENT_NBYTES);
    CU_ASSERT_EQUAL(dtype_of(CONTENT_NBYTES, 1), LMC_DTYPE_U8);
}

LMC_TEST(test_short_contents)
{
    data_fill(content, CONTENT_NBYTES, LMC_DTYPE_F32, DATA_WEIGHTS);
    for (size_t nbytes = 0; nbytes < 3000; nbytes++) {
        const unsigned size = size_of(nbytes);
        CU_ASSERT(size == 1 || size == 2 || size == 4 || size == 8);
        for (unsigned element_nbytes = 1; element_nbytes <= 8; element_nbytes *= 2)
            CU_ASSERT_EQUAL(lmc_dtype_nbits(dtype_of(nbytes, element_nbytes)), 8 * element_nbytes);
    }
    CU_ASSERT_EQUAL(size_of(0), 1);
    CU_ASSERT_EQUAL(dtype_of(0, 4), LMC_DTYPE_F32);
}

static void check_size(lmc_dtype dtype, data_kind kind, unsigned expected)
{
    static const size_t sizes[] = {8192, 16384, 16389, 50001, CONTENT_NBYTES};
    data_fill(content, CONTENT_NBYTES, dtype, kind);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const unsigned found = size_of(sizes[i]);
        if (found != expected)
            printf("\n%s of kind %d, %zu bytes: elements of %u\n", lmc_dtype_name(dtype), kind, sizes[i],
                   found);
        CU_ASSERT_EQUAL(found, expected);
    }
}

LMC_TEST(test_element_sizes_are_found)
{
    check_size(LMC_DTYPE_BF16, DATA_WEIGHTS, 2);
    check_size(LMC_DTYPE_F16, DATA_WEIGHTS, 2);
    check_size(LMC_DTYPE_F32, DATA_WEIGHTS, 4);
    check_size(LMC_DTYPE_F64, DATA_WEIGHTS, 8);
    check_size(LMC_DTYPE_U8, DATA_WEIGHTS, 1);
    check_size(LMC_DTYPE_U8, DATA_RANDOM, 1);
    for (unsigned element_nbytes = 2; element_nbytes <= 8; element_nbytes *= 2) {
        fill_integers(element_nbytes, 70);
        CU_ASSERT_EQUAL(size_of(CONTENT_NBYTES), element_nbytes);
    }
}

/* A chunk whose first part is fill: the sample comes from all over it. */
LMC_TEST(test_edge_chunks)
{
    data_fill(content, CONTENT_NBYTES, LMC_DTYPE_F32, DATA_WEIGHTS);
    memset(content, 0, CONTENT_NBYTES / 2);
    CU_ASSERT_EQUAL(size_of(CONTENT_NBYTES), 4);
    CU_ASSERT_EQUAL(dtype_of(CONTENT_NBYTES, 4), LMC_DTYPE_F32);
}

LMC_TEST_MAIN_WITH("dtype_guess", memory = guarded_open(CONTENT_NBYTES), guarded_close(&memory))
