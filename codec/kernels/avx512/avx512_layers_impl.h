/*
 * avx512_layers_impl.h - codes one layer of a canonical code, for kernels/avx512/avx512.c. A group of 64 symbols is one
 * register; the word of a plane for the group is one mask. Codes come from a look-up in two or four registers, planes
 * from bit tests, next symbols from compression. Decoding adds up the bits of the planes under their masks.
 */
#ifndef LMC_CODEC_KERNELS_AVX512_AVX512_LAYERS_IMPL_H
#define LMC_CODEC_KERNELS_AVX512_AVX512_LAYERS_IMPL_H

/* ---- encode ---- */

/* Registers of an encoder for a layer. */
typedef struct code_book {
    __m512i code[4];
    __m512i threshold[6];
    __m512i continuation;
    int narrow;
    int has_continuation;
} code_book;

LMC_INLINE code_book load_code_book(const lmc_layer *layer)
{
    code_book book;
    for (unsigned i = 0; i < 4; i++)
        book.code[i] = _mm512_loadu_si512(layer->code + 64 * i);
    for (unsigned j = 0; j < 6; j++)
        book.threshold[j] = _mm512_set1_epi8((char)layer->threshold[j]);
    book.continuation = _mm512_set1_epi8((char)layer->continuation);
    book.narrow = layer->narrow;
    book.has_continuation = layer->has_continuation;
    return book;
}

LMC_INLINE __m512i look_up_codes(const code_book *book, __m512i symbols)
{
    if (book->narrow) {
        const __m512i index = _mm512_min_epu8(symbols, _mm512_set1_epi8(127));
        return _mm512_permutex2var_epi8(book->code[0], index, book->code[1]);
    }
    const __m512i lower = _mm512_permutex2var_epi8(book->code[0], symbols, book->code[1]);
    const __m512i upper = _mm512_permutex2var_epi8(book->code[2], symbols, book->code[3]);
    return _mm512_mask_mov_epi8(lower, _mm512_movepi8_mask(symbols), upper);
}

/* Appends the symbols under a mask to the next symbols. They are compressed to a register first, since compressing
 * to memory is slow on Zen 4. */
LMC_INLINE void append_passed_on(uint8_t **next_symbols, __m512i symbols, uint64_t passed_on)
{
    _mm512_storeu_si512(*next_symbols, _mm512_maskz_compress_epi8(passed_on, symbols));
    *next_symbols += lmc_popcount64(passed_on);
}

LMC_INLINE void encode_group(const unsigned first, const unsigned last, const code_book *book,
                             __m512i symbols, uint64_t valid, size_t plane_nbytes, lmc_layer_out *out)
{
    const __m512i codes = look_up_codes(book, symbols);
    uint64_t word[6];
    for (unsigned j = 0; j < last; j++)
        word[j] = _mm512_test_epi8_mask(codes, _mm512_set1_epi8((char)(32 >> j)));
    for (unsigned j = 0; j < first; j++)
        put_full(&out->full[j], word[j] & valid, plane_nbytes);
    for (unsigned j = first; j < last; j++) {
        const uint64_t longer = _mm512_cmpge_epu8_mask(codes, book->threshold[j]) & valid;
        lmc_put_bits(&out->partial[j], _pext_u64(word[j], longer), lmc_popcount64(longer));
    }
    if (book->has_continuation)
        append_passed_on(&out->next_symbols, symbols,
                         _mm512_cmpeq_epi8_mask(codes, book->continuation) & valid);
}

LMC_INLINE void encode_layer(const unsigned first, const unsigned last, const lmc_layer *layer,
                             const uint8_t *symbols, size_t n, lmc_layer_out *out)
{
    const code_book book = load_code_book(layer);
    lmc_layer_out local;
    copy_out_cursors(first, last, &local, out);
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        encode_group(first, last, &book, _mm512_loadu_si512(symbols + i), ALL, 8, &local);
    if (i < n)
        encode_group(first, last, &book, _mm512_loadu_si512(symbols + i), lmc_low_mask((unsigned)(n - i)),
                     lmc_bits_nbytes(n - i), &local);
    copy_out_cursors(first, last, out, &local);
}

/* Finds the symbol of each code but the continuation. Returns 0 if some code has not exactly one symbol. */
LMC_INLINE int find_symbols(const lmc_layer *layer, uint8_t symbol[3])
{
    const unsigned code_step = 64u >> layer->last_nbits;
    for (unsigned code = 0; code < layer->continuation; code += code_step, symbol++) {
        unsigned count = 0;
        for (unsigned i = 0; i < 256; i += 64) {
            const uint64_t found =
                _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(layer->code + i), _mm512_set1_epi8((char)code));
            if (found != 0)
                *symbol = (uint8_t)(i + lmc_lowest_bit(found));
            count += lmc_popcount64(found);
        }
        if (count != 1)
            return 0;
    }
    return 1;
}

LMC_INLINE void encode_short_group(const unsigned nbits, const __m512i known[3], __m512i symbols,
                                   uint64_t valid, size_t plane_nbytes, lmc_layer_out *out)
{
    uint64_t word = _mm512_cmpneq_epi8_mask(symbols, known[0]) & valid;
    uint64_t passed_on = word;
    if (nbits == 2) {
        const uint64_t not_01 = _mm512_mask_cmpneq_epi8_mask(word, symbols, known[1]);
        const uint64_t not_10 = _mm512_mask_cmpneq_epi8_mask(word, symbols, known[2]);
        passed_on = not_01 & not_10;
        word = not_01;
        put_full(&out->full[1], not_10, plane_nbytes);
    }
    put_full(&out->full[0], word, plane_nbytes);
    append_passed_on(&out->next_symbols, symbols, passed_on);
}

