/*
 * avx512_elements_impl.h - cuts elements into planes and joins them, for kernels/avx512/avx512.c, 64 elements at a
 * time. Elements become narrower by packing pairs of registers. Low bits are packed by multiplication and compression.
 */
#ifndef LMC_CODEC_KERNELS_AVX512_AVX512_ELEMENTS_IMPL_H
#define LMC_CODEC_KERNELS_AVX512_AVX512_ELEMENTS_IMPL_H

/* ---- split ---- */

/* Packing works on 128 bits at a time. These orders of 32-bit lanes put 64 bytes back in line. They came from two
 * registers of 16-bit lanes, or from four of 32-bit lanes by way of two of 16-bit lanes. */
LMC_INLINE __m512i order_from_words(void)
{
    return _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
}

LMC_INLINE __m512i order_from_dwords(void)
{
    return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

typedef struct word_pair {
    __m512i word[2];
} word_pair;

/* 16-bit lanes to bytes; 256 .. 32767 become 255. */
LMC_INLINE __m512i narrow_words(word_pair w, __m512i order)
{
    return _mm512_permutexvar_epi32(order, _mm512_packus_epi16(w.word[0], w.word[1]));
}

LMC_INLINE __m512i low_bytes(word_pair w, __m512i order)
{
    const __m512i mask = _mm512_set1_epi16(0xff);
    return narrow_words((word_pair){{_mm512_and_si512(w.word[0], mask), _mm512_and_si512(w.word[1], mask)}},
                        order);
}

LMC_INLINE __m512i high_bytes(word_pair w, __m512i order)
{
    return narrow_words((word_pair){{_mm512_srli_epi16(w.word[0], 8), _mm512_srli_epi16(w.word[1], 8)}},
                        order);
}

LMC_INLINE word_pair low_words(const __m512i x[4])
{
    const __m512i mask = _mm512_set1_epi32(0xffff);
    return (word_pair){{_mm512_packus_epi32(_mm512_and_si512(x[0], mask), _mm512_and_si512(x[1], mask)),
                        _mm512_packus_epi32(_mm512_and_si512(x[2], mask), _mm512_and_si512(x[3], mask))}};
}

LMC_INLINE word_pair high_words(const __m512i x[4])
{
    return (word_pair){{_mm512_packus_epi32(_mm512_srli_epi32(x[0], 16), _mm512_srli_epi32(x[1], 16)),
                        _mm512_packus_epi32(_mm512_srli_epi32(x[2], 16), _mm512_srli_epi32(x[3], 16))}};
}

/* Registers for cutting high parts into symbols and low bits. */
typedef struct high_cut {
    unsigned low_nbits;
    __m512i high_mask; /* 16-bit lanes from here */
    __m512i shift; /* offset - (window_start << low_nbits): then the symbol is the part above the low bits */
    __m512i low_counts;
    __m512i low_mask;
    __m512i pairs; /* 1 and 2^low_nbits, bytes: put two low parts together in a 16-bit lane */
    __m512i quads; /* 1 and 4^low_nbits, 16 bits each: put four together in a 32-bit lane */
    __m512i octet_counts;
    __m512i octet_mask; /* the four low parts in the lower half of a 64-bit lane */
    uint64_t low_kept;  /* bytes of a 64-bit lane that the low parts fill */
} high_cut;

LMC_INLINE high_cut load_high_cut(const lmc_split *split, const unsigned high_nbits)
{
    const unsigned p = split->low_nbits;
    high_cut cut;
    cut.low_nbits = p;
    cut.high_mask = _mm512_set1_epi16((short)((1u << high_nbits) - 1));
    cut.shift = _mm512_set1_epi16((short)(split->offset - ((unsigned)split->window_start << p)));
    cut.low_counts = _mm512_set1_epi16((short)p);
    cut.low_mask = _mm512_set1_epi16((short)((1u << p) - 1));
    cut.pairs = _mm512_set1_epi16((short)(1u | 1u << (p + 8)));
    cut.quads = _mm512_set1_epi32((int)(1u | 1u << (2 * p + 16) % 32));
    cut.octet_counts = _mm512_set1_epi64(32 - 4 * (int)p);
    cut.octet_mask = _mm512_set1_epi64((long long)((UINT64_C(1) << 4 * p) - 1));
    cut.low_kept = ((1u << p) - 1) * EACH_BYTE;
    return cut;
}

/* Packs 64 bytes of fewer than 8 bits each to 8 * low_nbits bytes. */
LMC_INLINE __m512i pack_low(const high_cut *cut, __m512i low)
{
    const __m512i pairs = _mm512_maddubs_epi16(cut->pairs, low);
    const __m512i quads = _mm512_madd_epi16(pairs, cut->quads);
    const __m512i shifted = _mm512_srlv_epi64(quads, cut->octet_counts);
    const __m512i octets = _mm512_ternarylogic_epi64(cut->octet_mask, quads, shifted, 0xca /* select */);
    return _mm512_maskz_compress_epi8(cut->low_kept, octets);
}

/* 64 shifts in the order of the high parts of elements of nbytes, as they stand after packing or unpacking. */
LMC_INLINE word_pair load_shifts(const unsigned nbytes, const uint16_t *shift)
{
    const __m512i s0 = _mm512_loadu_si512(shift), s1 = _mm512_loadu_si512(shift + 32);
    const __m512i packed = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    if (nbytes == 1)
        return (word_pair){{_mm512_shuffle_i64x2(s0, s1, 0x88), _mm512_shuffle_i64x2(s0, s1, 0xdd)}};
    if (nbytes == 2)
        return (word_pair){{s0, s1}};
    return (word_pair){{_mm512_permutexvar_epi64(packed, s0), _mm512_permutexvar_epi64(packed, s1)}};
}

LMC_INLINE word_pair add_words(word_pair a, word_pair b)
{
    return (word_pair){{_mm512_add_epi16(a.word[0], b.word[0]), _mm512_add_epi16(a.word[1], b.word[1])}};
}

/* Cuts a group of n <= 64 high parts. Returns the symbols. */
LMC_INLINE __m512i cut_high(const high_cut *cut, word_pair high_parts, __m512i order, size_t n,
                            uint8_t *symbols, uint8_t *low)
{
    const __m512i h0 = _mm512_and_si512(_mm512_add_epi16(high_parts.word[0], cut->shift), cut->high_mask);
    const __m512i h1 = _mm512_and_si512(_mm512_add_epi16(high_parts.word[1], cut->shift), cut->high_mask);
    const __m512i widest = _mm512_set1_epi16(0x7fff); /* narrowing takes larger numbers for negative ones */
    const word_pair wide_symbols = {{_mm512_min_epu16(_mm512_srlv_epi16(h0, cut->low_counts), widest),
                                     _mm512_min_epu16(_mm512_srlv_epi16(h1, cut->low_counts), widest)}};
    const __m512i s = narrow_words(wide_symbols, order);
    _mm512_storeu_si512(symbols, s);
    if (cut->low_nbits > 0) {
        const word_pair wide_low = {
            {_mm512_and_si512(h0, cut->low_mask), _mm512_and_si512(h1, cut->low_mask)}};
        __m512i packed = narrow_words(wide_low, order);
        if (n < GROUP)
            packed = _mm512_maskz_mov_epi8(_bzhi_u64(ALL, (unsigned)n), packed);
        if (cut->low_nbits < 8)
            packed = pack_low(cut, packed);
        fetch(low, AHEAD_LOW);
        store_first(low, packed, lmc_bits_nbytes(n * cut->low_nbits));
    }
    return n < GROUP ? _mm512_maskz_mov_epi8(_bzhi_u64(ALL, (unsigned)n), s) : s;
}

/* Loads a group of n <= 64 elements; zeros follow. */
LMC_INLINE void load_elements(const unsigned nbytes, const uint8_t *src, size_t n, __m512i *x)
{
    for (unsigned i = 0; i < nbytes; i++) {
        fetch(src + 64 * i, AHEAD_ELEMENTS);
        x[i] = load_first(src + 64 * i, bytes_left(n * nbytes, 64 * i));
    }
}

LMC_INLINE __m512i split_group(const unsigned nbytes, const int is_shifted, const high_cut *cut,
                               unsigned rotation, const uint8_t *src, size_t n, const lmc_plane_set *dst,
                               size_t at)
{
    uint8_t *const symbols = dst->symbols + at;
    uint8_t *const low = cut->low_nbits > 0 ? dst->low + at / 8 * cut->low_nbits : NULL;
    const __m512i words_order = order_from_words();
    const __m512i dwords_order = order_from_dwords();
    __m512i x[8];
    load_elements(nbytes, src + at * nbytes, n, x);
    if (nbytes == 1) { /* a byte twice in a 16-bit lane rotates like a byte */
        const __m512i counts = _mm512_set1_epi16((short)rotation);
        const __m512i w0 = _mm512_unpacklo_epi8(x[0], x[0]);
        const __m512i w1 = _mm512_unpackhi_epi8(x[0], x[0]);
        word_pair high_parts = {{_mm512_shldv_epi16(w0, w0, counts), _mm512_shldv_epi16(w1, w1, counts)}};
        if (is_shifted)
            high_parts = add_words(high_parts, load_shifts(nbytes, dst->shift + at));
        const __m512i in_place = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        return cut_high(cut, high_parts, in_place, n, symbols, low);
    }
    if (nbytes == 2) {
        const __m512i counts = _mm512_set1_epi16((short)rotation);
        word_pair high_parts = {
            {_mm512_shldv_epi16(x[0], x[0], counts), _mm512_shldv_epi16(x[1], x[1], counts)}};
        if (is_shifted)
            high_parts = add_words(high_parts, load_shifts(nbytes, dst->shift + at));
        return cut_high(cut, high_parts, words_order, n, symbols, low);
    }
    unsigned next_lower = 2;
    if (nbytes == 4) {
        for (unsigned i = 0; i < 4; i++)
            x[i] = _mm512_rolv_epi32(x[i], _mm512_set1_epi32((int)rotation));
        next_lower = 0;
    } else { /* upper halves to x[0..3], lower halves to the last four planes */
        const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
        __m512i lower[4];
        for (unsigned i = 0; i < 8; i++)
            x[i] = _mm512_rolv_epi64(x[i], _mm512_set1_epi64((int)rotation));
        for (unsigned i = 0; i < 4; i++) {
            lower[i] = _mm512_permutex2var_epi32(x[2 * i], even, x[2 * i + 1]);
            x[i] = _mm512_permutex2var_epi32(x[2 * i], odd, x[2 * i + 1]);
        }
        const word_pair upper_words = high_words(lower);
        const word_pair lower_words = low_words(lower);
        store_first(dst->lower[next_lower++] + at, high_bytes(upper_words, dwords_order), n);
        store_first(dst->lower[next_lower++] + at, low_bytes(upper_words, dwords_order), n);
        store_first(dst->lower[next_lower++] + at, high_bytes(lower_words, dwords_order), n);
        store_first(dst->lower[next_lower++] + at, low_bytes(lower_words, dwords_order), n);
    }
    const word_pair lower = low_words(x);
    store_first(dst->lower[0] + at, high_bytes(lower, dwords_order), n);
    store_first(dst->lower[1] + at, low_bytes(lower, dwords_order), n);
    word_pair high_parts = high_words(x);
    if (is_shifted)
        high_parts = add_words(high_parts, load_shifts(nbytes, dst->shift + at));
    return cut_high(cut, high_parts, dwords_order, n, symbols, low);
}

LMC_INLINE unsigned split_elements(const unsigned nbytes, const int is_shifted, const lmc_split *split,
                                   const uint8_t *src, size_t n, const lmc_plane_set *dst)
{
    const unsigned high_nbits = lmc_high_nbits(nbytes);
    const high_cut cut = load_high_cut(split, high_nbits);
    const lmc_plane_set planes = *dst;
    __m512i greatest = _mm512_setzero_si512();
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        greatest = _mm512_max_epu8(
            greatest, split_group(nbytes, is_shifted, &cut, split->rotation, src, GROUP, &planes, i));
    if (i < n)
        greatest = _mm512_max_epu8(
            greatest, split_group(nbytes, is_shifted, &cut, split->rotation, src, n - i, &planes, i));
    return high_nbits - split->low_nbits > 8 &&
           _mm512_cmpeq_epi8_mask(greatest, _mm512_set1_epi8((char)LMC_FMT_SYMBOL_ESCAPE)) != 0;
}

/* ---- join ---- */

/* Registers for bringing low parts to bytes. */
typedef struct low_spread {
    uint64_t low_kept;  /* bytes of a 64-bit lane that the low parts fill */
    __m512i bit_offset; /* places of the low parts in their 64-bit lane */
    __m512i low_mask;
} low_spread;

LMC_INLINE low_spread load_low_spread(unsigned low_nbits)
{
    low_spread spread;
    spread.low_kept = ((1u << low_nbits) - 1) * EACH_BYTE;
    spread.bit_offset = _mm512_set1_epi64((long long)(low_nbits * UINT64_C(0x0706050403020100)));
    spread.low_mask = _mm512_set1_epi8((char)((1u << low_nbits) - 1));
    return spread;
}

LMC_INLINE __m512i unpack_low(const low_spread *spread, const uint8_t *low)
{
    const __m512i octets = _mm512_maskz_expand_epi8(spread->low_kept, _mm512_loadu_si512(low));
    return _mm512_and_si512(_mm512_multishift_epi64_epi8(spread->bit_offset, octets), spread->low_mask);
}

/* Bytes `from` .. 63 of a register; from is a multiple of 8. */
LMC_INLINE __m512i bytes_from(__m512i v, unsigned from)
{
    const __m512i in_place = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    return from == 0 ? v
                     : _mm512_permutexvar_epi64(_mm512_add_epi64(in_place, _mm512_set1_epi64(from / 8)), v);
}

/* Registers for joining high parts: lanes of 16 bits for elements of 1 and 2 bytes, else of 32. */
typedef struct high_join {
    low_spread spread;
    __m512i low_counts;
    __m512i shift;    /* (window_start << low_nbits) - offset */
    __m512i rotation; /* lanes as wide as the elements, but 16 bits for 1 byte */
} high_join;

LMC_INLINE high_join load_high_join(const unsigned nbytes, const lmc_split *split)
{
    const int shift = (int)((unsigned)split->window_start << split->low_nbits) - split->offset;
    high_join join;
    join.spread = load_low_spread(split->low_nbits);
    join.low_counts = nbytes <= 2 ? _mm512_set1_epi16(split->low_nbits) : _mm512_set1_epi32(split->low_nbits);
    join.shift = nbytes <= 2 ? _mm512_set1_epi16((short)shift) : _mm512_set1_epi32(shift);
    join.rotation = nbytes <= 2   ? _mm512_set1_epi16(split->rotation)
                    : nbytes == 4 ? _mm512_set1_epi32(split->rotation)
                                  : _mm512_set1_epi64(split->rotation);
    return join;
}

/* Joins 32 high parts; `low` holds their low parts in its lower half. */
LMC_INLINE __m512i join_high(const high_join *join, const uint8_t *symbols, __m512i low)
{
    const __m512i s = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)symbols));
    const __m512i wide_low = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(low));
    return _mm512_add_epi16(_mm512_add_epi16(_mm512_sllv_epi16(s, join->low_counts), wide_low), join->shift);
}

