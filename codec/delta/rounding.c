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

/* Elements that are rounded to F16 at once. */
#define RUN 64

void lmc_base_round(lmc_base_form form, const void *base, size_t count, void *values)
{
    const uint8_t *const src = base;
    uint8_t *const dst = values;
    if (form == LMC_BASE_BF16_OF_F32)
        for (size_t i = 0; i < count; i++)
            lmc_store16(dst + 2 * i, lmc_round_to_bf16(lmc_load32(src + 4 * i)));
    if (form != LMC_BASE_F16_OF_F32 && form != LMC_BASE_F16_OF_BF16)
        return;
    for (size_t at = 0; at < count; at += RUN) {
        const size_t n = lmc_min_size(count - at, RUN);
        uint32_t bits[RUN];
        uint32_t is_other = 0;
        for (size_t i = 0; i < n; i++)
            bits[i] = form == LMC_BASE_F16_OF_F32 ? lmc_load32(src + 4 * (at + i))
                                                  : (uint32_t)lmc_load16(src + 2 * (at + i)) << 16;
        for (size_t i = 0; i < n; i++) {
            const uint32_t size = bits[i] & 0x7fffffffu;
            is_other |= (uint32_t)!lmc_is_normal_f16(size) & (uint32_t)(size != 0);
        }
        for (size_t i = 0; i < n && is_other; i++)
            lmc_store16(dst + 2 * (at + i), lmc_round_to_f16(bits[i]));
        /* most runs have normal numbers and zeros alone: no branch */
        for (size_t i = 0; i < n && !is_other; i++) {
            const uint32_t size = bits[i] & 0x7fffffffu;
            const uint32_t rounded = lmc_round_normal_to_f16(size);
            lmc_store16(dst + 2 * (at + i),
                        (uint16_t)((bits[i] >> 16 & 0x8000u) | (size != 0 ? rounded : 0)));
        }
    }
}
