/*
 * avx2_layers_impl.h - codes one layer of a canonical code, for the sets avx2 and avx2-nopext. A group of 64 symbols is
 * two registers; the word of a plane for the group is a general register. The next symbols and the partial planes
 * depend on the symbols before. They are done for a whole strip at a time, so that a group need not wait for its
 * neighbour.
 */
#ifndef LMC_CODEC_KERNELS_AVX2_AVX2_LAYERS_IMPL_H
#define LMC_CODEC_KERNELS_AVX2_AVX2_LAYERS_IMPL_H

/* Makes bytes i >= n of a group 0x80: that is no code, and no code that is longer than another. */
LMC_INLINE bytes64 void_beyond(bytes64 codes, size_t n)
{
    const __m256i count = _mm256_set1_epi8((char)n);
    const __m256i top_bit = _mm256_set1_epi8((char)0x80);
    __m256i index = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                                     21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    for (unsigned h = 0; h < 2; h++) {
        const __m256i beyond = _mm256_andnot_si256(_mm256_cmpgt_epi8(count, index), top_bit);
        codes.half[h] = _mm256_or_si256(codes.half[h], beyond);
        index = _mm256_add_epi8(index, _mm256_set1_epi8(32));
    }
    return codes;
}

LMC_INLINE size_t whole_groups(size_t n)
{
    return (n + GROUP - 1) & ~(size_t)(GROUP - 1);
}

/* ---- encode ---- */

/* Tables of an encoder for a layer. Codes are looked up 16 symbols at a time, and only where they differ from
 * `common`, the code of most symbols. */
typedef struct code_book {
    __m256i code[16];   /* of 16 symbols, twice; XOR `common` */
    __m256i to_low[16]; /* XOR with it makes the 16 symbols 0..15 */
    unsigned count;
    __m256i common;
    __m256i below_threshold[6];
    __m256i continuation;
    int has_continuation;
} code_book;

LMC_INLINE void load_code_book(const lmc_layer *layer, code_book *book)
{
    const uint8_t common = layer->has_continuation ? layer->continuation : layer->code[255];
    const __m128i common16 = _mm_set1_epi8((char)common);
    book->count = 0;
    for (unsigned i = 0; i < 256; i += 16) {
        const __m128i code = _mm_loadu_si128((const __m128i *)(layer->code + i));
        if (_mm_movemask_epi8(_mm_cmpeq_epi8(code, common16)) != 0xffff) {
            book->code[book->count] = _mm256_broadcastsi128_si256(_mm_xor_si128(code, common16));
            book->to_low[book->count] = _mm256_set1_epi8((char)i);
            book->count++;
        }
    }
    book->common = _mm256_broadcastsi128_si256(common16);
    for (unsigned j = 0; j < 6; j++)
        book->below_threshold[j] = _mm256_set1_epi8((char)(layer->threshold[j] - 1));
    book->continuation = _mm256_set1_epi8((char)layer->continuation);
    book->has_continuation = layer->has_continuation;
}

LMC_INLINE bytes64 look_up_codes(const code_book *book, bytes64 symbols)
{
    const __m256i beyond_15 =
        _mm256_set1_epi8(0x70); /* saturating: 16 and more get bit 7, which looks up 0 */
    bytes64 codes = {{book->common, book->common}};
    for (unsigned i = 0; i < book->count; i++)
        for (unsigned h = 0; h < 2; h++) {
            const __m256i low = _mm256_xor_si256(symbols.half[h], book->to_low[i]);
            const __m256i index = _mm256_adds_epu8(low, beyond_15);
            codes.half[h] = _mm256_xor_si256(codes.half[h], _mm256_shuffle_epi8(book->code[i], index));
        }
    return codes;
}

LMC_INLINE uint64_t plane_word(bytes64 codes, const unsigned j)
{
    return top_bits(_mm256_slli_epi16(codes.half[0], 2 + j), _mm256_slli_epi16(codes.half[1], 2 + j));
}

/* Bytes that are greater, as signed numbers, than a bound. */
LMC_INLINE uint64_t greater_than(bytes64 v, __m256i bound)
{
    return top_bits(_mm256_cmpgt_epi8(v.half[0], bound), _mm256_cmpgt_epi8(v.half[1], bound));
}

LMC_INLINE bytes64 equal_bytes(bytes64 v, __m256i to)
{
    return (bytes64){{_mm256_cmpeq_epi8(v.half[0], to), _mm256_cmpeq_epi8(v.half[1], to)}};
}