/* Takes the shifts off 32 high parts. */
LMC_INLINE __m512i take_shifts(__m512i high, const uint16_t *shift)
{
    return _mm512_sub_epi16(high, _mm512_loadu_si512(shift));
}

/* Joins 64 elements of 1 byte. shift here and below: NULL for none, which the compiler knows. */
LMC_INLINE __m512i join_1_byte(const high_join *join, const uint8_t *symbols, __m512i low,
                               const uint16_t *shift)
{
    const __m512i mask = _mm512_set1_epi16(0xff);
    word_pair x;
    for (unsigned i = 0; i < 2; i++) {
        __m512i high = join_high(join, symbols + 32 * i, bytes_from(low, 32 * i));
        if (shift)
            high = take_shifts(high, shift + 32 * i);
        high = _mm512_and_si512(high, mask);
        const __m512i twice = _mm512_or_si512(high, _mm512_slli_epi16(high, 8));
        x.word[i] = _mm512_and_si512(_mm512_shrdv_epi16(twice, twice, join->rotation), mask);
    }
    return narrow_words(x, order_from_words());
}

/* Joins 32 elements of 2 bytes. */
LMC_INLINE __m512i join_2_bytes(const high_join *join, const uint8_t *symbols, __m512i low,
                                const uint16_t *shift)
{
    __m512i x = join_high(join, symbols, low);
    if (shift)
        x = take_shifts(x, shift);
    return _mm512_shrdv_epi16(x, x, join->rotation);
}

