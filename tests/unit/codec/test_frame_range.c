/* test_frame_range.c - byte ranges of frames of every mode: the right bytes, and nothing beside them. */
#include "lmc_test_frame.h"

#define CONTENT_MAX 300000

static lmc_ctx *ctx;
static uint8_t *content;
static guarded target;

/* Decodes a range to the end of guarded memory; bytes before it stay as they are. */
static void check_range(const test_frame *frame, uint64_t first, size_t nbytes)
{
    uint8_t *const before = guarded_end(&target, nbytes + 64);
    memset(before, 0x3c, nbytes + 64);
    CU_ASSERT_EQUAL_FATAL(lmc_decode_range(ctx, frame->bytes, frame->nbytes, first, nbytes, before + 64),
                          LMC_OK);
    CU_ASSERT(nbytes == 0 || memcmp(before + 64, content + first, nbytes) == 0);
    for (size_t i = 0; i < 64; i++)
        CU_ASSERT_FATAL(before[i] == 0x3c);
}

static lmc_status decode_range(const test_frame *frame, uint64_t first, size_t nbytes)
{
    uint8_t byte;
    return lmc_decode_range(ctx, frame->bytes, frame->nbytes, first, nbytes, &byte);
}

static void check_ranges(const test_frame *frame, size_t content_nbytes, size_t block_nbytes)
{
    check_range(frame, 0, content_nbytes);
    check_range(frame, 0, 0);
    check_range(frame, content_nbytes, 0);
    CU_ASSERT_EQUAL(decode_range(frame, content_nbytes, 1), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(decode_range(frame, content_nbytes + 1, 0), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(decode_range(frame, 0, content_nbytes + 1), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(decode_range(frame, UINT64_MAX, 2), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(decode_range(frame, 2, SIZE_MAX - 1), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_decode_range(ctx, frame->bytes, frame->nbytes, 0, 0, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_decode_range(ctx, frame->bytes, frame->nbytes, content_nbytes, 0, NULL), LMC_OK);
    for (unsigned i = 0; i < 30 && content_nbytes > 0; i++) {
        const size_t first = random_below(content_nbytes);
        check_range(frame, first, random_below(content_nbytes - first + 1));
        check_range(frame, first,
                    random_below((content_nbytes - first < 20 ? content_nbytes - first : 20) + 1));
    }
    for (size_t edge = block_nbytes; edge <= content_nbytes;
         edge += block_nbytes) { /* about the edges of blocks */
        check_range(frame, edge - 1, 1);
        check_range(frame, edge, content_nbytes - edge);
        check_range(frame, edge - block_nbytes, block_nbytes);
        if (edge < content_nbytes)
            check_range(frame, edge - 1, 2);
        if (edge > 5000)
            edge += random_below(20) * block_nbytes;
    }
}

static void check_all_ranges(lmc_dtype dtype, data_kind kind, size_t nbytes, unsigned block_log2)
{
    const lmc_params params = frame_params(dtype, LMC_LEVEL_DEFAULT, block_log2);
    data_fill(content, nbytes, dtype, kind);
    test_frame frame = frame_encode(ctx, &params, content, nbytes);
    check_ranges(&frame, nbytes, (size_t)data_element_nbytes(dtype) << (block_log2 ? block_log2 : 16));
    frame_free(&frame);
}

LMC_TEST(test_coded)
{
    for (unsigned d = 0; d < LMC_DTYPE_COUNT; d++) {
        check_all_ranges((lmc_dtype)d, DATA_WEIGHTS, 30001, 10);
        check_all_ranges((lmc_dtype)d, DATA_HALF_ZEROS, 12345, 11);
        check_all_ranges((lmc_dtype)d, DATA_RARE, 300, 0);
        check_all_ranges((lmc_dtype)d, DATA_PALETTE, 10001, 10);
    }
    check_all_ranges(LMC_DTYPE_F32, DATA_PRODUCTS, 30001, 10);
    check_all_ranges(LMC_DTYPE_BF16, DATA_PRODUCTS, 20003, 10);
    check_all_ranges(LMC_DTYPE_F32, DATA_HALVES, 30001, 11);
    check_all_ranges(LMC_DTYPE_F64, DATA_HALVES, 30001, 10);
    check_all_ranges(LMC_DTYPE_BF16, DATA_WEIGHTS, CONTENT_MAX, 0);
}

LMC_TEST(test_matrices)
{
    static const struct {
        lmc_dtype dtype;
        unsigned column_count, block_log2;
    } cases[] = {{LMC_DTYPE_BF16, 64, 10}, {LMC_DTYPE_BF16, 100, 11}, {LMC_DTYPE_BF16, 1000, 10},
                 {LMC_DTYPE_F16, 33, 10},  {LMC_DTYPE_F32, 384, 10},  {LMC_DTYPE_F8_E4M3, 256, 11},
                 {LMC_DTYPE_F64, 100, 10}, {LMC_DTYPE_F32, 4096, 12}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const unsigned unit = data_element_nbytes(cases[i].dtype);
        const size_t enough = (size_t)13 * cases[i].column_count, n = enough < 15000 ? 15000 : enough;
        const lmc_params params =
            frame_matrix(cases[i].dtype, cases[i].block_log2, cases[i].column_count, content, n * unit + 1);
        test_frame frame = frame_encode(ctx, &params, content, n * unit + 1);
        CU_ASSERT(frame_has_offsets(&frame));
        for (unsigned threads = 1; threads <= 3; threads += 2) {
            CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, threads), LMC_OK);
            check_ranges(&frame, n * unit + 1, (size_t)unit << cases[i].block_log2);
        }
        frame_free(&frame);
    }
    CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, 1), LMC_OK);
}

/* A stored frame of several blocks has one hash for all of them. */
LMC_TEST(test_stored)
{
    for (unsigned d = 0; d < LMC_DTYPE_COUNT; d += 4) {
        check_all_ranges((lmc_dtype)d, DATA_RANDOM, 30001, 10);
        check_all_ranges((lmc_dtype)d, DATA_RANDOM, 256, 0);
    }
    check_all_ranges(LMC_DTYPE_U8, DATA_RANDOM, CONTENT_MAX, 0);
}

LMC_TEST(test_short)
{
    for (size_t nbytes = 0; nbytes <= 255; nbytes += 15)
        check_all_ranges(LMC_DTYPE_F32, DATA_WEIGHTS, nbytes, 0);
}

LMC_TEST(test_threads)
{
    for (unsigned threads = 2; threads <= 7; threads += 5) {
        CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, threads), LMC_OK);
        check_all_ranges(LMC_DTYPE_F32, DATA_WEIGHTS, 40000, 10);
        check_all_ranges(LMC_DTYPE_F32, DATA_RANDOM, 40000, 10);
        check_all_ranges(LMC_DTYPE_F32, DATA_PRODUCTS, 40000, 10);
    }
    CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, 1), LMC_OK);
}