/* What comes to the partial planes of a strip: word[j] has bit j of its codes, longer[j] those that have such a bit. */
typedef struct partial_bits {
    uint64_t word[6][LMC_STRIP_VALUES / GROUP], longer[6][LMC_STRIP_VALUES / GROUP];
} partial_bits;

/* Encodes a group of n <= 64 symbols, at + 0 .. n - 1 of its strip. */
LMC_INLINE void encode_group(const unsigned first, const unsigned last, const code_book *book,
                             const uint8_t *symbols, size_t at, size_t n, lmc_layer_out *out,
                             partial_bits *partial, marks *m)
{
    bytes64 codes = look_up_codes(book, load_bytes64(symbols + at));
    if (n < GROUP)
        codes = void_beyond(codes, n);
    const uint64_t valid = lmc_low_mask((unsigned)n);
    for (unsigned j = 0; j < first; j++)
        put_full(&out->full[j], plane_word(codes, j) & valid, lmc_bits_nbytes(n));
    for (unsigned j = first; j < last; j++) {
        partial->word[j][at / GROUP] = plane_word(codes, j);
        partial->longer[j][at / GROUP] = greater_than(codes, book->below_threshold[j]);
    }
    if (book->has_continuation)
        mark_group(m, at, equal_bytes(codes, book->continuation));
}

LMC_INLINE void encode_strip(const unsigned first, const unsigned last, const code_book *book,
                             const uint8_t *symbols, size_t n, lmc_layer_out *out)
{
    partial_bits partial;
    marks m;
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        encode_group(first, last, book, symbols, i, GROUP, out, &partial, &m);
    if (i < n)
        encode_group(first, last, book, symbols, i, n - i, out, &partial, &m);
    for (unsigned j = first; j < last; j++)
        gather_to_plane(&out->partial[j], partial.word[j], partial.longer[j], whole_groups(n) / GROUP);
    if (book->has_continuation)
        out->next_symbols = append_passed_on(out->next_symbols, symbols, &m, whole_groups(n));
}

LMC_INLINE void encode_layer(const unsigned first, const unsigned last, const lmc_layer *layer,
                             const uint8_t *symbols, size_t n, lmc_layer_out *out)
{
    code_book book;
    load_code_book(layer, &book);
    lmc_layer_out local;
    copy_out_cursors(first, last, &local, out);
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES)
        encode_strip(first, last, &book, symbols + i, lmc_min_size(LMC_STRIP_VALUES, n - i), &local);
    copy_out_cursors(first, last, out, &local);
}

/* Finds the symbol of each code but the continuation. Returns 0 if some code has not exactly one symbol. */
LMC_INLINE int find_symbols(const lmc_layer *layer, uint8_t symbol[3])
{
    const unsigned code_step = 64u >> layer->last_nbits;
    for (unsigned code = 0; code < layer->continuation; code += code_step, symbol++) {
        unsigned count = 0;
        for (unsigned i = 0; i < 256; i += 32) {
            const __m256i codes = load256(layer->code + i);
            const uint32_t found =
                (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(codes, _mm256_set1_epi8((char)code)));
            if (found != 0)
                *symbol = (uint8_t)(i + lmc_lowest_bit(found));
            count += lmc_popcount64(found);
        }
        if (count != 1)
            return 0;
    }
    return 1;
}

LMC_INLINE void encode_short_group(const unsigned nbits, const __m256i known[3], const uint8_t *symbols,
                                   size_t at, size_t n, lmc_layer_out *out, marks *m)
{
    const bytes64 s = load_bytes64(symbols + at);
    bytes64 is_known = equal_bytes(s, known[0]);
    uint64_t word = ~top_bits(is_known.half[0], is_known.half[1]);
    const uint64_t valid = lmc_low_mask((unsigned)n);
    if (nbits == 2) {
        const bytes64 is_01 = equal_bytes(s, known[1]);
        const bytes64 is_10 = equal_bytes(s, known[2]);
        const uint64_t last_bits = word & ~top_bits(is_10.half[0], is_10.half[1]);
        word &= ~top_bits(is_01.half[0], is_01.half[1]);
        put_full(&out->full[1], last_bits & valid, lmc_bits_nbytes(n));
        for (unsigned h = 0; h < 2; h++)
            is_known.half[h] =
                _mm256_or_si256(is_known.half[h], _mm256_or_si256(is_01.half[h], is_10.half[h]));
    }
    put_full(&out->full[0], word & valid, lmc_bits_nbytes(n));
    if (n < GROUP)
        is_known = void_beyond(is_known, n);
    mark_group(m, at, equal_bytes(is_known, _mm256_setzero_si256()));
}

