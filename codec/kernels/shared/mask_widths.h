/*
 * mask_widths.h - defines the kernels mask_split and mask_join for each width by split_masked_elements() and
 * join_masked_elements() of the including file.
 */
#ifndef LMC_CODEC_KERNELS_SHARED_MASK_WIDTHS_H
#define LMC_CODEC_KERNELS_SHARED_MASK_WIDTHS_H

#define DEFINE_MASK_WIDTH(nbytes)                                                                         \
    static size_t mask_split_##nbytes(uint64_t value, const uint8_t *src, size_t n, uint64_t *mask,       \
                                      uint8_t *kept)                                                      \
    {                                                                                                     \
        return split_masked_elements(nbytes, value, src, n, mask, kept);                                  \
    }                                                                                                     \
    static size_t mask_join_##nbytes(uint64_t value, const uint64_t *mask, const uint8_t *kept, size_t n, \
                                     uint8_t *dst)                                                        \
    {                                                                                                     \
        return join_masked_elements(nbytes, value, mask, kept, n, dst);                                   \
    }

DEFINE_MASK_WIDTH(1)
DEFINE_MASK_WIDTH(2)
DEFINE_MASK_WIDTH(4)
DEFINE_MASK_WIDTH(8)

#endif
