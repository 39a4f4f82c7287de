/*
 * registers.h - loads and stores of one and of two registers, for the sets avx2 and avx2-nopext.
 */
#ifndef LMC_CODEC_KERNELS_AVX2_REGISTERS_H
#define LMC_CODEC_KERNELS_AVX2_REGISTERS_H

#include "codec/kernels/shared/vectors.h"

LMC_INLINE __m256i load256(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

LMC_INLINE void store256(void *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

/* 64 bytes in two registers. */
typedef struct bytes64 {
    __m256i half[2];
} bytes64;

LMC_INLINE bytes64 load_bytes64(const void *p)
{
    return (bytes64){{load256(p), load256((const uint8_t *)p + 32)}};
}

LMC_INLINE void store_bytes64(void *p, bytes64 v)
{
    store256(p, v.half[0]);
    store256((uint8_t *)p + 32, v.half[1]);
}

/* Bit 7 of each byte. */
LMC_INLINE uint64_t top_bits(__m256i v0, __m256i v1)
{
    return (uint32_t)_mm256_movemask_epi8(v0) | (uint64_t)(uint32_t)_mm256_movemask_epi8(v1) << 32;
}

#endif