LMC_INLINE void encode_short_layer(const unsigned nbits, const uint8_t symbol[3], const uint8_t *symbols,
                                   size_t n, lmc_layer_out *out)
{
    __m256i known[3];
    for (unsigned i = 0; i < 3; i++)
        known[i] = _mm256_set1_epi8((char)symbol[i]);
    lmc_layer_out local;
    copy_out_cursors(nbits, nbits, &local, out);
    while (n > 0) {
        const size_t strip = lmc_min_size(LMC_STRIP_VALUES, n);
        marks m;
        size_t i = 0;
        for (; i + GROUP <= strip; i += GROUP)
            encode_short_group(nbits, known, symbols, i, GROUP, &local, &m);
        if (i < strip)
            encode_short_group(nbits, known, symbols, i, strip - i, &local, &m);
        local.next_symbols = append_passed_on(local.next_symbols, symbols, &m, whole_groups(strip));
        symbols += strip;
        n -= strip;
    }
    copy_out_cursors(nbits, nbits, out, &local);
}

static void layer_encode(const lmc_layer *layer, const uint8_t *symbols, size_t n, lmc_layer_out *out)
{
    uint8_t symbol[3] = {0, 0, 0};
    if (is_short_layer(layer) && find_symbols(layer, symbol)) {
        if (layer->last_nbits == 1)
            encode_short_layer(1, symbol, symbols, n, out);
        else
            encode_short_layer(2, symbol, symbols, n, out);
        return;
    }
    LMC_LAYER_INSTANCE(layer, encode_layer, layer, symbols, n, out)
}

/* ---- decode ---- */

/* A strip of codes bit by bit: bit i of word j of group g is bit j of code 64 g + i. Each plane is laid out for the
 * whole strip before the next one. A group alone would wait for every bit of its codes. */
typedef struct code_bits {
    uint64_t word[6][LMC_STRIP_VALUES / GROUP];
} code_bits;

/* Codes whose first j bits are at least a threshold, left-justified to 6 bits; four groups at once. */
LMC_INLINE __m256i codes_at_least(const code_bits *bits, size_t group, unsigned j, unsigned threshold)
{
    __m256i lanes = _mm256_set1_epi8(-1);
    for (unsigned i = j; i-- > 0;) {
        const __m256i word = load256(&bits->word[i][group]);
        const __m256i wanted = _mm256_set1_epi64x(-(long long)(threshold >> (5 - i) & 1));
        const __m256i either = _mm256_andnot_si256(wanted, _mm256_or_si256(word, lanes));
        lanes = _mm256_or_si256(_mm256_and_si256(word, lanes), either);
    }
    return lanes;
}

static void lay_out_full(const lmc_layer *layer, lmc_layer_in *in, size_t group_count, code_bits *bits)
{
    for (unsigned j = 0; j < layer->first_nbits; j++) {
        memcpy(bits->word[j], in->full[j], 8 * group_count);
        in->full[j] += 8 * group_count;
    }
}

static void lay_out_partial(const lmc_layer *layer, lmc_layer_in *in, unsigned j, size_t n, code_bits *bits)
{
    uint64_t longer[LMC_STRIP_VALUES / GROUP];
    const size_t group_count = whole_groups(n) / GROUP;
    for (size_t g = 0; g < group_count; g += 4)
        store256(longer + g, codes_at_least(bits, g, j, layer->threshold[j]));
    if (n % GROUP != 0)
        longer[group_count - 1] &= lmc_low_mask(n % GROUP);
    in->position[j] = scatter_from_plane(in->partial[j], in->position[j], longer, group_count, bits->word[j]);
}

/* Tables of a decoder for a layer. Codes are right-justified to last_nbits here. */
typedef struct symbol_book {
    __m256i symbol[4]; /* of 16 codes, twice */
    __m256i continuation;
    int has_continuation;
} symbol_book;

