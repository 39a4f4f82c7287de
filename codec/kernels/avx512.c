/*
 * avx512.c - kernels for CPUs with AVX-512 VBMI2 and BMI2 (Ice Lake, Zen 4 and later). A group of 64 symbols
 * is one register, a plane's word of the group is one mask. The whole file is compiled for these CPUs: call
 * nothing in it before select.c has asked the CPU.
 */
#include "kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <limits.h>
#include <stdlib.h>

#include "instances.h"
#include "x86.h"

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,popcnt"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,popcnt")
#endif

#define XXH_VECTOR 2 /* XXH_AVX2: faster on blocks in the cache than 3, XXH_AVX512 */
#include "hash.h"

#define EACH_BYTE UINT64_C(0x0101010101010101)
#define ALL (~UINT64_C(0))

/* The first `nbytes` bytes of a register to memory; all of them if nbytes >= 64. */
LMC_INLINE void store_first(uint8_t *dst, __m512i v, size_t nbytes)
{
    if (LMC_LIKELY(nbytes >= 64))
        _mm512_storeu_si512(dst, v);
    else
        _mm512_mask_storeu_epi8(dst, _bzhi_u64(ALL, (unsigned)nbytes), v);
}

LMC_INLINE __m512i load_first(const uint8_t *src, size_t nbytes)
{
    if (LMC_LIKELY(nbytes >= 64))
        return _mm512_loadu_si512(src);
    return _mm512_maskz_loadu_epi8(_bzhi_u64(ALL, (unsigned)nbytes), src);
}

/* Bytes left of `nbytes` after `used`. */
LMC_INLINE size_t bytes_left(size_t nbytes, size_t used)
{
    return nbytes > used ? nbytes - used : 0;
}

/* ---- levels: encode ---- */

/* What an encoder needs of a layer, in registers. */
typedef struct code_book {
    __m512i code[4];
    __m512i threshold[6];
    __m512i list_code;
    int narrow;
    int has_list;
} code_book;

LMC_INLINE code_book load_code_book(const lmc_layer *layer)
{
    code_book book;
    for (unsigned i = 0; i < 4; i++)
        book.code[i] = _mm512_loadu_si512(layer->code + 64 * i);
    for (unsigned j = 0; j < 6; j++)
        book.threshold[j] = _mm512_set1_epi8((char)layer->threshold[j]);
    book.list_code = _mm512_set1_epi8((char)layer->list_code);
    book.narrow = layer->narrow;
    book.has_list = layer->has_list;
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

/* The symbols under a mask, to the list. Compressing to a register first: to memory is slow on Zen 4. */
LMC_INLINE void append_listed(uint8_t **list, __m512i symbols, uint64_t listed)
{
    _mm512_storeu_si512(*list, _mm512_maskz_compress_epi8(listed, symbols));
    *list += lmc_popcount64(listed);
}

LMC_INLINE void encode_group(const unsigned first, const unsigned last, const code_book *book, __m512i symbols,
                             uint64_t valid, size_t plane_nbytes, lmc_levels_out *out)
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
    if (book->has_list)
        append_listed(&out->list, symbols, _mm512_cmpeq_epi8_mask(codes, book->list_code) & valid);
}

LMC_INLINE void encode_layer(const unsigned first, const unsigned last, const lmc_layer *layer,
                             const uint8_t *symbols, size_t n, lmc_levels_out *out)
{
    const code_book book = load_code_book(layer);
    lmc_levels_out local;
    copy_out_cursors(first, last, &local, out);
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        encode_group(first, last, &book, _mm512_loadu_si512(symbols + i), ALL, 8, &local);
    if (i < n)
        encode_group(first, last, &book, _mm512_loadu_si512(symbols + i), lmc_low_mask((unsigned)(n - i)),
                     lmc_bits_nbytes(n - i), &local);
    copy_out_cursors(first, last, out, &local);
}

