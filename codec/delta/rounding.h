/*
 * rounding.h - bases of a wider or another dtype: their elements, rounded, are the values that content is compared with
 * (docs/format.md, section 8.1).
 */
#ifndef LMC_CODEC_DELTA_ROUNDING_H
#define LMC_CODEC_DELTA_ROUNDING_H

#include "codec/common/bits.h"
#include "codec/common/round16.h"
#include "lmc_experimental.h"

/* Bytes of the base for each byte of content. */
LMC_INLINE unsigned lmc_base_scale(lmc_base_form form)
{
    const lmc_rounding *const rounding = lmc_base_rounding(form);
    return rounding ? rounding->scale : 1;
}

/* An F32 rounded to BF16: to nearest, ties to even. NaN keeps its sign and becomes 7fc0. */
LMC_INLINE uint16_t lmc_round_to_bf16(uint32_t bits)
{
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16 & 0x8000u) | 0x7fc0u);
    return (uint16_t)lmc_round_number_to_bf16(bits);
}

/* 1 if an F32 without its sign is 2^-14 to 2^16: a normal F16, or one that is rounded to infinity. */
LMC_INLINE int lmc_is_normal_f16(uint32_t size)
{
    return size - 0x38800000u < 0x47800000u - 0x38800000u;
}

/* An F32 rounded to F16 likewise; what is too large becomes infinity, NaN 7e00. */
LMC_INLINE uint16_t lmc_round_to_f16(uint32_t bits)
{
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (lmc_is_normal_f16(size))
        return (uint16_t)(sign | lmc_round_normal_to_f16(size));
    if (size >= 0x47800000u)
        return (uint16_t)(sign | 0x7c00u);
    const unsigned shift = 126 - (size >> 23); /* to units of 2^-24 */
    if (shift > 24)
        return (uint16_t)sign;
    const uint32_t mantissa = (size & 0x7fffffu) | 0x800000u;
    return (uint16_t)(sign | ((mantissa + (1u << (shift - 1)) - 1 + (mantissa >> shift & 1)) >> shift));
}

#endif
