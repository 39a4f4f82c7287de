/*
 * delta_loops.h - deltas as plain loops over groups of 64 elements, one thing at a time: the form that compilers turn
 * into vector code for the target that is in force where this is included.
 */
#ifndef LMC_KERNELS_DELTA_LOOPS_H
#define LMC_KERNELS_DELTA_LOOPS_H

#define DELTA_GROUP 64

/* ---- classes ---- */

/* Bounds are few: comparing a key with each of them needs no table. */
LMC_INLINE void keys_to_classes(const lmc_delta *delta, const uint8_t *keys, uint8_t *classes)
{
    memset(classes, 0, DELTA_GROUP);
    for (unsigned c = 1; c < delta->class_count; c++) {
        const uint8_t first = delta->first_key[c];
        for (size_t i = 0; i < DELTA_GROUP; i++)
            classes[i] = (uint8_t)(classes[i] + (keys[i] >= first));
    }
}

/* Four counters for each class: neighbours are often of one class, and would wait for each other. */
LMC_INLINE void count_classes(const uint8_t *classes, size_t n, unsigned class_count, size_t *counts)
{
    uint32_t count[4][LMC_FMT_CLASS_COUNT_MAX] = {{0}};
    for (size_t i = 0; i < n; i++)
        count[i % 4][classes[i]]++;
    for (unsigned c = 0; c < class_count; c++)
        counts[c] += (size_t)count[0][c] + count[1][c] + count[2][c] + count[3][c];
}

/* ---- differences: zigzag numbers, 0, -1, 1, -2, ... become 0, 1, 2, 3, ... ---- */

