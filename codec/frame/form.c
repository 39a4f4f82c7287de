/* form.c - what the elements of a tensor were found to be, as the public interface says it of plans and frames. */
#include <stdio.h>

#include "codec/frame/decode.h"
#include "codec/frame/encode.h"
#include "codec/frame/head_tail.h"
#include "common/abi.h"
#include "lmc_experimental.h"

_Static_assert(LMC_FORM_PALETTE == LMC_FMT_NARROW_PALETTE + 1, "forms are in the order of the format");
_Static_assert(LMC_FORM_NBYTES == LMC_FMT_HEAD_NBYTES + LMC_NARROW_FIELDS_NBYTES_MAX,
               "narrow fields are the first of a plan");

static lmc_status give_form(const lmc_narrow *narrow, uint32_t features, lmc_form_info *given)
{
    static const char *const floats[] = {"F16 in F32", "BF16 in F32", "F32 in F64"};
    static const char *const factors[] = {"I8", "I8", "F8_E4M3", "F8_E5M2", "a listed factor"};
    lmc_form_info found = {.form = LMC_FORM_PLAIN, .has_rans = (features & LMC_FMT_FEATURE_RANS) != 0};
    if (!lmc_struct_is_known(given, sizeof *given))
        return LMC_ERR_ARG;
    if (features & LMC_FMT_FEATURE_NARROW) {
        const unsigned length = narrow->group_length;
        found.form = (lmc_form)(narrow->form + 1);
        found.group_length = length;
        if (narrow->form < LMC_FMT_NARROW_PRODUCT)
            snprintf(found.text, sizeof found.text, "%s", floats[narrow->form]);
        else if (narrow->form == LMC_FMT_NARROW_PRODUCT)
            snprintf(found.text, sizeof found.text, "%s times a scale per %u values",
                     factors[narrow->factor_kind], length);
        else
            snprintf(found.text, sizeof found.text, "a palette");
    }
    lmc_struct_copy(given, &found, lmc_struct_size(given));
    return LMC_OK;
}

lmc_status lmc_plan_form(const lmc_plan *plan, lmc_form_info *form)
{
    return give_form(&plan->choice.narrow, lmc_head_features(&plan->info, plan->head), form);
}

lmc_status lmc_frame_form(const lmc_frame *frame, lmc_form_info *form)
{
    const uint32_t features = (frame->narrow.is_used ? LMC_FMT_FEATURE_NARROW : 0) |
                              (frame->coding.rans ? LMC_FMT_FEATURE_RANS : 0);
    return give_form(&frame->narrow, features, form);
}

/* Reads head and narrow fields. */
static lmc_status read_form(const uint8_t *start, size_t nbytes, lmc_narrow *narrow, uint32_t *features,
                            lmc_diag *diag)
{
    lmc_info info;
    LMC_TRY(lmc_head_read(start, nbytes, &info, diag));
    *features = lmc_head_features(&info, start);
    if ((*features & LMC_FMT_FEATURE_NARROW) == 0)
        return LMC_OK;
    const size_t wanted = lmc_min_size(info.head_nbytes, LMC_FORM_NBYTES);
    if (nbytes < wanted)
        return lmc_fail(diag, LMC_ERR_TRUNCATED, nbytes, "frame: shorter than its plan");
    lmc_reader reader = {start + LMC_FMT_HEAD_NBYTES, start + wanted, 0};
    return lmc_diag_shift(diag, lmc_narrow_read(&reader, info.element_nbytes, narrow, diag),
                          LMC_FMT_HEAD_NBYTES);
}

lmc_status lmc_frame_read_form(const void *frame, size_t nbytes, lmc_form_info *form, lmc_diag *diag)
{
    lmc_diag cause = {.status = LMC_OK};
    lmc_narrow narrow = {.is_used = 0};
    uint32_t features = 0;
    lmc_status status = LMC_OK;
    if (diag && !lmc_struct_is_known(diag, sizeof *diag))
        return LMC_ERR_ARG;
    if (!form || (!frame && nbytes > 0))
        status = lmc_fail(&cause, LMC_ERR_ARG, 0, "a required pointer is NULL");
    else if (!lmc_struct_is_known(form, sizeof *form))
        status = lmc_fail(&cause, LMC_ERR_ARG, 0, "the form is not initialised, or of a newer version");
    else
        status = read_form(frame, nbytes, &narrow, &features, &cause);
    if (form && lmc_struct_is_known(form, sizeof *form))
        (void)give_form(&narrow, status == LMC_OK ? features : 0, form);
    if (diag)
        lmc_struct_copy(diag, &cause, lmc_struct_size(diag));
    return status;
}
