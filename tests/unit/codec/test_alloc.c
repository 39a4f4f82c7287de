/* test_alloc.c - each allocation of each call fails in turn: NOMEM or a result as good as ever, nothing leaks, and
 * the context works afterwards. */
#include "lmc_test_frame.h"

#include "input_table.h"
#include "lmc_test_alloc.h"

#define CONTENT_NBYTES 40000

static uint8_t content[CONTENT_NBYTES], found[CONTENT_NBYTES], base_room[2 * CONTENT_NBYTES];
static const uint8_t *base; /* NULL: frames without one */
static size_t base_nbytes;
static uint8_t *room;
static size_t bound;

static lmc_ctx *create(void)
{
    lmc_ctx *ctx = NULL;
    pool_fail(SIZE_MAX, 0);
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(&pool_allocator, &ctx), LMC_OK);
    return ctx;
}

/* ---- the calls ---- */

typedef struct job {
    lmc_params params;
    unsigned thread_count;
    test_frame frame; /* what encoding gives and decoding takes */
} job;

typedef lmc_status (*call)(lmc_ctx *ctx, const job *j);

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)user;
    memcpy(dst, content + offset, nbytes);
    return LMC_OK;
}

static lmc_status read_base(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)user;
    memcpy(dst, base + offset, nbytes);
    return LMC_OK;
}

static lmc_status call_encode(lmc_ctx *ctx, const job *j)
{
    size_t n = 1;
    const lmc_status status =
        lmc_encode_delta(ctx, &j->params, content, CONTENT_NBYTES, base, base_nbytes, room, bound, &n);
    CU_ASSERT(status == LMC_OK ? n == j->frame.nbytes && memcmp(room, j->frame.bytes, n) == 0 : n == 0);
    return status;
}

static lmc_status call_decode(lmc_ctx *ctx, const job *j)
{
    size_t n = 1;
    memset(found, 0, sizeof found);
    const lmc_status status =
        lmc_decode_delta(ctx, j->frame.bytes, j->frame.nbytes, base, base_nbytes, found, CONTENT_NBYTES, &n);
    CU_ASSERT(status == LMC_OK ? n == CONTENT_NBYTES && memcmp(found, content, n) == 0 : n == 0);
    return status;
}

static lmc_status call_range(lmc_ctx *ctx, const job *j)
{
    memset(found, 0, sizeof found);
    const lmc_status status = lmc_decode_delta_range(ctx, j->frame.bytes, j->frame.nbytes, base, base_nbytes,
                                                     1001, CONTENT_NBYTES - 2000, found);
    CU_ASSERT(status != LMC_OK || memcmp(found, content + 1001, CONTENT_NBYTES - 2000) == 0);
    return status;
}

static lmc_status call_plan_and_block(lmc_ctx *ctx, const job *j)
{
    lmc_plan *plan = (lmc_plan *)(void *)room;
    lmc_block_entry entry = {1, 1, 1};
    lmc_info info = LMC_INIT(lmc_info);
    lmc_status status = lmc_plan_create_delta(ctx, &j->params, CONTENT_NBYTES, read_content,
                                              base ? read_base : NULL, NULL, &plan);
    CU_ASSERT_EQUAL(status == LMC_OK, plan != NULL);
    if (status != LMC_OK)
        return status;
    CU_ASSERT_EQUAL(lmc_plan_info(plan, &info), LMC_OK);
    status = lmc_encode_delta_block(ctx, plan, 0, content, info.block_nbytes, base, info.base_block_nbytes,
                                    room, bound, &entry);
    CU_ASSERT_EQUAL(status == LMC_OK, entry.stored_nbytes != 0);
    lmc_plan_free(plan);
    return status;
}

static lmc_status call_open_and_block(lmc_ctx *ctx, const job *j)
{
    lmc_frame *frame = (lmc_frame *)(void *)room;
    lmc_info info = LMC_INIT(lmc_info);
    lmc_block_entry entry;
    uint64_t offset;
    size_t stored, nbytes;
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(j->frame.bytes, j->frame.nbytes, &info, NULL), LMC_OK);
    lmc_status status = lmc_frame_create(ctx, j->frame.bytes, info.head_nbytes,
                                         j->frame.bytes + j->frame.nbytes - info.tail_nbytes,
                                         (size_t)info.tail_nbytes, j->frame.nbytes, &frame);
    CU_ASSERT_EQUAL(status == LMC_OK, frame != NULL);
    if (status != LMC_OK)
        return status;
    CU_ASSERT_EQUAL(lmc_frame_block(frame, 1, &offset, &stored, &nbytes), LMC_OK);
    const uint8_t *const block_base = base ? base + info.base_block_nbytes : NULL;
    status = lmc_decode_delta_block(ctx, frame, 1, j->frame.bytes + offset, stored, block_base,
                                    info.base_block_nbytes, found, nbytes, &entry);
    CU_ASSERT(status != LMC_OK || memcmp(found, content + info.block_nbytes, nbytes) == 0);
    lmc_frame_free(frame);
    return status;
}

