/*
 * offset_loops_impl.h - high parts of elements, sums of their magnitudes, and the shifts of a row, as plain loops that
 * compilers turn into vector code. The elements of the last group come in a second loop, one by one.
 */
#ifndef LMC_CODEC_KERNELS_SHARED_OFFSET_LOOPS_IMPL_H
#define LMC_CODEC_KERNELS_SHARED_OFFSET_LOOPS_IMPL_H

#define DEFINE_HIGH_PARTS(nbytes, nbits, high_nbits)                                          \
    static void high_parts_##nbytes(unsigned rotation, const uint8_t *restrict src, size_t n, \
                                    uint16_t *restrict high)                                  \
    {                                                                                         \
        for (size_t i = 0; i < n; i++) {                                                      \
            uint##nbits##_t x;                                                                \
            memcpy(&x, src + i * sizeof x, sizeof x);                                         \
            const uint##nbits##_t once = (uint##nbits##_t)(x << 1 | x >> (nbits - 1));        \
            high[i] = (uint16_t)((rotation ? once : x) >> (nbits - high_nbits));              \
        }                                                                                     \
    }

DEFINE_HIGH_PARTS(1, 8, 8)
DEFINE_HIGH_PARTS(2, 16, 16)
DEFINE_HIGH_PARTS(4, 32, 16)
DEFINE_HIGH_PARTS(8, 64, 16)

/* `shift` is no NULL if is_shifted, which the compiler knows. */
LMC_INLINE uint16_t clipped_magnitude(const lmc_clip *clip, uint16_t high, const uint16_t *shift, size_t i,
                                      const int is_shifted)
{
    const uint16_t magnitude = high & clip->mask;
    const uint16_t shifted = is_shifted ? (uint16_t)(magnitude + shift[i]) : magnitude;
    return shifted > clip->floor ? shifted : clip->floor;
}

LMC_INLINE uint32_t sum_of(const lmc_clip clip, const uint16_t *restrict high, const uint16_t *restrict shift,
                           size_t n, const int is_shifted)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += clipped_magnitude(&clip, high[i], shift, i, is_shifted);
    return sum;
}

static uint32_t sum_clipped(const lmc_clip *clip, const uint16_t *high, const uint16_t *shift, size_t n)
{
    return shift ? sum_of(*clip, high, shift, n, 1) : sum_of(*clip, high, high, n, 0);
}

#define DEFINE_SUM_ELEMENTS(nbytes, nbits, high_nbits)                                                    \
    LMC_INLINE uint32_t sum_elements_as_##nbytes(                                                         \
        const lmc_clip clip, const unsigned rotation, const uint8_t *restrict src,                        \
        const uint16_t *restrict shift, size_t n, const int is_shifted)                                   \
    {                                                                                                     \
        uint32_t sum = 0;                                                                                 \
        for (size_t i = 0; i < n; i++) {                                                                  \
            uint##nbits##_t x;                                                                            \
            memcpy(&x, src + i * sizeof x, sizeof x);                                                     \
            x = rotation ? (uint##nbits##_t)(x << 1 | x >> (nbits - 1)) : x;                              \
            sum += clipped_magnitude(&clip, (uint16_t)(x >> (nbits - high_nbits)), shift, i, is_shifted); \
        }                                                                                                 \
        return sum;                                                                                       \
    }                                                                                                     \
    static uint32_t sum_elements_##nbytes(const lmc_clip *clip, unsigned rotation, const uint8_t *src,    \
                                          const uint16_t *shift, size_t n)                                \
    {                                                                                                     \
        if (rotation)                                                                                     \
            return shift ? sum_elements_as_##nbytes(*clip, 1, src, shift, n, 1)                           \
                         : sum_elements_as_##nbytes(*clip, 1, src, NULL, n, 0);                           \
        return shift ? sum_elements_as_##nbytes(*clip, 0, src, shift, n, 1)                               \
                     : sum_elements_as_##nbytes(*clip, 0, src, NULL, n, 0);                               \
    }

DEFINE_SUM_ELEMENTS(1, 8, 8)
DEFINE_SUM_ELEMENTS(2, 16, 16)
DEFINE_SUM_ELEMENTS(4, 32, 16)
DEFINE_SUM_ELEMENTS(8, 64, 16)

LMC_INLINE void add_to(const lmc_clip clip, const uint16_t *restrict high, const uint16_t *restrict shift,
                       size_t n, uint32_t *restrict sums, const int is_shifted)
{
    for (size_t i = 0; i < n; i++)
        sums[i] += clipped_magnitude(&clip, high[i], shift, i, is_shifted);
}

static void add_clipped(const lmc_clip *clip, const uint16_t *high, const uint16_t *shift, size_t n,
                        uint32_t *sums)
{
    if (shift)
        add_to(*clip, high, shift, n, sums, 1);
    else
        add_to(*clip, high, high, n, sums, 0);
}

static void add_shifts(const uint16_t *restrict a, const uint16_t *restrict b, uint16_t c, size_t n,
                       uint16_t *restrict sums)
{
    const uint16_t *const first = a ? a : b;
    for (size_t i = 0; !first && i < n; i++)
        sums[i] = c;
    for (size_t i = 0; first && i < n; i++)
        sums[i] = (uint16_t)(first[i] + c);
    for (size_t i = 0; a && b && i < n; i++)
        sums[i] = (uint16_t)(sums[i] + b[i]);
}

#endif
