/*
 * rounding.c - lmc_experimental.h: what the forms of a base round.
 */
#include "codec/delta/rounding.h"

#include "codec/common/format.h"

_Static_assert(LMC_BASE_PLAIN == LMC_FMT_BASE_PLAIN && LMC_BASE_BF16_OF_F32 == LMC_FMT_BASE_BF16_OF_F32 &&
                   LMC_BASE_F16_OF_F32 == LMC_FMT_BASE_F16_OF_F32 &&
                   LMC_BASE_F16_OF_BF16 == LMC_FMT_BASE_F16_OF_BF16,
               "the numbers stand in frames");

const lmc_rounding *lmc_base_rounding(lmc_base_form form)
{
    static const lmc_rounding roundings[LMC_BASE_FORM_COUNT] = {
        [LMC_BASE_BF16_OF_F32] = {LMC_DTYPE_BF16, LMC_DTYPE_F32, 2},
        [LMC_BASE_F16_OF_F32] = {LMC_DTYPE_F16, LMC_DTYPE_F32, 2},
        [LMC_BASE_F16_OF_BF16] = {LMC_DTYPE_F16, LMC_DTYPE_BF16, 1}};
    return (unsigned)form < LMC_BASE_FORM_COUNT && form != LMC_BASE_PLAIN ? &roundings[form] : NULL;
}

void lmc_base_round(lmc_base_form form, const void *base, size_t count, void *values)
{
    const uint8_t *const src = base;
    uint8_t *const dst = values;
    switch (form) {
    case LMC_BASE_PLAIN: break;
    case LMC_BASE_BF16_OF_F32:
        for (size_t i = 0; i < count; i++)
            lmc_store16(dst + 2 * i, lmc_round_to_bf16(lmc_load32(src + 4 * i)));
        break;
    case LMC_BASE_F16_OF_F32:
        for (size_t i = 0; i < count; i++)
            lmc_store16(dst + 2 * i, lmc_round_to_f16(lmc_load32(src + 4 * i)));
        break;
    case LMC_BASE_F16_OF_BF16:
        for (size_t i = 0; i < count; i++)
            lmc_store16(dst + 2 * i, lmc_round_to_f16((uint32_t)lmc_load16(src + 2 * i) << 16));
        break;
    }
}