LMC_INLINE __m512i widen_to_32(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

/* Two planes of bytes as the upper and the lower byte in the lower half of sixteen 32-bit lanes. */
LMC_INLINE __m512i widen_pair(uint8_t *const *planes, size_t i)
{
    return _mm512_or_si512(_mm512_slli_epi32(widen_to_32(planes[0] + i), 8), widen_to_32(planes[1] + i));
}

/* The upper 4 bytes of sixteen elements, before the rotation back. */
LMC_INLINE __m512i join_upper_4_bytes(const high_join *join, const lmc_plane_set *src, size_t i, __m512i low,
                                      const uint16_t *shift)
{
    const __m512i s = _mm512_sllv_epi32(widen_to_32(src->symbols + i), join->low_counts);
    const __m512i wide_low = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(low));
    __m512i high = _mm512_add_epi32(_mm512_add_epi32(s, wide_low), join->shift);
    if (shift)
        high = _mm512_sub_epi32(
            high, _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(shift + i))));
    return _mm512_or_si512(_mm512_slli_epi32(high, 16), widen_pair(src->lower, i));
}

/* Joins sixteen elements of 8 bytes. */
LMC_INLINE void join_8_bytes(const high_join *join, const lmc_plane_set *src, size_t i, __m512i low,
                             const uint16_t *shift, __m512i x[2])
{
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    const __m512i upper = join_upper_4_bytes(join, src, i, low, shift);
    const __m512i lower =
        _mm512_or_si512(_mm512_slli_epi32(widen_pair(src->lower + 2, i), 16), widen_pair(src->lower + 4, i));
    x[0] = _mm512_rorv_epi64(_mm512_permutex2var_epi32(lower, first, upper), join->rotation);
    x[1] = _mm512_rorv_epi64(_mm512_permutex2var_epi32(lower, second, upper), join->rotation);
}

