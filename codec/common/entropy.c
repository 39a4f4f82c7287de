/* entropy.c - entropy of a histogram. */
#include "codec/common/entropy.h"

/* log2(1 + i / 64) */
const double lmc_log2_table[65] = {
    0.0000000000, 0.0223678130, 0.0443941194, 0.0660891905, 0.0874628413, 0.1085244568, 0.1292830169,
    0.1497471195, 0.1699250014, 0.1898245589, 0.2094533656, 0.2288186905, 0.2479275134, 0.2667865407,
    0.2854022189, 0.3037807482, 0.3219280949, 0.3398500029, 0.3575520046, 0.3750394313, 0.3923174228,
    0.4093909361, 0.4262647547, 0.4429434958, 0.4594316186, 0.4757334310, 0.4918530963, 0.5077946402,
    0.5235619561, 0.5391588111, 0.5545888517, 0.5698556083, 0.5849625007, 0.5999128422, 0.6147098441,
    0.6293566201, 0.6438561898, 0.6582114828, 0.6724253420, 0.6865005272, 0.7004397181, 0.7142455177,
    0.7279204546, 0.7414669864, 0.7548875022, 0.7681843248, 0.7813597135, 0.7944158664, 0.8073549221,
    0.8201789624, 0.8328900142, 0.8454900509, 0.8579809951, 0.8703647196, 0.8826430494, 0.8948177633,
    0.9068905956, 0.9188632373, 0.9307373376, 0.9425145053, 0.9541963104, 0.9657842847, 0.9772799235,
    0.9886846868, 1.0000000000};

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
