/* test_frame.c - whole frames: every dtype, length, level and block size comes back, never much larger, and the
 * same input always gives the same bytes. */
#include "lmc_test_frame.h"

#define CONTENT_MAX 700000

static lmc_ctx *ctx;
static uint8_t *content;

static lmc_dtype dtype_of(unsigned i)
{
    return (lmc_dtype)(i % LMC_DTYPE_COUNT);
}

/* ---- lengths ---- */

LMC_TEST(test_every_small_length)
{
    for (unsigned d = 0; d < LMC_DTYPE_COUNT; d++) {
        for (size_t nbytes = d % LMC_TEST_STEP; nbytes <= 300; nbytes += LMC_TEST_STEP) {
            const lmc_params params = frame_params(dtype_of(d), (lmc_level)(nbytes % 3), 0);
            data_fill(content, nbytes, dtype_of(d), nbytes % 2 ? DATA_WEIGHTS : DATA_RANDOM);
            const size_t frame_nbytes = frame_round_trip(ctx, &params, content, nbytes);
            CU_ASSERT(nbytes > 255 || frame_nbytes == 8 + nbytes + 16);
        }
    }
}

LMC_TEST(test_no_content)
{
    for (unsigned d = 0; d < LMC_DTYPE_COUNT; d++) {
        const lmc_params params = frame_params(dtype_of(d), LMC_LEVEL_DEFAULT, 0);
        test_frame frame = frame_encode(ctx, &params, NULL, 0);
        size_t nbytes = 1;
        CU_ASSERT_EQUAL(lmc_decode(ctx, frame.bytes, frame.nbytes, NULL, 0, &nbytes), LMC_OK);
        CU_ASSERT_EQUAL(nbytes, 0);
        frame_free(&frame);
    }
}

/* About the end of a block: a byte more, a byte less, ragged elements. */
LMC_TEST(test_lengths_about_blocks)
{
    for (unsigned d = 0; d < LMC_DTYPE_COUNT; d++) {
        const size_t block_nbytes = (size_t)data_element_nbytes(dtype_of(d)) << 10;
        const lmc_params params = frame_params(dtype_of(d), LMC_LEVEL_DEFAULT, 10);
        data_fill(content, 3 * block_nbytes + 9, dtype_of(d), DATA_WEIGHTS);
        for (size_t blocks = 1; blocks <= 3; blocks++)
            for (size_t delta = d % LMC_TEST_STEP; delta < 18; delta += LMC_TEST_STEP)
                frame_round_trip(ctx, &params, content, blocks * block_nbytes + delta - 9);
    }
}

LMC_TEST(test_random_lengths)
{
    for (unsigned i = 0; i < 150; i++) {
        const size_t nbytes = random_below(i % 10 ? 20000 : CONTENT_MAX);
        const lmc_params params = frame_params(dtype_of(i), (lmc_level)random_below(3), 0);
        data_fill(content, nbytes, params.dtype, (data_kind)random_below(DATA_KIND_COUNT));
        frame_round_trip(ctx, &params, content, nbytes);
    }
}

/* ---- contents ---- */

LMC_TEST(test_every_content)
{
    for (unsigned d = 0; d < LMC_DTYPE_COUNT; d++) {
        for (int kind = (int)d % LMC_TEST_STEP; kind < DATA_KIND_COUNT; kind += LMC_TEST_STEP) {
            const lmc_params params = frame_params(dtype_of(d), (lmc_level)((d + (unsigned)kind) % 3), 11);
            data_fill(content, 70001, dtype_of(d), (data_kind)kind);
            frame_round_trip(ctx, &params, content, 70001);
        }
    }
}

/* Bits of a float are nobody's business: NaNs keep their payloads, zeros their signs. */
LMC_TEST(test_special_floats)
{
    static const lmc_dtype floats[] = {LMC_DTYPE_F16, LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_F64,
                                       LMC_DTYPE_C64};
    for (size_t d = 0; d < sizeof floats / sizeof floats[0]; d++) {
        const size_t unit = data_element_nbytes(floats[d]);
        for (unsigned level = 0; level < 3; level++) {
            for (size_t nbytes = 300; nbytes < 200000; nbytes *= 5) {
                const lmc_params params = frame_params(floats[d], (lmc_level)level, 0);
                for (size_t i = 0; i + unit <= nbytes; i += unit) {
                    const uint64_t value = data_special(floats[d]);
                    memcpy(content + i, &value, unit);
                }
                frame_round_trip(ctx, &params, content, nbytes);
            }
        }
    }
}