/* Registers that go past the caches one after the other, to a place that is not aligned. Each line is the end of one
 * register and the beginning of the next. The memory is busy while the core joins. */
typedef struct register_stream {
    uint8_t *line; /* NULL: registers go nowhere */
    uint64_t ours; /* bytes of that line */
    __m512i previous;
    __m512i order; /* places of the bytes of two registers in a line */
} register_stream;

LMC_INLINE register_stream open_stream(const lmc_line_stream *from)
{
    register_stream stream = {NULL, ALL, _mm512_setzero_si512(), _mm512_setzero_si512()};
    if (!from)
        return stream;
    const unsigned before = (uintptr_t)from->place & 63;
    uint8_t order[64];
    for (unsigned i = 0; i < 64; i++)
        order[i] = (uint8_t)(64 + i - before);
    stream.line = from->place - before;
    stream.ours = from->waiting == before ? ALL : ALL << before;
    stream.previous = _mm512_loadu_si512(from->last);
    stream.order = _mm512_loadu_si512(order);
    return stream;
}

LMC_INLINE void stream_register(register_stream *stream, __m512i x)
{
    const __m512i line = _mm512_permutex2var_epi8(stream->previous, stream->order, x);
    if (LMC_LIKELY(stream->ours == ALL))
        _mm512_stream_si512((__m512i *)(void *)stream->line, line);
    else
        _mm512_mask_storeu_epi8(stream->line, stream->ours, line);
    stream->ours = ALL;
    stream->previous = x;
    stream->line += 64;
}