#define DEFINE_DELTA(nbits)                                                                                  \
    LMC_INLINE void load_##nbits(const uint8_t *src, size_t n, uint##nbits##_t *x)                           \
    {                                                                                                        \
        if (LMC_LIKELY(n >= DELTA_GROUP)) {                                                                  \
            memcpy(x, src, DELTA_GROUP * sizeof *x);                                                         \
            return;                                                                                          \
        }                                                                                                    \
        memset(x, 0, DELTA_GROUP * sizeof *x);                                                               \
        memcpy(x, src, n * sizeof *x);                                                                       \
    }                                                                                                        \
    static void classify_##nbits(const lmc_delta *delta, const uint8_t *base, size_t n, uint8_t *classes,    \
                                 size_t *counts)                                                             \
    {                                                                                                        \
        const uint##nbits##_t used =                                                                         \
            (uint##nbits##_t) ~0ull >> (delta->transform == LMC_FMT_DELTA_MAGNITUDE);                        \
        const unsigned shift = delta->key_shift;                                                             \
        for (size_t g = 0; g < n; g += DELTA_GROUP) {                                                        \
            uint##nbits##_t b[DELTA_GROUP];                                                                  \
            uint8_t keys[DELTA_GROUP];                                                                       \
            load_##nbits(base + g * sizeof *b, n - g, b);                                                    \
            for (size_t i = 0; i < DELTA_GROUP; i++)                                                         \
                keys[i] = (uint8_t)((b[i] & used) >> shift);                                                 \
            keys_to_classes(delta, keys, classes + g);                                                       \
        }                                                                                                    \
        count_classes(classes, n, delta->class_count, counts);                                               \
    }                                                                                                        \
    LMC_INLINE void zigzag_##nbits(const unsigned transform, const uint##nbits##_t *x,                       \
                                   const uint##nbits##_t *b, uint##nbits##_t *z)                             \
    {                                                                                                        \
        const uint##nbits##_t magnitude = (uint##nbits##_t) ~0ull >> 1;                                      \
        for (size_t i = 0; i < DELTA_GROUP; i++) {                                                           \
            const uint##nbits##_t d = (uint##nbits##_t)(x[i] - b[i]);                                        \
            const uint##nbits##_t twice = (uint##nbits##_t)(d << 1); /* a magnitude's sign drops out */      \
            const uint##nbits##_t top = transform == LMC_FMT_DELTA_MAGNITUDE ? twice : d;                    \
            const uint##nbits##_t sign = (uint##nbits##_t)(UINT64_C(0) - (uint64_t)(top >> (nbits - 1)));    \
            z[i] = transform == LMC_FMT_DELTA_XOR         ? (uint##nbits##_t)(x[i] ^ b[i])                   \
                   : transform == LMC_FMT_DELTA_MAGNITUDE ? (uint##nbits##_t)((twice ^ sign) & magnitude)    \
                                                          : (uint##nbits##_t)(twice ^ sign);                 \
        }                                                                                                    \
    }                                                                                                        \
    LMC_INLINE unsigned split_deltas_##nbits(const unsigned transform, const unsigned low_nbytes,            \
                                             const uint8_t *src, const uint8_t *base, size_t n,              \
                                             uint16_t *head, uint8_t *const *low)                            \
    {                                                                                                        \
        const unsigned head_nbits = transform == LMC_FMT_DELTA_MAGNITUDE ? 15 : 16;                          \
        const unsigned shift = 8 * low_nbytes;                                                               \
        uint##nbits##_t x[DELTA_GROUP], b[DELTA_GROUP], z[DELTA_GROUP];                                      \
        uint##nbits##_t all = 0;                                                                             \
        for (size_t g = 0; g < n; g += DELTA_GROUP) {                                                        \
            load_##nbits(src + g * sizeof *x, n - g, x);                                                     \
            load_##nbits(base + g * sizeof *b, n - g, b);                                                    \
            zigzag_##nbits(transform, x, b, z);                                                              \
            for (unsigned j = 0; j < low_nbytes; j++) {                                                      \
                uint8_t bytes[DELTA_GROUP];                                                                  \
                for (size_t i = 0; i < DELTA_GROUP; i++)                                                     \
                    bytes[i] = (uint8_t)(z[i] >> (shift - 8 * (j + 1)));                                     \
                memcpy(low[j] + g, bytes, lmc_min_size(n - g, DELTA_GROUP));                                 \
            }                                                                                                \
            for (size_t i = 0; i < DELTA_GROUP; i++)                                                         \
                z[i] = (uint##nbits##_t)(z[i] >> shift);                                                     \
            for (size_t i = 0; i < DELTA_GROUP; i++)                                                         \
                all |= z[i];                                                                                 \
            for (size_t i = 0; i < DELTA_GROUP; i++)                                                         \
                head[g + i] = transform == LMC_FMT_DELTA_MAGNITUDE                                           \
                                  ? (uint16_t)((z[i] & 0x7fff) | (x[i] ^ b[i]) >> (nbits - 1) << 15)         \
                                  : (uint16_t)z[i];                                                          \
        }                                                                                                    \
        return nbits > 16 && (uint64_t)all >> head_nbits != 0;                                               \
    }                                                                                                        \
    LMC_INLINE void join_deltas_##nbits(const unsigned transform, const unsigned low_nbytes,                 \
                                        const uint16_t *head, const uint8_t *const *low,                     \
                                        const uint8_t *base, size_t n, uint8_t *dst)                         \
    {                                                                                                        \
        const uint##nbits##_t magnitude = (uint##nbits##_t) ~0ull >> 1;                                      \
        const uint16_t head_mask = transform == LMC_FMT_DELTA_MAGNITUDE ? 0x7fff : 0xffff;                   \
        for (size_t g = 0; g < n; g += DELTA_GROUP) {                                                        \
            uint##nbits##_t b[DELTA_GROUP], z[DELTA_GROUP], x[DELTA_GROUP];                                  \
            uint16_t h[DELTA_GROUP];                                                                         \
            load_##nbits(base + g * sizeof *b, n - g, b);                                                    \
            memcpy(h, head + g, sizeof h);                                                                   \
            for (size_t i = 0; i < DELTA_GROUP; i++)                                                         \
                z[i] = (uint##nbits##_t)(h[i] & head_mask);                                                  \
            for (unsigned j = 0; j < low_nbytes; j++) {                                                      \
                uint8_t bytes[DELTA_GROUP];                                                                  \
                memcpy(bytes, low[j] + g, sizeof bytes);                                                     \
                for (size_t i = 0; i < DELTA_GROUP; i++)                                                     \
                    z[i] = (uint##nbits##_t)((uint64_t)z[i] << 8 | bytes[i]);                                \
            }                                                                                                \
            for (size_t i = 0; i < DELTA_GROUP; i++) {                                                       \
                const uint##nbits##_t sign = (uint##nbits##_t)(UINT64_C(0) - (uint64_t)(z[i] & 1));          \
                const uint##nbits##_t flip =                                                                 \
                    (uint##nbits##_t)((uint##nbits##_t)(h[i] >> 15) << (nbits - 1));                         \
                const uint##nbits##_t sum = (uint##nbits##_t)(b[i] + (uint##nbits##_t)((z[i] >> 1) ^ sign)); \
                x[i] = transform == LMC_FMT_DELTA_XOR ? (uint##nbits##_t)(b[i] ^ z[i])                       \
                       : transform == LMC_FMT_DELTA_DIFFERENCE                                               \
                           ? sum                                                                             \
                           : (uint##nbits##_t)((sum & magnitude) |                                           \
                                               ((b[i] ^ flip) & (uint##nbits##_t) ~magnitude));              \
            }                                                                                                \
            memcpy(dst + g * sizeof *x, x, lmc_min_size(n - g, DELTA_GROUP) * sizeof *x);                    \
        }                                                                                                    \
    }                                                                                                        \
    static unsigned delta_split_##nbits(const lmc_delta *delta, const uint8_t *src, const uint8_t *base,     \
                                        size_t n, uint16_t *head, uint8_t *const *low)                       \
    {                                                                                                        \
        const unsigned low_nbytes = nbits > 8 ? delta->low_nbytes : 0;                                       \
        if (delta->transform == LMC_FMT_DELTA_MAGNITUDE)                                                     \
            return split_deltas_##nbits(LMC_FMT_DELTA_MAGNITUDE, low_nbytes, src, base, n, head, low);       \
        if (delta->transform == LMC_FMT_DELTA_DIFFERENCE)                                                    \
            return split_deltas_##nbits(LMC_FMT_DELTA_DIFFERENCE, low_nbytes, src, base, n, head, low);      \
        return split_deltas_##nbits(LMC_FMT_DELTA_XOR, low_nbytes, src, base, n, head, low);                 \
    }                                                                                                        \
    static void delta_join_##nbits(const lmc_delta *delta, const uint16_t *head, const uint8_t *const *low,  \
                                   const uint8_t *base, size_t n, uint8_t *dst)                              \
    {                                                                                                        \
        const unsigned low_nbytes = nbits > 8 ? delta->low_nbytes : 0;                                       \
        if (delta->transform == LMC_FMT_DELTA_MAGNITUDE)                                                     \
            join_deltas_##nbits(LMC_FMT_DELTA_MAGNITUDE, low_nbytes, head, low, base, n, dst);               \
        else if (delta->transform == LMC_FMT_DELTA_DIFFERENCE)                                               \
            join_deltas_##nbits(LMC_FMT_DELTA_DIFFERENCE, low_nbytes, head, low, base, n, dst);              \
        else                                                                                                 \
            join_deltas_##nbits(LMC_FMT_DELTA_XOR, low_nbytes, head, low, base, n, dst);                     \
    }

DEFINE_DELTA(8)
DEFINE_DELTA(16)
DEFINE_DELTA(32)
DEFINE_DELTA(64)

/* ---- lists ---- */

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
    for (size_t g = 0; g < n; g += DELTA_GROUP) {
        uint64_t word = 0;
        for (size_t i = 0; i < DELTA_GROUP; i++)
            word |= (uint64_t)(head[g + i] >> 15) << i;
        for (size_t i = 0; i < DELTA_GROUP; i++)
            head[g + i] &= 0x7fff;
        flips[g / DELTA_GROUP] = n - g < DELTA_GROUP ? word & lmc_low_mask((unsigned)(n - g)) : word;
    }
}

LMC_INLINE void put_flips_loop(uint16_t *head, size_t n, const uint64_t *flips)
{
    for (size_t g = 0; g < n; g += DELTA_GROUP) {
        const uint64_t word = flips[g / DELTA_GROUP];
        for (size_t i = 0; word != 0 && i < DELTA_GROUP; i++)
            head[g + i] = (uint16_t)(head[g + i] | (word >> i & 1) << 15);
    }
}

#endif
