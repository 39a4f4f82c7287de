/* test_frame_args.c - what every public call says to wrong arguments and too little room: the right status, a
 * diagnostic, sizes of 0. */
#include "lmc_test_frame.h"

#define CONTENT_NBYTES 5000

static lmc_ctx *ctx;
static uint8_t content[CONTENT_NBYTES], room[3 * CONTENT_NBYTES], found[CONTENT_NBYTES];
static test_frame frame;

static void open_frame(void)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    ctx = must_create_ctx();
    data_fill(content, CONTENT_NBYTES, LMC_DTYPE_BF16, DATA_WEIGHTS);
    size_t bound;
    if (lmc_encode_bound(&params, CONTENT_NBYTES, &bound) != LMC_OK || bound > sizeof room)
        abort();
    frame.bytes = must_malloc(bound);
    if (lmc_encode(ctx, &params, content, CONTENT_NBYTES, frame.bytes, bound, &frame.nbytes) != LMC_OK)
        abort();
}

/* The call's status is `wanted`, and so is what the context says of it. */
static void check_failure(lmc_status status, lmc_status wanted)
{
    const lmc_diag *const diag = lmc_ctx_diag(ctx);
    CU_ASSERT_EQUAL(status, wanted);
    CU_ASSERT_EQUAL(diag->status, wanted);
    CU_ASSERT(diag->text[0] != '\0' && memchr(diag->text, '\0', sizeof diag->text) != NULL);
    CU_ASSERT(strchr(diag->text, '\n') == NULL);
}

/* ---- small functions ---- */

LMC_TEST(test_texts)
{
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", LMC_VERSION_MAJOR, LMC_VERSION_MINOR, LMC_VERSION_PATCH);
    CU_ASSERT_STRING_EQUAL(lmc_version_text(), version);
    for (int status = 0; status <= LMC_ERR_CANCELLED; status++) {
        CU_ASSERT_STRING_NOT_EQUAL(lmc_status_text((lmc_status)status), "unknown status");
        for (int other = 0; other < status; other++)
            CU_ASSERT_STRING_NOT_EQUAL(lmc_status_text((lmc_status)status),
                                       lmc_status_text((lmc_status)other));
    }
    CU_ASSERT_STRING_EQUAL(lmc_status_text((lmc_status)13), "unknown status");
    CU_ASSERT_STRING_EQUAL(lmc_status_text((lmc_status)-1), "unknown status");
    CU_ASSERT_PTR_NOT_NULL(lmc_kernels_find(lmc_kernels_name()));
}

LMC_TEST(test_dtypes)
{
    for (int i = 0; i < LMC_DTYPE_COUNT; i++) {
        lmc_dtype dtype = (lmc_dtype)99;
        const char *const name = lmc_dtype_name((lmc_dtype)i);
        CU_ASSERT_PTR_NOT_NULL_FATAL(name);
        CU_ASSERT_EQUAL(lmc_dtype_find(name, strlen(name), &dtype), 1);
        CU_ASSERT_EQUAL((int)dtype, i);
        CU_ASSERT_EQUAL(lmc_dtype_find(name, strlen(name) - 1, &dtype), 0);
        CU_ASSERT(lmc_dtype_nbits((lmc_dtype)i) >= 4 && lmc_dtype_nbits((lmc_dtype)i) <= 64);
    }
    lmc_dtype dtype;
    CU_ASSERT_EQUAL(lmc_dtype_find("BF16xyz", 4, &dtype), 1);
    CU_ASSERT_EQUAL(dtype, LMC_DTYPE_BF16);
    CU_ASSERT_EQUAL(lmc_dtype_find("bf16", 4, &dtype), 0);
    CU_ASSERT_EQUAL(lmc_dtype_find("", 0, &dtype), 0);
    CU_ASSERT_EQUAL(lmc_dtype_find("F8_E4M3FNUZ", 7, &dtype), 1);
    CU_ASSERT_EQUAL(dtype, LMC_DTYPE_F8_E4M3);
    CU_ASSERT_PTR_NULL(lmc_dtype_name((lmc_dtype)LMC_DTYPE_COUNT));
    CU_ASSERT_PTR_NULL(lmc_dtype_name((lmc_dtype)-1));
    CU_ASSERT_EQUAL(lmc_dtype_nbits((lmc_dtype)LMC_DTYPE_COUNT), 0);
    CU_ASSERT_EQUAL(lmc_dtype_nbits(LMC_DTYPE_F4), 4);
    CU_ASSERT_EQUAL(lmc_dtype_nbits(LMC_DTYPE_C64), 64);
}

