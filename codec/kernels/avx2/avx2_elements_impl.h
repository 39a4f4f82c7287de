/*
 * avx2_elements_impl.h - cuts elements into planes and joins them, for the sets avx2 and avx2-nopext, 32 elements at a
 * time. Elements become narrower by packing pairs of registers. Low bits are packed by multiplication and byte
 * shuffles.
 */
#ifndef LMC_CODEC_KERNELS_AVX2_AVX2_ELEMENTS_IMPL_H
#define LMC_CODEC_KERNELS_AVX2_AVX2_ELEMENTS_IMPL_H

/* ---- split ---- */

/* Packing works on 128 bits at a time. These orders of 32-bit lanes put 32 bytes back in line. They came from two
 * registers of 16-bit lanes, or from four of 32-bit lanes by way of two of 16-bit lanes. */
LMC_INLINE __m256i order_from_words(void)
{
    return _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7);
}

LMC_INLINE __m256i order_from_dwords(void)
{
    return _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
}

typedef struct word_pair {
    __m256i word[2];
} word_pair;

/* 16-bit lanes to bytes; 256 .. 32767 become 255. */
LMC_INLINE __m256i narrow_words(word_pair w, __m256i order)
{
    return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(w.word[0], w.word[1]), order);
}

LMC_INLINE __m256i low_bytes(word_pair w, __m256i order)
{
    const __m256i mask = _mm256_set1_epi16(0xff);
    return narrow_words((word_pair){{_mm256_and_si256(w.word[0], mask), _mm256_and_si256(w.word[1], mask)}},
                        order);
}

LMC_INLINE __m256i high_bytes(word_pair w, __m256i order)
{
    return narrow_words((word_pair){{_mm256_srli_epi16(w.word[0], 8), _mm256_srli_epi16(w.word[1], 8)}},
                        order);
}

LMC_INLINE word_pair low_words(const __m256i x[4])
{
    const __m256i mask = _mm256_set1_epi32(0xffff);
    return (word_pair){{_mm256_packus_epi32(_mm256_and_si256(x[0], mask), _mm256_and_si256(x[1], mask)),
                        _mm256_packus_epi32(_mm256_and_si256(x[2], mask), _mm256_and_si256(x[3], mask))}};
}

LMC_INLINE word_pair high_words(const __m256i x[4])
{
    return (word_pair){{_mm256_packus_epi32(_mm256_srli_epi32(x[0], 16), _mm256_srli_epi32(x[1], 16)),
                        _mm256_packus_epi32(_mm256_srli_epi32(x[2], 16), _mm256_srli_epi32(x[3], 16))}};
}

/* Registers for cutting high parts into symbols and low bits. */
typedef struct high_cut {
    unsigned low_nbits;
    __m256i high_mask; /* 16-bit lanes */
    __m256i shift; /* offset - (window_start << low_nbits): then the symbol is the part above the low bits */
    __m128i low_count;
    __m256i low_mask;
    __m256i pairs; /* 1 and 2^low_nbits, bytes: put two low parts together in a 16-bit lane */
    __m256i quads; /* 1 and 4^low_nbits, 16 bits each: put four together in a 32-bit lane */
    __m256i octet_counts;
    __m256i octet_mask; /* the four low parts in the lower half of a 64-bit lane */
    __m256i gather;     /* the bytes of two 64-bit lanes that the low parts fill */
} high_cut;

LMC_INLINE high_cut load_high_cut(const lmc_split *split, const unsigned high_nbits)
{
    const unsigned p = split->low_nbits;
    uint8_t gather[24];
    lmc_store64(gather, IN_ORDER);
    lmc_store64(gather + p, IN_ORDER + UINT64_C(0x0808080808080808));
    high_cut cut;
    cut.low_nbits = p;
    cut.high_mask = _mm256_set1_epi16((short)((1u << high_nbits) - 1));
    cut.shift = _mm256_set1_epi16((short)(split->offset - ((unsigned)split->window_start << p)));
    cut.low_count = _mm_cvtsi32_si128((int)p);
    cut.low_mask = _mm256_set1_epi16((short)((1u << p) - 1));
    cut.pairs = _mm256_set1_epi16((short)(1u | 1u << (p + 8)));
    cut.quads = _mm256_set1_epi32((int)(1u | 1u << (2 * p + 16) % 32));
    cut.octet_counts = _mm256_set1_epi64x(32 - 4 * (int)p);
    cut.octet_mask = _mm256_set1_epi64x((long long)((UINT64_C(1) << 4 * p) - 1));
    cut.gather = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)gather));
    return cut;
}

