/* test_threads.c - many contexts at work at the same time, and plans and frames that threads share. For the
 * thread sanitizer as much as for its assertions. */
#include "lmc_test_frame.h"

#include <pthread.h>

#define THREADS 6
#define CONTENT_NBYTES 150000
#define BLOCKS_MAX 160

static uint8_t *content;

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    memcpy(dst, (const uint8_t *)user + offset, nbytes);
    return LMC_OK;
}

/* Runs `work` in THREADS threads, each with its number; all must return NULL. CUnit is not for threads: they
 * only say whether something was wrong. */
static void run_threads(void *(*work)(void *number))
{
    pthread_t threads[THREADS];
    size_t numbers[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        void *wrong = content;
        CU_ASSERT_EQUAL(pthread_join(threads[i], &wrong), 0);
        CU_ASSERT_PTR_NULL(wrong);
    }
}

#define WRONG ((void *)content)

/* ---- contexts of their own ---- */

static lmc_dtype dtype_of(size_t number)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_U8,
                                       LMC_DTYPE_F64,  LMC_DTYPE_F16, LMC_DTYPE_I32};
    return dtypes[number % 6];
}

/* Encodes and decodes the same content again and again, with worker threads of its own. */
static void *work_alone(void *argument)
{
    const size_t number = *(const size_t *)argument;
    const lmc_params params =
        frame_params(dtype_of(number), (lmc_level)(number % 3), 10 + (unsigned)number % 3);
    lmc_ctx *const ctx = must_create_ctx();
    uint8_t *const found = must_malloc(CONTENT_NBYTES);
    void *wrong = NULL;
    size_t bound, first_nbytes = 0;
    if (lmc_encode_bound(&params, CONTENT_NBYTES, &bound) != LMC_OK)
        return WRONG;
    uint8_t *const frame = must_malloc(bound), *const first = must_malloc(bound);
    for (unsigned turn = 0; turn < 12; turn++) {
        size_t nbytes = 0, found_nbytes = 0;
        if (lmc_ctx_set_thread_count(ctx, 1 + turn % 4) != LMC_OK ||
            lmc_encode(ctx, &params, content + number, CONTENT_NBYTES - number, frame, bound, &nbytes) !=
                LMC_OK ||
            lmc_decode(ctx, frame, nbytes, found, CONTENT_NBYTES, &found_nbytes) != LMC_OK ||
            found_nbytes != CONTENT_NBYTES - number || memcmp(found, content + number, found_nbytes) != 0)
            wrong = WRONG;
        if (turn == 0) {
            memcpy(first, frame, nbytes);
            first_nbytes = nbytes;
        }
        if (nbytes != first_nbytes || memcmp(frame, first, nbytes) != 0)
            wrong = WRONG;
        frame[nbytes / 2] ^= 1; /* failures of one thread are nobody else's */
        if (lmc_decode(ctx, frame, nbytes, found, CONTENT_NBYTES, &found_nbytes) == LMC_OK ||
            lmc_ctx_diag(ctx)->status == LMC_OK)
            wrong = WRONG;
    }
    free(first);
    free(frame);
    free(found);
    lmc_ctx_free(ctx);
    return wrong;
}

LMC_TEST(test_contexts_are_independent)
{
    data_fill(content, CONTENT_NBYTES, LMC_DTYPE_BF16, DATA_WEIGHTS);
    run_threads(work_alone);
}

/* ---- one plan, one frame ---- */

static const lmc_plan *shared_plan;
static const lmc_frame *shared_frame;
static lmc_info shared_info;
static uint8_t *blocks[BLOCKS_MAX];
static lmc_block_entry entries[BLOCKS_MAX];
static const uint8_t *shared_bytes;

static size_t content_nbytes_of(size_t block)
{
    const size_t left = CONTENT_NBYTES - block * shared_info.block_nbytes;
    return left < shared_info.block_nbytes ? left : shared_info.block_nbytes;
}

/* Every THREADS-th block of the shared plan. */
static void *encode_some_blocks(void *argument)
{
    lmc_ctx *const ctx = must_create_ctx();
    void *wrong = NULL;
    for (size_t i = *(const size_t *)argument; i < shared_info.block_count; i += THREADS) {
        const size_t bound = lmc_plan_block_bound(shared_plan);
        blocks[i] = must_malloc(bound);
        if (lmc_encode_block(ctx, shared_plan, i, content + i * shared_info.block_nbytes,
                             content_nbytes_of(i), blocks[i], bound, &entries[i]) != LMC_OK)
            wrong = WRONG;
    }
    lmc_ctx_free(ctx);
    return wrong;
}

/* All blocks of the shared frame, each thread from another one on. */
static void *decode_all_blocks(void *argument)
{
    lmc_ctx *const ctx = must_create_ctx();
    uint8_t *const found = must_malloc(shared_info.block_nbytes);
    void *wrong = NULL;
    for (size_t k = 0; k < shared_info.block_count; k++) {
        const size_t i = (k + 5 * *(const size_t *)argument) % shared_info.block_count;
        uint64_t offset;
        size_t stored, nbytes;
        lmc_block_entry entry;
        if (lmc_frame_block(shared_frame, i, &offset, &stored, &nbytes) != LMC_OK ||
            lmc_decode_block(ctx, shared_frame, i, shared_bytes + offset, stored, found, nbytes, &entry) !=
                LMC_OK ||
            memcmp(found, content + i * shared_info.block_nbytes, nbytes) != 0)
            wrong = WRONG;
    }
    free(found);
    lmc_ctx_free(ctx);
    return wrong;
}

