/*
 * checked.h - arithmetic on sizes that come from outside. Every function returns 1 on overflow and 0 otherwise. The
 * compiler warns if that result is not looked at.
 */
#ifndef LMC_COMMON_CHECKED_H
#define LMC_COMMON_CHECKED_H

#include "common/compiler.h"

#define LMC_CHECKED static inline __attribute__((always_inline, warn_unused_result))

LMC_CHECKED int lmc_add_overflows(uint64_t a, uint64_t b, uint64_t *sum)
{
    return __builtin_add_overflow(a, b, sum);
}

LMC_CHECKED int lmc_multiply_overflows(uint64_t a, uint64_t b, uint64_t *product)
{
    return __builtin_mul_overflow(a, b, product);
}

/* Bytes of `count` elements as a size_t, which is narrower than uint64_t on a 32-bit machine. */
LMC_CHECKED int lmc_size_overflows(uint64_t count, size_t element_nbytes, size_t *nbytes)
{
    return __builtin_mul_overflow(count, element_nbytes, nbytes);
}

#endif
