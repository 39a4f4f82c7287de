/* test_form.c - what plans, opened frames and the first bytes of frames say of the form of a tensor. */
#include "lmc_test_frame.h"

#include <lmc_experimental.h>

#define VALUE_COUNT 20000
#define GROUP_LENGTH 200

static uint8_t content[4 * VALUE_COUNT];

/* Denormals of F16 in F32; integers times a scale for each group, whose largest is 127; weights. */
static void fill(lmc_form form)
{
    data_fill(content, sizeof content, LMC_DTYPE_F32, DATA_WEIGHTS);
    for (size_t i = 0; i < VALUE_COUNT && form != LMC_FORM_PLAIN; i++) {
        const float scale = 1.37f + (float)(i / GROUP_LENGTH) * 0.011f;
        const float factor =
            i % GROUP_LENGTH == 0 ? 127 : (float)random_geometric() * 8 + (float)random_below(8);
        const float half = 0x1p-24f * (float)((int)random_below(2000) - 1000);
        const float value = form == LMC_FORM_PRODUCT ? scale * factor : half;
        memcpy(content + 4 * i, &value, sizeof value);
    }
}

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    memcpy(dst, (const uint8_t *)user + offset, nbytes);
    return LMC_OK;
}

static int forms_are_equal(const lmc_form_info *a, const lmc_form_info *b)
{
    return a->form == b->form && a->group_length == b->group_length && strcmp(a->text, b->text) == 0 &&
           a->has_rans == b->has_rans;
}

/* The start of a frame tells its form if it is as long as it must be. */
static void check_starts(const test_frame *frame, const lmc_form_info *expected)
{
    const size_t nbytes_max = frame->nbytes < LMC_FORM_NBYTES ? frame->nbytes : LMC_FORM_NBYTES;
    guarded memory = guarded_open(LMC_FORM_NBYTES);
    for (size_t nbytes = 0; nbytes <= nbytes_max; nbytes++) {
        lmc_diag diag = LMC_INIT(lmc_diag);
        lmc_form_info form = LMC_INIT(lmc_form_info);
        const uint8_t *const start = guarded_copy(&memory, frame->bytes, nbytes);
        const lmc_status status = lmc_frame_read_form(start, nbytes, &form, &diag);
        CU_ASSERT(status == LMC_OK || (status == LMC_ERR_TRUNCATED && nbytes < nbytes_max));
        CU_ASSERT_EQUAL(diag.status, status);
        CU_ASSERT(status != LMC_OK ? form.form == LMC_FORM_PLAIN && form.text[0] == '\0'
                                   : forms_are_equal(&form, expected));
    }
    guarded_close(&memory);
}

static lmc_form_info check_form(const lmc_params *params, size_t nbytes, const uint8_t *base)
{
    lmc_ctx *const ctx = must_create_ctx();
    lmc_info info = LMC_INIT(lmc_info);
    lmc_form_info of_plan = LMC_INIT(lmc_form_info), of_frame = LMC_INIT(lmc_form_info);
    lmc_plan *plan = NULL;
    lmc_frame *opened = NULL;
    CU_ASSERT_EQUAL_FATAL(
        lmc_plan_create_delta(ctx, params, nbytes, read_content, base ? read_content : NULL, content, &plan),
        LMC_OK);
    CU_ASSERT_EQUAL(lmc_plan_form(plan, &of_plan), LMC_OK);
    test_frame frame = frame_encode_against(ctx, params, content, nbytes, base);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame.bytes, frame.nbytes, &info, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_create(ctx, frame.bytes, info.head_nbytes,
                                           frame.bytes + frame.nbytes - info.tail_nbytes,
                                           (size_t)info.tail_nbytes, frame.nbytes, &opened),
                          LMC_OK);
    CU_ASSERT_EQUAL(lmc_frame_form(opened, &of_frame), LMC_OK);
    CU_ASSERT(forms_are_equal(&of_plan, &of_frame));
    check_starts(&frame, &of_frame);
    const uint8_t features = info.mode == LMC_FRAME_SHORT ? 0 : frame.bytes[8];
    CU_ASSERT_EQUAL(of_frame.has_rans, (features & LMC_FMT_FEATURE_RANS) != 0);
    CU_ASSERT_EQUAL(of_frame.form != LMC_FORM_PLAIN, (features & LMC_FMT_FEATURE_NARROW) != 0);
    lmc_frame_free(opened);
    lmc_plan_free(plan);
    frame_free(&frame);
    lmc_ctx_free(ctx);
    return of_frame;
}