/* Packs 32 bytes of low_nbits < 8 bits each to 4 * low_nbits bytes. Writes 16 - 2 * low_nbits bytes more. */
LMC_INLINE void pack_low(const high_cut *cut, __m256i low, uint8_t *dst)
{
    const __m256i pairs = _mm256_maddubs_epi16(cut->pairs, low);
    const __m256i quads = _mm256_madd_epi16(pairs, cut->quads);
    const __m256i shifted = _mm256_srlv_epi64(quads, cut->octet_counts);
    const __m256i octets = _mm256_or_si256(_mm256_and_si256(cut->octet_mask, quads),
                                           _mm256_andnot_si256(cut->octet_mask, shifted));
    const __m256i packed = _mm256_shuffle_epi8(octets, cut->gather);
    _mm_storeu_si128((__m128i *)dst, _mm256_castsi256_si128(packed));
    _mm_storeu_si128((__m128i *)(dst + 2 * cut->low_nbits), _mm256_extracti128_si256(packed, 1));
}

/* Cuts 32 high parts; `low` is written as pack_low() does. Returns the symbols. */
LMC_INLINE __m256i cut_high(const high_cut *cut, word_pair high_parts, __m256i order, uint8_t *symbols,
                            uint8_t *low)
{
    const __m256i h0 = _mm256_and_si256(_mm256_add_epi16(high_parts.word[0], cut->shift), cut->high_mask);
    const __m256i h1 = _mm256_and_si256(_mm256_add_epi16(high_parts.word[1], cut->shift), cut->high_mask);
    const __m256i widest = _mm256_set1_epi16(0x7fff); /* narrowing takes larger numbers for negative ones */
    const word_pair wide_symbols = {{_mm256_min_epu16(_mm256_srl_epi16(h0, cut->low_count), widest),
                                     _mm256_min_epu16(_mm256_srl_epi16(h1, cut->low_count), widest)}};
    const __m256i s = narrow_words(wide_symbols, order);
    store256(symbols, s);
    if (cut->low_nbits > 0) {
        const word_pair wide_low = {
            {_mm256_and_si256(h0, cut->low_mask), _mm256_and_si256(h1, cut->low_mask)}};
        const __m256i low_parts = narrow_words(wide_low, order);
        if (cut->low_nbits == 8)
            store256(low, low_parts);
        else
            pack_low(cut, low_parts, low);
    }
    return s;
}

/* The high parts plus 32 shifts, which come to the order of the high parts of elements of nbytes. */
LMC_INLINE word_pair shift_words(const unsigned nbytes, word_pair high_parts, const uint16_t *shift)
{
    const __m256i s0 = load256(shift), s1 = load256(shift + 16);
    __m256i s[2] = {s0, s1};
    if (nbytes == 1) {
        s[0] = _mm256_permute2x128_si256(s0, s1, 0x20);
        s[1] = _mm256_permute2x128_si256(s0, s1, 0x31);
    } else if (nbytes > 2) {
        s[0] = _mm256_permute4x64_epi64(s0, 0xd8);
        s[1] = _mm256_permute4x64_epi64(s1, 0xd8);
    }
    return (word_pair){
        {_mm256_add_epi16(high_parts.word[0], s[0]), _mm256_add_epi16(high_parts.word[1], s[1])}};
}

