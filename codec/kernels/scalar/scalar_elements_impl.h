/*
 * scalar_elements_impl.h - cuts elements into planes and joins them, in portable C. The code has plain loops of a fixed
 * length over groups of 64 elements, and does one thing at a time: compilers turn that into vector code. The last
 * groups of a call go through buffers.
 */
#ifndef LMC_CODEC_KERNELS_SCALAR_SCALAR_ELEMENTS_IMPL_H
#define LMC_CODEC_KERNELS_SCALAR_SCALAR_ELEMENTS_IMPL_H

#include "codec/kernels/scalar/scalar_bits_impl.h"

/* ---- high parts: symbol and low plane ---- */

/* Packs bytes of p < 8 bits each to 8 p bits in a row, and back: neighbours merge in three steps. */
LMC_INLINE uint64_t pack8(uint64_t v, unsigned p)
{
    const uint64_t even8 = UINT64_C(0x00ff00ff00ff00ff);
    const uint64_t even16 = UINT64_C(0x0000ffff0000ffff);
    v = (v & even8) | (v & ~even8) >> (8 - p);
    v = (v & even16) | (v & ~even16) >> (16 - 2 * p);
    return (v & UINT64_C(0xffffffff)) | (v >> 32) << 4 * p;
}

LMC_INLINE uint64_t unpack8(uint64_t v, unsigned p)
{
    const uint64_t lane16 = ((UINT64_C(1) << 2 * p) - 1) * UINT64_C(0x0000000100000001);
    const uint64_t lane8 = ((UINT64_C(1) << p) - 1) * UINT64_C(0x0001000100010001);
    const uint64_t half = (UINT64_C(1) << 4 * p) - 1;
    v = (v & half) | (v >> 4 * p & half) << 32;
    v = (v & lane16) | (v >> 2 * p & lane16) << 16;
    return (v & lane8) | (v >> p & lane8) << 8;
}

/* Packs the low bits of a group, p of each, to 8 * p bytes, and back. Up to 8 bytes more are written, or read. */
LMC_INLINE void pack_low(const uint8_t *low, unsigned p, uint8_t *dst)
{
    uint64_t packed[8];
    memcpy(packed, low, GROUP);
    for (unsigned i = 0; i < 8; i++)
        packed[i] = pack8(packed[i], p);
    for (unsigned i = 0; i < 8; i++)
        lmc_store64(dst + i * p, packed[i]);
}

LMC_INLINE void unpack_low(const uint8_t *src, unsigned p, uint8_t *low)
{
    uint64_t packed[8];
    for (unsigned i = 0; i < 8; i++)
        packed[i] = lmc_load64(src + i * p);
    for (unsigned i = 0; i < 8; i++)
        packed[i] = unpack8(packed[i], p);
    memcpy(low, packed, GROUP);
}

/* Cuts a group of high parts of high_nbits bits into symbols and low bits. Returns nonzero iff a symbol is an
 * escape. */
LMC_INLINE unsigned split_high(const unsigned high_nbits, const unsigned p, const lmc_split *split,
                               const uint16_t *restrict high, uint8_t *restrict symbols,
                               uint8_t *restrict low)
{
    const uint16_t high_mask = (uint16_t)((1u << high_nbits) - 1);
    const uint16_t symbol_mask = (uint16_t)((1u << (high_nbits - p)) - 1);
    const uint16_t low_mask = (uint16_t)((1u << p) - 1);
    const uint16_t offset = split->offset, window_start = split->window_start;
    uint8_t escaped = 0;
    for (unsigned i = 0; i < GROUP; i++) {
        const uint16_t moved = (uint16_t)(high[i] + offset) & high_mask;
        const uint16_t wide = (uint16_t)((uint16_t)(moved >> p) - window_start) & symbol_mask;
        symbols[i] = (uint8_t)(wide < LMC_FMT_SYMBOL_ESCAPE ? wide : LMC_FMT_SYMBOL_ESCAPE);
        low[i] = (uint8_t)(moved & low_mask);
    }
    for (unsigned i = 0; high_nbits - p > 8 && i < GROUP; i++)
        escaped |= symbols[i] == LMC_FMT_SYMBOL_ESCAPE;
    return escaped;
}

LMC_INLINE void join_high(const unsigned high_nbits, const unsigned p, const lmc_split *split,
                          const uint8_t *restrict symbols, const uint8_t *restrict low,
                          uint16_t *restrict high)
{
    const uint16_t high_mask = (uint16_t)((1u << high_nbits) - 1);
    const uint16_t start = (uint16_t)(((unsigned)split->window_start << p) - split->offset);
    for (unsigned i = 0; i < GROUP; i++)
        high[i] = (uint16_t)((uint16_t)((uint16_t)(symbols[i] << p) + low[i]) + start) & high_mask;
}

LMC_INLINE void add_shift(uint16_t *restrict high, const uint16_t *restrict shift)
{
    for (unsigned i = 0; i < GROUP; i++)
        high[i] = (uint16_t)(high[i] + shift[i]);
}

