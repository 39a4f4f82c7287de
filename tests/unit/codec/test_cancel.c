/* test_cancel.c - the caller's cancel flag: encoding and decoding end with CANCELLED, on one thread or several, and the
 * context serves the next call. */
#include "lmc_test_frame.h"

#include <lmc_experimental.h>
#include <pthread.h>
#include <stdatomic.h>

#define CONTENT_NBYTES 300000
#define THREAD_COUNT 3

static uint8_t content[CONTENT_NBYTES], base[CONTENT_NBYTES], found[CONTENT_NBYTES];
static uint8_t room[2 * CONTENT_NBYTES];
static volatile int cancel;

/* ---- an allocator that cancels the call that it serves ---- */

static atomic_int does_cancel;

static void *allocate(void *user, size_t nbytes)
{
    (void)user;
    if (atomic_load(&does_cancel))
        __atomic_store_n(&cancel, 1, __ATOMIC_RELAXED);
    return must_malloc_zeros(nbytes);
}

static void release(void *user, void *pointer)
{
    (void)user;
    free(pointer);
}

/* ---- calls ---- */

typedef struct settings {
    lmc_params params;
    const uint8_t *base; /* or NULL */
    test_frame frame;    /* of content */
} settings;

static lmc_status encode(lmc_ctx *ctx, const settings *s, size_t *nbytes)
{
    return lmc_encode_delta(ctx, &s->params, content, CONTENT_NBYTES, s->base, CONTENT_NBYTES, room,
                            sizeof room, nbytes);
}

static lmc_status decode(lmc_ctx *ctx, const settings *s, size_t *nbytes)
{
    return lmc_decode_delta(ctx, s->frame.bytes, s->frame.nbytes, s->base, CONTENT_NBYTES, found,
                            CONTENT_NBYTES, nbytes);
}

static lmc_status decode_range(lmc_ctx *ctx, const settings *s, size_t *nbytes)
{
    *nbytes = 0;
    return lmc_decode_delta_range(ctx, s->frame.bytes, s->frame.nbytes, s->base, CONTENT_NBYTES, 1000,
                                  CONTENT_NBYTES / 2, found);
}

typedef lmc_status (*call)(lmc_ctx *ctx, const settings *s, size_t *nbytes);

static void check_cancelled(call made, lmc_ctx *ctx, const settings *s)
{
    size_t nbytes = 9;
    CU_ASSERT_EQUAL(made(ctx, s, &nbytes), LMC_ERR_CANCELLED);
    CU_ASSERT_EQUAL(nbytes, 0);
    CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, LMC_ERR_CANCELLED);
    CU_ASSERT_STRING_EQUAL(lmc_ctx_diag(ctx)->text, "cancelled");
    CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->struct_size, sizeof(lmc_diag));
}

static void check_call(call made, lmc_ctx *ctx, const settings *s)
{
    size_t nbytes;
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_set_cancel(ctx, &cancel), LMC_OK);
    cancel = 1; /* before the call */
    check_cancelled(made, ctx, s);
    cancel = 0; /* within it, before the first block */
    atomic_store(&does_cancel, 1);
    check_cancelled(made, ctx, s);
    atomic_store(&does_cancel, 0);
    cancel = 0;
    CU_ASSERT_EQUAL(made(ctx, s, &nbytes), LMC_OK);
    CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, LMC_OK);
    cancel = 1;
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_set_cancel(ctx, NULL), LMC_OK);
    CU_ASSERT_EQUAL(made(ctx, s, &nbytes), LMC_OK);
}

static void check_threads(settings *s, unsigned thread_count)
{
    const lmc_allocator allocator = {allocate, release, NULL};
    lmc_ctx *ctx = NULL;
    size_t nbytes = 0;
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(&allocator, &ctx), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_set_thread_count(ctx, thread_count), LMC_OK);
    check_call(encode, ctx, s);
    CU_ASSERT_EQUAL(encode(ctx, s, &nbytes), LMC_OK);
    CU_ASSERT(nbytes == s->frame.nbytes && memcmp(room, s->frame.bytes, nbytes) == 0);
    check_call(decode_range, ctx, s);
    CU_ASSERT_EQUAL(memcmp(found, content + 1000, CONTENT_NBYTES / 2), 0);
    check_call(decode, ctx, s);
    CU_ASSERT_EQUAL(memcmp(found, content, CONTENT_NBYTES), 0);
    lmc_ctx_free(ctx);
}

static void check_calls(lmc_dtype dtype, const uint8_t *against, lmc_frame_mode mode)
{
    settings s = {.params = frame_params(dtype, LMC_LEVEL_DEFAULT, 10), .base = against};
    lmc_ctx *const ctx = must_create_ctx();
    lmc_info info = LMC_INIT(lmc_info);
    s.frame = frame_encode_against(ctx, &s.params, content, CONTENT_NBYTES, against);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(s.frame.bytes, s.frame.nbytes, &info, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(info.mode, mode);
    check_threads(&s, 1);
    check_threads(&s, THREAD_COUNT);
    frame_free(&s.frame);
    lmc_ctx_free(ctx);
}

LMC_TEST(test_coded)
{
    data_fill(content, CONTENT_NBYTES, LMC_DTYPE_BF16, DATA_WEIGHTS);
    check_calls(LMC_DTYPE_BF16, NULL, LMC_FRAME_CODED);
}

LMC_TEST(test_stored)
{
    data_fill(content, CONTENT_NBYTES, LMC_DTYPE_U8, DATA_RANDOM);
    check_calls(LMC_DTYPE_U8, NULL, LMC_FRAME_STORED);
}

LMC_TEST(test_delta)
{
    data_fill(base, CONTENT_NBYTES, LMC_DTYPE_BF16, DATA_WEIGHTS);
    memcpy(content, base, CONTENT_NBYTES);
    for (size_t i = 0; i < CONTENT_NBYTES; i += 40)
        content[i] ^= 1;
    check_calls(LMC_DTYPE_BF16, base, LMC_FRAME_DELTA);
}

static void *set_cancel(void *argument)
{
    (void)argument;
    __atomic_store_n(&cancel, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* Another thread sets the flag at any time of the call: the call fails so, or it is right. */
LMC_TEST(test_another_thread)
{
    settings s = {.params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10)};
    lmc_ctx *const ctx = must_create_ctx();
    data_fill(content, CONTENT_NBYTES, LMC_DTYPE_BF16, DATA_WEIGHTS);
    s.frame = frame_encode(ctx, &s.params, content, CONTENT_NBYTES);
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_set_thread_count(ctx, THREAD_COUNT), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_set_cancel(ctx, &cancel), LMC_OK);
    for (unsigned turn = 0; turn < 40; turn++) {
        pthread_t thread;
        size_t nbytes = 0;
        cancel = 0;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, set_cancel, NULL), 0);
        const lmc_status status = encode(ctx, &s, &nbytes);
        CU_ASSERT_EQUAL(pthread_join(thread, NULL), 0);
        CU_ASSERT(status == LMC_OK || status == LMC_ERR_CANCELLED);
        CU_ASSERT_EQUAL(nbytes, status == LMC_OK ? s.frame.nbytes : 0);
        CU_ASSERT_EQUAL(memcmp(room, s.frame.bytes, nbytes), 0);
    }
    frame_free(&s.frame);
    lmc_ctx_free(ctx);
}

LMC_TEST(test_arguments)
{
    CU_ASSERT_EQUAL(lmc_ctx_set_cancel(NULL, &cancel), LMC_ERR_ARG);
}

LMC_TEST_MAIN("cancel")