LMC_INLINE void close_stream(const register_stream *stream, size_t nbytes, lmc_line_stream *to)
{
    if (!to || nbytes == 0)
        return;
    _mm512_storeu_si512(to->last, stream->previous);
    to->place += nbytes;
    to->waiting = (size_t)(to->place - stream->line);
}

/* Joins a group of n <= 64 elements at the beginning of src. A group that is streamed is whole. */
LMC_INLINE void join_group(const unsigned nbytes, const int is_shifted, const high_join *join,
                           const lmc_plane_set *src, size_t n, uint8_t *dst, register_stream *stream)
{
    const uint16_t *const shift = is_shifted ? src->shift : NULL;
    const __m512i low = unpack_low(&join->spread, src->low);
    __m512i x[8];
    if (nbytes == 1)
        x[0] = join_1_byte(join, src->symbols, low, shift);
    for (unsigned i = 0; nbytes == 2 && i < 2; i++)
        x[i] =
            join_2_bytes(join, src->symbols + 32 * i, bytes_from(low, 32 * i), shift ? shift + 32 * i : NULL);
    for (unsigned i = 0; nbytes == 4 && i < 4; i++)
        x[i] = _mm512_rorv_epi32(join_upper_4_bytes(join, src, 16 * i, bytes_from(low, 16 * i), shift),
                                 join->rotation);
    for (unsigned i = 0; nbytes == 8 && i < 4; i++)
        join_8_bytes(join, src, 16 * i, bytes_from(low, 16 * i), shift, x + 2 * i);
    for (unsigned i = 0; i < nbytes; i++)
        store_first(dst + 64 * i, x[i], bytes_left(n * nbytes, 64 * i));
    for (unsigned i = 0; stream->line && i < nbytes; i++)
        stream_register(stream, x[i]);
}

