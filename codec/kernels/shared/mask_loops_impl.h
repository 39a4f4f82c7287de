/*
 * mask_loops_impl.h - takes elements that are equal to the mask value out, and puts them back, as plain loops for
 * kernel sets that have nothing better. They have no branch, since no branch could be predicted.
 */
#ifndef LMC_CODEC_KERNELS_SHARED_MASK_LOOPS_IMPL_H
#define LMC_CODEC_KERNELS_SHARED_MASK_LOOPS_IMPL_H

LMC_INLINE size_t split_masked_elements(const unsigned nbytes, uint64_t value, const uint8_t *src, size_t n,
                                        uint64_t *mask, uint8_t *kept)
{
    const uint8_t *const first = kept;
    for (size_t i = 0; i < n; i += 64) {
        const size_t group = lmc_min_size(64, n - i);
        uint64_t differ = 0;
        for (size_t j = 0; j < group; j++) {
            uint64_t x = 0;
            memcpy(&x, src + (i + j) * nbytes, nbytes);
            const uint64_t differs = x != value;
            differ |= differs << j;
            memcpy(kept, &x, nbytes);
            kept += differs * nbytes;
        }
        mask[i / 64] = differ;
    }
    return (size_t)(kept - first) / nbytes;
}

LMC_INLINE size_t join_masked_elements(const unsigned nbytes, uint64_t value, const uint64_t *mask,
                                       const uint8_t *kept, size_t n, uint8_t *dst)
{
    const uint8_t *const first = kept;
    for (size_t i = 0; i < n; i++) {
        const uint64_t is_kept = mask[i / 64] >> i % 64 & 1;
        uint64_t x = 0;
        memcpy(&x, kept, nbytes);
        x = value ^ ((x ^ value) & (0 - is_kept));
        memcpy(dst + i * nbytes, &x, nbytes);
        kept += is_kept * nbytes;
    }
    return (size_t)(kept - first) / nbytes;
}

#include "codec/kernels/shared/mask_widths.h"

#endif