/* All 65536 values of 16 bits, once each and in runs. */
LMC_TEST(test_every_16_bit_value)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F16, LMC_DTYPE_BF16, LMC_DTYPE_I16, LMC_DTYPE_U16};
    for (size_t d = 0; d < 4; d++) {
        for (unsigned level = 0; level < 3; level++) {
            const lmc_params params = frame_params(dtypes[d], (lmc_level)level, 0);
            for (size_t shift = 0; shift < 3; shift++) {
                for (size_t i = 0; i < 2 * 65536; i++) {
                    const uint16_t value = (uint16_t)(i >> shift);
                    memcpy(content + 2 * i, &value, 2);
                }
                frame_round_trip(ctx, &params, content, 4 * 65536);
            }
        }
    }
}

/* What is promised of sizes: simple contents get small. */
LMC_TEST(test_simple_contents_get_small)
{
    static const struct {
        lmc_dtype dtype;
        data_kind kind;
        double share;
    } cases[] = {
        {LMC_DTYPE_U8, DATA_ZERO, 0.001},       {LMC_DTYPE_BF16, DATA_ZERO, 0.001},
        {LMC_DTYPE_F32, DATA_ONE_VALUE, 0.001}, {LMC_DTYPE_F64, DATA_ZERO, 0.001},
        {LMC_DTYPE_U8, DATA_RARE, 0.03},        {LMC_DTYPE_BF16, DATA_RARE, 0.03},
        {LMC_DTYPE_F32, DATA_RARE, 0.03},       {LMC_DTYPE_I64, DATA_RARE, 0.03},
        {LMC_DTYPE_F32, DATA_HALF_ZEROS, 0.5},  {LMC_DTYPE_F64, DATA_HALF_ZEROS, 0.5},
        {LMC_DTYPE_F32, DATA_SHORT, 0.37},      {LMC_DTYPE_F64, DATA_SHORT, 0.46},
        {LMC_DTYPE_BF16, DATA_WEIGHTS, 0.66},   {LMC_DTYPE_F32, DATA_WEIGHTS, 0.84},
        {LMC_DTYPE_BF16, DATA_ONE_SIGN, 0.6},   {LMC_DTYPE_I32, DATA_WEIGHTS, 0.5},
        {LMC_DTYPE_F32, DATA_PRODUCTS, 0.28},   {LMC_DTYPE_BF16, DATA_PRODUCTS, 0.52},
        {LMC_DTYPE_F16, DATA_PRODUCTS, 0.53},   {LMC_DTYPE_F32, DATA_HALVES, 0.45},
        {LMC_DTYPE_F64, DATA_HALVES, 0.45},     {LMC_DTYPE_F32, DATA_PALETTE, 0.26},
        {LMC_DTYPE_BF16, DATA_PALETTE, 0.52},   {LMC_DTYPE_F64, DATA_PALETTE, 0.14},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (unsigned level = 0; level < 3; level++) {
            const lmc_params params = frame_params(cases[i].dtype, (lmc_level)level, 0);
            if (cases[i].kind >= DATA_PRODUCTS && level == LMC_LEVEL_FAST)
                continue; /* does not look for narrow elements */
            data_fill(content, 600000, cases[i].dtype, cases[i].kind);
            const size_t frame_nbytes = frame_round_trip(ctx, &params, content, 600000);
            if ((double)frame_nbytes > cases[i].share * 600000)
                printf("\n%s, kind %d, level %u: %zu of 600000 bytes\n", lmc_dtype_name(cases[i].dtype),
                       cases[i].kind, level, frame_nbytes);
            CU_ASSERT((double)frame_nbytes <= cases[i].share * 600000);
        }
    }
}

/* One value nearly everywhere, and exceptions that no table of the plan codes. */
LMC_TEST(test_dominated_bytes)
{
    const size_t n = 20000;
    const lmc_params params = frame_params(LMC_DTYPE_U8, LMC_LEVEL_DEFAULT, 0);
    memset(content, 5, n);
    for (size_t i = 0; i < n; i += 40)
        content[i] = (uint8_t)(6 + i / 40 % 3);
    CU_ASSERT(frame_round_trip(ctx, &params, content, n) < 1500);
    for (unsigned value = 0; value < 256; value += LMC_TEST_STEP) {
        content[1000] = (uint8_t)value;
        frame_round_trip(ctx, &params, content, n);
    }
}