LMC_INLINE void subtract_shift(const unsigned high_nbits, uint16_t *restrict high,
                               const uint16_t *restrict shift)
{
    const uint16_t high_mask = (uint16_t)((1u << high_nbits) - 1);
    for (unsigned i = 0; i < GROUP; i++)
        high[i] = (uint16_t)(high[i] - shift[i]) & high_mask;
}

/* ---- elements: a rotated element is its high part (the top 16 bits, or all 8) and the bytes below ---- */

#define LOW_SLACK 8

/* Functions for groups come first; `at` points to the planes of the group. cut_group writes up to LOW_SLACK bytes
 * behind the group's part of the low plane. A full next group overwrites them. */
#define DEFINE_WIDTH(nbytes, nbits, high_nbits)                                                              \
    LMC_INLINE void take_apart_##nbits(const uint8_t *restrict src, unsigned rotation,                       \
                                       uint16_t *restrict high, uint8_t *const *lower)                       \
    {                                                                                                        \
        uint##nbits##_t x[GROUP];                                                                            \
        for (unsigned i = 0; i < GROUP; i++) {                                                               \
            uint##nbits##_t v;                                                                               \
            memcpy(&v, src + i * sizeof v, sizeof v);                                                        \
            x[i] = rotation ? (uint##nbits##_t)(v << 1 | v >> (nbits - 1)) : v;                              \
            high[i] = (uint16_t)(x[i] >> (nbits - high_nbits));                                              \
        }                                                                                                    \
        for (int j = 0; j < (nbits - high_nbits) / 8; j++) {                                                 \
            uint8_t *restrict const bytes = lower[j];                                                        \
            for (unsigned i = 0; i < GROUP; i++)                                                             \
                bytes[i] = (uint8_t)(x[i] >> (nbits - high_nbits - 8 * (j + 1)));                            \
        }                                                                                                    \
    }                                                                                                        \
    LMC_INLINE void put_together_##nbits(const uint16_t *restrict high, uint8_t *const *lower,               \
                                         unsigned rotation, uint8_t *restrict dst)                           \
    {                                                                                                        \
        for (unsigned i = 0; i < GROUP; i++) {                                                               \
            uint##nbits##_t v = (uint##nbits##_t)high[i];                                                    \
            for (int j = 0; j < (nbits - high_nbits) / 8; j++)                                               \
                v = (uint##nbits##_t)((uint64_t)v << 8 | lower[j][i]);                                       \
            if (rotation)                                                                                    \
                v = (uint##nbits##_t)(v >> 1 | v << (nbits - 1));                                            \
            memcpy(dst + i * sizeof v, &v, sizeof v);                                                        \
        }                                                                                                    \
    }                                                                                                        \
    LMC_INLINE unsigned cut_group_##nbits(const unsigned p, const lmc_split *split, const uint8_t *src,      \
                                          const lmc_plane_set *at)                                           \
    {                                                                                                        \
        uint16_t high[GROUP];                                                                                \
        uint8_t low[GROUP];                                                                                  \
        if (split->rotation)                                                                                 \
            take_apart_##nbits(src, 1, high, at->lower);                                                     \
        else                                                                                                 \
            take_apart_##nbits(src, 0, high, at->lower);                                                     \
        if (at->shift)                                                                                       \
            add_shift(high, at->shift);                                                                      \
        const unsigned escaped =                                                                             \
            split_high(high_nbits, p, split, high, at->symbols, p == 8 ? at->low : low);                     \
        if (p > 0 && p < 8)                                                                                  \
            pack_low(low, p, at->low);                                                                       \
        return escaped;                                                                                      \
    }                                                                                                        \
    LMC_INLINE void merge_group_##nbits(const unsigned p, const lmc_split *split, const lmc_plane_set *at,   \
                                        uint8_t *dst)                                                        \
    {                                                                                                        \
        uint16_t high[GROUP];                                                                                \
        uint8_t low[GROUP] = {0};                                                                            \
        if (p > 0 && p < 8)                                                                                  \
            unpack_low(at->low, p, low);                                                                     \
        join_high(high_nbits, p, split, at->symbols, p == 8 ? at->low : low, high);                          \
        if (at->shift)                                                                                       \
            subtract_shift(high_nbits, high, at->shift);                                                     \
        if (split->rotation)                                                                                 \
            put_together_##nbits(high, at->lower, 1, dst);                                                   \
        else                                                                                                 \
            put_together_##nbits(high, at->lower, 0, dst);                                                   \
    }                                                                                                        \
    LMC_INLINE unsigned split_elements_##nbits(const unsigned p, const lmc_split *split, const uint8_t *src, \
                                               size_t n, const lmc_plane_set *dst)                           \
    {                                                                                                        \
        lmc_plane_set at = *dst;                                                                             \
        unsigned escaped = 0;                                                                                \
        for (; n >= 2 * GROUP; n -= GROUP, src += GROUP * (nbits / 8)) {                                     \
            escaped |= cut_group_##nbits(p, split, src, &at);                                                \
            advance(&at, p, (nbits - high_nbits) / 8);                                                       \
        }                                                                                                    \
        while (n > 0) {                                                                                      \
            const size_t m = lmc_min_size(n, GROUP);                                                         \
            last_group last;                                                                                 \
            const lmc_plane_set aside = set_aside(&last, &at);                                               \
            memcpy(last.elements, src, m *(nbits / 8));                                                      \
            memset(last.elements + m * (nbits / 8), 0, (GROUP - m) * (nbits / 8));                           \
            cut_group_##nbits(p, split, last.elements, &aside);                                              \
            escaped |= high_nbits - p > 8 && memchr(at.symbols, LMC_FMT_SYMBOL_ESCAPE, m) != NULL;           \
            write_last(&last, p, (nbits - high_nbits) / 8, m, &at);                                          \
            if (m == n)                                                                                      \
                break;                                                                                       \
            advance(&at, p, (nbits - high_nbits) / 8);                                                       \
            src += m * (nbits / 8);                                                                          \
            n -= m;                                                                                          \
        }                                                                                                    \
        return escaped;                                                                                      \
    }                                                                                                        \
    LMC_INLINE void join_elements_##nbits(const unsigned p, const lmc_split *split,                          \
                                          const lmc_plane_set *src, size_t n, uint8_t *dst)                  \
    {                                                                                                        \
        lmc_plane_set at = *src;                                                                             \
        for (; n >= GROUP; n -= GROUP, dst += GROUP * (nbits / 8)) {                                         \
            merge_group_##nbits(p, split, &at, dst);                                                         \
            advance(&at, p, (nbits - high_nbits) / 8);                                                       \
        }                                                                                                    \
        if (n > 0) {                                                                                         \
            uint8_t last[GROUP * (nbits / 8)];                                                               \
            merge_group_##nbits(p, split, &at, last);                                                        \
            memcpy(dst, last, n *(nbits / 8));                                                               \
        }                                                                                                    \
    }                                                                                                        \
    static unsigned split_##nbytes(const lmc_split *split, const uint8_t *src, size_t n,                     \
                                   const lmc_plane_set *dst)                                                 \
    {                                                                                                        \
        switch (split->low_nbits) {                                                                          \
        case 0: return split_elements_##nbits(0, split, src, n, dst);                                        \
        case 6: return split_elements_##nbits(6, split, src, n, dst);                                        \
        case 8: return split_elements_##nbits(8, split, src, n, dst);                                        \
        default: return split_elements_##nbits(split->low_nbits, split, src, n, dst);                        \
        }                                                                                                    \
    }                                                                                                        \
    static void join_##nbytes(const lmc_split *split, const lmc_plane_set *src, size_t n, uint8_t *dst,      \
                              lmc_line_stream *stream)                                                       \
    {                                                                                                        \
        switch (split->low_nbits) {                                                                          \
        case 0: join_elements_##nbits(0, split, src, n, dst); break;                                         \
        case 6: join_elements_##nbits(6, split, src, n, dst); break;                                         \
        case 8: join_elements_##nbits(8, split, src, n, dst); break;                                         \
        default: join_elements_##nbits(split->low_nbits, split, src, n, dst);                                \
        }                                                                                                    \
        if (stream) {                                                                                        \
            memcpy(stream->place, dst, n *(nbits / 8));                                                      \
            stream->place += n * (nbits / 8);                                                                \
        }                                                                                                    \
    }