/* Finds the symbol of each code but the list's; 0 if some code has not exactly one. */
LMC_INLINE int find_symbols(const lmc_layer *layer, uint8_t symbol[3])
{
    const unsigned code_step = 64u >> layer->last_nbits;
    for (unsigned code = 0; code < layer->list_code; code += code_step, symbol++) {
        unsigned count = 0;
        for (unsigned i = 0; i < 256; i += 64) {
            const uint64_t found = _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(layer->code + i),
                                                          _mm512_set1_epi8((char)code));
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
                                   uint64_t valid, size_t plane_nbytes, lmc_levels_out *out)
{
    uint64_t word = _mm512_cmpneq_epi8_mask(symbols, known[0]) & valid;
    uint64_t listed = word;
    if (nbits == 2) {
        const uint64_t not_01 = _mm512_mask_cmpneq_epi8_mask(word, symbols, known[1]);
        const uint64_t not_10 = _mm512_mask_cmpneq_epi8_mask(word, symbols, known[2]);
        listed = not_01 & not_10;
        word = not_01;
        put_full(&out->full[1], not_10, plane_nbytes);
    }
    put_full(&out->full[0], word, plane_nbytes);
    append_listed(&out->list, symbols, listed);
}

LMC_INLINE void encode_short_level(const unsigned nbits, const uint8_t symbol[3], const uint8_t *symbols,
                                   size_t n, lmc_levels_out *out)
{
    __m512i known[3];
    for (unsigned i = 0; i < 3; i++)
        known[i] = _mm512_set1_epi8((char)symbol[i]);
    lmc_levels_out local;
    copy_out_cursors(nbits, nbits, &local, out);
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        encode_short_group(nbits, known, _mm512_loadu_si512(symbols + i), ALL, 8, &local);
    if (i < n)
        encode_short_group(nbits, known, _mm512_loadu_si512(symbols + i), lmc_low_mask((unsigned)(n - i)),
                           lmc_bits_nbytes(n - i), &local);
    copy_out_cursors(nbits, nbits, out, &local);
}

static void levels_encode(const lmc_layer *layer, const uint8_t *symbols, size_t n, lmc_levels_out *out)
{
    uint8_t symbol[3] = {0, 0, 0};
    if (is_short_level(layer) && find_symbols(layer, symbol)) {
        if (layer->last_nbits == 1)
            encode_short_level(1, symbol, symbols, n, out);
        else
            encode_short_level(2, symbol, symbols, n, out);
        return;
    }
    LMC_LAYER_INSTANCE(layer, encode_layer, layer, symbols, n, out)
}

/* ---- levels: decode ---- */

LMC_INLINE __m512i fill_listed(const uint8_t **list, __m512i symbols, uint64_t listed)
{
    const __m512i next = _mm512_loadu_si512(*list);
    *list += lmc_popcount64(listed);
    return _mm512_mask_expand_epi8(symbols, listed, next);
}

/* What a decoder needs of a layer, in registers. */
typedef struct symbol_book {
    __m512i symbol;
    __m512i threshold[6];
    __m512i list_code;
    int has_list;
} symbol_book;

LMC_INLINE symbol_book load_symbol_book(const lmc_layer *layer)
{
    symbol_book book;
    book.symbol = _mm512_loadu_si512(layer->symbol);
    for (unsigned j = 0; j < 6; j++)
        book.threshold[j] = _mm512_set1_epi8((char)layer->threshold[j]);
    book.list_code = _mm512_set1_epi8((char)layer->list_code);
    book.has_list = layer->has_list;
    return book;
}

LMC_INLINE __m512i decode_group(const unsigned first, const unsigned last, const symbol_book *book,
                                uint64_t valid, lmc_levels_in *in)
{
    __m512i codes = _mm512_maskz_mov_epi8(lmc_load64(in->full[0]), _mm512_set1_epi8(32));
    for (unsigned j = 1; j < first; j++)
        codes = _mm512_mask_add_epi8(codes, lmc_load64(in->full[j]), codes, _mm512_set1_epi8((char)(32 >> j)));
    for (unsigned j = 0; j < first; j++)
        in->full[j] += 8;
    for (unsigned j = first; j < last; j++) {
        const uint64_t longer = _mm512_cmpge_epu8_mask(codes, book->threshold[j]) & valid;
        const uint64_t word = _pdep_u64(lmc_load_bits(in->partial[j], in->position[j]), longer);
        in->position[j] += lmc_popcount64(longer);
        codes = _mm512_mask_add_epi8(codes, word, codes, _mm512_set1_epi8((char)(32 >> j)));
    }
    const __m512i symbols = _mm512_permutexvar_epi8(codes, book->symbol);
    if (!book->has_list)
        return symbols;
    return fill_listed(&in->list, symbols, _mm512_cmpeq_epi8_mask(codes, book->list_code) & valid);
}

LMC_INLINE void decode_layer(const unsigned first, const unsigned last, const lmc_layer *layer, size_t n,
                             lmc_levels_in *in, uint8_t *symbols)
{
    const symbol_book book = load_symbol_book(layer);
    lmc_levels_in local;
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
                                      lmc_levels_in *in)
{
    const uint64_t word0 = lmc_load64(in->full[0]);
    in->full[0] += 8;
    if (nbits == 1)
        return fill_listed(&in->list, known[0], word0 & valid);
    const uint64_t word1 = lmc_load64(in->full[1]);
    in->full[1] += 8;
    const __m512i even = _mm512_mask_mov_epi8(known[0], word0, known[2]);
    return fill_listed(&in->list, _mm512_mask_mov_epi8(even, word1, known[1]), word0 & word1 & valid);
}

LMC_INLINE void decode_short_level(const unsigned nbits, const lmc_layer *layer, size_t n, lmc_levels_in *in,
                                   uint8_t *symbols)
{
    __m512i known[3];
    for (unsigned i = 0; i < 3; i++)
        known[i] = _mm512_set1_epi8((char)layer->symbol[i * 16]);
    lmc_levels_in local;
    copy_in_cursors(nbits, nbits, &local, in);
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        _mm512_storeu_si512(symbols + i, decode_short_group(nbits, known, ALL, &local));
    if (i < n)
        _mm512_storeu_si512(symbols + i,
                            decode_short_group(nbits, known, lmc_low_mask((unsigned)(n - i)), &local));
    copy_in_cursors(nbits, nbits, in, &local);
}

static void levels_decode(const lmc_layer *layer, lmc_levels_in *in, size_t n, uint8_t *symbols)
{
    if (is_short_level(layer)) {
        if (layer->last_nbits == 1)
            decode_short_level(1, layer, n, in, symbols);
        else
            decode_short_level(2, layer, n, in, symbols);
        return;
    }
    LMC_LAYER_INSTANCE(layer, decode_layer, layer, n, in, symbols)
}

/* ---- split ---- */

/* Packing narrows 128 bits at a time; these orders of 32-bit lanes put 64 bytes back in line that came from
 * two registers of 16-bit lanes, or from four of 32-bit lanes by way of two of 16-bit lanes. */
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

/* 16-bit lanes of at most 255 to bytes; 256 .. 32767 become 255. */
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
    return (word_pair){
        {_mm512_packus_epi32(_mm512_and_si512(x[0], mask), _mm512_and_si512(x[1], mask)),
         _mm512_packus_epi32(_mm512_and_si512(x[2], mask), _mm512_and_si512(x[3], mask))}};
}

