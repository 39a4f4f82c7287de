/*
 * checked.h - arithmetic on sizes that come from outside. Every function returns 1 on overflow, and the
 * compiler refuses to let that answer go unread.
 */
#ifndef LMC_CODEC_COMMON_CHECKED_H
#define LMC_CODEC_COMMON_CHECKED_H

#include "codec/common/common.h"

#define LMC_CHECKED static inline __attribute__((always_inline, warn_unused_result))

LMC_CHECKED int lmc_add_overflows(uint64_t a, uint64_t b, uint64_t *sum)
{
    return __builtin_add_overflow(a, b, sum);
}

LMC_CHECKED int lmc_mul_overflows(uint64_t a, uint64_t b, uint64_t *product)
{
    return __builtin_mul_overflow(a, b, product);
}

/* Bytes of `count` elements, as what an allocator takes: on a 32-bit machine that is less than uint64_t. */
LMC_CHECKED int lmc_size_overflows(uint64_t count, size_t element_nbytes, size_t *nbytes)
{
    return __builtin_mul_overflow(count, element_nbytes, nbytes);
}

#endif