LMC_INLINE void encode_short_layer(const unsigned nbits, const uint8_t symbol[3], const uint8_t *symbols,
                                   size_t n, lmc_layer_out *out)
{
    __m512i known[3];
    for (unsigned i = 0; i < 3; i++)
        known[i] = _mm512_set1_epi8((char)symbol[i]);
    lmc_layer_out local;
    copy_out_cursors(nbits, nbits, &local, out);
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        encode_short_group(nbits, known, _mm512_loadu_si512(symbols + i), ALL, 8, &local);
    if (i < n)
        encode_short_group(nbits, known, _mm512_loadu_si512(symbols + i), lmc_low_mask((unsigned)(n - i)),
                           lmc_bits_nbytes(n - i), &local);
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

LMC_INLINE __m512i fill_passed_on(const uint8_t **next_symbols, __m512i symbols, uint64_t passed_on)
{
    const __m512i next = _mm512_loadu_si512(*next_symbols);
    *next_symbols += lmc_popcount64(passed_on);
    return _mm512_mask_expand_epi8(symbols, passed_on, next);
}

/* Registers of a decoder for a layer. */
typedef struct symbol_book {
    __m512i symbol;
    __m512i threshold[6];
    __m512i continuation;
    int has_continuation;
} symbol_book;

LMC_INLINE symbol_book load_symbol_book(const lmc_layer *layer)
{
    symbol_book book;
    book.symbol = _mm512_loadu_si512(layer->symbol);
    for (unsigned j = 0; j < 6; j++)
        book.threshold[j] = _mm512_set1_epi8((char)layer->threshold[j]);
    book.continuation = _mm512_set1_epi8((char)layer->continuation);
    book.has_continuation = layer->has_continuation;
    return book;
}

LMC_INLINE __m512i decode_group(const unsigned first, const unsigned last, const symbol_book *book,
                                uint64_t valid, lmc_layer_in *in)
{
    __m512i codes = _mm512_maskz_mov_epi8(lmc_load64(in->full[0]), _mm512_set1_epi8(32));
    for (unsigned j = 1; j < first; j++)
        codes =
            _mm512_mask_add_epi8(codes, lmc_load64(in->full[j]), codes, _mm512_set1_epi8((char)(32 >> j)));
    for (unsigned j = 0; j < first; j++)
        in->full[j] += 8;
    for (unsigned j = first; j < last; j++) {
        const uint64_t longer = _mm512_cmpge_epu8_mask(codes, book->threshold[j]) & valid;
        const uint64_t word = _pdep_u64(lmc_load_bits(in->partial[j], in->position[j]), longer);
        in->position[j] += lmc_popcount64(longer);
        codes = _mm512_mask_add_epi8(codes, word, codes, _mm512_set1_epi8((char)(32 >> j)));
    }
    const __m512i symbols = _mm512_permutexvar_epi8(codes, book->symbol);
    if (!book->has_continuation)
        return symbols;
    return fill_passed_on(&in->next_symbols, symbols,
                          _mm512_cmpeq_epi8_mask(codes, book->continuation) & valid);
}

LMC_INLINE void decode_layer(const unsigned first, const unsigned last, const lmc_layer *layer, size_t n,
                             lmc_layer_in *in, uint8_t *symbols)
{
    const symbol_book book = load_symbol_book(layer);
    lmc_layer_in local;
    copy_in_cursors(first, last, &local, in);
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        _mm512_storeu_si512(symbols + i, decode_group(first, last, &book, ALL, &local));
    if (i < n)
        _mm512_storeu_si512(symbols + i,
                            decode_group(first, last, &book, lmc_low_mask((unsigned)(n - i)), &local));
    copy_in_cursors(first, last, in, &local);
}

LMC_INLINE __m512i decode_short_group(const unsigned nbits, const __m512i known[3], uint64_t valid,
                                      lmc_layer_in *in)
{
    const uint64_t word0 = lmc_load64(in->full[0]);
    in->full[0] += 8;
    if (nbits == 1)
        return fill_passed_on(&in->next_symbols, known[0], word0 & valid);
    const uint64_t word1 = lmc_load64(in->full[1]);
    in->full[1] += 8;
    const __m512i even = _mm512_mask_mov_epi8(known[0], word0, known[2]);
    return fill_passed_on(&in->next_symbols, _mm512_mask_mov_epi8(even, word1, known[1]),
                          word0 & word1 & valid);
}

LMC_INLINE void decode_short_layer(const unsigned nbits, const lmc_layer *layer, size_t n, lmc_layer_in *in,
                                   uint8_t *symbols)
{
    __m512i known[3];
    for (unsigned i = 0; i < 3; i++)
        known[i] = _mm512_set1_epi8((char)layer->symbol[i * 16]);
    lmc_layer_in local;
    copy_in_cursors(nbits, nbits, &local, in);
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        _mm512_storeu_si512(symbols + i, decode_short_group(nbits, known, ALL, &local));
    if (i < n)
        _mm512_storeu_si512(symbols + i,
                            decode_short_group(nbits, known, lmc_low_mask((unsigned)(n - i)), &local));
    copy_in_cursors(nbits, nbits, in, &local);
}

static void layer_decode(const lmc_layer *layer, lmc_layer_in *in, size_t n, uint8_t *symbols)
{
    if (is_short_layer(layer)) {
        if (layer->last_nbits == 1)
            decode_short_layer(1, layer, n, in, symbols);
        else
            decode_short_layer(2, layer, n, in, symbols);
        return;
    }
    LMC_LAYER_INSTANCE(layer, decode_layer, layer, n, in, symbols)
}

#endif
