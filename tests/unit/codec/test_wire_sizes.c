/* test_wire_sizes.c - numbers of a frame that are larger than this machine's memory can be: refused, or asked for in
 * full, but never asked for as what is left of them in a size_t. A machine of 32 bits meets these; the others run the
 * same calls. */
#include "lmc_test_frame.h"

#include "codec/frame/head_tail.h"
#include "common/checked.h"

/* Blocks whose entries wrap around 2^32 bytes, and whose part of the tail does not. */
#define BLOCK_COUNT (UINT64_C(0x100000000) / sizeof(lmc_block_entry) + 1)
#define REQUEST_NBYTES_MAX ((size_t)1 << 20)

/* ---- an allocator that has little, and remembers what it was asked for ---- */

typedef struct requests {
    unsigned count;
    size_t nbytes[8];
} requests;

static void *allocate(void *user, size_t nbytes)
{
    requests *const asked = user;
    if (asked->count < sizeof asked->nbytes / sizeof asked->nbytes[0])
        asked->nbytes[asked->count++] = nbytes;
    return nbytes <= REQUEST_NBYTES_MAX ? calloc(1, nbytes) : NULL;
}

static void release(void *user, void *pointer)
{
    (void)user;
    free(pointer);
}

/* ---- frames ---- */

/* Opens a frame with so many blocks. Its tail is not there: nobody may come as far as to read it. */
static void check_index(lmc_frame_mode mode)
{
    uint8_t head[LMC_FMT_HEAD_NBYTES + 8] = {0}, tail[8] = {0};
    lmc_info info = {.dtype = LMC_DTYPE_U8, .mode = mode, .block_log2 = LMC_BLOCK_LOG2_MIN};
    requests asked = {0};
    const lmc_allocator allocator = {allocate, release, &asked};
    lmc_ctx *ctx = NULL;
    lmc_frame *frame = NULL;
    info.content_nbytes = BLOCK_COUNT << LMC_BLOCK_LOG2_MIN;
    lmc_info_complete(&info, sizeof head - LMC_FMT_HEAD_NBYTES);
    lmc_head_write(&info, 0, head);
    CU_ASSERT_EQUAL_FATAL(info.block_count, BLOCK_COUNT);
    CU_ASSERT_FATAL(info.tail_nbytes <= UINT32_MAX);
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(&allocator, &ctx), LMC_OK);
    asked.count = 0;
    const lmc_status status =
        lmc_frame_create(ctx, head, info.head_nbytes, tail, (size_t)info.tail_nbytes,
                         info.head_nbytes + info.tail_nbytes + info.block_count, &frame);
    CU_ASSERT_EQUAL(status, sizeof(size_t) > 4 ? LMC_ERR_NOMEM : LMC_ERR_LIMIT);
    CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, status);
    CU_ASSERT_PTR_NULL(frame);
    CU_ASSERT_EQUAL(asked.count, sizeof(size_t) > 4 ? 2 : 1); /* the first is the frame */
    for (unsigned i = 1; i < asked.count; i++)
        CU_ASSERT(asked.nbytes[i] >= BLOCK_COUNT * sizeof(uint64_t));
    lmc_ctx_free(ctx);
}

LMC_TEST(test_index_of_coded_frame)
{
    check_index(LMC_FRAME_CODED);
}

LMC_TEST(test_index_of_delta_frame)
{
    check_index(LMC_FRAME_DELTA);
}

/* ---- sizes ---- */

LMC_TEST(test_sizes_as_an_allocator_takes_them)
{
    size_t nbytes = 7;
    CU_ASSERT_EQUAL(lmc_size_overflows(0, 24, &nbytes), 0);
    CU_ASSERT_EQUAL(nbytes, 0);
    CU_ASSERT_EQUAL(lmc_size_overflows(3, 24, &nbytes), 0);
    CU_ASSERT_EQUAL(nbytes, 72);
    CU_ASSERT_EQUAL(lmc_size_overflows(SIZE_MAX, 1, &nbytes), 0);
    CU_ASSERT_EQUAL(nbytes, SIZE_MAX);
    CU_ASSERT_EQUAL(lmc_size_overflows(SIZE_MAX / 24, 24, &nbytes), 0);
    CU_ASSERT_EQUAL(lmc_size_overflows(SIZE_MAX / 24 + 1, 24, &nbytes), 1);
    CU_ASSERT_EQUAL(lmc_size_overflows(UINT64_MAX, 2, &nbytes), 1);
    CU_ASSERT_EQUAL(lmc_size_overflows(UINT64_C(1) << 32, 1, &nbytes), sizeof(size_t) == 4);
}

/* A bound that no size_t holds is a limit, as lmc.h has it. */
LMC_TEST(test_bound_of_the_largest_content)
{
    const lmc_params params = frame_params(LMC_DTYPE_U8, LMC_LEVEL_DEFAULT, LMC_BLOCK_LOG2_MIN);
    size_t bound = 1;
    CU_ASSERT_EQUAL(lmc_encode_bound(&params, SIZE_MAX, &bound), LMC_ERR_LIMIT);
    CU_ASSERT_EQUAL(bound, 0);
    CU_ASSERT_EQUAL(lmc_encode_bound(&params, SIZE_MAX / 2, &bound), LMC_ERR_LIMIT);
    CU_ASSERT_EQUAL(lmc_encode_bound(&params, SIZE_MAX / 4, &bound), LMC_OK);
    CU_ASSERT(bound > SIZE_MAX / 4);
}

LMC_TEST_MAIN("wire_sizes")