/* The lower (0) or upper (1) halves of 8-byte elements in two registers, in one register. */
LMC_INLINE __m256i half_elements(__m256i x0, __m256i x1, const int upper)
{
    const __m256 f0 = _mm256_castsi256_ps(x0), f1 = _mm256_castsi256_ps(x1);
    const __m256 halves = upper ? _mm256_shuffle_ps(f0, f1, 0xdd) : _mm256_shuffle_ps(f0, f1, 0x88);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(halves), 0xd8);
}

LMC_INLINE void rotate_left(const unsigned nbytes, __m256i *x)
{
    for (unsigned i = 0; i < nbytes; i++)
        x[i] = nbytes == 2   ? _mm256_or_si256(_mm256_add_epi16(x[i], x[i]), _mm256_srli_epi16(x[i], 15))
               : nbytes == 4 ? _mm256_or_si256(_mm256_add_epi32(x[i], x[i]), _mm256_srli_epi32(x[i], 31))
                             : _mm256_or_si256(_mm256_add_epi64(x[i], x[i]), _mm256_srli_epi64(x[i], 63));
}

/* Stores the two upper bytes, or the two lower ones, of 32-bit lanes in four registers to their planes. */
LMC_INLINE void store_bytes_of(word_pair words, uint8_t *const *planes)
{
    store256(planes[0], high_bytes(words, order_from_dwords()));
    store256(planes[1], low_bytes(words, order_from_dwords()));
}

/* Cuts 32 elements into planes at dst; the low plane is written as pack_low() does. */
LMC_INLINE __m256i split_half(const unsigned nbytes, const int is_shifted, const high_cut *cut,
                              unsigned rotation, const uint8_t *src, const lmc_plane_set *dst)
{
    __m256i x[8];
    for (unsigned i = 0; i < nbytes; i++)
        x[i] = load256(src + 32 * i);
    fetch(dst->low, AHEAD_LOW);
    if (nbytes == 1) { /* a byte twice in a 16-bit lane */
        word_pair high_parts = {{_mm256_unpacklo_epi8(x[0], x[0]), _mm256_unpackhi_epi8(x[0], x[0])}};
        if (rotation)
            for (unsigned i = 0; i < 2; i++)
                high_parts.word[i] = _mm256_srli_epi16(high_parts.word[i], 7);
        if (is_shifted)
            high_parts = shift_words(nbytes, high_parts, dst->shift);
        return cut_high(cut, high_parts, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), dst->symbols, dst->low);
    }
    if (rotation)
        rotate_left(nbytes, x);
    if (nbytes == 2) {
        word_pair high_parts = {{x[0], x[1]}};
        if (is_shifted)
            high_parts = shift_words(nbytes, high_parts, dst->shift);
        return cut_high(cut, high_parts, order_from_words(), dst->symbols, dst->low);
    }
    if (nbytes == 8) {
        __m256i lower[4];
        for (unsigned i = 0; i < 4; i++) {
            lower[i] = half_elements(x[2 * i], x[2 * i + 1], 0);
            x[i] = half_elements(x[2 * i], x[2 * i + 1], 1);
        }
        store_bytes_of(high_words(lower), dst->lower + 2);
        store_bytes_of(low_words(lower), dst->lower + 4);
    }
    store_bytes_of(low_words(x), dst->lower);
    word_pair high_parts = high_words(x);
    if (is_shifted)
        high_parts = shift_words(nbytes, high_parts, dst->shift);
    return cut_high(cut, high_parts, order_from_dwords(), dst->symbols, dst->low);
}

/* Cuts a group of 64 elements; the low plane is written as pack_low() does. */
LMC_INLINE __m256i split_group(const unsigned nbytes, const int is_shifted, const high_cut *cut,
                               unsigned rotation, const uint8_t *src, const lmc_plane_set *dst)
{
    lmc_plane_set upper = *dst;
    for (unsigned i = 0; i < nbytes; i++)
        fetch(src + 64 * i, AHEAD_ELEMENTS);
    const __m256i s = split_half(nbytes, is_shifted, cut, rotation, src, dst);
    upper.symbols += 32;
    if (cut->low_nbits > 0)
        upper.low += 4 * cut->low_nbits;
    for (unsigned j = 0; j + 2 < nbytes; j++)
        upper.lower[j] += 32;
    if (is_shifted)
        upper.shift += 32;
    return _mm256_max_epu8(s, split_half(nbytes, is_shifted, cut, rotation, src + 32 * nbytes, &upper));
}

