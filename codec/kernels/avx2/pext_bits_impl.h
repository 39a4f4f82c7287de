/*
 * pext_bits_impl.h - bits and symbols under a mask by the instructions pext and pdep, for the set avx2. It defines what
 * vector_bits_impl.h defines without them.
 */
#ifndef LMC_CODEC_KERNELS_AVX2_PEXT_BITS_IMPL_H
#define LMC_CODEC_KERNELS_AVX2_PEXT_BITS_IMPL_H

#include "codec/kernels/shared/x86_bits.h"

/* ---- planes ---- */

/* Appends the bits of each of so many words that are under its mask. */
LMC_INLINE void gather_to_plane(lmc_bit_writer *writer, const uint64_t *word, const uint64_t *mask,
                                size_t word_count)
{
    for (size_t i = 0; i < word_count; i++)
        lmc_put_bits(writer, _pext_u64(word[i], mask[i]), lmc_popcount64(mask[i]));
}

/* The inverse: spreads the bits of a plane from a position on. Returns the position of the bit after them. */
LMC_INLINE uint64_t scatter_from_plane(const uint8_t *plane, uint64_t position, const uint64_t *mask,
                                       size_t word_count, uint64_t *word)
{
    for (size_t i = 0; i < word_count; i++) {
        word[i] = _pdep_u64(lmc_load_bits(plane, position), mask[i]);
        position += lmc_popcount64(mask[i]);
    }
    return position;
}

/* ---- bytes ---- */

/* Those of 32 bytes that are marked. */
typedef struct byte_marks {
    uint64_t eight[4]; /* bytes of 0 or 255 */
    uint64_t count[4]; /* of each eight */
} byte_marks;

/* Marks bytes that are 255. The others are 0. */
LMC_INLINE byte_marks mark_bytes(__m256i marked)
{
    const __m256i zero = _mm256_setzero_si256();
    byte_marks marks;
    store256(marks.eight, marked);
    store256(marks.count, _mm256_sad_epu8(_mm256_sub_epi8(zero, marked), zero));
    return marks;
}

/* Brings the marked ones of the j-th eight bytes to the lowest places, and 0 to the others. */
LMC_INLINE uint64_t pack_marked(uint64_t eight, const byte_marks *marks, unsigned j)
{
    return _pext_u64(eight, marks->eight[j]);
}

/* The inverse: bytes that are not marked become 0. */
LMC_INLINE uint64_t spread_to_marked(uint64_t packed, const byte_marks *marks, unsigned j)
{
    return _pdep_u64(packed, marks->eight[j]);
}

LMC_INLINE size_t count_marked(const byte_marks *marks, unsigned j)
{
    return marks->count[j];
}

/* ---- next symbols ---- */

/* The symbols of a strip that belong to the next layer. */
typedef struct marks {
    uint8_t passed_on[LMC_STRIP_VALUES];  /* 0 or 255 */
    uint64_t count[LMC_STRIP_VALUES / 8]; /* their number among each eight symbols */
} marks;

/* Marks those of a group whose bytes are 255. The others are 0. */
LMC_INLINE void mark_group(marks *m, size_t at, bytes64 passed_on)
{
    const __m256i zero = _mm256_setzero_si256();
    store_bytes64(m->passed_on + at, passed_on);
    for (unsigned h = 0; h < 2; h++)
        store256(m->count + at / 8 + 4 * h, _mm256_sad_epu8(_mm256_sub_epi8(zero, passed_on.half[h]), zero));
}

/* Appends the marked symbols of n, a multiple of 64. Returns the end of next_symbols. */
static uint8_t *append_passed_on(uint8_t *next_symbols, const uint8_t *symbols, const marks *m, size_t n)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < n / 8; i++) {
        lmc_store64(next_symbols, _pext_u64(lmc_load64(symbols + 8 * i), lmc_load64(m->passed_on + 8 * i)));
        next_symbols += m->count[i];
    }
    return next_symbols;
}

/* The inverse: the marked symbols are 0 and become next symbols. */
static const uint8_t *fill_passed_on(const uint8_t *next_symbols, const marks *m, size_t n, uint8_t *symbols)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < n / 8; i++) {
        const uint64_t filled = _pdep_u64(lmc_load64(next_symbols), lmc_load64(m->passed_on + 8 * i));
        lmc_store64(symbols + 8 * i, lmc_load64(symbols + 8 * i) | filled);
        next_symbols += m->count[i];
    }
    return next_symbols;
}

#endif
