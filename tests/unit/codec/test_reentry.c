/* test_reentry.c - what a call calls back (reads, the allocator) may not use the context of that call: every public
 * call refuses it, and the call that is at work ends as if nothing had been. */
#include "lmc_test_frame.h"

#include <lmc_experimental.h>

#define CONTENT_NBYTES 300000
#define BOUND (CONTENT_NBYTES + 100000)

static uint8_t content[CONTENT_NBYTES], base[CONTENT_NBYTES], found[CONTENT_NBYTES], room[BOUND];
static test_frame frame;       /* of another content, small */
static lmc_plan *other_plan;   /* made before */
static lmc_frame *other_frame; /* opened before */
static lmc_info info = LMC_INIT(lmc_info);

typedef struct reentry {
    lmc_ctx *ctx;   /* of the call that is at work; NULL: nothing is called */
    unsigned depth; /* of callbacks */
    unsigned calls; /* that were made */
    unsigned
        wrong; /* of these, those that did not say ARG, or left an output or the diagnostic other than it was */
} reentry;

static void expect(reentry *r, lmc_status status, int is_left_alone)
{
    r->calls++;
    r->wrong += status != LMC_ERR_ARG || !is_left_alone || lmc_ctx_diag(r->ctx)->status != LMC_OK ||
                lmc_ctx_diag(r->ctx)->text[0] != '\0';
}

static lmc_status read_plainly(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)user;
    memcpy(dst, content + offset, nbytes);
    return LMC_OK;
}

static void reenter_whole(reentry *r)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    size_t n = 9;
    lmc_status status = lmc_encode(r->ctx, &params, content, 5000, room, sizeof room, &n);
    expect(r, status, n == 0);
    n = 9;
    status = lmc_decode(r->ctx, frame.bytes, frame.nbytes, found, sizeof found, &n);
    expect(r, status, n == 0);
    status = lmc_decode_range(r->ctx, frame.bytes, frame.nbytes, 10, 10, found);
    expect(r, status, 1);
    status = lmc_ctx_set_thread_count(r->ctx, 2);
    expect(r, status, 1);
    status = lmc_ctx_set_cancel(r->ctx, NULL);
    expect(r, status, 1);
}

static void reenter_pieces(reentry *r)
{
    const lmc_params params = frame_params(LMC_DTYPE_F32, LMC_LEVEL_MAX, 10);
    const size_t tail_nbytes = (size_t)info.tail_nbytes;
    const uint8_t *const tail = frame.bytes + frame.nbytes - tail_nbytes;
    lmc_plan *plan = other_plan;
    lmc_frame *opened = other_frame;
    lmc_block_entry entry = {1, 1, 1};
    uint64_t offset;
    size_t stored_nbytes, n;
    lmc_status status = lmc_plan_create(r->ctx, &params, 9000, read_plainly, NULL, &plan);
    expect(r, status, plan == NULL);
    status = lmc_encode_block(r->ctx, other_plan, 0, content, info.block_nbytes, room, sizeof room, &entry);
    expect(r, status, entry.stored_nbytes == 0);
    status =
        lmc_frame_create(r->ctx, frame.bytes, info.head_nbytes, tail, tail_nbytes, frame.nbytes, &opened);
    expect(r, status, opened == NULL);
    if (lmc_frame_block(other_frame, 0, &offset, &stored_nbytes, &n) != LMC_OK)
        abort();
    status = lmc_decode_block(r->ctx, other_frame, 0, frame.bytes + offset, stored_nbytes, found,
                              sizeof found, NULL);
    expect(r, status, 1);
}

static void reenter(reentry *r)
{
    if (r->ctx && r->depth++ == 0) {
        reenter_whole(r);
        reenter_pieces(r);
    }
    r->depth -= r->ctx != NULL;
}

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    reenter(user);
    memcpy(dst, content + offset, nbytes);
    return LMC_OK;
}

static lmc_status read_base(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    reenter(user);
    memcpy(dst, base + offset, nbytes);
    return LMC_OK;
}

static void *allocate(void *user, size_t nbytes)
{
    reenter(user);
    return calloc(1, nbytes);
}

static void release(void *user, void *pointer)
{
    (void)user;
    free(pointer);
}

/* ---- */

