/*
 * vector_bits_impl.h - bits and symbols under a mask for the set avx2-nopext, since pext and pdep are slow on its CPUs.
 * It defines what pext_bits_impl.h defines. Bits of four words are done at a time: inside nibbles by moves that are
 * looked up, then neighbours are joined, or parted before, by their counts. Symbols are shuffled eight at a time.
 */
#ifndef LMC_CODEC_KERNELS_AVX2_VECTOR_BITS_IMPL_H
#define LMC_CODEC_KERNELS_AVX2_VECTOR_BITS_IMPL_H

#include "codec/kernels/shared/byte_orders.h"
#include "codec/kernels/shared/even_bits.h"

/* ---- four words ---- */

/* How far a bit of a nibble moves when those under a mask are gathered: by the number of clear bits in the mask below
 * it, 0..3. moves_1[m] has the places of which bit 0 of that number is set, moves_2[m] those of bit 1. */
#define CLEAR_BELOW(m, i) (((i) > 0 && !BIT(m, 0)) + ((i) > 1 && !BIT(m, 1)) + ((i) > 2 && !BIT(m, 2)))
#define MOVES_1(m) \
    ((CLEAR_BELOW(m, 1) & 1) << 1 | (CLEAR_BELOW(m, 2) & 1) << 2 | (CLEAR_BELOW(m, 3) & 1) << 3)
#define MOVES_2(m) ((CLEAR_BELOW(m, 2) >> 1) << 2 | (CLEAR_BELOW(m, 3) >> 1) << 3)
#define COUNT(m) (BIT(m, 0) + BIT(m, 1) + BIT(m, 2) + BIT(m, 3))
#define POWER(m) (1 << COUNT(m))
#define CLEAR_POWER(m) (1 << (4 - COUNT(m)))
static const uint8_t moves_1[16] = {EACH_16(MOVES_1, 0)};
static const uint8_t moves_2[16] = {EACH_16(MOVES_2, 0)};
static const uint8_t count_of[16] = {EACH_16(COUNT, 0)};

/* 2 to the number of bits that are set, or clear, in a nibble: a multiplication by that is a shift of a lane. */
static const uint8_t power_of[16] = {EACH_16(POWER, 0)};
static const uint8_t clear_power_of[16] = {EACH_16(CLEAR_POWER, 0)};

LMC_INLINE __m256i load_table(const uint8_t table[16])
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)table));
}

/* The masks of four words. */
typedef struct word_masks {
    __m256i lower_nibbles; /* in bytes */
    __m256i moves_1, moves_2;
    __m256i count8, count16, count32; /* bits set in each lane */
} word_masks;

LMC_INLINE word_masks find_word_masks(__m256i mask)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i by_1 = load_table(moves_1), by_2 = load_table(moves_2), count = load_table(count_of);
    const __m256i lower = _mm256_and_si256(mask, nibble);
    const __m256i upper = _mm256_and_si256(_mm256_srli_epi16(mask, 4), nibble);
    word_masks m;
    m.lower_nibbles = lower;
    m.moves_1 = _mm256_or_si256(_mm256_shuffle_epi8(by_1, lower),
                                _mm256_shuffle_epi8(_mm256_slli_epi16(by_1, 4), upper));
    m.moves_2 = _mm256_or_si256(_mm256_shuffle_epi8(by_2, lower),
                                _mm256_shuffle_epi8(_mm256_slli_epi16(by_2, 4), upper));
    m.count8 = _mm256_add_epi8(_mm256_shuffle_epi8(count, lower), _mm256_shuffle_epi8(count, upper));
    m.count16 = _mm256_maddubs_epi16(m.count8, _mm256_set1_epi8(1));
    m.count32 = _mm256_madd_epi16(m.count16, _mm256_set1_epi16(1));
    return m;
}

/* Lanes of 16 bits with 1, and with 2 to the count of the lower byte: factors that join bytes. */
typedef struct byte_factors {
    __m256i low, high; /* the bytes of the factors */
} byte_factors;

LMC_INLINE byte_factors find_byte_factors(const word_masks *m)
{
    const __m256i low = _mm256_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16,
                                         32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m256i high = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                          0, 1, 0, 0, 0, 0, 0, 0, 0);
    const __m256i count = _mm256_slli_epi16(m->count8, 8);
    return (byte_factors){_mm256_shuffle_epi8(low, count), _mm256_shuffle_epi8(high, count)};
}