LMC_INLINE word_pair high_words(const __m512i x[4])
{
    return (word_pair){{_mm512_packus_epi32(_mm512_srli_epi32(x[0], 16), _mm512_srli_epi32(x[1], 16)),
                        _mm512_packus_epi32(_mm512_srli_epi32(x[2], 16), _mm512_srli_epi32(x[3], 16))}};
}

/* How heads are cut into symbol and low bits, in registers. */
typedef struct head_cut {
    unsigned low_nbits;
    __m512i head_mask;  /* 16-bit lanes from here */
    __m512i shift;      /* offset - (base << low_nbits): then the symbol is what is above the low bits */
    __m512i low_counts;
    __m512i low_mask;
    __m512i pairs;      /* 1 and 2^low_nbits, bytes: two low parts to a 16-bit lane */
    __m512i quads;      /* 1 and 4^low_nbits, 16 bits each: four to a 32-bit lane */
    __m512i octet_counts;
    __m512i octet_mask; /* the four low parts of a 64-bit lane's lower half */
    uint64_t low_kept;  /* bytes of a 64-bit lane that the low parts fill */
} head_cut;

LMC_INLINE head_cut load_head_cut(const lmc_split *split, const unsigned head_nbits)
{
    const unsigned p = split->low_nbits;
    head_cut cut;
    cut.low_nbits = p;
    cut.head_mask = _mm512_set1_epi16((short)((1u << head_nbits) - 1));
    cut.shift = _mm512_set1_epi16((short)(split->offset - ((unsigned)split->base << p)));
    cut.low_counts = _mm512_set1_epi16((short)p);
    cut.low_mask = _mm512_set1_epi16((short)((1u << p) - 1));
    cut.pairs = _mm512_set1_epi16((short)(1u | 1u << (p + 8)));
    cut.quads = _mm512_set1_epi32((int)(1u | 1u << (2 * p + 16) % 32));
    cut.octet_counts = _mm512_set1_epi64(32 - 4 * (int)p);
    cut.octet_mask = _mm512_set1_epi64((long long)((UINT64_C(1) << 4 * p) - 1));
    cut.low_kept = ((1u << p) - 1) * EACH_BYTE;
    return cut;
}

