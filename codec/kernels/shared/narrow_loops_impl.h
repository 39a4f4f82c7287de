/*
 * narrow_loops_impl.h - wide elements from narrow ones and back, and products of scales and factors, as plain loops
 * that compilers turn into vector code. Conversions are done on bits, so that no mode of the processor that flushes
 * denormals or quiets NaN changes a result.
 */
#ifndef LMC_CODEC_KERNELS_SHARED_NARROW_LOOPS_IMPL_H
#define LMC_CODEC_KERNELS_SHARED_NARROW_LOOPS_IMPL_H

#include "codec/common/round16.h"

LMC_INLINE uint32_t bits_of_single(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

LMC_INLINE float single_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* What the exponent field of an F32 is larger by than that of an F16 of the same number. */
#define HALF_REBIAS (UINT32_C(112) << 23)

LMC_INLINE uint32_t single_of_half(uint32_t half)
{
    const uint32_t magnitude = half & 0x7fff;
    const uint32_t is_nan = magnitude > 0x7c00;
    const uint32_t normal = (magnitude << 13) + HALF_REBIAS;
    const uint32_t special = (normal + HALF_REBIAS) | is_nan << 22; /* a NaN becomes quiet */
    const uint32_t denormal = bits_of_single((float)(int32_t)(magnitude & 0x3ff) * 0x1p-24f);
    const uint32_t finite = magnitude < 0x400 ? denormal : normal;
    return (magnitude >= 0x7c00 ? special : finite) | (half & 0x8000) << 16;
}

/* To nearest, ties to even. A NaN keeps the top of its payload, unlike that of a base (lmc_round_to_f16()). */
LMC_INLINE uint32_t half_of_single(uint32_t single)
{
    const uint32_t magnitude = single & 0x7fffffff;
    const uint32_t normal = lmc_round_normal_to_f16(magnitude);
    /* the last place of 0.5 is the least denormal F16 */
    const float small = single_of_bits(magnitude < 0x38800000 ? magnitude : 0);
    const uint32_t denormal = bits_of_single(small + 0.5f) - 0x3f000000;
    const uint32_t special = magnitude > 0x7f800000 ? 0x7e00 | (magnitude >> 13 & 0x3ff) : 0x7c00;
    const uint32_t finite = magnitude < 0x38800000 ? denormal : normal;
    return (magnitude >= 0x477ff000 ? special : finite) | (single >> 16 & 0x8000);
}

LMC_INLINE uint64_t double_of_single(uint32_t single)
{
    const uint64_t magnitude = single & 0x7fffffff;
    const uint64_t rebias = (magnitude >= 0x7f800000 ? UINT64_C(1792) : UINT64_C(896)) << 52;
    const uint64_t wide = (magnitude << 29) + rebias;
    return (magnitude < 0x800000 ? 0 : wide) | (uint64_t)(single >> 31) << 63;
}

/* For numbers that are an F32. */
LMC_INLINE uint32_t single_of_double(uint64_t wide)
{
    const uint64_t magnitude = wide & ~(UINT64_C(1) << 63);
    const uint64_t rebias = (magnitude >= UINT64_C(2047) << 52 ? UINT64_C(1792) : UINT64_C(896)) << 52;
    const uint32_t narrow = (uint32_t)((magnitude - rebias) >> 29);
    return (magnitude == 0 ? 0 : narrow & 0x7fffffff) | (uint32_t)(wide >> 63) << 31;
}

LMC_INLINE uint32_t single_of_brain(uint32_t brain)
{
    return brain << 16;
}

LMC_INLINE uint32_t top_of_single(uint32_t single)
{
    return single >> 16;
}

#define DEFINE_CONVERSION(name, from_nbits, to_nbits, convert)                     \
    static void name(const uint8_t *restrict src, size_t n, uint8_t *restrict dst) \
    {                                                                              \
        for (size_t i = 0; i < n; i++) {                                           \
            uint##from_nbits##_t from;                                             \
            memcpy(&from, src + i * sizeof from, sizeof from);                     \
            const uint##to_nbits##_t to = (uint##to_nbits##_t)convert(from);       \
            memcpy(dst + i * sizeof to, &to, sizeof to);                           \
        }                                                                          \
    }

DEFINE_CONVERSION(widen_f16_in_f32, 16, 32, single_of_half)
DEFINE_CONVERSION(widen_bf16_in_f32, 16, 32, single_of_brain)
DEFINE_CONVERSION(widen_f32_in_f64, 32, 64, double_of_single)
DEFINE_CONVERSION(narrow_f16_in_f32, 32, 16, half_of_single)
DEFINE_CONVERSION(narrow_bf16_in_f32, 32, 16, top_of_single)
DEFINE_CONVERSION(narrow_f32_in_f64, 64, 32, single_of_double)

/* Products are looked up, then rounded, a few at a time. */
#define PRODUCTS_AT_ONCE 64

#define DEFINE_MULTIPLY(type, nbits, round)                                                                \
    LMC_INLINE void multiply_some_##type(const float *restrict factors, float scale,                       \
                                         const uint8_t *restrict numbers, size_t n, uint8_t *restrict dst) \
    {                                                                                                      \
        float product[PRODUCTS_AT_ONCE];                                                                   \
        uint##nbits##_t element[PRODUCTS_AT_ONCE];                                                         \
        for (size_t i = 0; i < n; i++)                                                                     \
            product[i] = factors[numbers[i]];                                                              \
        for (size_t i = 0; i < n; i++)                                                                     \
            element[i] = (uint##nbits##_t)round(bits_of_single(product[i] * scale));                       \
        memcpy(dst, element, n * sizeof element[0]);                                                       \
    }                                                                                                      \
    static void multiply_##type(const float *factors, float scale, const uint8_t *numbers, size_t n,       \
                                uint8_t *dst)                                                              \
    {                                                                                                      \
        size_t i = 0;                                                                                      \
        for (; i + PRODUCTS_AT_ONCE <= n; i += PRODUCTS_AT_ONCE)                                           \
            multiply_some_##type(factors, scale, numbers + i, PRODUCTS_AT_ONCE, dst + i * (nbits / 8));    \
        multiply_some_##type(factors, scale, numbers + i, n - i, dst + i * (nbits / 8));                   \
    }

LMC_INLINE uint32_t unrounded(uint32_t single)
{
    return single;
}

DEFINE_MULTIPLY(f32, 32, unrounded)
DEFINE_MULTIPLY(f16, 16, half_of_single)
DEFINE_MULTIPLY(bf16, 16, lmc_round_number_to_bf16)

#endif