static const call calls[] = {call_encode, call_decode, call_range, call_plan_and_block, call_open_and_block};
#define CALL_COUNT (sizeof calls / sizeof calls[0])

/* ---- failing ---- */

/* One call with one failure on a context that is new or has done the same before; then again without one.
 * Returns 0 when nothing was left to fail. */
static int check_failure(call function, const job *j, size_t failing, int once, int used_before)
{
    lmc_ctx *const ctx = create();
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_set_thread_count(ctx, j->thread_count), LMC_OK);
    if (used_before)
        CU_ASSERT_EQUAL(function(ctx, j), LMC_OK);
    const long live_before = atomic_load(&pool.live);
    pool_fail(failing, once);
    const lmc_status status = function(ctx, j);
    const int met = pool_has_failed();
    if (status != LMC_OK) {
        CU_ASSERT_EQUAL(status, LMC_ERR_NOMEM);
        CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, LMC_ERR_NOMEM);
        CU_ASSERT(memchr(lmc_ctx_diag(ctx)->text, '\0', sizeof lmc_ctx_diag(ctx)->text) != NULL);
        CU_ASSERT(lmc_ctx_diag(ctx)->text[0] != '\0');
        CU_ASSERT(met);
    }
    CU_ASSERT(met || status == LMC_OK);
    CU_ASSERT(status == LMC_OK || j->thread_count > 1 || !used_before ||
              atomic_load(&pool.live) <= live_before);
    pool_fail(SIZE_MAX, 0);
    CU_ASSERT_EQUAL(function(ctx, j), LMC_OK);
    CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, LMC_OK);
    lmc_ctx_free(ctx);
    CU_ASSERT_FATAL(pool_is_whole());
    return met;
}

static void check_all_failures(const job *j)
{
    for (size_t i = 0; i < CALL_COUNT; i++) {
        for (int once = 0; once < 2; once++) {
            for (int used_before = 0; used_before < 2; used_before++) {
                size_t failing = 0;
                while (check_failure(calls[i], j, failing, once, used_before))
                    CU_ASSERT_FATAL(++failing < 1000);
                CU_ASSERT(failing > 0);
            }
        }
    }
}

static void check_job(const lmc_params *params, unsigned thread_count, lmc_frame_mode mode)
{
    job j = {*params, thread_count, {NULL, 0}};
    lmc_info info = LMC_INIT(lmc_info);
    lmc_ctx *const ctx = must_create_ctx();
    j.frame = frame_encode_against(ctx, &j.params, content, CONTENT_NBYTES, base);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(j.frame.bytes, j.frame.nbytes, &info, NULL), LMC_OK);
    CU_ASSERT_EQUAL(info.mode, mode);
    CU_ASSERT_EQUAL_FATAL(lmc_encode_bound(&j.params, CONTENT_NBYTES, &bound), LMC_OK);
    room = must_malloc(bound);
    check_all_failures(&j);
    free(room);
    frame_free(&j.frame);
    lmc_ctx_free(ctx);
}

static void check_content(data_kind kind, unsigned thread_count)
{
    const lmc_params params = frame_params(LMC_DTYPE_F32, LMC_LEVEL_DEFAULT, 10);
    data_fill(content, CONTENT_NBYTES, LMC_DTYPE_F32, kind);
    check_job(&params, thread_count, kind == DATA_RANDOM ? LMC_FRAME_STORED : LMC_FRAME_CODED);
}

/* Frames with a base: an earlier snapshot, or what BF16 was rounded from. */
static void check_base(lmc_base_form form, unsigned thread_count)
{
    const lmc_dtype dtype = form == LMC_BASE_PLAIN ? LMC_DTYPE_F32 : LMC_DTYPE_BF16;
    lmc_params params = frame_params(dtype, LMC_LEVEL_DEFAULT, 10);
    params.base_form = form;
    data_fill(base_room, sizeof base_room, LMC_DTYPE_F32, DATA_WEIGHTS);
    memcpy(content, base_room, CONTENT_NBYTES);
    if (form == LMC_BASE_BF16_OF_F32)
        for (size_t i = 0; i < CONTENT_NBYTES / 2; i++)
            memcpy(content + 2 * i, base_room + 4 * i + 2, 2);
    for (size_t i = 0; i < CONTENT_NBYTES; i += 4 + random_below(80))
        content[i] ^= 1;
    base = base_room;
    base_nbytes = (form == LMC_BASE_PLAIN ? 1 : 2) * (size_t)CONTENT_NBYTES;
    check_job(&params, thread_count, LMC_FRAME_DELTA);
    base = NULL;
}

static void check_matrix(unsigned thread_count)
{
    const lmc_params params = frame_matrix(LMC_DTYPE_BF16, 10, 100, content, CONTENT_NBYTES);
    lmc_ctx *const ctx = must_create_ctx();
    test_frame frame = frame_encode(ctx, &params, content, CONTENT_NBYTES);
    CU_ASSERT(frame_has_offsets(&frame));
    frame_free(&frame);
    lmc_ctx_free(ctx);
    check_job(&params, thread_count, LMC_FRAME_CODED);
}