/* Gathers the bits of each word of x under its mask to the lowest places (pext). */
LMC_INLINE __m256i gather_words(__m256i x, __m256i mask)
{
    const word_masks m = find_word_masks(mask);
    x = _mm256_and_si256(x, mask);
    __m256i moving = _mm256_and_si256(x, m.moves_1);
    x = _mm256_or_si256(_mm256_xor_si256(x, moving), _mm256_srli_epi16(moving, 1));
    moving = _mm256_and_si256(x, m.moves_2);
    x = _mm256_or_si256(_mm256_xor_si256(x, moving), _mm256_srli_epi16(moving, 2));

    /* words 0 and 2, words 1 and 3: nibbles to bytes to 16 bits, in lanes of twice the width */
    const __m256i nibble = _mm256_set1_epi8(15), one = _mm256_set1_epi8(1);
    const __m256i lower = _mm256_and_si256(x, nibble);
    const __m256i upper = _mm256_and_si256(_mm256_srli_epi16(x, 4), nibble);
    const __m256i power = _mm256_shuffle_epi8(load_table(power_of), m.lower_nibbles);
    const byte_factors factors = find_byte_factors(&m);
    __m256i x02 = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(lower, upper), _mm256_unpacklo_epi8(one, power));
    __m256i x13 = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(lower, upper), _mm256_unpackhi_epi8(one, power));
    x02 = _mm256_madd_epi16(x02, _mm256_unpacklo_epi8(factors.low, factors.high));
    x13 = _mm256_madd_epi16(x13, _mm256_unpackhi_epi8(factors.low, factors.high));

    const __m256 f02 = _mm256_castsi256_ps(x02), f13 = _mm256_castsi256_ps(x13);
    const __m256i even = _mm256_castps_si256(_mm256_shuffle_ps(f02, f13, 0x88));
    const __m256i odd = _mm256_castps_si256(_mm256_shuffle_ps(f02, f13, 0xdd));
    const __m256i even_count = _mm256_and_si256(m.count16, _mm256_set1_epi32(0xffff));
    x = _mm256_or_si256(even, _mm256_sllv_epi32(odd, even_count));
    const __m256i half = _mm256_set1_epi64x(0xffffffff);
    return _mm256_or_si256(_mm256_and_si256(x, half),
                           _mm256_sllv_epi64(_mm256_srli_epi64(x, 32), _mm256_and_si256(m.count32, half)));
}

/* Spreads the lowest bits of each word of x to the places of its mask (pdep). Until the moves, the lower part of a lane
 * may hold bits of the upper part as well: these come to places outside the mask. */
LMC_INLINE __m256i scatter_words(__m256i x, __m256i mask)
{
    const word_masks m = find_word_masks(mask);
    const __m256i half_count = _mm256_and_si256(m.count32, _mm256_set1_epi64x(0xffffffff));
    const __m256i even_count = _mm256_and_si256(m.count16, _mm256_set1_epi32(0xffff));
    x = _mm256_blend_epi32(x, _mm256_slli_epi64(_mm256_srlv_epi64(x, half_count), 32), 0xaa);
    x = _mm256_blend_epi16(x, _mm256_slli_epi32(_mm256_srlv_epi32(x, even_count), 16), 0xaa);

    /* an upper byte is shifted by its distance from the lower one's bits */
    const __m256i low_byte = _mm256_set1_epi16(0xff);
    const __m256i power = _mm256_setr_epi8(0, -128, 64, 32, 16, 8, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, -128, 64,
                                           32, 16, 8, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0);
    const __m256i byte_count = _mm256_and_si256(m.count8, low_byte);
    const __m256i none = _mm256_cmpeq_epi16(byte_count, _mm256_setzero_si256());
    const __m256i factor = _mm256_or_si256(_mm256_shuffle_epi8(power, byte_count),
                                           _mm256_and_si256(none, _mm256_set1_epi16(0x100)));
    x = _mm256_blendv_epi8(_mm256_mullo_epi16(x, factor), x, low_byte);

    /* so is an upper nibble */
    const __m256i clear_power = _mm256_shuffle_epi8(load_table(clear_power_of), m.lower_nibbles);
    const __m256i even = _mm256_maddubs_epi16(_mm256_and_si256(x, low_byte), clear_power);
    const __m256i odd =
        _mm256_slli_epi16(_mm256_maddubs_epi16(_mm256_andnot_si256(low_byte, x), clear_power), 8);
    const __m256i upper = _mm256_blendv_epi8(odd, even, low_byte);
    const __m256i nibble = _mm256_set1_epi8(15);
    x = _mm256_or_si256(_mm256_and_si256(x, nibble), _mm256_andnot_si256(nibble, upper));

    x = _mm256_xor_si256(x, _mm256_and_si256(_mm256_xor_si256(_mm256_slli_epi16(x, 2), x), m.moves_2));
    x = _mm256_xor_si256(x, _mm256_and_si256(_mm256_xor_si256(_mm256_slli_epi16(x, 1), x), m.moves_1));
    return _mm256_and_si256(x, mask);
}

/* ---- planes ---- */

#define WORDS_AT_ONCE 4

/* Appends the bits of each of so many words that are under its mask. Words and masks are those of a strip: reads a
 * multiple of WORDS_AT_ONCE. */
LMC_INLINE void gather_to_plane(lmc_bit_writer *writer, const uint64_t *word, const uint64_t *mask,
                                size_t word_count)
{
    for (size_t i = 0; i < word_count; i += WORDS_AT_ONCE) {
        uint64_t gathered[WORDS_AT_ONCE];
        store256(gathered, gather_words(load256(word + i), load256(mask + i)));
        for (size_t k = 0; k < WORDS_AT_ONCE && i + k < word_count; k++)
            lmc_put_bits(writer, gathered[k], lmc_popcount64(mask[i + k]));
    }
}