/* ---- bounds ---- */

LMC_TEST(test_noise_is_never_much_larger)
{
    for (size_t nbytes = 0; nbytes < 3000; nbytes += LMC_TEST_STEP) {
        const lmc_params params = frame_params(dtype_of((unsigned)nbytes), (lmc_level)(nbytes % 3), 10);
        random_fill(content, nbytes);
        CU_ASSERT(frame_round_trip(ctx, &params, content, nbytes) <= nbytes + LMC_FRAME_OVERHEAD_MAX);
    }
    random_fill(content, CONTENT_MAX);
    for (unsigned d = 0; d < LMC_DTYPE_COUNT; d++) {
        for (unsigned log2 = 10; log2 <= 20; log2 += 5) {
            const lmc_params params = frame_params(dtype_of(d), LMC_LEVEL_DEFAULT, log2);
            CU_ASSERT(frame_round_trip(ctx, &params, content, CONTENT_MAX) <=
                      CONTENT_MAX + LMC_FRAME_OVERHEAD_MAX);
        }
    }
}

/* ---- settings ---- */

LMC_TEST(test_block_sizes)
{
    for (unsigned log2 = LMC_BLOCK_LOG2_MIN; log2 <= LMC_BLOCK_LOG2_MAX; log2++) {
        for (unsigned d = log2 % LMC_TEST_STEP; d < LMC_DTYPE_COUNT; d += 3 * LMC_TEST_STEP) {
            const lmc_params params = frame_params(dtype_of(d), LMC_LEVEL_DEFAULT, log2);
            data_fill(content, 123457, dtype_of(d), DATA_WEIGHTS);
            frame_round_trip(ctx, &params, content, 123457);
        }
    }
}

LMC_TEST(test_unaligned_buffers)
{
    uint8_t *const found = must_malloc(40000 + 64);
    uint8_t *const bytes = must_malloc(60000 + 64);
    for (size_t shift = 0; shift < 64; shift += LMC_TEST_STEP) {
        const lmc_params params = frame_params(dtype_of((unsigned)shift), (lmc_level)(shift % 3), 12);
        size_t bound, frame_nbytes, found_nbytes;
        data_fill(content + shift, 40000, params.dtype, DATA_WEIGHTS);
        CU_ASSERT_EQUAL_FATAL(lmc_encode_bound(&params, 40000, &bound), LMC_OK);
        CU_ASSERT_FATAL(bound <= 60000);
        CU_ASSERT_EQUAL_FATAL(
            lmc_encode(ctx, &params, content + shift, 40000, bytes + (shift * 7) % 64, bound, &frame_nbytes),
            LMC_OK);
        CU_ASSERT_EQUAL_FATAL(lmc_decode(ctx, bytes + (shift * 7) % 64, frame_nbytes,
                                         found + (shift * 5) % 64, 40000, &found_nbytes),
                              LMC_OK);
        CU_ASSERT_EQUAL(memcmp(found + (shift * 5) % 64, content + shift, 40000), 0);
    }
    free(found);
    free(bytes);
}

/* The same bytes again, from another context, and for every number of threads. */
static void check_same_bytes(lmc_ctx *other, const lmc_params *params, size_t nbytes, const test_frame *first)
{
    static const unsigned thread_counts[] = {2, 3, 7, 0, 1};
    for (size_t t = 0; t < sizeof thread_counts / sizeof thread_counts[0]; t++) {
        CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(other, thread_counts[t]), LMC_OK);
        test_frame again = frame_encode(other, params, content, nbytes);
        CU_ASSERT(frames_are_equal(first, &again));
        frame_check(other, &again, content, nbytes);
        frame_free(&again);
    }
}

LMC_TEST(test_same_bytes_always)
{
    lmc_ctx *const other = must_create_ctx();
    for (unsigned i = 0; i < 44; i += LMC_TEST_STEP) {
        const size_t nbytes = 60000 + random_below(100000);
        lmc_params params = frame_params(dtype_of(i), (lmc_level)(i % 3), 10 + i % 4);
        data_fill(content, nbytes, params.dtype, (data_kind)random_below(DATA_KIND_COUNT));
        test_frame first = frame_encode(ctx, &params, content, nbytes);
        check_same_bytes(other, &params, nbytes, &first);
        frame_free(&first);
    }
    lmc_ctx_free(other);
}

