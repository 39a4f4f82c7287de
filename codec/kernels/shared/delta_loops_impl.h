/*
 * delta_loops_impl.h - deltas as plain loops over groups of 64 elements. The including set has defined
 * find_classes(delta, keys, n, counts), which replaces the keys of a strip by their classes and counts these. The loops
 * do one thing at a time: compilers turn that into vector code for the target in force. Whole groups are read and
 * written in place, since a copy of a group costs more than the work on it.
 */
#ifndef LMC_CODEC_KERNELS_SHARED_DELTA_LOOPS_IMPL_H
#define LMC_CODEC_KERNELS_SHARED_DELTA_LOOPS_IMPL_H

#define DELTA_GROUP 64

/* ---- differences: zigzag numbers, 0, -1, 1, -2, ... become 0, 1, 2, 3, ... ---- */

#define DEFINE_DELTA(nbits)                                                                                 \
    LMC_INLINE uint##nbits##_t load_##nbits(const uint8_t *p, size_t i)                                     \
    {                                                                                                       \
        uint##nbits##_t x;                                                                                  \
        memcpy(&x, p + i * sizeof x, sizeof x);                                                             \
        return x;                                                                                           \
    }                                                                                                       \
    LMC_INLINE uint##nbits##_t difference_##nbits(const unsigned transform, uint##nbits##_t x,              \
                                                  uint##nbits##_t b)                                        \
    {                                                                                                       \
        const uint##nbits##_t magnitude = (uint##nbits##_t) ~0ull >> 1;                                     \
        const uint##nbits##_t d = (uint##nbits##_t)(x - b);                                                 \
        const uint##nbits##_t twice = (uint##nbits##_t)(d << 1); /* the sign of a magnitude drops out */    \
        const uint##nbits##_t top = transform == LMC_FMT_DELTA_MAGNITUDE ? twice : d;                       \
        const uint##nbits##_t sign = (uint##nbits##_t)(UINT64_C(0) - (uint64_t)(top >> (nbits - 1)));       \
        if (transform == LMC_FMT_DELTA_XOR)                                                                 \
            return (uint##nbits##_t)(x ^ b);                                                                \
        return (uint##nbits##_t)(                                                                           \
            (twice ^ sign) & (transform == LMC_FMT_DELTA_MAGNITUDE ? magnitude : (uint##nbits##_t) ~0ull)); \
    }                                                                                                       \
    LMC_INLINE uint16_t high_##nbits(const unsigned transform, uint##nbits##_t z, uint##nbits##_t x,        \
                                     uint##nbits##_t b)                                                     \
    {                                                                                                       \
        if (transform != LMC_FMT_DELTA_MAGNITUDE)                                                           \
            return (uint16_t)z;                                                                             \
        return (uint16_t)((z & 0x7fff) | (uint##nbits##_t)(x ^ b) >> (nbits - 1) << 15);                    \
    }                                                                                                       \
    LMC_INLINE uint##nbits##_t restored_##nbits(const unsigned transform, uint##nbits##_t z, uint16_t high, \
                                                uint##nbits##_t b)                                          \
    {                                                                                                       \
        const uint##nbits##_t magnitude = (uint##nbits##_t) ~0ull >> 1;                                     \
        const uint##nbits##_t sign = (uint##nbits##_t)(UINT64_C(0) - (uint64_t)(z & 1));                    \
        const uint##nbits##_t sum = (uint##nbits##_t)(b + (uint##nbits##_t)((z >> 1) ^ sign));              \
        const uint##nbits##_t flip = (uint##nbits##_t)((uint##nbits##_t)(high >> 15) << (nbits - 1));       \
        if (transform == LMC_FMT_DELTA_XOR)                                                                 \
            return (uint##nbits##_t)(b ^ z);                                                                \
        if (transform == LMC_FMT_DELTA_DIFFERENCE)                                                          \
            return sum;                                                                                     \
        return (uint##nbits##_t)((sum & magnitude) | ((b ^ flip) & (uint##nbits##_t) ~magnitude));          \
    }                                                                                                       \
    LMC_INLINE void take_keys_##nbits(const lmc_delta *delta, const uint8_t *base, uint8_t *restrict keys)  \
    {                                                                                                       \
        const uint##nbits##_t used =                                                                        \
            (uint##nbits##_t) ~0ull >> (delta->transform == LMC_FMT_DELTA_MAGNITUDE);                       \
        const unsigned shift = delta->key_shift;                                                            \
        for (size_t i = 0; i < DELTA_GROUP; i++)                                                            \
            keys[i] = (uint8_t)((load_##nbits(base, i) & used) >> shift);                                   \
    }                                                                                                       \
    static void classify_##nbits(const lmc_delta *delta, const uint8_t *base, size_t n, uint8_t *classes,   \
                                 size_t *counts)                                                            \
    {                                                                                                       \
        size_t g = 0;                                                                                       \
        for (; g + DELTA_GROUP <= n; g += DELTA_GROUP) {                                                    \
            for (size_t k = 0; k < nbits / 8; k++)                                                          \
                LMC_PREFETCH(base + (g + LMC_STRIP_VALUES) * (nbits / 8) + 64 * k);                         \
            take_keys_##nbits(delta, base + g * (nbits / 8), classes + g);                                  \
        }                                                                                                   \
        if (g < n) {                                                                                        \
            uint8_t last[DELTA_GROUP * (nbits / 8)] = {0};                                                  \
            memcpy(last, base + g * (nbits / 8), (n - g) * (nbits / 8));                                    \
            take_keys_##nbits(delta, last, classes + g);                                                    \
        }                                                                                                   \
        find_classes(delta, classes, n, counts);                                                            \
    }                                                                                                       \
    /* Returns the bits above the lower bytes that some difference has. */                                  \
    LMC_INLINE uint##nbits##_t split_group_##nbits(                                                         \
        const unsigned transform, const unsigned low_nbytes, const uint8_t *src, const uint8_t *base,       \
        uint16_t *restrict high, uint8_t low[LMC_FMT_PLANE_COUNT_MAX][DELTA_GROUP])                         \
    {                                                                                                       \
        const unsigned shift = 8 * low_nbytes;                                                              \
        uint##nbits##_t z[DELTA_GROUP];                                                                     \
        uint##nbits##_t all = 0;                                                                            \
        for (size_t i = 0; i < DELTA_GROUP; i++)                                                            \
            z[i] = difference_##nbits(transform, load_##nbits(src, i), load_##nbits(base, i));              \
        for (unsigned j = 0; j < low_nbytes; j++)                                                           \
            for (size_t i = 0; i < DELTA_GROUP; i++)                                                        \
                low[j][i] = (uint8_t)(z[i] >> (shift - 8 * (j + 1)));                                       \
        for (size_t i = 0; i < DELTA_GROUP; i++)                                                            \
            z[i] = (uint##nbits##_t)(z[i] >> shift);                                                        \
        for (size_t i = 0; nbits > 16 && i < DELTA_GROUP; i++)                                              \
            all |= z[i];                                                                                    \
        for (size_t i = 0; i < DELTA_GROUP; i++)                                                            \
            high[i] = high_##nbits(transform, z[i], load_##nbits(src, i), load_##nbits(base, i));           \
        return all;                                                                                         \
    }                                                                                                       \
    LMC_INLINE unsigned split_deltas_##nbits(const unsigned transform, const unsigned low_nbytes,           \
                                             const uint8_t *src, const uint8_t *base, size_t n,             \
                                             uint16_t *high, uint8_t *const *low)                           \
    {                                                                                                       \
        uint8_t low_bytes[LMC_FMT_PLANE_COUNT_MAX][DELTA_GROUP];                                            \
        uint64_t all = 0;                                                                                   \
        for (size_t g = 0; g < n; g += DELTA_GROUP) {                                                       \
            const size_t m = lmc_min_size(n - g, DELTA_GROUP);                                              \
            const uint8_t *x = src + g * (nbits / 8), *b = base + g * (nbits / 8);                          \
            uint8_t last[2][DELTA_GROUP * (nbits / 8)];                                                     \
            if (LMC_UNLIKELY(m < DELTA_GROUP)) {                                                            \
                memset(last, 0, sizeof last);                                                               \
                x = memcpy(last[0], x, m * (nbits / 8));                                                    \
                b = memcpy(last[1], b, m * (nbits / 8));                                                    \
            }                                                                                               \
            all |= split_group_##nbits(transform, low_nbytes, x, b, high + g, low_bytes);                   \
            for (unsigned j = 0; j < low_nbytes; j++)                                                       \
                copy_bytes(low[j] + g, low_bytes[j], m);                                                    \
        }                                                                                                   \
        return all >> (transform == LMC_FMT_DELTA_MAGNITUDE ? 15 : 16) != 0;                                \
    }                                                                                                       \
    LMC_INLINE void join_group_##nbits(const unsigned transform, const unsigned low_nbytes,                 \
                                       const uint16_t *high, const uint8_t *const *low, size_t first,       \
                                       const uint8_t *base, uint8_t *restrict dst)                          \
    {                                                                                                       \
        const uint16_t high_mask = transform == LMC_FMT_DELTA_MAGNITUDE ? 0x7fff : 0xffff;                  \
        uint##nbits##_t z[DELTA_GROUP];                                                                     \
        for (size_t i = 0; i < DELTA_GROUP; i++)                                                            \
            z[i] = (uint##nbits##_t)(high[i] & high_mask);                                                  \
        for (unsigned j = 0; j < low_nbytes; j++)                                                           \
            for (size_t i = 0; i < DELTA_GROUP; i++)                                                        \
                z[i] = (uint##nbits##_t)((uint64_t)z[i] << 8 | low[j][first + i]);                          \
        for (size_t i = 0; i < DELTA_GROUP; i++) {                                                          \
            const uint##nbits##_t x = restored_##nbits(transform, z[i], high[i], load_##nbits(base, i));    \
            memcpy(dst + i * sizeof x, &x, sizeof x);                                                       \
        }                                                                                                   \
    }                                                                                                       \
    LMC_INLINE void join_deltas_##nbits(const unsigned transform, const unsigned low_nbytes,                \
                                        const uint16_t *high, const uint8_t *const *low,                    \
                                        const uint8_t *base, size_t n, uint8_t *dst)                        \
    {                                                                                                       \
        size_t g = 0;                                                                                       \
        for (; g + DELTA_GROUP <= n; g += DELTA_GROUP)                                                      \
            join_group_##nbits(transform, low_nbytes, high + g, low, g, base + g * (nbits / 8),             \
                               dst + g * (nbits / 8));                                                      \
        if (g < n) {                                                                                        \
            uint8_t last[2][DELTA_GROUP * (nbits / 8)] = {{0}};                                             \
            memcpy(last[0], base + g * (nbits / 8), (n - g) * (nbits / 8));                                 \
            join_group_##nbits(transform, low_nbytes, high + g, low, g, last[0], last[1]);                  \
            memcpy(dst + g * (nbits / 8), last[1], (n - g) * (nbits / 8));                                  \
        }                                                                                                   \
    }                                                                                                       \
    static unsigned delta_split_##nbits(const lmc_delta *delta, const uint8_t *src, const uint8_t *base,    \
                                        size_t n, uint16_t *high, uint8_t *const *low)                      \
    {                                                                                                       \
        const unsigned low_nbytes = nbits > 8 ? delta->low_nbytes : 0;                                      \
        if (nbits <= 16 && low_nbytes == 0 && delta->transform == LMC_FMT_DELTA_MAGNITUDE)                  \
            return split_deltas_##nbits(LMC_FMT_DELTA_MAGNITUDE, 0, src, base, n, high, low);               \
        if (delta->transform == LMC_FMT_DELTA_MAGNITUDE)                                                    \
            return split_deltas_##nbits(LMC_FMT_DELTA_MAGNITUDE, low_nbytes, src, base, n, high, low);      \
        if (delta->transform == LMC_FMT_DELTA_DIFFERENCE)                                                   \
            return split_deltas_##nbits(LMC_FMT_DELTA_DIFFERENCE, low_nbytes, src, base, n, high, low);     \
        return split_deltas_##nbits(LMC_FMT_DELTA_XOR, low_nbytes, src, base, n, high, low);                \
    }                                                                                                       \
    static void delta_join_##nbits(const lmc_delta *delta, const uint16_t *high, const uint8_t *const *low, \
                                   const uint8_t *base, size_t n, uint8_t *dst)                             \
    {                                                                                                       \
        const unsigned low_nbytes = nbits > 8 ? delta->low_nbytes : 0;                                      \
        if (nbits <= 16 && low_nbytes == 0 && delta->transform == LMC_FMT_DELTA_MAGNITUDE)                  \
            join_deltas_##nbits(LMC_FMT_DELTA_MAGNITUDE, 0, high, low, base, n, dst);                       \
        else if (delta->transform == LMC_FMT_DELTA_MAGNITUDE)                                               \
            join_deltas_##nbits(LMC_FMT_DELTA_MAGNITUDE, low_nbytes, high, low, base, n, dst);              \
        else if (delta->transform == LMC_FMT_DELTA_DIFFERENCE)                                              \
            join_deltas_##nbits(LMC_FMT_DELTA_DIFFERENCE, low_nbytes, high, low, base, n, dst);             \
        else                                                                                                \
            join_deltas_##nbits(LMC_FMT_DELTA_XOR, low_nbytes, high, low, base, n, dst);                    \
    }

/* Copies n <= DELTA_GROUP bytes, mostly all. */
LMC_INLINE void copy_bytes(uint8_t *dst, const uint8_t *src, size_t n)
{
    if (LMC_LIKELY(n == DELTA_GROUP))
        for (size_t i = 0; i < DELTA_GROUP; i += 8)
            lmc_store64(dst + i, lmc_load64(src + i));
    else
        memcpy(dst, src, n);
}

DEFINE_DELTA(8)
DEFINE_DELTA(16)
DEFINE_DELTA(32)
DEFINE_DELTA(64)

/* ---- sign changes ---- */

/* Most lists have few sign changes. */
static void put_sign_changes(uint16_t *high, size_t n, const uint64_t *sign_changes)
{
    for (size_t g = 0; g < n; g += DELTA_GROUP)
        for (uint64_t word = sign_changes[g / DELTA_GROUP]; word != 0; word &= word - 1)
            high[g + lmc_lowest_bit(word)] |= 0x8000;
}

#endif