/* Cuts the last groups of a call, n <= 64 elements each, by way of buffers, since planes are written to their exact
 * ends. */
LMC_INLINE __m256i split_last(const unsigned nbytes, const int is_shifted, const high_cut *cut,
                              unsigned rotation, const uint8_t *src, size_t n, const lmc_plane_set *dst)
{
    uint8_t elements[8 * GROUP] = {0};
    uint8_t low[GROUP + 16];
    uint8_t lower[LMC_COUNT(dst->lower)][GROUP];
    memcpy(elements, src, n * nbytes);
    const lmc_plane_set planes = {
        dst->symbols, low, {lower[0], lower[1], lower[2], lower[3], lower[4], lower[5]}, dst->shift};
    split_group(nbytes, is_shifted, cut, rotation, elements, &planes);
    memset(dst->symbols + n, 0, GROUP - n);
    const size_t low_nbits = n * cut->low_nbits;
    if (low_nbits % 8 != 0)
        low[low_nbits / 8] &= (uint8_t)((1u << low_nbits % 8) - 1);
    if (low_nbits > 0)
        memcpy(dst->low, low, lmc_bits_nbytes(low_nbits));
    for (unsigned j = 0; j < LMC_COUNT(lower) && j + 2 < nbytes; j++)
        memcpy(dst->lower[j], lower[j], n);
    return _mm256_max_epu8(load256(dst->symbols), load256(dst->symbols + 32));
}

LMC_INLINE unsigned split_elements(const unsigned nbytes, const int is_shifted, const lmc_split *split,
                                   const uint8_t *src, size_t n, const lmc_plane_set *dst)
{
    const unsigned p = split->low_nbits;
    const unsigned high_nbits = lmc_high_nbits(nbytes);
    const unsigned rotation = split->rotation;
    const high_cut cut = load_high_cut(split, high_nbits);
    const size_t overrun =
        p > 0 ? lmc_div_ceil(8 * (16 - 2 * p), p) : 0; /* that pack_low() writes too many */
    const lmc_plane_set planes = *dst;
    __m256i greatest = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + GROUP + overrun <= n; i += GROUP) {
        const lmc_plane_set at = planes_at(nbytes, &planes, p, i);
        greatest =
            _mm256_max_epu8(greatest, split_group(nbytes, is_shifted, &cut, rotation, src + i * nbytes, &at));
    }
    for (; i < n; i += GROUP) {
        const lmc_plane_set at = planes_at(nbytes, &planes, p, i);
        greatest = _mm256_max_epu8(greatest, split_last(nbytes, is_shifted, &cut, rotation, src + i * nbytes,
                                                        lmc_min_size(GROUP, n - i), &at));
    }
    const __m256i escape = _mm256_set1_epi8((char)LMC_FMT_SYMBOL_ESCAPE);
    return high_nbits - p > 8 && _mm256_movemask_epi8(_mm256_cmpeq_epi8(greatest, escape)) != 0;
}

/* ---- join ---- */

/* Registers for bringing low parts to 16- or 32-bit lanes: the two bytes that hold each part, and a shift to the
 * right. */
typedef struct low_spread {
    __m256i source; /* in 16 bytes, of which each half of the register has a copy */
    __m256i
        shift; /* 16-bit lanes: factors, of whose products the upper half counts; 32-bit lanes: shift counts */
    __m256i mask;
    unsigned low_nbits;
} low_spread;

