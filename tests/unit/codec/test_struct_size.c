/* test_struct_size.c - structs of programs built with an older or a newer header (lmc.h, "Structs that grow"). What an
 * older program knows is served. Nothing behind its struct is touched. */
#include "lmc_test_frame.h"

#define CONTENT_NBYTES 5000

static uint8_t content[CONTENT_NBYTES];
static uint8_t room[CONTENT_NBYTES + 100000];
static guarded memory;

/* Encodes with params of which only `struct_size` bytes exist: a page that cannot be read follows. */
static lmc_status encode_with(const lmc_params *params, size_t struct_size, lmc_info *info)
{
    lmc_params shorter = *params;
    shorter.struct_size = struct_size;
    const size_t there = struct_size < sizeof shorter ? struct_size : sizeof shorter;
    const lmc_params *const given = (const void *)guarded_copy(&memory, &shorter, there);
    lmc_ctx *const ctx = must_create_ctx();
    size_t bound = 1, nbytes = 1;
    lmc_status status = lmc_encode_bound(given, CONTENT_NBYTES, &bound);
    CU_ASSERT_EQUAL_FATAL(lmc_encode(ctx, given, content, CONTENT_NBYTES, room, sizeof room, &nbytes),
                          status);
    CU_ASSERT_EQUAL(nbytes == 0, status != LMC_OK);
    if (status == LMC_OK)
        status = lmc_frame_read_info(room, nbytes, info, NULL);
    lmc_ctx_free(ctx);
    return status;
}

LMC_TEST(test_params_of_an_older_program)
{
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = LMC_DTYPE_BF16;
    params.block_log2 = 11;
    params.row_nbytes = 100;
    const size_t ends[] = {sizeof(size_t), offsetof(lmc_params, level), offsetof(lmc_params, row_nbytes),
                           offsetof(lmc_params, base_form), sizeof params};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        lmc_info info = LMC_INIT(lmc_info);
        CU_ASSERT_EQUAL_FATAL(encode_with(&params, ends[i], &info), LMC_OK);
        CU_ASSERT_EQUAL(info.dtype, i >= 1 ? LMC_DTYPE_BF16 : LMC_DTYPE_U8);
        CU_ASSERT_EQUAL(info.block_log2, i >= 2   ? 11
                                         : i == 1 ? LMC_BLOCK_LOG2_DEFAULT
                                                  : LMC_BLOCK_LOG2_DEFAULT_BYTE);
        CU_ASSERT_EQUAL(info.row_nbytes, i >= 3 ? 100 : 0);
    }
}