/* The inverse: spreads the bits of a plane from a position on. Returns the position of the bit after them. */
LMC_INLINE uint64_t scatter_from_plane(const uint8_t *plane, uint64_t position, const uint64_t *mask,
                                       size_t word_count, uint64_t *word)
{
    for (size_t i = 0; i < word_count; i++) {
        word[i] = lmc_load_bits(plane, position);
        position += lmc_popcount64(mask[i]);
    }
    for (size_t i = 0; i < word_count; i += WORDS_AT_ONCE)
        store256(word + i, scatter_words(load256(word + i), load256(mask + i)));
    return position;
}

/* ---- bytes ---- */

LMC_INLINE __m128i load_eight(const void *p)
{
    return _mm_loadl_epi64((const __m128i *)p);
}

LMC_INLINE uint64_t shuffle_eight(uint64_t eight, const uint64_t *order)
{
    const __m128i shuffled = _mm_shuffle_epi8(_mm_cvtsi64_si128((long long)eight), load_eight(order));
    return (uint64_t)_mm_cvtsi128_si64(shuffled);
}

/* Those of 32 bytes that are marked: a bit of each. */
typedef struct byte_marks {
    uint32_t bits;
} byte_marks;

/* Marks bytes that are 255. The others are 0. */
LMC_INLINE byte_marks mark_bytes(__m256i marked)
{
    return (byte_marks){(uint32_t)_mm256_movemask_epi8(marked)};
}

/* Brings the marked ones of the j-th eight bytes to the lowest places, and 0 to the others. */
LMC_INLINE uint64_t pack_marked(uint64_t eight, const byte_marks *marks, unsigned j)
{
    return shuffle_eight(eight, &pack_order[marks->bits >> 8 * j & 0xff]);
}

/* The inverse: bytes that are not marked become 0. */
LMC_INLINE uint64_t spread_to_marked(uint64_t packed, const byte_marks *marks, unsigned j)
{
    return shuffle_eight(packed, &fill_order[marks->bits >> 8 * j & 0xff]);
}

LMC_INLINE size_t count_marked(const byte_marks *marks, unsigned j)
{
    return lmc_popcount64(marks->bits >> 8 * j & 0xff);
}

/* ---- next symbols ---- */

/* The symbols of a strip that belong to the next layer: a bit of each. */
typedef struct marks {
    uint64_t passed_on[LMC_STRIP_VALUES / GROUP];
} marks;

/* Marks those of a group whose bytes are 255. The others are 0. */
LMC_INLINE void mark_group(marks *m, size_t at, bytes64 passed_on)
{
    m->passed_on[at / GROUP] = top_bits(passed_on.half[0], passed_on.half[1]);
}

/* Appends the marked symbols of n, a multiple of 64. Returns the end of next_symbols. */
static uint8_t *append_passed_on(uint8_t *next_symbols, const uint8_t *symbols, const marks *m, size_t n)
{
    for (size_t g = 0; g < n; g += GROUP) {
        uint64_t passed_on = m->passed_on[g / GROUP];
#pragma GCC unroll 8
        for (size_t i = 0; i < GROUP; i += 8, passed_on >>= 8) {
            const uint8_t mask = (uint8_t)passed_on;
            const __m128i packed =
                _mm_shuffle_epi8(load_eight(symbols + g + i), load_eight(&pack_order[mask]));
            _mm_storel_epi64((__m128i *)(void *)next_symbols, packed);
            next_symbols += lmc_popcount64(mask);
        }
    }
    return next_symbols;
}

/* The inverse: the marked symbols are 0 and become next symbols. */
static const uint8_t *fill_passed_on(const uint8_t *next_symbols, const marks *m, size_t n, uint8_t *symbols)
{
    for (size_t g = 0; g < n; g += GROUP) {
        uint64_t passed_on = m->passed_on[g / GROUP];
#pragma GCC unroll 8
        for (size_t i = 0; i < GROUP; i += 8, passed_on >>= 8) {
            const uint8_t mask = (uint8_t)passed_on;
            const __m128i filled = _mm_shuffle_epi8(load_eight(next_symbols), load_eight(&fill_order[mask]));
            _mm_storel_epi64((__m128i *)(void *)(symbols + g + i),
                             _mm_or_si128(load_eight(symbols + g + i), filled));
            next_symbols += lmc_popcount64(mask);
        }
    }
    return next_symbols;
}

/* ---- the bit operations that shared/hierarchy_loops_impl.h asks for ---- */

LMC_INLINE __m256i one_word(uint64_t x)
{
    return _mm256_castsi128_si256(_mm_cvtsi64_si128((long long)x));
}

LMC_INLINE uint64_t gather_bits(uint64_t x, uint64_t mask)
{
    const __m256i gathered = gather_words(one_word(x), one_word(mask));
    return (uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(gathered));
}

LMC_INLINE uint64_t scatter_word(uint64_t x, uint64_t mask)
{
    const __m256i scattered = scatter_words(one_word(x), one_word(mask));
    return (uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(scattered));
}

LMC_INLINE unsigned count_bits(uint64_t x)
{
    return lmc_popcount64(x);
}

#endif