LMC_TEST(test_forms)
{
    static const lmc_form forms[] = {LMC_FORM_PLAIN, LMC_FORM_F16_IN_F32, LMC_FORM_PRODUCT};
    static const char *const texts[] = {"", "F16 in F32", "I8 times a scale per 200 values"};
    for (size_t i = 0; i < 3; i++) {
        lmc_params params = frame_params(LMC_DTYPE_F32, LMC_LEVEL_DEFAULT, 0);
        params.row_nbytes = 4 * GROUP_LENGTH;
        fill(forms[i]);
        const lmc_form_info form = check_form(&params, sizeof content, NULL);
        CU_ASSERT_EQUAL(form.form, forms[i]);
        CU_ASSERT_STRING_EQUAL(form.text, texts[i]);
        CU_ASSERT_EQUAL(form.group_length, forms[i] == LMC_FORM_PRODUCT ? GROUP_LENGTH : 0);
        CU_ASSERT_EQUAL(check_form(&params, sizeof content, content).form, LMC_FORM_PLAIN); /* a delta */
        CU_ASSERT_EQUAL(check_form(&params, 200, NULL).form, LMC_FORM_PLAIN);               /* short */
    }
}

/* A dozen symbols, and three quarters are one of them: it takes less than the one bit of a prefix code. */
LMC_TEST(test_rans)
{
    const lmc_params params = frame_params(LMC_DTYPE_I8, LMC_LEVEL_MAX, 0);
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (uint8_t)(random_geometric() == 0 ? 0 : random_geometric());
    const lmc_form_info form = check_form(&params, sizeof content, NULL);
    CU_ASSERT(form.has_rans && form.form == LMC_FORM_PLAIN);
}

LMC_TEST(test_arguments)
{
    const lmc_params params = frame_params(LMC_DTYPE_F32, LMC_LEVEL_DEFAULT, 0);
    lmc_ctx *const ctx = must_create_ctx();
    lmc_diag diag = LMC_INIT(lmc_diag);
    fill(LMC_FORM_F16_IN_F32);
    test_frame frame = frame_encode(ctx, &params, content, sizeof content);
    lmc_form_info form = {.struct_size = offsetof(lmc_form_info, text), .text = "left"};
    CU_ASSERT_EQUAL(lmc_frame_read_form(frame.bytes, frame.nbytes, &form, NULL), LMC_OK);
    CU_ASSERT_EQUAL(form.form, LMC_FORM_F16_IN_F32);
    CU_ASSERT_STRING_EQUAL(form.text, "left");
    form.struct_size = sizeof form + 1;
    CU_ASSERT_EQUAL(lmc_frame_read_form(frame.bytes, frame.nbytes, &form, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(diag.status, LMC_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(form.text, "left");
    form.struct_size = sizeof form;
    CU_ASSERT_EQUAL(lmc_frame_read_form(NULL, 1, &form, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_frame_read_form(frame.bytes, frame.nbytes, NULL, NULL), LMC_ERR_ARG);
    frame.bytes[LMC_FMT_HEAD_NBYTES] = 99; /* a form of the future */
    CU_ASSERT_EQUAL(lmc_frame_read_form(frame.bytes, frame.nbytes, &form, &diag), LMC_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(diag.offset, LMC_FMT_HEAD_NBYTES);
    frame.bytes[LMC_FMT_HEAD_NBYTES] = LMC_FMT_NARROW_F32_IN_F64;
    CU_ASSERT_EQUAL(lmc_frame_read_form(frame.bytes, frame.nbytes, &form, NULL), LMC_ERR_CORRUPT);
    frame_free(&frame);
    lmc_ctx_free(ctx);
}

LMC_TEST_MAIN("form")
