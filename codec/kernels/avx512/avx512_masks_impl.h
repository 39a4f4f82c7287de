/*
 * avx512_masks_impl.h - takes elements that are equal to the mask value out, and puts them back, for
 * kernels/avx512/avx512.c: comparison, compression and expansion of whole registers.
 */
#ifndef LMC_CODEC_KERNELS_AVX512_AVX512_MASKS_IMPL_H
#define LMC_CODEC_KERNELS_AVX512_AVX512_MASKS_IMPL_H

LMC_INLINE __m512i fill_with(const unsigned nbytes, uint64_t value)
{
    return nbytes == 1   ? _mm512_set1_epi8((char)value)
           : nbytes == 2 ? _mm512_set1_epi16((short)value)
           : nbytes == 4 ? _mm512_set1_epi32((int)value)
                         : _mm512_set1_epi64((long long)value);
}

LMC_INLINE uint64_t lanes_that_differ(const unsigned nbytes, __m512i x, __m512i y)
{
    return nbytes == 1   ? _mm512_cmpneq_epi8_mask(x, y)
           : nbytes == 2 ? _mm512_cmpneq_epi16_mask(x, y)
           : nbytes == 4 ? _mm512_cmpneq_epi32_mask(x, y)
                         : _mm512_cmpneq_epi64_mask(x, y);
}

LMC_INLINE __m512i compress_lanes(const unsigned nbytes, uint64_t lanes, __m512i x)
{
    return nbytes == 1   ? _mm512_maskz_compress_epi8(lanes, x)
           : nbytes == 2 ? _mm512_maskz_compress_epi16((__mmask32)lanes, x)
           : nbytes == 4 ? _mm512_maskz_compress_epi32((__mmask16)lanes, x)
                         : _mm512_maskz_compress_epi64((__mmask8)lanes, x);
}

LMC_INLINE __m512i expand_lanes(const unsigned nbytes, __m512i rest, uint64_t lanes, __m512i x)
{
    return nbytes == 1   ? _mm512_mask_expand_epi8(rest, lanes, x)
           : nbytes == 2 ? _mm512_mask_expand_epi16(rest, (__mmask32)lanes, x)
           : nbytes == 4 ? _mm512_mask_expand_epi32(rest, (__mmask16)lanes, x)
                         : _mm512_mask_expand_epi64(rest, (__mmask8)lanes, x);
}

LMC_INLINE size_t split_masked_elements(const unsigned nbytes, uint64_t value, const uint8_t *src, size_t n,
                                        uint64_t *mask, uint8_t *kept)
{
    const unsigned lane_count = 64 / nbytes;
    const __m512i frequent = fill_with(nbytes, value);
    const uint8_t *const first = kept;
    for (size_t i = 0; i < n; i += GROUP) {
        uint64_t differ = 0;
        for (size_t j = 0; j < GROUP && i + j < n; j += lane_count) {
            const size_t left = n - i - j;
            fetch(src + (i + j) * nbytes, AHEAD_ELEMENTS);
            const __m512i x = load_first(src + (i + j) * nbytes, left * nbytes);
            uint64_t lanes = lanes_that_differ(nbytes, x, frequent);
            if (LMC_UNLIKELY(left < lane_count))
                lanes &= lmc_low_mask((unsigned)left);
            _mm512_storeu_si512(kept, compress_lanes(nbytes, lanes, x));
            kept += lmc_popcount64(lanes) * nbytes;
            differ |= lanes << j;
        }
        mask[i / GROUP] = differ;
    }
    return (size_t)(kept - first) / nbytes;
}

LMC_INLINE size_t join_masked_elements(const unsigned nbytes, uint64_t value, const uint64_t *mask,
                                       const uint8_t *kept, size_t n, uint8_t *dst)
{
    const unsigned lane_count = 64 / nbytes;
    const __m512i frequent = fill_with(nbytes, value);
    const uint8_t *const first = kept;
    for (size_t i = 0; i < n; i += lane_count) {
        uint64_t lanes = mask[i / GROUP] >> i % GROUP & lmc_low_mask(lane_count);
        if (LMC_UNLIKELY(n - i < lane_count))
            lanes &= lmc_low_mask((unsigned)(n - i));
        store_first(dst + i * nbytes, expand_lanes(nbytes, frequent, lanes, _mm512_loadu_si512(kept)),
                    (n - i) * nbytes);
        kept += lmc_popcount64(lanes) * nbytes;
    }
    return (size_t)(kept - first) / nbytes;
}

#include "codec/kernels/shared/mask_widths.h"

#endif