static void open_all(void)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    lmc_ctx *const ctx = must_create_ctx();
    data_fill(base, CONTENT_NBYTES, LMC_DTYPE_BF16, DATA_WEIGHTS);
    memcpy(content, base, CONTENT_NBYTES);
    for (size_t i = 0; i < CONTENT_NBYTES; i += 40)
        content[i] ^= 1;
    frame.bytes = must_malloc(20000);
    if (lmc_encode(ctx, &params, content, 5000, frame.bytes, 20000, &frame.nbytes) != LMC_OK ||
        lmc_frame_read_info(frame.bytes, frame.nbytes, &info, NULL) != LMC_OK ||
        lmc_plan_create(ctx, &params, 5000, read_plainly, NULL, &other_plan) != LMC_OK ||
        lmc_frame_create(ctx, frame.bytes, info.head_nbytes, frame.bytes + frame.nbytes - info.tail_nbytes,
                         (size_t)info.tail_nbytes, frame.nbytes, &other_frame) != LMC_OK)
        abort();
    lmc_ctx_free(ctx);
}

static void close_all(void)
{
    lmc_plan_free(other_plan);
    lmc_frame_free(other_frame);
    frame_free(&frame);
}

/* A plan's head, to the beginning of `room`. */
static size_t plan_head(lmc_ctx *ctx, const lmc_params *params, int has_base, reentry *r)
{
    lmc_plan *plan = NULL;
    size_t n = 0;
    CU_ASSERT_EQUAL_FATAL(lmc_plan_create_delta(ctx, params, CONTENT_NBYTES, read_content,
                                                has_base ? read_base : NULL, r, &plan),
                          LMC_OK);
    CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_encode_head(plan, room, sizeof room, &n), LMC_OK);
    lmc_plan_free(plan);
    return n;
}

/* Plans twice, once with every read calling every call, and compares what was decided. */
static void check_plan(lmc_level level, int has_base)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, level, 0);
    lmc_ctx *const ctx = must_create_ctx();
    reentry r = {NULL, 0, 0, 0};
    uint8_t head[5000];
    const size_t n = plan_head(ctx, &params, has_base, &r);
    CU_ASSERT_FATAL(n <= sizeof head);
    memcpy(head, room, n);
    r.ctx = ctx;
    CU_ASSERT_EQUAL(plan_head(ctx, &params, has_base, &r), n);
    CU_ASSERT_EQUAL(memcmp(head, room, n), 0);
    CU_ASSERT(r.calls >= 8);
    CU_ASSERT_EQUAL(r.wrong, 0);
    lmc_ctx_free(ctx);
}

LMC_TEST(test_reads)
{
    check_plan(LMC_LEVEL_DEFAULT, 0);
    check_plan(LMC_LEVEL_FAST, 0);
    check_plan(LMC_LEVEL_DEFAULT, 1);
}

LMC_TEST(test_reads_of_all)
{
    check_plan(LMC_LEVEL_MAX, 0);
    check_plan(LMC_LEVEL_MAX, 1);
}

/* What the read makes of the refusal is what the call fails with, and its diagnostic is its own. */
static lmc_status read_and_fail(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)offset, (void)dst, (void)nbytes;
    return lmc_ctx_set_thread_count(user, 3);
}

LMC_TEST(test_failing_read)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 0);
    lmc_ctx *const ctx = must_create_ctx();
    lmc_plan *plan = NULL;
    CU_ASSERT_EQUAL(lmc_plan_create(ctx, &params, CONTENT_NBYTES, read_and_fail, ctx, &plan), LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(plan);
    CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, LMC_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(lmc_ctx_diag(ctx)->text, "read"));
    CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, 3), LMC_OK); /* it is at work no longer */
    CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, LMC_OK);
    lmc_ctx_free(ctx);
}

LMC_TEST(test_allocators)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    reentry r = {NULL, 0, 0, 0};
    const lmc_allocator allocator = {allocate, release, &r};
    lmc_ctx *ctx = NULL;
    uint8_t *const bytes = must_malloc(BOUND);
    size_t n, m;
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(&allocator, &ctx), LMC_OK);
    r.ctx = ctx;
    CU_ASSERT_EQUAL(
        lmc_encode_delta(ctx, &params, content, CONTENT_NBYTES, base, CONTENT_NBYTES, bytes, BOUND, &n),
        LMC_OK);
    const unsigned calls = r.calls;
    CU_ASSERT(calls >= 8);
    CU_ASSERT_EQUAL(lmc_decode_delta(ctx, bytes, n, base, CONTENT_NBYTES, found, sizeof found, &m), LMC_OK);
    CU_ASSERT(r.calls > calls);
    CU_ASSERT_EQUAL(r.wrong, 0);
    CU_ASSERT_EQUAL(m, CONTENT_NBYTES);
    CU_ASSERT_EQUAL(memcmp(found, content, m), 0);
    free(bytes);
    lmc_ctx_free(ctx);
}

LMC_TEST_MAIN_WITH("reentry", open_all(), close_all())