/* 64 bytes of fewer than 8 bits each to 8 * low_nbits bytes. */
LMC_INLINE __m512i pack_low(const head_cut *cut, __m512i low)
{
    const __m512i pairs = _mm512_maddubs_epi16(cut->pairs, low);
    const __m512i quads = _mm512_madd_epi16(pairs, cut->quads);
    const __m512i shifted = _mm512_srlv_epi64(quads, cut->octet_counts);
    const __m512i octets = _mm512_ternarylogic_epi64(cut->octet_mask, quads, shifted, 0xca /* select */);
    return _mm512_maskz_compress_epi8(cut->low_kept, octets);
}

/* Cuts a group of n <= 64 heads; returns the symbols. */
LMC_INLINE __m512i cut_heads(const head_cut *cut, word_pair heads, __m512i order, size_t n, uint8_t *symbols,
                             uint8_t *low)
{
    const __m512i h0 = _mm512_and_si512(_mm512_add_epi16(heads.word[0], cut->shift), cut->head_mask);
    const __m512i h1 = _mm512_and_si512(_mm512_add_epi16(heads.word[1], cut->shift), cut->head_mask);
    const word_pair wide_symbols = {
        {_mm512_srlv_epi16(h0, cut->low_counts), _mm512_srlv_epi16(h1, cut->low_counts)}};
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

/* Reads a group of n <= 64 elements as registers of rotated elements. */
LMC_INLINE void load_elements(const unsigned nbytes, const uint8_t *src, size_t n, __m512i *x)
{
    for (unsigned i = 0; i < nbytes; i++) {
        fetch(src, AHEAD_ELEMENTS + 64 * i);
        x[i] = load_first(src + 64 * i, bytes_left(n * nbytes, 64 * i));
    }
}

LMC_INLINE __m512i split_group(const unsigned nbytes, const head_cut *cut, unsigned rotation,
                               const uint8_t *src, size_t n, const lmc_plane_set *dst, size_t at)
{
    uint8_t *const symbols = dst->symbols + at;
    uint8_t *const low = cut->low_nbits > 0 ? dst->low + at / 8 * cut->low_nbits : NULL;
    const __m512i words_order = order_from_words();
    const __m512i dwords_order = order_from_dwords();
    __m512i x[8];
    load_elements(nbytes, src + at * nbytes, n, x);
    if (nbytes == 1) { /* a byte twice rotates in a 16-bit lane like a byte */
        const __m512i counts = _mm512_set1_epi16((short)rotation);
        const __m512i w0 = _mm512_unpacklo_epi8(x[0], x[0]);
        const __m512i w1 = _mm512_unpackhi_epi8(x[0], x[0]);
        const word_pair heads = {{_mm512_shldv_epi16(w0, w0, counts), _mm512_shldv_epi16(w1, w1, counts)}};
        const __m512i in_place = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        return cut_heads(cut, heads, in_place, n, symbols, low);
    }
    if (nbytes == 2) {
        const __m512i counts = _mm512_set1_epi16((short)rotation);
        const word_pair heads = {
            {_mm512_shldv_epi16(x[0], x[0], counts), _mm512_shldv_epi16(x[1], x[1], counts)}};
        return cut_heads(cut, heads, words_order, n, symbols, low);
    }
    unsigned next_rest = 2;
    if (nbytes == 4) {
        for (unsigned i = 0; i < 4; i++)
            x[i] = _mm512_rolv_epi32(x[i], _mm512_set1_epi32((int)rotation));
        next_rest = 0;
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
        store_first(dst->rest[next_rest++] + at, high_bytes(upper_words, dwords_order), n);
        store_first(dst->rest[next_rest++] + at, low_bytes(upper_words, dwords_order), n);
        store_first(dst->rest[next_rest++] + at, high_bytes(lower_words, dwords_order), n);
        store_first(dst->rest[next_rest++] + at, low_bytes(lower_words, dwords_order), n);
    }
    const word_pair rest = low_words(x);
    store_first(dst->rest[0] + at, high_bytes(rest, dwords_order), n);
    store_first(dst->rest[1] + at, low_bytes(rest, dwords_order), n);
    return cut_heads(cut, high_words(x), dwords_order, n, symbols, low);
}

LMC_INLINE unsigned split_elements(const unsigned nbytes, const lmc_split *split, const uint8_t *src, size_t n,
                                   const lmc_plane_set *dst)
{
    const unsigned head_nbits = nbytes == 1 ? 8 : 16;
    const head_cut cut = load_head_cut(split, head_nbits);
    const lmc_plane_set planes = *dst;
    __m512i greatest = _mm512_setzero_si512();
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        greatest = _mm512_max_epu8(greatest, split_group(nbytes, &cut, split->rotation, src, GROUP, &planes, i));
    if (i < n)
        greatest = _mm512_max_epu8(greatest, split_group(nbytes, &cut, split->rotation, src, n - i, &planes, i));
    return head_nbits - split->low_nbits > 8 &&
           _mm512_cmpeq_epi8_mask(greatest, _mm512_set1_epi8((char)LMC_FMT_SYMBOL_ESCAPE)) != 0;
}

/* ---- join ---- */

/* Low parts to bytes, in registers. */
typedef struct low_spread {
    uint64_t low_kept;  /* bytes of a 64-bit lane that the low parts fill */
    __m512i bit_offset; /* of each low part in its 64-bit lane */
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
    return from == 0 ? v : _mm512_permutexvar_epi64(_mm512_add_epi64(in_place, _mm512_set1_epi64(from / 8)), v);
}

/* How heads are joined, in registers; lanes as wide as the elements. */
typedef struct head_join {
    low_spread spread;
    __m512i low_counts;
    __m512i shift; /* (base << low_nbits) - offset */
    __m512i rotation;
} head_join;

LMC_INLINE __m512i fill_lanes(const unsigned nbytes, int value)
{
    return nbytes <= 2   ? _mm512_set1_epi16((short)value)
           : nbytes == 4 ? _mm512_set1_epi32(value)
                         : _mm512_set1_epi64(value);
}

LMC_INLINE head_join load_head_join(const unsigned nbytes, const lmc_split *split)
{
    head_join join;
    join.spread = load_low_spread(split->low_nbits);
    join.low_counts = fill_lanes(nbytes, split->low_nbits);
    join.shift = fill_lanes(nbytes, (int)((unsigned)split->base << split->low_nbits) - split->offset);
    join.rotation = fill_lanes(nbytes, split->rotation);
    return join;
}

/* 32 heads; `low` holds their low parts in its lower half. */
LMC_INLINE __m512i join_heads(const head_join *join, const uint8_t *symbols, __m512i low)
{
    const __m512i s = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)symbols));
    const __m512i wide_low = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(low));
    return _mm512_add_epi16(_mm512_add_epi16(_mm512_sllv_epi16(s, join->low_counts), wide_low), join->shift);
}

