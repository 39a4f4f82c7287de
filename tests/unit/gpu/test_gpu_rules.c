/* test_gpu_rules.c - frames of one block whose hashes are right but which break a rule: the emulated kernels refuse
 * what lmc_decode() refuses, and take what it takes. */
#include "lmc_test_gpu.h"

#define BLOCK_MAX 20000

static lmc_ctx *ctx;

/* A block of a frame, for changes. */
typedef struct open_block {
    uint8_t bytes[BLOCK_MAX + 8];
    size_t nbytes;
} open_block;

/* Joins a head, a block and the hash of its content to a frame with a right check. */
static test_frame seal(const uint8_t *head, size_t head_nbytes, const open_block *block,
                       uint64_t content_hash)
{
    const lmc_kernels *const kernels = lmc_kernels_get();
    test_frame frame = {
        must_malloc(head_nbytes + block->nbytes + LMC_FMT_INDEX_ENTRY_NBYTES + LMC_FMT_HASH_NBYTES), 0};
    const uint32_t stored_nbytes = (uint32_t)block->nbytes;
    uint8_t *const tail = frame.bytes + head_nbytes + block->nbytes;
    memcpy(frame.bytes, head, head_nbytes);
    memcpy(frame.bytes + head_nbytes, block->bytes, block->nbytes);
    memcpy(tail, &stored_nbytes, 4);
    memcpy(tail + 4, &content_hash, 8);
    const uint64_t check =
        kernels->hash(tail, LMC_FMT_INDEX_ENTRY_NBYTES, kernels->hash(head, head_nbytes, 0));
    memcpy(tail + LMC_FMT_INDEX_ENTRY_NBYTES, &check, 8);
    frame.nbytes = (size_t)(tail - frame.bytes) + LMC_FMT_INDEX_ENTRY_NBYTES + LMC_FMT_HASH_NBYTES;
    return frame;
}

/* Decodes a frame with and without the kernels. Returns the status, which must be the same. */
static lmc_status check_frame(const test_frame *frame)
{
    static uint8_t content[2 * BLOCK_MAX];
    size_t nbytes;
    const lmc_status expected =
        lmc_decode(ctx, frame->bytes, frame->nbytes, content, sizeof content, &nbytes);
    for (unsigned i = 0; i < 2; i++) {
        gpu_tensor tensor = {.frame = frame->bytes, .frame_nbytes = frame->nbytes};
        const gpu_run run = {1, i == 0, 2 + i};
        const gpu_outcome outcome = gpu_decode_one(&tensor, i, &run);
        CU_ASSERT_EQUAL(outcome.status, expected);
        CU_ASSERT(expected != LMC_OK || memcmp(tensor.content, content, nbytes) == 0);
        gpu_free(&tensor);
    }
    return expected;
}

/* ---- whole blocks of bf16, for which there are kernels of their own ---- */

/* Cuts a frame of one block apart and changes the block's end: by so many bytes more or less. */
static void check_end(const test_frame *frame, int change, lmc_status wanted)
{
    lmc_info info = LMC_INIT(lmc_info);
    open_block block = {{0}, 0};
    uint64_t hash;
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame->bytes, frame->nbytes, &info, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(info.block_count, 1);
    block.nbytes = frame->nbytes - info.head_nbytes - (size_t)info.tail_nbytes;
    CU_ASSERT_FATAL(block.nbytes < BLOCK_MAX);
    memcpy(block.bytes, frame->bytes + info.head_nbytes, block.nbytes);
    memcpy(&hash, frame->bytes + frame->nbytes - LMC_FMT_HASH_NBYTES - 8, 8);
    block.nbytes = (size_t)((long)block.nbytes + change);
    test_frame changed = seal(frame->bytes, info.head_nbytes, &block, hash);
    CU_ASSERT_EQUAL(check_frame(&changed), wanted);
    frame_free(&changed);
}

LMC_TEST(test_ends)
{
    static uint8_t content[8192];
    for (unsigned i = 0; i < 12; i += LMC_TEST_STEP) {
        const lmc_params params = frame_params(LMC_DTYPE_BF16, (lmc_level)(i % 3), 12);
        gpu_fill_normal(content, sizeof content, 0.02f); /* with escapes at levels default and max */
        test_frame frame = frame_encode(ctx, &params, content, sizeof content);
        check_end(&frame, 0, LMC_OK);
        for (int change = -4; change <= 6; change++)
            if (change != 0)
                check_end(&frame, change, LMC_ERR_CORRUPT);
        frame_free(&frame);
    }
}