LMC_INLINE symbol_book load_symbol_book(const unsigned last, const lmc_layer *layer)
{
    uint8_t symbol[64] = {0};
    for (unsigned i = 0; i < 1u << last; i++)
        symbol[i] = layer->symbol[i << (LMC_FMT_LAYER_NBITS_MAX - last)];
    symbol_book book;
    for (unsigned i = 0; i < 4; i++)
        book.symbol[i] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(symbol + 16 * i)));
    book.continuation = _mm256_set1_epi8((char)(layer->continuation >> (6 - last)));
    book.has_continuation = layer->has_continuation;
    return book;
}

/* Appends a bit at the right end of each code. */
LMC_INLINE bytes64 append_bits(bytes64 codes, uint64_t word)
{
    const __m256i bytes_0_to_3 =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)UINT64_C(0x8040201008040201));
    const __m256i copies = _mm256_set1_epi64x((long long)word);
    for (unsigned h = 0; h < 2; h++) {
        const __m256i source = _mm256_add_epi8(bytes_0_to_3, _mm256_set1_epi8((char)(4 * h)));
        const __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(copies, source), bit);
        const __m256i twice = _mm256_add_epi8(codes.half[h], codes.half[h]);
        codes.half[h] = _mm256_sub_epi8(twice, _mm256_cmpeq_epi8(spread, bit));
    }
    return codes;
}

LMC_INLINE __m256i look_up_32(const __m256i symbol[2], __m256i codes)
{
    const __m256i bit4_to_7 = _mm256_slli_epi16(codes, 3);
    return _mm256_blendv_epi8(_mm256_shuffle_epi8(symbol[0], codes), _mm256_shuffle_epi8(symbol[1], codes),
                              bit4_to_7);
}

LMC_INLINE __m256i look_up_symbols(const unsigned last, const symbol_book *book, __m256i codes)
{
    if (last <= 4)
        return _mm256_shuffle_epi8(book->symbol[0], codes);
    if (last == 5)
        return look_up_32(book->symbol, codes);
    const __m256i bit5_to_7 = _mm256_slli_epi16(codes, 2);
    return _mm256_blendv_epi8(look_up_32(book->symbol, codes), look_up_32(book->symbol + 2, codes),
                              bit5_to_7);
}

/* Looks up the symbols of a group of n <= 64 codes. Symbols of the next layer become 0 and are marked. */
LMC_INLINE void decode_group(const unsigned last, const symbol_book *book, const code_bits *bits, size_t at,
                             size_t n, marks *m, uint8_t *symbols)
{
    bytes64 codes = {{_mm256_setzero_si256(), _mm256_setzero_si256()}};
    for (unsigned j = 0; j < last; j++)
        codes = append_bits(codes, bits->word[j][at / GROUP]);
    bytes64 known = {
        {look_up_symbols(last, book, codes.half[0]), look_up_symbols(last, book, codes.half[1])}};
    if (book->has_continuation) {
        const bytes64 passed_on = equal_bytes(n < GROUP ? void_beyond(codes, n) : codes, book->continuation);
        for (unsigned h = 0; h < 2; h++)
            known.half[h] = _mm256_andnot_si256(passed_on.half[h], known.half[h]);
        mark_group(m, at, passed_on);
    }
    store_bytes64(symbols + at, known);
}

LMC_INLINE void decode_layer(const unsigned last, const lmc_layer *layer, size_t n, lmc_layer_in *in,
                             uint8_t *symbols)
{
    code_bits bits;
    marks m;
    const symbol_book book = load_symbol_book(last, layer);
    lay_out_full(layer, in, whole_groups(n) / GROUP, &bits);
    for (unsigned j = layer->first_nbits; j < last; j++)
        lay_out_partial(layer, in, j, n, &bits);
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        decode_group(last, &book, &bits, i, GROUP, &m, symbols);
    if (i < n)
        decode_group(last, &book, &bits, i, n - i, &m, symbols);
    if (book.has_continuation)
        in->next_symbols = fill_passed_on(in->next_symbols, &m, whole_groups(n), symbols);
}

static void layer_decode(const lmc_layer *layer, lmc_layer_in *in, size_t n, uint8_t *symbols)
{
    switch (layer->last_nbits) {
    case 1: decode_layer(1, layer, n, in, symbols); break;
    case 2: decode_layer(2, layer, n, in, symbols); break;
    case 3: decode_layer(3, layer, n, in, symbols); break;
    case 4: decode_layer(4, layer, n, in, symbols); break;
    case 5: decode_layer(5, layer, n, in, symbols); break;
    case 6: decode_layer(6, layer, n, in, symbols); break;
    default: assert(!"last_nbits is 1..6");
    }
}

#endif