/* A frame depends on its content alone, whatever the context has encoded before. */
LMC_TEST(test_history_does_not_matter)
{
    enum { COUNT = 18 };
    test_frame frames[COUNT];
    lmc_params params[COUNT];
    size_t nbytes[COUNT];
    uint8_t *contents[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        lmc_ctx *const fresh = must_create_ctx();
        nbytes[i] = i % 3 == 0 ? 600 + random_below(4000) : 70000 + random_below(400000);
        params[i] = frame_params(i % 2 ? LMC_DTYPE_BF16 : dtype_of(i), (lmc_level)(i / 2 % 3), 0);
        params[i].row_nbytes = i % 5 == 0 ? 512 : 0;
        contents[i] = must_malloc(nbytes[i]);
        data_fill(contents[i], nbytes[i], params[i].dtype,
                  i % 4 ? DATA_WEIGHTS : (data_kind)(i % DATA_KIND_COUNT));
        frames[i] = frame_encode(fresh, &params[i], contents[i], nbytes[i]);
        lmc_ctx_free(fresh);
    }
    for (unsigned k = 0; k < 2 * COUNT; k++) {
        const unsigned i = k * 7 % COUNT; /* another order, and each again */
        test_frame again = frame_encode(ctx, &params[i], contents[i], nbytes[i]);
        CU_ASSERT(frames_are_equal(&frames[i], &again));
        frame_free(&again);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        frame_free(&frames[i]);
        free(contents[i]);
    }
}

/* ---- matrices ---- */

static const lmc_dtype matrix_dtypes[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_F8_E5M2, LMC_DTYPE_F16, LMC_DTYPE_BF16,
                                          LMC_DTYPE_F32,     LMC_DTYPE_C64,     LMC_DTYPE_F64};
#define MATRIX_DTYPE_COUNT (sizeof matrix_dtypes / sizeof matrix_dtypes[0])

/* With rows and columns of different scale the frame gets smaller, once it is told of rows. */
LMC_TEST(test_matrices)
{
    static const unsigned column_counts[] = {32, 33, 64, 100, 256, 384, 1000, 4096};
    lmc_ctx *const other = must_create_ctx();
    unsigned with_offsets = 0, tried = 0;
    for (size_t d = 0; d < MATRIX_DTYPE_COUNT; d++)
        for (size_t c = d % LMC_TEST_STEP; c < sizeof column_counts / sizeof column_counts[0];
             c += LMC_TEST_STEP) {
            const size_t n = 40000 + random_below(40000), nbytes = n * data_element_nbytes(matrix_dtypes[d]);
            lmc_params params = frame_matrix(matrix_dtypes[d], 10 + c % 3, column_counts[c], content, nbytes);
            params.level = c % 2 ? LMC_LEVEL_MAX : LMC_LEVEL_DEFAULT;
            test_frame first = frame_encode(ctx, &params, content, nbytes);
            frame_check(ctx, &first, content, nbytes);
            check_same_bytes(other, &params, nbytes, &first);
            with_offsets += (unsigned)frame_has_offsets(&first);
            tried++;
            params.row_nbytes = 0;
            test_frame plain = frame_encode(ctx, &params, content, nbytes);
            CU_ASSERT(first.nbytes <= plain.nbytes + plain.nbytes / 200);
            frame_free(&plain);
            frame_free(&first);
        }
    CU_ASSERT(with_offsets >= tried * 9 / 10);
    lmc_ctx_free(other);
}

/* Rows that cannot have columns, and the longest that can. */
LMC_TEST(test_lengths_of_rows)
{
    static const size_t column_counts[] = {1,     2,     31,    32,     61439,  61440,
                                           61441, 65536, 87500, 350000, 600000, 700000};
    for (size_t i = 0; i < sizeof column_counts / sizeof column_counts[0]; i++) {
        const size_t columns = column_counts[i];
        const lmc_params params = frame_matrix(LMC_DTYPE_F8_E5M2, 0, columns, content, CONTENT_MAX);
        frame_round_trip(ctx, &params, content, CONTENT_MAX);
        frame_round_trip(ctx, &params, content, 8 * columns < CONTENT_MAX ? 8 * columns : columns);
        frame_round_trip(ctx, &params, content, columns / 2);
    }
    static const uint32_t row_nbytes[] = {1,    2,          3,          999,        1001,
                                          5000, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff};
    for (size_t i = 0; i < sizeof row_nbytes / sizeof row_nbytes[0]; i++) {
        lmc_params params = frame_matrix(LMC_DTYPE_F32, 0, 250, content, 200000);
        params.row_nbytes = row_nbytes[i];
        frame_round_trip(ctx, &params, content, 200000);
        frame_round_trip(ctx, &params, content, 20000);
    }
}