LMC_TEST(test_params_that_are_refused)
{
    lmc_params params;
    lmc_info info = LMC_INIT(lmc_info);
    lmc_params_init(&params);
    CU_ASSERT_EQUAL(encode_with(&params, sizeof params + 1, &info), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(encode_with(&params, SIZE_MAX, &info), LMC_ERR_ARG);
    params.struct_size = sizeof(size_t) - 1;
    size_t bound;
    CU_ASSERT_EQUAL(lmc_encode_bound(&params, 10, &bound), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(bound, 0);
}

LMC_TEST(test_init_of_an_older_program)
{
    lmc_params params;
    memset(&params, 0xee, sizeof params);
    lmc_params_init_sized(&params, offsetof(lmc_params, block_log2));
    CU_ASSERT_EQUAL(params.struct_size, offsetof(lmc_params, block_log2));
    CU_ASSERT_EQUAL(params.dtype, LMC_DTYPE_U8);
    CU_ASSERT_EQUAL(params.level, LMC_LEVEL_DEFAULT);
    CU_ASSERT_EQUAL(params.block_log2, 0xeeeeeeee);
    memset(&params, 0xee, sizeof params);
    lmc_params_init_sized(&params,
                          sizeof params + 8); /* a newer program: the library cannot know its defaults */
    CU_ASSERT_EQUAL(params.struct_size, sizeof params + 8);
    CU_ASSERT_EQUAL(params.block_log2, 0xeeeeeeee);
}

/* What a call writes to an info that ends early; the bytes behind it must stay. */
static void check_info(size_t struct_size, const lmc_info *whole, const lmc_info *given)
{
    lmc_info expected;
    memset(&expected, 0xee, sizeof expected);
    memcpy(&expected, whole, struct_size);
    expected.struct_size = struct_size;
    CU_ASSERT_EQUAL(memcmp(given, &expected, sizeof expected), 0);
}

static lmc_info info_of(size_t struct_size)
{
    lmc_info info;
    memset(&info, 0xee, sizeof info);
    info.struct_size = struct_size;
    return info;
}

LMC_TEST(test_infos_of_an_older_program)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    lmc_ctx *const ctx = must_create_ctx();
    test_frame frame = frame_encode(ctx, &params, content, CONTENT_NBYTES);
    lmc_info whole = info_of(sizeof whole);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame.bytes, frame.nbytes, &whole, NULL), LMC_OK);
    lmc_frame *opened = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_frame_create(ctx, frame.bytes, whole.head_nbytes,
                                           frame.bytes + frame.nbytes - whole.tail_nbytes,
                                           (size_t)whole.tail_nbytes, frame.nbytes, &opened),
                          LMC_OK);
    for (size_t struct_size = sizeof(size_t); struct_size <= sizeof whole; struct_size++) {
        lmc_info info = info_of(struct_size);
        CU_ASSERT_EQUAL(lmc_frame_read_info(frame.bytes, frame.nbytes, &info, NULL), LMC_OK);
        check_info(struct_size, &whole, &info);
        info = info_of(struct_size);
        CU_ASSERT_EQUAL(lmc_frame_info(opened, &info), LMC_OK);
        check_info(struct_size, &whole, &info);
    }
    lmc_info newer = info_of(sizeof newer + 1);
    const lmc_info before = newer;
    lmc_diag diag = LMC_INIT(lmc_diag);
    CU_ASSERT_EQUAL(lmc_frame_read_info(frame.bytes, frame.nbytes, &newer, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(diag.status, LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_frame_info(opened, &newer), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(memcmp(&newer, &before, sizeof newer), 0);
    lmc_frame_free(opened);
    frame_free(&frame);
    lmc_ctx_free(ctx);
}

LMC_TEST(test_diagnostics_of_an_older_program)
{
    lmc_diag diag;
    lmc_info info = LMC_INIT(lmc_info);
    memset(&diag, 0xee, sizeof diag);
    diag.struct_size = offsetof(lmc_diag, offset);
    CU_ASSERT_EQUAL(lmc_frame_read_info(content, 3, &info, &diag), diag.status);
    CU_ASSERT_NOT_EQUAL(diag.status, LMC_OK);
    CU_ASSERT_EQUAL((unsigned char)diag.text[0], 0xee);
    diag.struct_size = sizeof diag + 1;
    CU_ASSERT_EQUAL(lmc_frame_read_info(content, 3, &info, &diag), LMC_ERR_ARG);
    lmc_ctx *const ctx = must_create_ctx();
    CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->struct_size, sizeof diag);
    lmc_ctx_free(ctx);
}

LMC_TEST(test_the_version_is_a_number)
{
    unsigned major, minor, patch;
    CU_ASSERT_EQUAL(sscanf(lmc_version_text(), "%u.%u.%u", &major, &minor, &patch), 3);
    CU_ASSERT_EQUAL(lmc_version_number(), major * 10000 + minor * 100 + patch);
    CU_ASSERT_EQUAL(lmc_version_number(), LMC_VERSION_NUMBER);
}

LMC_TEST_MAIN_WITH("struct_size",
                   (data_fill(content, CONTENT_NBYTES, LMC_DTYPE_BF16, DATA_WEIGHTS),
                    memory = guarded_open(4096)),
                   guarded_close(&memory))