/* ---- a masked block by hand ---- */

#define MASKED_NBYTES 35

/* Bytes of which those whose flag is set are `a` and `b`, and the others 0. last: what the last byte is to be. */
static lmc_status check_masked(const uint8_t *bitset, size_t bitset_nbytes, uint8_t last)
{
    static const uint8_t planes[] = {LMC_FMT_PLANE_STORED, 'a', 'b'};
    const uint8_t content[MASKED_NBYTES] = {[0] = 'a', [MASKED_NBYTES - 1] = last};
    uint8_t head[LMC_FMT_HEAD_NBYTES + 8] = {
        0x8c, 0x4c, 0x4d, 0x43, LMC_FMT_VERSION, LMC_DTYPE_U8, LMC_FMT_MODE_CODED, LMC_FMT_BLOCK_LOG2_MIN};
    open_block block = {{LMC_FMT_BLOCK_MASKED}, 1};
    head[12] = 8; /* bytes of the plan, which has nothing but a mask value */
    head[16] = MASKED_NBYTES;
    head[28] = 1; /* byte of an element */
    head[LMC_FMT_HEAD_NBYTES] = LMC_FMT_TRANSFORM_MASK;
    memcpy(block.bytes + 1, bitset, bitset_nbytes);
    memcpy(block.bytes + 1 + bitset_nbytes, planes, sizeof planes);
    block.nbytes += bitset_nbytes + sizeof planes;
    test_frame frame = seal(head, sizeof head, &block, lmc_kernels_get()->hash(content, MASKED_NBYTES, 0));
    const lmc_status status = check_frame(&frame);
    frame_free(&frame);
    return status;
}

/* The first and the last flag are set. In a wrong bitset, a flag behind the last one is set instead, or a spare bit. */
LMC_TEST(test_masks_by_hand)
{
    static const uint8_t bitmap[] = {LMC_FMT_BITSET_BITMAP, 1, 0, 0, 0, 4};
    static const uint8_t bitmap_beyond[] = {LMC_FMT_BITSET_BITMAP, 1, 0, 0, 0, 8};
    static const uint8_t gaps[] = {LMC_FMT_BITSET_GAPS_OF_ONES, 2, 0, 0, 33};
    static const uint8_t gaps_beyond[] = {LMC_FMT_BITSET_GAPS_OF_ONES, 2, 0, 0, 34};
    /* of 18 pairs the first and the last one have a member, none has two; which member it is */
    static const uint8_t pairs[] = {
        LMC_FMT_BITSET_HIERARCHY_OF_ONES, LMC_FMT_BITSET_BITMAP, 1, 0, 2, LMC_FMT_BITSET_NONE, 0};
    static const uint8_t pairs_beyond[] = {
        LMC_FMT_BITSET_HIERARCHY_OF_ONES, LMC_FMT_BITSET_BITMAP, 1, 0, 2, LMC_FMT_BITSET_NONE, 2};
    static const uint8_t pairs_spare[] = {
        LMC_FMT_BITSET_HIERARCHY_OF_ONES, LMC_FMT_BITSET_BITMAP, 1, 0, 2, LMC_FMT_BITSET_NONE, 4};
    CU_ASSERT_EQUAL(check_masked(bitmap, sizeof bitmap, 'b'), LMC_OK);
    CU_ASSERT_EQUAL(check_masked(bitmap_beyond, sizeof bitmap_beyond, 0), LMC_ERR_CORRUPT);
    CU_ASSERT_EQUAL(check_masked(gaps, sizeof gaps, 'b'), LMC_OK);
    CU_ASSERT_EQUAL(check_masked(gaps_beyond, sizeof gaps_beyond, 0), LMC_ERR_CORRUPT);
    CU_ASSERT_EQUAL(check_masked(pairs, sizeof pairs, 'b'), LMC_OK);
    CU_ASSERT_EQUAL(check_masked(pairs_beyond, sizeof pairs_beyond, 0), LMC_ERR_CORRUPT);
    CU_ASSERT_EQUAL(check_masked(pairs_spare, sizeof pairs_spare, 'b'), LMC_ERR_CORRUPT);
}

LMC_TEST_MAIN_WITH("gpu_rules", ctx = must_create_ctx(), lmc_ctx_free(ctx))
