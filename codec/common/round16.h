/*
 * round16.h - an F32 rounded to BF16 and F16, on bits: to nearest, ties to even. A NaN is the caller's: those of a
 * base lose their payload (format.md, section 8.1), those of elements keep it (section 4.2).
 */
#ifndef LMC_CODEC_COMMON_ROUND16_H
#define LMC_CODEC_COMMON_ROUND16_H

#include "common/compiler.h"

/* To BF16; not for NaN. */
LMC_INLINE uint32_t lmc_round_number_to_bf16(uint32_t bits)
{
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

/* To F16, without the sign; for 2^-14 to 2^16. */
LMC_INLINE uint32_t lmc_round_normal_to_f16(uint32_t size)
{
    return (size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13;
}

#endif
