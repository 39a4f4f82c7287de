/*
 * even_bits.h - the even bits of a word and its lower half, by shifts: two of the operations that
 * shared/hierarchy_loops_impl.h asks for (Warren, Hacker's Delight 7-2).
 */
#ifndef LMC_CODEC_KERNELS_SHARED_EVEN_BITS_H
#define LMC_CODEC_KERNELS_SHARED_EVEN_BITS_H

#include "codec/kernels/kernels.h"

LMC_INLINE uint64_t gather_even(uint64_t x)
{
    x &= EVEN_BITS;
    x = (x | x >> 1) & UINT64_C(0x3333333333333333);
    x = (x | x >> 2) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    x = (x | x >> 4) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x | x >> 8) & UINT64_C(0x0000ffff0000ffff);
    return (x | x >> 16) & UINT64_C(0x00000000ffffffff);
}

LMC_INLINE uint64_t scatter_even(uint64_t x)
{
    x &= UINT64_C(0x00000000ffffffff);
    x = (x | x << 16) & UINT64_C(0x0000ffff0000ffff);
    x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x | x << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    x = (x | x << 2) & UINT64_C(0x3333333333333333);
    return (x | x << 1) & EVEN_BITS;
}

#endif