/* 64 elements of 1 byte. */
LMC_INLINE __m512i join_1_byte(const head_join *join, const uint8_t *symbols, __m512i low)
{
    const __m512i mask = _mm512_set1_epi16(0xff);
    word_pair x;
    for (unsigned i = 0; i < 2; i++) {
        const __m512i head =
            _mm512_and_si512(join_heads(join, symbols + 32 * i, bytes_from(low, 32 * i)), mask);
        const __m512i twice = _mm512_or_si512(head, _mm512_slli_epi16(head, 8));
        x.word[i] = _mm512_and_si512(_mm512_shrdv_epi16(twice, twice, join->rotation), mask);
    }
    return narrow_words(x, order_from_words());
}

/* 32 elements of 2 bytes. */
LMC_INLINE __m512i join_2_bytes(const head_join *join, const uint8_t *symbols, __m512i low)
{
    const __m512i x = join_heads(join, symbols, low);
    return _mm512_shrdv_epi16(x, x, join->rotation);
}

LMC_INLINE __m512i widen_to_32(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

/* 16 elements of 4 bytes. */
LMC_INLINE __m512i join_4_bytes(const head_join *join, const lmc_plane_set *src, size_t at, __m512i low)
{
    const __m512i s = _mm512_sllv_epi32(widen_to_32(src->symbols + at), join->low_counts);
    const __m512i wide_low = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(low));
    const __m512i head = _mm512_add_epi32(_mm512_add_epi32(s, wide_low), join->shift);
    const __m512i rest0 = _mm512_slli_epi32(widen_to_32(src->rest[0] + at), 8);
    const __m512i rest1 = widen_to_32(src->rest[1] + at);
    const __m512i x = _mm512_ternarylogic_epi32(_mm512_slli_epi32(head, 16), rest0, rest1, 0xfe /* or */);
    return _mm512_rorv_epi32(x, join->rotation);
}