/* Damage in one block is found by the ranges that touch it, and by no other of a coded frame. */
LMC_TEST(test_only_the_blocks_it_needs)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    uint8_t found[4096];
    data_fill(content, 8192, LMC_DTYPE_BF16, DATA_WEIGHTS);
    test_frame frame = frame_encode(ctx, &params, content, 8192);
    lmc_info info = LMC_INIT(lmc_info);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame.bytes, frame.nbytes, &info, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(info.mode, LMC_FRAME_CODED);
    frame.bytes[info.head_nbytes + 100] ^= 1; /* in the first of four blocks */
    CU_ASSERT_NOT_EQUAL(lmc_decode_range(ctx, frame.bytes, frame.nbytes, 2047, 1, found), LMC_OK);
    CU_ASSERT_NOT_EQUAL(lmc_decode_range(ctx, frame.bytes, frame.nbytes, 2047, 4096, found), LMC_OK);
    CU_ASSERT_EQUAL(lmc_decode_range(ctx, frame.bytes, frame.nbytes, 2048, 4096, found), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(found, content + 2048, 4096), 0);
    frame_free(&frame);
}

LMC_TEST_MAIN_WITH("frame_range",
                   (ctx = must_create_ctx(), content = must_malloc(CONTENT_MAX),
                    target = guarded_open(CONTENT_MAX + 64)),
                   (guarded_close(&target), free(content), lmc_ctx_free(ctx)))