LMC_TEST(test_params_init)
{
    lmc_params params;
    memset(&params, 0xff, sizeof params);
    lmc_params_init(&params);
    CU_ASSERT_EQUAL(params.struct_size, sizeof params);
    CU_ASSERT_EQUAL(params.dtype, LMC_DTYPE_U8);
    CU_ASSERT_EQUAL(params.level, LMC_LEVEL_DEFAULT);
    CU_ASSERT_EQUAL(params.block_log2, 0);
    CU_ASSERT_EQUAL(params.row_nbytes, 0);
    CU_ASSERT_EQUAL(params.base_form, LMC_BASE_PLAIN);
}

/* ---- contexts ---- */

static void *no_memory(void *user, size_t nbytes)
{
    (void)user, (void)nbytes;
    return NULL;
}

static void release_nothing(void *user, void *pointer)
{
    (void)user, (void)pointer;
}

LMC_TEST(test_contexts)
{
    lmc_allocator allocator = {no_memory, release_nothing, NULL};
    lmc_ctx *made = ctx;
    CU_ASSERT_EQUAL(lmc_ctx_create(NULL, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_ctx_create(&allocator, &made), LMC_ERR_NOMEM);
    CU_ASSERT_PTR_NULL(made);
    allocator.allocate = NULL;
    CU_ASSERT_EQUAL(lmc_ctx_create(&allocator, &made), LMC_ERR_ARG);
    allocator.allocate = no_memory;
    allocator.release = NULL;
    CU_ASSERT_EQUAL(lmc_ctx_create(&allocator, &made), LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(made);
    lmc_ctx_free(NULL);
    lmc_plan_free(NULL);
    lmc_frame_free(NULL);
    made = must_create_ctx();
    CU_ASSERT_EQUAL(lmc_ctx_diag(made)->status, LMC_OK);
    CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(NULL, 1), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(made, LMC_THREAD_COUNT_MAX + 1), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_ctx_diag(made)->status, LMC_ERR_ARG);
    for (unsigned n = 0; n <= LMC_THREAD_COUNT_MAX; n += 64)
        CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(made, n), LMC_OK);
    lmc_ctx_free(made);
}

/* ---- encode ---- */

/* Parameters out of range, one at a time. Returns 0 behind the last. */
static int wrong_params(unsigned i, lmc_params *params)
{
    lmc_params_init(params);
    switch (i) {
    case 0: params->struct_size = 0; return 1;
    case 1: params->struct_size = sizeof *params + 1; return 1;
    case 2: params->dtype = (lmc_dtype)LMC_DTYPE_COUNT; return 1;
    case 3: params->dtype = (lmc_dtype)-1; return 1;
    case 4: params->level = (lmc_level)3; return 1;
    case 5: params->level = (lmc_level)-1; return 1;
    case 6: params->block_log2 = LMC_BLOCK_LOG2_MIN - 1; return 1;
    case 7: params->block_log2 = LMC_BLOCK_LOG2_MAX + 1; return 1;
    case 8: params->block_log2 = 1u << 31; return 1;
    case 9: params->base_form = (lmc_base_form)LMC_BASE_FORM_COUNT; return 1;
    case 10: params->base_form = (lmc_base_form)-1; return 1;
    default: return 0;
    }
}

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    memcpy(dst, (const uint8_t *)user + offset, nbytes);
    return LMC_OK;
}

LMC_TEST(test_wrong_params)
{
    lmc_params params;
    for (unsigned i = 0; wrong_params(i, &params); i++) {
        size_t n = 99;
        lmc_plan *plan = (lmc_plan *)(void *)room;
        CU_ASSERT_EQUAL(lmc_encode_bound(&params, 100, &n), LMC_ERR_ARG);
        CU_ASSERT_EQUAL(n, 0);
        n = 99;
        check_failure(lmc_encode(ctx, &params, content, 100, room, sizeof room, &n), LMC_ERR_ARG);
        CU_ASSERT_EQUAL(n, 0);
        check_failure(lmc_plan_create(ctx, &params, 100, read_content, content, &plan), LMC_ERR_ARG);
        CU_ASSERT_PTR_NULL(plan);
    }
}

