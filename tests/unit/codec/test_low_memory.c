/* test_low_memory.c - memory for some threads but not for all that are asked for: the call goes on with those that have
 * theirs. What is enough for one thread is enough for any number. */
#include "lmc_test_frame.h"

#include <lmc_experimental.h>
#include <stdatomic.h>

#define CONTENT_NBYTES 200000
#define THREADS 64
#define HEAD_NBYTES 64 /* before each allocation: its size */

/* ---- an allocator that has so many bytes, and no more ---- */

typedef struct budget {
    atomic_size_t live, peak;
    size_t most;
} budget;

static void *allocate(void *user, size_t nbytes)
{
    budget *const b = user;
    const size_t live = atomic_fetch_add(&b->live, nbytes) + nbytes;
    if (live > b->most) {
        atomic_fetch_sub(&b->live, nbytes);
        return NULL;
    }
    size_t peak = atomic_load(&b->peak);
    while (live > peak && !atomic_compare_exchange_weak(&b->peak, &peak, live))
        continue;
    uint8_t *const p = must_malloc_zeros(HEAD_NBYTES + nbytes);
    memcpy(p, &nbytes, sizeof nbytes);
    return p + HEAD_NBYTES;
}

static void release(void *user, void *pointer)
{
    uint8_t *const p = (uint8_t *)pointer - HEAD_NBYTES;
    size_t nbytes;
    memcpy(&nbytes, p, sizeof nbytes);
    atomic_fetch_sub(&((budget *)user)->live, nbytes);
    free(p);
}

/* ---- calls ---- */

static uint8_t content[CONTENT_NBYTES], base_room[2 * CONTENT_NBYTES], found[CONTENT_NBYTES];
static uint8_t room[2 * CONTENT_NBYTES];
static lmc_params params;
static const uint8_t *base;
static size_t base_nbytes;
static test_frame frame;

typedef lmc_status (*call)(lmc_ctx *ctx, unsigned thread_count);

static lmc_status call_encode(lmc_ctx *ctx, unsigned thread_count)
{
    size_t n = 0;
    CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, thread_count), LMC_OK);
    const lmc_status status =
        lmc_encode_delta(ctx, &params, content, CONTENT_NBYTES, base, base_nbytes, room, sizeof room, &n);
    CU_ASSERT(status != LMC_OK || (n == frame.nbytes && memcmp(room, frame.bytes, n) == 0));
    return status;
}

static lmc_status call_decode(lmc_ctx *ctx, unsigned thread_count)
{
    size_t n = 0;
    CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, thread_count), LMC_OK);
    memset(found, 0, sizeof found);
    const lmc_status status =
        lmc_decode_delta(ctx, frame.bytes, frame.nbytes, base, base_nbytes, found, sizeof found, &n);
    CU_ASSERT(status != LMC_OK || (n == CONTENT_NBYTES && memcmp(found, content, n) == 0));
    return status;
}

static lmc_status call_range(lmc_ctx *ctx, unsigned thread_count)
{
    const size_t n = CONTENT_NBYTES - 3000;
    CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, thread_count), LMC_OK);
    memset(found, 0, sizeof found);
    const lmc_status status =
        lmc_decode_delta_range(ctx, frame.bytes, frame.nbytes, base, base_nbytes, 1001, n, found);
    CU_ASSERT(status != LMC_OK || memcmp(found, content + 1001, n) == 0);
    return status;
}

/* One call on a new context that has `most` bytes for all. *peak: what it took of them. */
static lmc_status run(call function, unsigned thread_count, size_t most, size_t *peak)
{
    budget b = {.most = most};
    const lmc_allocator allocator = {allocate, release, &b};
    lmc_ctx *ctx = NULL;
    lmc_status status = lmc_ctx_create(&allocator, &ctx);
    if (status == LMC_OK) {
        status = function(ctx, thread_count);
        CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, status);
        CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->text[0] == '\0', status == LMC_OK);
    }
    lmc_ctx_free(ctx);
    CU_ASSERT_EQUAL(atomic_load(&b.live), 0);
    *peak = atomic_load(&b.peak);
    return status;
}