LMC_INLINE low_spread load_low_spread_16(unsigned low_nbits)
{
    uint8_t source[32];
    uint16_t factor[16];
    for (unsigned k = 0; k < 16; k++) {
        const unsigned second = (k * low_nbits + 7) / 8; /* shifts are 1..8: there is no factor of 2^16 */
        source[2 * k] = (uint8_t)(second - 1);           /* 255 is byte -1 and reads as 0 */
        source[2 * k + 1] = (uint8_t)second;
        factor[k] = (uint16_t)(1u << (8 + 8 * second - k * low_nbits));
    }
    low_spread spread;
    spread.source = load256(source);
    spread.shift = load256(factor);
    spread.mask = _mm256_set1_epi16((short)((1u << low_nbits) - 1));
    spread.low_nbits = low_nbits;
    return spread;
}

LMC_INLINE __m256i unpack_low_16(const low_spread *spread, const uint8_t *low)
{
    const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)low));
    const __m256i shifted = _mm256_mulhi_epu16(_mm256_shuffle_epi8(both, spread->source), spread->shift);
    return _mm256_and_si256(shifted, spread->mask);
}

LMC_INLINE low_spread load_low_spread_32(unsigned low_nbits)
{
    uint32_t source[8], count[8];
    for (unsigned k = 0; k < 8; k++) {
        const unsigned first = k * low_nbits / 8;
        source[k] = UINT32_C(0x80800000) | (first + 1) << 8 | first;
        count[k] = k * low_nbits % 8;
    }
    low_spread spread;
    spread.source = load256(source);
    spread.shift = load256(count);
    spread.mask = _mm256_set1_epi32((1 << low_nbits) - 1);
    spread.low_nbits = low_nbits;
    return spread;
}

LMC_INLINE __m256i unpack_low_32(const low_spread *spread, const uint8_t *low)
{
    const __m256i both = _mm256_set1_epi64x((long long)lmc_load64(low));
    const __m256i shifted = _mm256_srlv_epi32(_mm256_shuffle_epi8(both, spread->source), spread->shift);
    return _mm256_and_si256(shifted, spread->mask);
}

LMC_INLINE __m256i widen_to_16(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
}

LMC_INLINE __m256i widen_to_32(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

/* Registers for joining high parts. */
typedef struct high_join {
    low_spread low;
    __m128i low_count;
    __m256i shift; /* (window_start << low_nbits) - offset */
    unsigned rotation;
} high_join;

LMC_INLINE high_join load_high_join(const unsigned nbytes, const lmc_split *split)
{
    const int shift = (int)(((unsigned)split->window_start << split->low_nbits) - split->offset);
    high_join join;
    join.low = nbytes >= 4 ? load_low_spread_32(split->low_nbits) : load_low_spread_16(split->low_nbits);
    join.low_count = _mm_cvtsi32_si128(split->low_nbits);
    join.shift = nbytes >= 4 ? _mm256_set1_epi32(shift) : _mm256_set1_epi16((short)shift);
    join.rotation = split->rotation;
    return join;
}

/* Joins 16 high parts. shift here and below: NULL for none, which the compiler knows. */
LMC_INLINE __m256i join_high_16(const high_join *join, const uint8_t *symbols, const uint8_t *low,
                                const uint16_t *shift)
{
    const __m256i s = _mm256_sll_epi16(widen_to_16(symbols), join->low_count);
    const __m256i high = _mm256_add_epi16(_mm256_add_epi16(s, join->shift), unpack_low_16(&join->low, low));
    return shift ? _mm256_sub_epi16(high, load256(shift)) : high;
}

LMC_INLINE __m256i join_2_bytes(const high_join *join, const uint8_t *symbols, const uint8_t *low,
                                const uint16_t *shift)
{
    const __m256i x = join_high_16(join, symbols, low, shift);
    return join->rotation ? _mm256_or_si256(_mm256_srli_epi16(x, 1), _mm256_slli_epi16(x, 15)) : x;
}

/* Joins 32 elements of 1 byte. */
LMC_INLINE __m256i join_1_byte(const high_join *join, const uint8_t *symbols, const uint8_t *low,
                               const uint16_t *shift)
{
    const __m256i mask = _mm256_set1_epi16(0xff);
    word_pair x;
    for (unsigned i = 0; i < 2; i++) {
        const __m256i high = join_high_16(join, symbols + 16 * i, low + 2 * i * join->low.low_nbits,
                                          shift ? shift + 16 * i : NULL);
        const __m256i byte = _mm256_and_si256(high, mask);
        const __m256i rotated = _mm256_or_si256(_mm256_srli_epi16(byte, 1), _mm256_slli_epi16(byte, 7));
        x.word[i] = join->rotation ? _mm256_and_si256(rotated, mask) : byte;
    }
    return narrow_words(x, order_from_words());
}

/* Two planes of bytes as the upper and the lower byte in the lower half of eight 32-bit lanes. */
LMC_INLINE __m256i widen_pair(uint8_t *const *planes, size_t i)
{
    return _mm256_or_si256(_mm256_slli_epi32(widen_to_32(planes[0] + i), 8), widen_to_32(planes[1] + i));
}

/* The upper 4 bytes of eight elements, before the rotation back. */
LMC_INLINE __m256i join_upper_4_bytes(const high_join *join, const lmc_plane_set *src, size_t i,
                                      const uint16_t *shift)
{
    const __m256i s = _mm256_sll_epi32(widen_to_32(src->symbols + i), join->low_count);
    const __m256i low = unpack_low_32(&join->low, src->low + i / 8 * join->low.low_nbits);
    __m256i high = _mm256_add_epi32(_mm256_add_epi32(s, join->shift), low);
    if (shift)
        high = _mm256_sub_epi32(
            high, _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(shift + i))));
    return _mm256_or_si256(_mm256_slli_epi32(high, 16), widen_pair(src->lower, i));
}

