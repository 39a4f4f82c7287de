/*
 * entropy.h - logarithms and entropy in plain arithmetic. The encoder decides by them, and libm's log2 differs from
 * system to system; these give the same bytes everywhere.
 */
#ifndef LMC_CODEC_COMMON_ENTROPY_H
#define LMC_CODEC_COMMON_ENTROPY_H

#include "common/compiler.h"

/* How far lmc_log2() and lmc_entropy() may be off. */
#define LMC_LOG2_ERROR_MAX 1e-7

/* log2 of a positive x that is not denormal, by the series of the inverse hyperbolic tangent for a mantissa around 1.
 * Exact for powers of two. */
LMC_INLINE double lmc_log2(double x)
{
    const uint64_t half_sqrt2_bits = 0x3fe6a09e667f3bcd; /* mantissas lie between this and sqrt(2) */
    const double two_by_ln2 = 2.8853900817779268;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int64_t exponent = (int64_t)(bits - half_sqrt2_bits) >> 52;
    bits -= (uint64_t)exponent << 52;
    memcpy(&x, &bits, sizeof x);
    const double t = (x - 1) / (x + 1);
    const double u = t * t;
    return (double)exponent + two_by_ln2 * t * (1 + u * (1 / 3. + u * (1 / 5. + u * (1 / 7.))));
}

/* log2 of a positive x that is not denormal, to within LMC_LOG2_NEAR_ERROR_MAX: a line between entries of a table. */
#define LMC_LOG2_NEAR_ERROR_MAX 5e-5
extern const double lmc_log2_table[65];

LMC_INLINE double lmc_log2_near(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const double *const entry = &lmc_log2_table[bits >> 46 & 63];
    const double part =
        (double)(int64_t)(bits & ((UINT64_C(1) << 46) - 1)) * (1 / 70368744177664.); /* 2^-46 */
    return (double)((int)(bits >> 52) - 1023) + entry[0] + part * (entry[1] - entry[0]);
}

/* 2^n for -1022 <= n <= 1023. */
LMC_INLINE double lmc_power_of_2(int n)
{
    const uint64_t bits = (uint64_t)(n + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* How far lmc_exp2() may be off, as a share of the result. */
#define LMC_EXP2_ERROR_MAX 1e-6

/* 2^x by a series for the fraction; 0 below x = -1000. Precondition: x <= 0. */
LMC_INLINE double lmc_exp2(double x)
{
    const double least = -1000, ln2 = 0.69314718055994531;
    const int n = x > least ? (int)(x - 0.5) : (int)least; /* to the nearest */
    const double t = ((x > least ? x : least) - n) * ln2;
    const double series =
        1 + t * (1 + t * (1 / 2. + t * (1 / 6. + t * (1 / 24. + t * (1 / 120. + t * (1 / 720.))))));
    return x > least ? series * lmc_power_of_2(n) : 0;
}

/* Entropy of `count` counts, a multiple of 4, in bits a symbol. *used: how many counts are not 0. It is quick, and
 * may be off by LMC_COUNTS_ENTROPY_ERROR_MAX. */
#define LMC_COUNTS_ENTROPY_ERROR_MAX 2e-5
double lmc_counts_entropy(const uint32_t *counts, size_t count, unsigned *used);

/* Entropy of the weights (0 or at least 1e-300) in bits a symbol. */
double lmc_entropy(const double *weight, size_t count);

#endif
