/* entropy.c - entropy of a histogram. */
#include "codec/common/entropy.h"

double lmc_entropy(const double *weight, size_t count)
{
    double total = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (weight[i] > 0) {
            total += weight[i];
            sum += weight[i] * lmc_log2(weight[i]);
        }
    }
    return total > 0 ? lmc_log2(total) - sum / total : 0;
}

/* lmc_log2() with a term less, for a float of 1 and more. */
LMC_INLINE float log2_of_float(float x)
{
    const int32_t half_sqrt2_bits = 0x3f3504f3;
    const float two_by_ln2 = 2.88539008f;
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int32_t exponent = (bits - half_sqrt2_bits) >> 23;
    bits -= (int32_t)((uint32_t)exponent << 23);
    memcpy(&x, &bits, sizeof x);
    const float t = (x - 1) / (x + 1);
    const float u = t * t;
    return (float)exponent + two_by_ln2 * t * (1 + u * (1 / 3.f + u * (1 / 5.f)));
}

/* Without a branch, a compiler makes a vector of so many lanes. */
#define LANES 4

double lmc_counts_entropy(const uint32_t *counts, size_t count, unsigned *used)
{
    float total[LANES] = {0}, sum[LANES] = {0};
    uint32_t unused[LANES] = {0};
    for (size_t i = 0; i < count; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            const uint32_t c = counts[i + k];
            const float x = 2 * (float)(int32_t)(c >> 1) +
                            (float)(int32_t)(c & 1); /* SSE converts signed integers only */
            const uint32_t is_zero = c == 0;
            total[k] += x;
            sum[k] += x * log2_of_float(x + (float)(int32_t)is_zero);
            unused[k] += is_zero;
        }
    }
    const double all = (double)total[0] + total[1] + total[2] + total[3];
    *used = (unsigned)count - (unused[0] + unused[1] + unused[2] + unused[3]);
    return all > 0 ? lmc_log2(all) - ((double)sum[0] + sum[1] + sum[2] + sum[3]) / all : 0;
}