LMC_TEST(test_delta_frames)
{
    check_base(LMC_BASE_PLAIN, 1);
    check_base(LMC_BASE_PLAIN, 3);
    check_base(LMC_BASE_BF16_OF_F32, 1);
}

LMC_TEST(test_coded_frames)
{
    check_content(DATA_WEIGHTS, 1);
    check_content(DATA_WEIGHTS, 3);
    check_content(DATA_HALF_ZEROS, 1); /* masked */
    check_matrix(1);
    check_matrix(3);
}

LMC_TEST(test_stored_frames)
{
    check_content(DATA_RANDOM, 1);
    check_content(DATA_RANDOM, 3);
}

/* Plans and frames outlive the context that made them. */
LMC_TEST(test_objects_outlive_their_context)
{
    const lmc_params params = frame_params(LMC_DTYPE_F32, LMC_LEVEL_DEFAULT, 10);
    lmc_info info = LMC_INIT(lmc_info);
    lmc_plan *plan = NULL;
    lmc_frame *frame = NULL;
    lmc_ctx *ctx = create();
    data_fill(content, CONTENT_NBYTES, LMC_DTYPE_F32, DATA_WEIGHTS);
    test_frame bytes = frame_encode(ctx, &params, content, CONTENT_NBYTES);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(bytes.bytes, bytes.nbytes, &info, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_plan_create(ctx, &params, CONTENT_NBYTES, read_content, NULL, &plan), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_create(ctx, bytes.bytes, info.head_nbytes,
                                           bytes.bytes + bytes.nbytes - info.tail_nbytes,
                                           (size_t)info.tail_nbytes, bytes.nbytes, &frame),
                          LMC_OK);
    lmc_ctx_free(ctx);
    CU_ASSERT_EQUAL(lmc_plan_info(plan, &info), LMC_OK);
    CU_ASSERT_EQUAL(info.content_nbytes, CONTENT_NBYTES);
    CU_ASSERT_EQUAL(lmc_frame_info(frame, &info), LMC_OK);
    CU_ASSERT_EQUAL(info.content_nbytes, CONTENT_NBYTES);
    lmc_plan_free(plan);
    lmc_frame_free(frame);
    CU_ASSERT(pool_is_whole());
    frame_free(&bytes);
}

/* No allocation is larger than blocks and index ask for, whatever a head claims. */
LMC_TEST(test_no_allocation_by_claims)
{
    const lmc_params params = frame_params(LMC_DTYPE_F32, LMC_LEVEL_DEFAULT, 10);
    lmc_ctx *const ctx = create();
    data_fill(content, CONTENT_NBYTES, LMC_DTYPE_F32, DATA_WEIGHTS);
    test_frame frame = frame_encode(ctx, &params, content, CONTENT_NBYTES);
    pool_fail(SIZE_MAX, 0);
    for (unsigned shift = 0; shift < 64; shift++) {
        const uint64_t claimed = UINT64_C(1) << shift;
        size_t n;
        memcpy(frame.bytes + 16, &claimed, 8);
        CU_ASSERT_NOT_EQUAL(lmc_decode(ctx, frame.bytes, frame.nbytes, found, CONTENT_NBYTES, &n), LMC_OK);
    }
    CU_ASSERT(atomic_load(&pool.largest) < 200000);
    frame_free(&frame);
    lmc_ctx_free(ctx);
}

/* A plan of a few bytes may claim 2^32 - 1 columns: they take no memory if they have no values, and are refused
 * before memory is asked for if they have. */
LMC_TEST(test_no_allocation_by_columns)
{
    size_t nbytes;
    lmc_ctx *const ctx = create();
    uint8_t *const frame = must_malloc(1 << 16);
    FILE *const file = fopen(LMC_TESTS_DIR "/format/vectors/handmade_offsets_columns_huge.lmc", "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    size_t frame_nbytes = fread(frame, 1, 1 << 16, file);
    fclose(file);
    CU_ASSERT_EQUAL(lmc_decode(ctx, frame, frame_nbytes, found, CONTENT_NBYTES, &nbytes), LMC_OK);
    free(frame);
    size_t count;
    input_line *const lines = input_table_read(LMC_TESTS_DIR "/format/vectors/corrupt/EXPECT.tsv", &count);
    uint8_t *const corrupt =
        input_bytes(input_table_find(lines, "offsets_columns_huge")->input, &frame_nbytes);
    CU_ASSERT_EQUAL(lmc_decode(ctx, corrupt, frame_nbytes, found, CONTENT_NBYTES, &nbytes), LMC_ERR_CORRUPT);
    free(corrupt);
    input_table_free(lines);
    CU_ASSERT(atomic_load(&pool.largest) < (1 << 20));
    lmc_ctx_free(ctx);
}

LMC_TEST_MAIN("alloc")