LMC_INLINE __m512i widen_to_64(const uint8_t *p)
{
    return _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)p));
}

/* 8 elements of 8 bytes. */
LMC_INLINE __m512i join_8_bytes(const head_join *join, const lmc_plane_set *src, size_t at, __m512i low)
{
    const __m512i s = _mm512_sllv_epi64(widen_to_64(src->symbols + at), join->low_counts);
    const __m512i wide_low = _mm512_cvtepu8_epi64(_mm512_castsi512_si128(low));
    __m512i x = _mm512_add_epi64(_mm512_add_epi64(s, wide_low), join->shift);
    for (unsigned j = 0; j < 6; j++)
        x = _mm512_or_si512(_mm512_slli_epi64(x, 8), widen_to_64(src->rest[j] + at));
    return _mm512_rorv_epi64(x, join->rotation);
}

/* Writes registers one after the other past the caches, in whole lines but for the first and the last. */
typedef struct line_writer {
    uint8_t *line;     /* where the line begins that is being filled */
    uint64_t ours;     /* its bytes that may be written */
    __m512i held;      /* the register before, whose last bytes begin the line */
    __m512i index;     /* of a line's bytes in held and the next register */
    unsigned held_nbytes;
} line_writer;

LMC_INLINE line_writer begin_lines(uint8_t *dst)
{
    uint8_t index[64];
    const unsigned skipped = (uintptr_t)dst & 63;
    for (unsigned i = 0; i < 64; i++)
        index[i] = (uint8_t)(64 - skipped + i);
    line_writer w;
    w.line = (uint8_t *)((uintptr_t)dst - skipped);
    w.ours = ALL << skipped;
    w.held = _mm512_setzero_si512();
    w.index = _mm512_loadu_si512(index);
    w.held_nbytes = skipped;
    return w;
}

LMC_INLINE void put_register(line_writer *w, __m512i v)
{
    const __m512i line = _mm512_permutex2var_epi8(w->held, w->index, v);
    if (LMC_LIKELY(w->ours == ALL))
        _mm512_stream_si512((__m512i *)w->line, line);
    else
        _mm512_mask_storeu_epi8(w->line, w->ours, line);
    w->line += 64;
    w->ours = ALL;
    w->held = v;
}

LMC_INLINE void end_lines(const line_writer *w)
{
    const uint64_t left = w->ours & _bzhi_u64(ALL, w->held_nbytes); /* none if there was no register */
    _mm512_mask_storeu_epi8(w->line, left, _mm512_permutex2var_epi8(w->held, w->index, w->held));
}