static void check_shared_objects(lmc_dtype dtype, data_kind kind)
{
    const lmc_params params = frame_params(dtype, LMC_LEVEL_DEFAULT, 10);
    lmc_ctx *const ctx = must_create_ctx();
    lmc_plan *plan = NULL;
    lmc_frame *opened = NULL;
    size_t n;
    data_fill(content, CONTENT_NBYTES, dtype, kind);
    CU_ASSERT_EQUAL_FATAL(lmc_plan_create(ctx, &params, CONTENT_NBYTES, read_content, content, &plan),
                          LMC_OK);
    shared_info = (lmc_info)LMC_INIT(lmc_info);
    CU_ASSERT_EQUAL(lmc_plan_info(plan, &shared_info), LMC_OK);
    CU_ASSERT_FATAL(shared_info.block_count <= BLOCKS_MAX);
    shared_plan = plan;
    run_threads(encode_some_blocks);

    test_frame frame = {must_malloc(2 * CONTENT_NBYTES), 0};
    CU_ASSERT_EQUAL_FATAL(lmc_encode_head(plan, frame.bytes, 2 * CONTENT_NBYTES, &frame.nbytes), LMC_OK);
    for (size_t i = 0; i < shared_info.block_count; i++) {
        memcpy(frame.bytes + frame.nbytes, blocks[i], entries[i].stored_nbytes);
        frame.nbytes += entries[i].stored_nbytes;
        free(blocks[i]);
    }
    const uint8_t *const tail = frame.bytes + frame.nbytes;
    CU_ASSERT_EQUAL_FATAL(lmc_encode_tail(plan, entries, shared_info.block_count, frame.bytes + frame.nbytes,
                                          2 * CONTENT_NBYTES - frame.nbytes, &n),
                          LMC_OK);
    frame.nbytes += n;
    frame_check(ctx, &frame, content, CONTENT_NBYTES);

    CU_ASSERT_EQUAL_FATAL(
        lmc_frame_create(ctx, frame.bytes, shared_info.head_nbytes, tail, n, frame.nbytes, &opened), LMC_OK);
    shared_frame = opened;
    shared_bytes = frame.bytes;
    run_threads(decode_all_blocks);
    lmc_frame_free(opened);
    lmc_plan_free(plan);
    frame_free(&frame);
    lmc_ctx_free(ctx);
}

LMC_TEST(test_shared_plan_and_frame)
{
    check_shared_objects(LMC_DTYPE_BF16, DATA_WEIGHTS);
    check_shared_objects(LMC_DTYPE_F32, DATA_HALF_ZEROS);
    check_shared_objects(LMC_DTYPE_U8, DATA_RARE);
    check_shared_objects(LMC_DTYPE_F32, DATA_PRODUCTS);
    check_shared_objects(LMC_DTYPE_F16, DATA_PRODUCTS);
    check_shared_objects(LMC_DTYPE_F32, DATA_HALVES);
    check_shared_objects(LMC_DTYPE_BF16, DATA_PALETTE);
}

/* ---- statuses do not depend on threads ---- */

/* The failure of the first damaged block is what is reported, however many threads decode. */
LMC_TEST(test_first_failure_wins)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    lmc_ctx *const ctx = must_create_ctx();
    uint8_t *const found = must_malloc(CONTENT_NBYTES);
    data_fill(content, CONTENT_NBYTES, LMC_DTYPE_BF16, DATA_WEIGHTS);
    test_frame frame = frame_encode(ctx, &params, content, CONTENT_NBYTES);
    for (unsigned i = 0; i < 100; i++) {
        lmc_diag diag = LMC_INIT(lmc_diag);
        lmc_status first = LMC_OK;
        uint8_t saved[4];
        size_t at[4], n;
        for (size_t k = 0; k < 4; k++) {
            at[k] = 200 + random_below(frame.nbytes - 2000);
            saved[k] = frame.bytes[at[k]];
            frame.bytes[at[k]] ^= (uint8_t)(1 + random_below(255));
        }
        for (unsigned threads = 1; threads <= 5; threads++) {
            CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, threads), LMC_OK);
            const lmc_status status = lmc_decode(ctx, frame.bytes, frame.nbytes, found, CONTENT_NBYTES, &n);
            if (threads == 1) {
                first = status;
                diag = *lmc_ctx_diag(ctx);
            }
            CU_ASSERT_EQUAL(status, first);
            CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->offset, diag.offset);
            CU_ASSERT_STRING_EQUAL(lmc_ctx_diag(ctx)->text, diag.text);
        }
        for (size_t k = 4; k-- > 0;)
            frame.bytes[at[k]] = saved[k];
    }
    frame_check(ctx, &frame, content, CONTENT_NBYTES);
    frame_free(&frame);
    free(found);
    lmc_ctx_free(ctx);
}

LMC_TEST_MAIN_WITH("threads", content = must_malloc(CONTENT_NBYTES), free(content))