LMC_INLINE __m256i join_4_bytes(const high_join *join, const lmc_plane_set *src, size_t i,
                                const uint16_t *shift)
{
    const __m256i x = join_upper_4_bytes(join, src, i, shift);
    return join->rotation ? _mm256_or_si256(_mm256_srli_epi32(x, 1), _mm256_slli_epi32(x, 31)) : x;
}

/* Joins eight elements of 8 bytes. */
LMC_INLINE void join_8_bytes(const high_join *join, const lmc_plane_set *src, size_t i, const uint16_t *shift,
                             uint8_t *dst)
{
    const __m256i upper = join_upper_4_bytes(join, src, i, shift);
    const __m256i lower =
        _mm256_or_si256(_mm256_slli_epi32(widen_pair(src->lower + 2, i), 16), widen_pair(src->lower + 4, i));
    const __m256i even = _mm256_unpacklo_epi32(lower, upper); /* elements 0, 1, 4, 5 */
    const __m256i odd = _mm256_unpackhi_epi32(lower, upper);
    __m256i x[2] = {_mm256_permute2x128_si256(even, odd, 0x20), _mm256_permute2x128_si256(even, odd, 0x31)};
    for (unsigned k = 0; k < 2; k++) {
        if (join->rotation)
            x[k] = _mm256_or_si256(_mm256_srli_epi64(x[k], 1), _mm256_slli_epi64(x[k], 63));
        store256(dst + 32 * k, x[k]);
    }
}

/* Joins a group of 64 elements. */
LMC_INLINE void join_group(const unsigned nbytes, const int is_shifted, const high_join *join,
                           const lmc_plane_set *src, uint8_t *dst)
{
    const unsigned step = nbytes == 8 ? 8 : 32 / nbytes;
    const uint16_t *const shift = is_shifted ? src->shift : NULL;
    for (unsigned i = 0; i < GROUP; i += step) {
        const uint8_t *const low = src->low + i / 8 * join->low.low_nbits;
        const uint16_t *const shift_here = is_shifted ? shift + i : NULL;
        if (nbytes == 1)
            store256(dst + i, join_1_byte(join, src->symbols + i, low, shift_here));
        else if (nbytes == 2)
            store256(dst + i * 2, join_2_bytes(join, src->symbols + i, low, shift_here));
        else if (nbytes == 4)
            store256(dst + i * 4, join_4_bytes(join, src, i, shift));
        else
            join_8_bytes(join, src, i, shift, dst + i * 8);
    }
}

#endif