/* Against a base: offsets are for frames that do without it. */
LMC_TEST(test_matrices_with_bases)
{
    const size_t nbytes = 2 * 64 * 500;
    uint8_t *const base = must_malloc(nbytes), *const found = must_malloc(nbytes);
    const lmc_params params = frame_matrix(LMC_DTYPE_BF16, 10, 64, content, nbytes);
    for (unsigned is_near = 0; is_near < 2; is_near++) {
        size_t found_nbytes = 0;
        random_fill(base, nbytes);
        if (is_near) {
            memcpy(base, content, nbytes);
            for (size_t i = 0; i < nbytes; i += 2 * (1 + random_below(40)))
                base[i] ^= 1;
        }
        test_frame frame = frame_encode_against(ctx, &params, content, nbytes, base);
        CU_ASSERT_EQUAL(frame.bytes[6], is_near ? LMC_FRAME_DELTA : LMC_FRAME_CODED);
        CU_ASSERT_EQUAL(frame.bytes[8], is_near ? 0 : LMC_FMT_FEATURE_OFFSETS);
        CU_ASSERT_EQUAL(
            lmc_decode_delta(ctx, frame.bytes, frame.nbytes, base, nbytes, found, nbytes, &found_nbytes),
            LMC_OK);
        CU_ASSERT_EQUAL(memcmp(found, content, nbytes), 0);
        frame_free(&frame);
    }
    free(base);
    free(found);
}

/* ---- threads, sizes ---- */

/* More threads than blocks, and all that there may be. */
LMC_TEST(test_many_threads)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    lmc_ctx *const other = must_create_ctx();
    CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(other, LMC_THREAD_COUNT_MAX), LMC_OK);
    data_fill(content, CONTENT_MAX, LMC_DTYPE_BF16, DATA_WEIGHTS);
    frame_round_trip(other, &params, content, 5000);
    frame_round_trip(other, &params, content, CONTENT_MAX);
    lmc_ctx_free(other);
}

/* Larger than what is written past the caches, with a ragged end. */
LMC_TEST(test_large_content)
{
    const size_t nbytes = ((size_t)36 << 20) + 13;
    uint8_t *const large = must_malloc(nbytes);
    const lmc_params params = frame_params(LMC_DTYPE_F32, LMC_LEVEL_FAST, 0);
    data_fill(large, 1 << 20, LMC_DTYPE_F32, DATA_WEIGHTS);
    for (size_t i = 1 << 20; i < nbytes; i++)
        large[i] = (uint8_t)(large[i - (1 << 20)] + (i % 4096 == 0));
    frame_round_trip(ctx, &params, large, nbytes);
    CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, 2), LMC_OK);
    frame_round_trip(ctx, &params, large, nbytes);
    CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, 1), LMC_OK);
    free(large);
}

/* Weights, then the same bytes shifted by one: the default level once took them for noise. */
LMC_TEST(test_mixture_is_not_taken_for_noise)
{
    enum { HALF = 1 << 19 };
    uint8_t *const mixture = must_malloc(2 * HALF + 1);
    data_fill(mixture, HALF, LMC_DTYPE_BF16, DATA_WEIGHTS);
    memcpy(mixture + HALF, mixture + 1, HALF - 1);
    mixture[2 * HALF - 1] = mixture[0];
    for (int level = LMC_LEVEL_DEFAULT; level <= LMC_LEVEL_MAX; level++) {
        lmc_params params;
        lmc_params_init(&params);
        params.dtype = LMC_DTYPE_BF16;
        params.level = (lmc_level)level;
        test_frame frame = frame_encode(ctx, &params, mixture, 2 * HALF);
        CU_ASSERT_TRUE(frame.nbytes < 2 * HALF * 8 / 10);
        frame_free(&frame);
    }
    free(mixture);
}

LMC_TEST_MAIN_WITH("frame", (ctx = must_create_ctx(), content = must_malloc(CONTENT_MAX + 64)),
                   (free(content), lmc_ctx_free(ctx)))