static void check(call function)
{
    size_t one = 0, all = 0, unused;
    CU_ASSERT_EQUAL_FATAL(run(function, 1, SIZE_MAX, &one), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(run(function, THREADS, SIZE_MAX, &all), LMC_OK);
    CU_ASSERT(all > 2 * one); /* several were at work */
    CU_ASSERT_EQUAL(run(function, THREADS, one - 1, &unused), LMC_ERR_NOMEM);
    for (size_t most = one; most < all; most += (all - one) / 40 + 1)
        CU_ASSERT_EQUAL(run(function, THREADS, most, &unused), LMC_OK);
}

/* ---- one context for two calls ---- */

/* Blocks of 2^10 values, then of 2^16, which take more. */
static lmc_status call_twice(lmc_ctx *ctx, unsigned thread_count)
{
    const unsigned logs[] = {10, 16};
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < 2 && status == LMC_OK; i++) {
        const lmc_params own = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, logs[i]);
        size_t n = 0;
        CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, thread_count), LMC_OK);
        status = lmc_encode(ctx, &own, content, CONTENT_NBYTES, room, sizeof room, &n);
        if (status == LMC_OK)
            status = lmc_decode(ctx, room, n, found, sizeof found, &n);
        CU_ASSERT(status != LMC_OK || memcmp(found, content, CONTENT_NBYTES) == 0);
    }
    return status;
}

/* What threads of the first call have left in the context does not stand in the way of the second. */
LMC_TEST(test_later_calls)
{
    size_t one = 0, unused;
    data_fill(content, CONTENT_NBYTES, LMC_DTYPE_BF16, DATA_WEIGHTS);
    CU_ASSERT_EQUAL_FATAL(run(call_twice, 1, SIZE_MAX, &one), LMC_OK);
    for (unsigned threads = 2; threads <= THREADS; threads *= 2)
        CU_ASSERT_EQUAL(run(call_twice, threads, one, &unused), LMC_OK);
}

static void check_calls(lmc_frame_mode mode)
{
    lmc_info info = LMC_INIT(lmc_info);
    lmc_ctx *const ctx = must_create_ctx();
    frame = frame_encode_against(ctx, &params, content, CONTENT_NBYTES, base);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame.bytes, frame.nbytes, &info, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(info.mode, mode);
    check(call_encode);
    check(call_decode);
    check(call_range);
    frame_free(&frame);
    lmc_ctx_free(ctx);
}

LMC_TEST(test_coded)
{
    params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    base = NULL;
    base_nbytes = 0;
    data_fill(content, CONTENT_NBYTES, LMC_DTYPE_BF16, DATA_WEIGHTS);
    check_calls(LMC_FRAME_CODED);
}

LMC_TEST(test_narrow)
{
    static const data_kind kinds[] = {DATA_PRODUCTS, DATA_HALVES, DATA_PALETTE};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        params = frame_params(LMC_DTYPE_F32, LMC_LEVEL_DEFAULT, 10);
        base = NULL;
        base_nbytes = 0;
        data_fill(content, CONTENT_NBYTES, LMC_DTYPE_F32, kinds[i]);
        check_calls(LMC_FRAME_CODED);
    }
}

static void check_delta(lmc_base_form form)
{
    params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    params.base_form = form;
    base = base_room;
    base_nbytes = (form == LMC_BASE_PLAIN ? 1 : 2) * (size_t)CONTENT_NBYTES;
    data_fill(base_room, base_nbytes, form == LMC_BASE_PLAIN ? LMC_DTYPE_BF16 : LMC_DTYPE_F32, DATA_WEIGHTS);
    if (form == LMC_BASE_PLAIN)
        memcpy(content, base_room, CONTENT_NBYTES);
    else
        lmc_base_round(LMC_BASE_BF16_OF_F32, base_room, CONTENT_NBYTES / 2, content);
    for (size_t i = 0; i < CONTENT_NBYTES; i += 40)
        content[i] ^= 1;
    check_calls(LMC_FRAME_DELTA);
}

LMC_TEST(test_delta)
{
    check_delta(LMC_BASE_PLAIN);
}

LMC_TEST(test_rounded)
{
    check_delta(LMC_BASE_BF16_OF_F32);
}

LMC_TEST_MAIN("low_memory")