LMC_TEST(test_encode_bound)
{
    lmc_params params;
    size_t n = 99, before = 0;
    lmc_params_init(&params);
    CU_ASSERT_EQUAL(lmc_encode_bound(&params, 1, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_bound(NULL, 1, &n), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(n, 0);
    for (size_t nbytes = 0; nbytes < SIZE_MAX / 4; nbytes = nbytes * 2 + 1) {
        CU_ASSERT_EQUAL(lmc_encode_bound(&params, nbytes, &n), LMC_OK);
        CU_ASSERT(n >= nbytes + LMC_FRAME_OVERHEAD_MAX && n > before);
        before = n;
    }
    n = 99;
    CU_ASSERT_EQUAL(lmc_encode_bound(&params, SIZE_MAX, &n), LMC_ERR_LIMIT);
    CU_ASSERT_EQUAL(n, 0);
    CU_ASSERT_EQUAL(lmc_encode_bound(&params, SIZE_MAX / 2, &n), LMC_ERR_LIMIT);
}

LMC_TEST(test_encode_arguments)
{
    lmc_params params;
    size_t n = 99;
    lmc_params_init(&params);
    CU_ASSERT_EQUAL(lmc_encode(NULL, &params, content, 10, room, sizeof room, &n), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(n, 0);
    check_failure(lmc_encode(ctx, NULL, content, 10, room, sizeof room, &n), LMC_ERR_ARG);
    check_failure(lmc_encode(ctx, &params, NULL, 10, room, sizeof room, &n), LMC_ERR_ARG);
    check_failure(lmc_encode(ctx, &params, content, 10, NULL, sizeof room, &n), LMC_ERR_ARG);
    check_failure(lmc_encode(ctx, &params, content, 10, room, sizeof room, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode(ctx, &params, NULL, 0, room, sizeof room, &n), LMC_OK);
    CU_ASSERT_EQUAL(lmc_encode_delta(ctx, &params, content, 10, content, 10, room, sizeof room, &n), LMC_OK);
    CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, LMC_OK);
}

LMC_TEST(test_encode_room)
{
    static const size_t sizes[] = {0, 1, 255, 256, CONTENT_NBYTES};
    lmc_params params;
    lmc_params_init(&params);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t bound, n = 99;
        CU_ASSERT_EQUAL(lmc_encode_bound(&params, sizes[i], &bound), LMC_OK);
        for (size_t capacity = 0; capacity < bound; capacity += capacity + 40 < bound ? 37 : 1) {
            n = 99;
            check_failure(lmc_encode(ctx, &params, content, sizes[i], room, capacity, &n), LMC_ERR_DST_SMALL);
            CU_ASSERT_EQUAL(n, 0);
        }
        CU_ASSERT_EQUAL(lmc_encode(ctx, &params, content, sizes[i], room, bound, &n), LMC_OK);
    }
}

/* ---- decode ---- */

LMC_TEST(test_decode_arguments)
{
    size_t n = 99;
    CU_ASSERT_EQUAL(lmc_decode(NULL, frame.bytes, frame.nbytes, found, sizeof found, &n), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(n, 0);
    check_failure(lmc_decode(ctx, NULL, frame.nbytes, found, sizeof found, &n), LMC_ERR_ARG);
    check_failure(lmc_decode(ctx, frame.bytes, frame.nbytes, NULL, sizeof found, &n), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_decode(ctx, frame.bytes, frame.nbytes, found, sizeof found, &n), LMC_OK);
    CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, LMC_OK);
    check_failure(lmc_decode(ctx, frame.bytes, frame.nbytes, found, sizeof found, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_decode_range(NULL, frame.bytes, frame.nbytes, 0, 1, found), LMC_ERR_ARG);
    check_failure(lmc_decode_range(ctx, NULL, frame.nbytes, 0, 1, found), LMC_ERR_ARG);
    check_failure(lmc_decode_range(ctx, frame.bytes, frame.nbytes, 0, 1, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_decode_range(ctx, frame.bytes, frame.nbytes, 0, 0, NULL), LMC_OK);
    check_failure(lmc_decode(ctx, frame.bytes, 0, found, sizeof found, &n), LMC_ERR_TRUNCATED);
}

LMC_TEST(test_decode_room)
{
    size_t n;
    for (size_t capacity = 0; capacity < CONTENT_NBYTES;
         capacity += capacity + 40 < CONTENT_NBYTES ? 37 : 1) {
        n = 99;
        check_failure(lmc_decode(ctx, frame.bytes, frame.nbytes, found, capacity, &n), LMC_ERR_DST_SMALL);
        CU_ASSERT_EQUAL(n, 0);
    }
    check_failure(lmc_decode(ctx, frame.bytes, frame.nbytes, NULL, 0, &n), LMC_ERR_DST_SMALL);
    CU_ASSERT_EQUAL(lmc_decode(ctx, frame.bytes, frame.nbytes, found, CONTENT_NBYTES, &n), LMC_OK);
    CU_ASSERT_EQUAL(n, CONTENT_NBYTES);
}

/* ---- info ---- */

LMC_TEST(test_read_info)
{
    lmc_info info = LMC_INIT(lmc_info);
    lmc_diag diag = LMC_INIT(lmc_diag);
    CU_ASSERT_EQUAL(lmc_frame_read_info(frame.bytes, frame.nbytes, NULL, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(diag.status, LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_frame_read_info(NULL, 10, &info, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_frame_read_info(NULL, 0, &info, NULL), LMC_ERR_TRUNCATED);
    for (size_t n = 0; n < LMC_INFO_NBYTES; n++) {
        memset(&info, 0xff, sizeof info);
        info.struct_size = sizeof info;
        CU_ASSERT_EQUAL(lmc_frame_read_info(frame.bytes, n, &info, &diag), LMC_ERR_TRUNCATED);
        CU_ASSERT_EQUAL(diag.status, LMC_ERR_TRUNCATED);
        CU_ASSERT_EQUAL(info.content_nbytes, 0); /* sizes are 0 after a failure */
        CU_ASSERT_EQUAL(info.head_nbytes, 0);
    }
    CU_ASSERT_EQUAL(lmc_frame_read_info(frame.bytes, LMC_INFO_NBYTES, &info, NULL), LMC_OK);
    CU_ASSERT_EQUAL(info.version, 1);
    CU_ASSERT_EQUAL(info.dtype, LMC_DTYPE_BF16);
    CU_ASSERT_EQUAL(info.mode, LMC_FRAME_CODED);
    CU_ASSERT_EQUAL(info.element_nbytes, 2);
    CU_ASSERT_EQUAL(info.block_log2, 10);
    CU_ASSERT_EQUAL(info.content_nbytes, CONTENT_NBYTES);
    CU_ASSERT_EQUAL(info.block_nbytes, 2048);
    CU_ASSERT_EQUAL(info.block_count, 3);
    CU_ASSERT_EQUAL(info.tail_nbytes, 3 * 12 + 8);
    CU_ASSERT_EQUAL(info.base_form, LMC_BASE_PLAIN);
    CU_ASSERT_EQUAL(info.base_nbytes, 0);
    CU_ASSERT_EQUAL(info.base_block_nbytes, 0);
    CU_ASSERT_EQUAL(info.frame_nbytes_min, info.head_nbytes + 3 + info.tail_nbytes);
}

/* A head that promises more than the frame can hold. */
LMC_TEST(test_promises)
{
    static const uint64_t promises[] = {UINT64_C(3) << 20, UINT64_C(3) << 30, UINT64_C(1) << 45, INT64_MAX};
    uint8_t *const forged = must_malloc(frame.nbytes);
    size_t n = 1;
    memset(found, 7, sizeof found);
    for (size_t i = 0; i < sizeof promises / sizeof promises[0]; i++) {
        lmc_info info = LMC_INIT(lmc_info);
        memcpy(forged, frame.bytes, frame.nbytes);
        memcpy(forged + 16, &promises[i], 8);
        CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(forged, LMC_INFO_NBYTES, &info, NULL), LMC_OK);
        CU_ASSERT_EQUAL(info.content_nbytes, promises[i]);
        CU_ASSERT(info.frame_nbytes_min > frame.nbytes);
        CU_ASSERT(promises[i] / LMC_EXPANSION_MAX < info.frame_nbytes_min);
        check_failure(lmc_decode(ctx, forged, frame.nbytes, found, sizeof found, &n), LMC_ERR_TRUNCATED);
        CU_ASSERT_EQUAL(found[0], 7);
    }
    free(forged);
}

LMC_TEST_MAIN_WITH("frame_args", open_frame(), (frame_free(&frame), lmc_ctx_free(ctx)))