/* to: NULL, or the stream that whole groups go to, past the caches. */
LMC_INLINE void join_elements(const unsigned nbytes, const int is_shifted, const lmc_split *split,
                              const lmc_plane_set *src, size_t n, uint8_t *dst, lmc_line_stream *to)
{
    const unsigned p = split->low_nbits;
    const high_join join = load_high_join(nbytes, split);
    register_stream stream = open_stream(to);
    lmc_plane_set planes = *src;
    if (p == 0)
        planes.low = planes.symbols; /* any readable bytes */
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP) {
        const lmc_plane_set at = planes_at(nbytes, &planes, p, i);
        join_group(nbytes, is_shifted, &join, &at, GROUP, dst + i * nbytes, &stream);
    }
    if (!to && i < n) {
        const lmc_plane_set at = planes_at(nbytes, &planes, p, i);
        join_group(nbytes, is_shifted, &join, &at, n - i, dst + i * nbytes, &stream);
    }
    close_stream(&stream, n * nbytes, to);
}

/* Joins to dst, and to the stream if there is one. */
LMC_INLINE void join_to(const unsigned nbytes, const int is_shifted, const lmc_split *split,
                        const lmc_plane_set *src, size_t n, uint8_t *dst, lmc_line_stream *stream)
{
    if (stream && n % GROUP == 0) {
        join_elements(nbytes, is_shifted, split, src, n, dst, stream);
        return;
    }
    join_elements(nbytes, is_shifted, split, src, n, dst, NULL);
    if (stream)
        append_copy(stream, dst, n * nbytes);
}

#define DEFINE_WIDTH(nbytes)                                                                            \
    static unsigned split_##nbytes(const lmc_split *split, const uint8_t *src, size_t n,                \
                                   const lmc_plane_set *dst)                                            \
    {                                                                                                   \
        return dst->shift ? split_elements(nbytes, 1, split, src, n, dst)                               \
                          : split_elements(nbytes, 0, split, src, n, dst);                              \
    }                                                                                                   \
    static void join_##nbytes(const lmc_split *split, const lmc_plane_set *src, size_t n, uint8_t *dst, \
                              lmc_line_stream *stream)                                                  \
    {                                                                                                   \
        if (src->shift)                                                                                 \
            join_to(nbytes, 1, split, src, n, dst, stream);                                             \
        else                                                                                            \
            join_to(nbytes, 0, split, src, n, dst, stream);                                             \
    }

DEFINE_WIDTH(1)
DEFINE_WIDTH(2)
DEFINE_WIDTH(4)
DEFINE_WIDTH(8)

#endif
