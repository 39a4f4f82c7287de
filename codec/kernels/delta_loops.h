/*
 * delta_loops.h - deltas as plain loops over elements, included by every kernel set: they are compiled for the
 * target that is in force there, and compilers turn most of them into vector code.
 */
#ifndef LMC_KERNELS_DELTA_LOOPS_H
#define LMC_KERNELS_DELTA_LOOPS_H

/* Differences are zigzag numbers: 0, -1, 1, -2, ... become 0, 1, 2, 3, ... */
#define DEFINE_DELTA(nbits)                                                                                  \
    LMC_INLINE uint##nbits##_t zigzag_##nbits(uint##nbits##_t d, unsigned width)                             \
    {                                                                                                        \
        const uint##nbits##_t up = (uint##nbits##_t)(d << (nbits - width)); /* its sign at the top */        \
        const uint##nbits##_t sign = (uint##nbits##_t)(UINT64_C(0) - (uint64_t)(up >> (nbits - 1)));         \
        const uint##nbits##_t mask = (uint##nbits##_t)((uint##nbits##_t) ~0ull >> (nbits - width));          \
        return (uint##nbits##_t)((uint##nbits##_t)(d << 1) ^ sign) & mask;                                   \
    }                                                                                                        \
    LMC_INLINE uint##nbits##_t unzigzag_##nbits(uint##nbits##_t z)                                           \
    {                                                                                                        \
        return (uint##nbits##_t)((uint##nbits##_t)(z >> 1) ^                                                 \
                                 (uint##nbits##_t)(UINT64_C(0) - (uint64_t)(z & 1)));                        \
    }                                                                                                        \
    LMC_INLINE uint##nbits##_t compare_##nbits(unsigned transform, uint##nbits##_t x, uint##nbits##_t b)     \
    {                                                                                                        \
        const uint##nbits##_t magnitude = (uint##nbits##_t) ~0ull >> 1;                                      \
        if (transform == LMC_FMT_DELTA_MAGNITUDE)                                                            \
            return zigzag_##nbits((uint##nbits##_t)((x & magnitude) - (b & magnitude)), nbits - 1);          \
        if (transform == LMC_FMT_DELTA_DIFFERENCE)                                                           \
            return zigzag_##nbits((uint##nbits##_t)(x - b), nbits);                                          \
        return x ^ b;                                                                                        \
    }                                                                                                        \
    LMC_INLINE unsigned delta_split_loop_##nbits(const unsigned transform, const unsigned low_nbytes,        \
                                                 const uint8_t *src, const uint8_t *base, size_t n,          \
                                                 uint16_t *head, uint8_t *const *low)                        \
    {                                                                                                        \
        const unsigned head_nbits = transform == LMC_FMT_DELTA_MAGNITUDE ? 15 : 16;                          \
        const unsigned shift = 8 * low_nbytes;                                                               \
        uint64_t wide = 0;                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                                     \
            uint##nbits##_t x, b;                                                                            \
            memcpy(&x, src + i * sizeof x, sizeof x);                                                        \
            memcpy(&b, base + i * sizeof b, sizeof b);                                                       \
            const uint##nbits##_t z = (uint##nbits##_t)(compare_##nbits(transform, x, b) >> shift);          \
            uint16_t h = (uint16_t)z;                                                                        \
            if (transform == LMC_FMT_DELTA_MAGNITUDE)                                                        \
                h = (uint16_t)((h & 0x7fff) | ((uint##nbits##_t)(x ^ b) >> (nbits - 1)) << 15);              \
            head[i] = h;                                                                                     \
            if (nbits > 16)                                                                                  \
                wide |= (uint64_t)z >> head_nbits;                                                           \
        }                                                                                                    \
        for (unsigned j = 0; j < low_nbytes; j++) {                                                          \
            const unsigned at = shift - 8 * (j + 1);                                                         \
            uint8_t *const plane = low[j];                                                                   \
            for (size_t i = 0; i < n; i++) {                                                                 \
                uint##nbits##_t x, b;                                                                        \
                memcpy(&x, src + i * sizeof x, sizeof x);                                                    \
                memcpy(&b, base + i * sizeof b, sizeof b);                                                   \
                plane[i] = (uint8_t)(compare_##nbits(transform, x, b) >> at);                                \
            }                                                                                                \
        }                                                                                                    \
        return wide != 0;                                                                                    \
    }                                                                                                        \
    LMC_INLINE void delta_join_loop_##nbits(const unsigned transform, const unsigned low_nbytes,             \
                                            const uint16_t *head, const uint8_t *const *low,                 \
                                            const uint8_t *base, size_t n, uint8_t *dst)                     \
    {                                                                                                        \
        const uint##nbits##_t magnitude = (uint##nbits##_t) ~0ull >> 1;                                      \
        for (size_t i = 0; i < n; i++) {                                                                     \
            uint##nbits##_t b, x;                                                                            \
            memcpy(&b, base + i * sizeof b, sizeof b);                                                       \
            uint##nbits##_t z = head[i];                                                                     \
            if (transform == LMC_FMT_DELTA_MAGNITUDE)                                                        \
                z &= 0x7fff;                                                                                 \
            for (unsigned j = 0; j < low_nbytes; j++)                                                        \
                z = (uint##nbits##_t)(z << (nbits > 8 ? 8 : 0)) | low[j][i];                                 \
            if (transform == LMC_FMT_DELTA_MAGNITUDE) {                                                      \
                x = (uint##nbits##_t)(b + unzigzag_##nbits(z)) & magnitude;                                  \
                x |= (uint##nbits##_t)((uint##nbits##_t)((b >> (nbits - 1)) ^ (head[i] >> 15))               \
                                       << (nbits - 1));                                                      \
            } else if (transform == LMC_FMT_DELTA_DIFFERENCE) {                                              \
                x = (uint##nbits##_t)(b + unzigzag_##nbits(z));                                              \
            } else {                                                                                         \
                x = b ^ z;                                                                                   \
            }                                                                                                \
            memcpy(dst + i * sizeof x, &x, sizeof x);                                                        \
        }                                                                                                    \
    }                                                                                                        \
    static void classify_##nbits(const lmc_delta *delta, const uint8_t *base, size_t n, uint8_t *classes)    \
    {                                                                                                        \
        const uint##nbits##_t used =                                                                         \
            (uint##nbits##_t) ~0ull >> (delta->transform == LMC_FMT_DELTA_MAGNITUDE);                        \
        for (size_t i = 0; i < n; i++) {                                                                     \
            uint##nbits##_t b;                                                                               \
            memcpy(&b, base + i * sizeof b, sizeof b);                                                       \
            classes[i] = (uint8_t)((b & used) >> delta->key_shift);                                          \
        }                                                                                                    \
        keys_to_classes(delta, n, classes);                                                                  \
    }                                                                                                        \
    static unsigned delta_split_##nbits(const lmc_delta *delta, const uint8_t *src, const uint8_t *base,     \
                                        size_t n, uint16_t *head, uint8_t *const *low)                       \
    {                                                                                                        \
        if (delta->transform == LMC_FMT_DELTA_MAGNITUDE)                                                     \
            return delta_split_loop_##nbits(LMC_FMT_DELTA_MAGNITUDE, delta->low_nbytes, src, base, n, head,  \
                                            low);                                                            \
        if (delta->transform == LMC_FMT_DELTA_DIFFERENCE)                                                    \
            return delta_split_loop_##nbits(LMC_FMT_DELTA_DIFFERENCE, delta->low_nbytes, src, base, n, head, \
                                            low);                                                            \
        return delta_split_loop_##nbits(LMC_FMT_DELTA_XOR, delta->low_nbytes, src, base, n, head, low);      \
    }                                                                                                        \
    static void delta_join_##nbits(const lmc_delta *delta, const uint16_t *head, const uint8_t *const *low,  \
                                   const uint8_t *base, size_t n, uint8_t *dst)                              \
    {                                                                                                        \
        if (delta->transform == LMC_FMT_DELTA_MAGNITUDE)                                                     \
            delta_join_loop_##nbits(LMC_FMT_DELTA_MAGNITUDE, delta->low_nbytes, head, low, base, n, dst);    \
        else if (delta->transform == LMC_FMT_DELTA_DIFFERENCE)                                               \
            delta_join_loop_##nbits(LMC_FMT_DELTA_DIFFERENCE, delta->low_nbytes, head, low, base, n, dst);   \
        else                                                                                                 \
            delta_join_loop_##nbits(LMC_FMT_DELTA_XOR, delta->low_nbytes, head, low, base, n, dst);          \
    }

/* Bounds are few: comparing a key with each of them needs no table. */
LMC_INLINE void keys_to_classes(const lmc_delta *delta, size_t n, uint8_t *classes)
{
    for (size_t g = 0; g < n; g += 64) {
        const size_t m = lmc_min_size(n - g, 64);
        uint8_t key[64] = {0}, found[64] = {0};
        memcpy(key, classes + g, m);
        for (unsigned c = 1; c < delta->class_count; c++)
            for (size_t i = 0; i < 64; i++)
                found[i] = (uint8_t)(found[i] + (key[i] >= delta->first_key[c]));
        memcpy(classes + g, found, m);
    }
}

DEFINE_DELTA(8)
DEFINE_DELTA(16)
DEFINE_DELTA(32)
DEFINE_DELTA(64)

/* ---- lists ---- */

/* Four counters for each class: neighbours are often of one class, and would wait for each other. */
LMC_INLINE void count_classes_loop(const uint8_t *classes, size_t n, size_t *counts)
{
    uint32_t count[4][LMC_FMT_CLASS_COUNT_MAX] = {{0}};
    for (size_t i = 0; i < n; i++)
        count[i % 4][classes[i]]++;
    for (unsigned c = 0; c < LMC_FMT_CLASS_COUNT_MAX; c++)
        counts[c] += (size_t)count[0][c] + count[1][c] + count[2][c] + count[3][c];
}

LMC_INLINE void scatter_loop(const uint8_t *classes, const uint16_t *head, size_t n, uint16_t **list)
{
    for (size_t i = 0; i < n; i++)
        *list[classes[i]]++ = head[i];
}

LMC_INLINE void gather_loop(const uint8_t *classes, size_t n, const uint16_t **list, uint16_t *head)
{
    for (size_t i = 0; i < n; i++)
        head[i] = *list[classes[i]]++;
}

/* ---- sign flips ---- */

LMC_INLINE void take_flips_loop(uint16_t *head, size_t n, uint64_t *flips)
{
    for (size_t g = 0; g < n; g += 64) {
        const size_t m = lmc_min_size(n - g, 64);
        uint64_t word = 0;
        for (size_t i = 0; i < m; i++)
            word |= (uint64_t)(head[g + i] >> 15) << i;
        for (size_t i = 0; i < m; i++)
            head[g + i] &= 0x7fff;
        flips[g / 64] = word;
    }
}

LMC_INLINE void put_flips_loop(uint16_t *head, size_t n, const uint64_t *flips)
{
    for (size_t g = 0; g < n; g += 64) {
        const size_t m = lmc_min_size(n - g, 64);
        const uint64_t word = flips[g / 64];
        if (word == 0)
            continue;
        for (size_t i = 0; i < m; i++)
            head[g + i] = (uint16_t)(head[g + i] | (word >> i & 1) << 15);
    }
}

#endif