/* Joins a group of n <= 64 elements, `at` the first, to dst or else to a writer of lines. */
LMC_INLINE void join_group(const unsigned nbytes, const head_join *join, const lmc_plane_set *src,
                           unsigned low_nbits, size_t at, size_t n, uint8_t *dst, line_writer *lines)
{
    const uint8_t *const packed_low = src->low + at / 8 * low_nbits;
    const __m512i low = unpack_low(&join->spread, packed_low);
    fetch(packed_low, AHEAD_LOW);
    for (unsigned i = 0; i < nbytes; i++) {
        const unsigned element = i * (64 / nbytes);
        const __m512i low_part = bytes_from(low, element);
        const __m512i x = nbytes == 1   ? join_1_byte(join, src->symbols + at, low)
                          : nbytes == 2 ? join_2_bytes(join, src->symbols + at + element, low_part)
                          : nbytes == 4 ? join_4_bytes(join, src, at + element, low_part)
                                        : join_8_bytes(join, src, at + element, low_part);
        if (lines)
            put_register(lines, x);
        else
            store_first(dst + 64 * i, x, bytes_left(n * nbytes, 64 * i));
    }
}

LMC_INLINE void join_elements(const unsigned nbytes, const int is_streaming, const lmc_split *split,
                              const lmc_plane_set *src, size_t n, uint8_t *dst)
{
    const unsigned p = split->low_nbits;
    const head_join join = load_head_join(nbytes, split);
    lmc_plane_set planes = *src;
    if (p == 0)
        planes.low = planes.symbols; /* anything that may be read */
    size_t i = 0;
    if (is_streaming) {
        line_writer lines = begin_lines(dst);
        for (; i + GROUP <= n; i += GROUP)
            join_group(nbytes, &join, &planes, p, i, GROUP, NULL, &lines);
        end_lines(&lines);
    }
    for (; i + GROUP <= n; i += GROUP)
        join_group(nbytes, &join, &planes, p, i, GROUP, dst + i * nbytes, NULL);
    if (i < n)
        join_group(nbytes, &join, &planes, p, i, n - i, dst + i * nbytes, NULL);
}

#define DEFINE_WIDTH(nbytes)                                                                             \
    static unsigned split_##nbytes(const lmc_split *split, const uint8_t *src, size_t n,                 \
                                   const lmc_plane_set *dst)                                             \
    {                                                                                                    \
        return split_elements(nbytes, split, src, n, dst);                                               \
    }                                                                                                    \
    static void join_##nbytes(const lmc_split *split, const lmc_plane_set *src, size_t n, uint8_t *dst) \
    {                                                                                                    \
        join_elements(nbytes, 0, split, src, n, dst);                                                    \
    }                                                                                                    \
    static void join_streaming_##nbytes(const lmc_split *split, const lmc_plane_set *src, size_t n,      \
                                        uint8_t *dst)                                                    \
    {                                                                                                    \
        join_elements(nbytes, 1, split, src, n, dst);                                                    \
    }

DEFINE_WIDTH(1)
DEFINE_WIDTH(2)
DEFINE_WIDTH(4)
DEFINE_WIDTH(8)

/* ---- copy ---- */

static void copy_past_cache(uint8_t *dst, const uint8_t *src, size_t nbytes)
{
    const size_t before = lmc_min_size(nbytes, (size_t)(-(uintptr_t)dst & 63));
    memcpy(dst, src, before);
    size_t i = before;
    for (; i + 64 <= nbytes; i += 64)
        _mm512_stream_si512((__m512i *)(void *)(dst + i), _mm512_loadu_si512(src + i));
    memcpy(dst + i, src + i, nbytes - i);
    _mm_sfence();
}

const lmc_kernels lmc_kernels_avx512 = {
    .name = "avx512",
    .levels_encode = levels_encode,
    .levels_decode = levels_decode,
    .split = {split_1, split_2, split_4, split_8},
    .join = {join_1, join_2, join_4, join_8},
    .hash = hash_xxh3,
    .hash_begin = hash_xxh3_begin,
    .hash_update = hash_xxh3_update,
    .hash_end = hash_xxh3_end,
    .copy_past_cache = copy_past_cache,
};

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int lmc_avx512_is_empty; /* ISO C wants a declaration */
#endif