/* ---- the last groups of a call: one may not be full, and low bits must not be written too far ---- */

typedef struct last_group {
    uint8_t elements[GROUP * 8];
    uint8_t low[GROUP + LOW_SLACK];
    uint8_t lower[LMC_FMT_PLANE_COUNT_MAX][GROUP];
} last_group;

LMC_INLINE lmc_plane_set set_aside(last_group *last, const lmc_plane_set *at)
{
    lmc_plane_set set = {.symbols = at->symbols, .low = last->low, .shift = at->shift};
    for (unsigned j = 0; j < LMC_COUNT(set.lower); j++)
        set.lower[j] = last->lower[j];
    return set;
}

LMC_INLINE void write_last(last_group *last, unsigned p, unsigned lower_count, size_t n,
                           const lmc_plane_set *dst)
{
    const size_t low_nbytes = lmc_bits_nbytes(n * p);
    if (n * p % 8 != 0)
        last->low[low_nbytes - 1] &= (uint8_t)lmc_low_mask(n * p % 8);
    if (p > 0)
        memcpy(dst->low, last->low, low_nbytes);
    for (unsigned j = 0; j < lower_count; j++)
        memcpy(dst->lower[j], last->lower[j], n);
}

/* Advances to the planes of the next group. */
LMC_INLINE void advance(lmc_plane_set *at, unsigned p, unsigned lower_count)
{
    at->symbols += GROUP;
    if (p > 0)
        at->low += 8 * p;
    for (unsigned j = 0; j < lower_count; j++)
        at->lower[j] += GROUP;
    if (at->shift)
        at->shift += GROUP;
}

DEFINE_WIDTH(1, 8, 8)
DEFINE_WIDTH(2, 16, 16)
DEFINE_WIDTH(4, 32, 16)
DEFINE_WIDTH(8, 64, 16)

#endif
