/*
 * avx2.c - kernels for CPUs with AVX2 and BMI2. A group of 64 symbols is two registers, a plane's word of
 * the group a general register. The whole file is compiled for these CPUs: call nothing in it before
 * select.c has asked the CPU.
 */
#include "kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <limits.h>
#include <stdlib.h>

#include "instances.h"
#include "x86.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt")
#endif

#define XXH_VECTOR 2 /* XXH_AVX2 */
#include "hash.h"

#define ALL (~UINT64_C(0))
#define IN_ORDER UINT64_C(0x0706050403020100)

/* 64 bytes in two registers. */
typedef struct bytes64 {
    __m256i half[2];
} bytes64;

LMC_INLINE __m256i load256(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

LMC_INLINE void store256(void *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

LMC_INLINE bytes64 load_bytes64(const void *p)
{
    return (bytes64){{load256(p), load256((const uint8_t *)p + 32)}};
}

LMC_INLINE void store_bytes64(void *p, bytes64 v)
{
    store256(p, v.half[0]);
    store256((uint8_t *)p + 32, v.half[1]);
}

/* Bit 7 of each byte. */
LMC_INLINE uint64_t top_bits(__m256i v0, __m256i v1)
{
    return (uint32_t)_mm256_movemask_epi8(v0) | (uint64_t)(uint32_t)_mm256_movemask_epi8(v1) << 32;
}

/* Bytes i >= n of a group become 0x80: no code, but still no code that is longer than another. */
LMC_INLINE bytes64 void_beyond(bytes64 codes, size_t n)
{
    const __m256i count = _mm256_set1_epi8((char)n);
    const __m256i flag = _mm256_set1_epi8((char)0x80);
    __m256i index = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                     22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    for (unsigned h = 0; h < 2; h++) {
        const __m256i beyond = _mm256_andnot_si256(_mm256_cmpgt_epi8(count, index), flag);
        codes.half[h] = _mm256_or_si256(codes.half[h], beyond);
        index = _mm256_add_epi8(index, _mm256_set1_epi8(32));
    }
    return codes;
}

/* ---- the list ---- */

/* Which symbols of a strip are in the list. */
typedef struct marks {
    uint8_t listed[LMC_STRIP_VALUES];       /* 0 or 255 */
    uint64_t count[LMC_STRIP_VALUES / 8];   /* of each eight symbols */
} marks;

LMC_INLINE void mark_group(marks *m, size_t at, bytes64 listed)
{
    const __m256i zero = _mm256_setzero_si256();
    store_bytes64(m->listed + at, listed);
    for (unsigned h = 0; h < 2; h++)
        store256(m->count + at / 8 + 4 * h, _mm256_sad_epu8(_mm256_sub_epi8(zero, listed.half[h]), zero));
}

/* The marked ones of n symbols, a multiple of 64. Returns the end of the list. */
static uint8_t *append_listed(uint8_t *list, const uint8_t *symbols, const marks *m, size_t n)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < n / 8; i++) {
        lmc_store64(list, _pext_u64(lmc_load64(symbols + 8 * i), lmc_load64(m->listed + 8 * i)));
        list += m->count[i];
    }
    return list;
}

/* The inverse: the marked symbols are 0 and become those of the list. */
static const uint8_t *fill_listed(const uint8_t *list, const marks *m, size_t n, uint8_t *symbols)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < n / 8; i++) {
        const uint64_t filled = _pdep_u64(lmc_load64(list), lmc_load64(m->listed + 8 * i));
        lmc_store64(symbols + 8 * i, lmc_load64(symbols + 8 * i) | filled);
        list += m->count[i];
    }
    return list;
}

LMC_INLINE size_t whole_groups(size_t n)
{
    return (n + GROUP - 1) & ~(size_t)(GROUP - 1);
}

/* ---- levels: encode ---- */

/* What an encoder needs of a layer. Codes are looked up 16 symbols at a time, and only where they differ
 * from `common`, the code of most symbols. */
typedef struct code_book {
    __m256i code[16];   /* of 16 symbols, twice; exclusive or `common` */
    __m256i to_low[16]; /* exclusive or it: the 16 symbols become 0..15 */
    unsigned count;
    __m256i common;
    __m256i below_threshold[6];
    __m256i list_code;
    int has_list;
} code_book;

LMC_INLINE void load_code_book(const lmc_layer *layer, code_book *book)
{
    const uint8_t common = layer->has_list ? layer->list_code : layer->code[255];
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
    book->list_code = _mm256_set1_epi8((char)layer->list_code);
    book->has_list = layer->has_list;
}

LMC_INLINE bytes64 look_up_codes(const code_book *book, bytes64 symbols)
{
    const __m256i beyond_15 = _mm256_set1_epi8(0x70); /* saturating: 16.. get bit 7, which looks up 0 */
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

/* Bytes, as signed numbers, that are greater than a bound. */
LMC_INLINE uint64_t greater_than(bytes64 v, __m256i bound)
{
    return top_bits(_mm256_cmpgt_epi8(v.half[0], bound), _mm256_cmpgt_epi8(v.half[1], bound));
}

LMC_INLINE bytes64 equal_bytes(bytes64 v, __m256i to)
{
    return (bytes64){{_mm256_cmpeq_epi8(v.half[0], to), _mm256_cmpeq_epi8(v.half[1], to)}};
}

/* Encodes a group of n <= 64 symbols, at + 0 .. n - 1 of its strip. */
LMC_INLINE void encode_group(const unsigned first, const unsigned last, const code_book *book,
                             const uint8_t *symbols, size_t at, size_t n, lmc_levels_out *out, marks *m)
{
    bytes64 codes = look_up_codes(book, load_bytes64(symbols + at));
    if (n < GROUP)
        codes = void_beyond(codes, n);
    const uint64_t valid = lmc_low_mask((unsigned)n);
    for (unsigned j = 0; j < first; j++)
        put_full(&out->full[j], plane_word(codes, j) & valid, lmc_bits_nbytes(n));
    for (unsigned j = first; j < last; j++) {
        const uint64_t longer = greater_than(codes, book->below_threshold[j]);
        lmc_put_bits(&out->partial[j], _pext_u64(plane_word(codes, j), longer), lmc_popcount64(longer));
    }
    if (book->has_list)
        mark_group(m, at, equal_bytes(codes, book->list_code));
}

LMC_INLINE void encode_strip(const unsigned first, const unsigned last, const code_book *book,
                             const uint8_t *symbols, size_t n, lmc_levels_out *out)
{
    marks m;
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        encode_group(first, last, book, symbols, i, GROUP, out, &m);
    if (i < n)
        encode_group(first, last, book, symbols, i, n - i, out, &m);
    if (book->has_list)
        out->list = append_listed(out->list, symbols, &m, whole_groups(n));
}

LMC_INLINE void encode_layer(const unsigned first, const unsigned last, const lmc_layer *layer,
                             const uint8_t *symbols, size_t n, lmc_levels_out *out)
{
    code_book book;
    load_code_book(layer, &book);
    lmc_levels_out local;
    copy_out_cursors(first, last, &local, out);
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES)
        encode_strip(first, last, &book, symbols + i, lmc_min_size(LMC_STRIP_VALUES, n - i), &local);
    copy_out_cursors(first, last, out, &local);
}

/* Finds the symbol of each code but the list's; 0 if some code has not exactly one. */
LMC_INLINE int find_symbols(const lmc_layer *layer, uint8_t symbol[3])
{
    const unsigned code_step = 64u >> layer->last_nbits;
    for (unsigned code = 0; code < layer->list_code; code += code_step, symbol++) {
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
                                   size_t at, size_t n, lmc_levels_out *out, marks *m)
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

LMC_INLINE void encode_short_level(const unsigned nbits, const uint8_t symbol[3], const uint8_t *symbols,
                                   size_t n, lmc_levels_out *out)
{
    __m256i known[3];
    for (unsigned i = 0; i < 3; i++)
        known[i] = _mm256_set1_epi8((char)symbol[i]);
    lmc_levels_out local;
    copy_out_cursors(nbits, nbits, &local, out);
    while (n > 0) {
        const size_t strip = lmc_min_size(LMC_STRIP_VALUES, n);
        marks m;
        size_t i = 0;
        for (; i + GROUP <= strip; i += GROUP)
            encode_short_group(nbits, known, symbols, i, GROUP, &local, &m);
        if (i < strip)
            encode_short_group(nbits, known, symbols, i, strip - i, &local, &m);
        local.list = append_listed(local.list, symbols, &m, whole_groups(strip));
        symbols += strip;
        n -= strip;
    }
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

/* A strip of codes bit by bit: bit i of word j of group g is bit j of code 64 g + i. Each plane is laid out
 * for the whole strip before the next, since a group by itself would wait for every bit of its codes. */
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

static void lay_out_full(const lmc_layer *layer, lmc_levels_in *in, size_t group_count, code_bits *bits)
{
    for (unsigned j = 0; j < layer->first_nbits; j++) {
        memcpy(bits->word[j], in->full[j], 8 * group_count);
        in->full[j] += 8 * group_count;
    }
}

static void lay_out_partial(const lmc_layer *layer, lmc_levels_in *in, unsigned j, size_t n, code_bits *bits)
{
    uint64_t longer[LMC_STRIP_VALUES / GROUP];
    const size_t group_count = whole_groups(n) / GROUP;
    for (size_t g = 0; g < group_count; g += 4)
        store256(longer + g, codes_at_least(bits, g, j, layer->threshold[j]));
    if (n % GROUP != 0)
        longer[group_count - 1] &= lmc_low_mask(n % GROUP);
    const uint8_t *const plane = in->partial[j];
    uint64_t position = in->position[j];
    for (size_t g = 0; g < group_count; g++) {
        bits->word[j][g] = _pdep_u64(lmc_load_bits(plane, position), longer[g]);
        position += lmc_popcount64(longer[g]);
    }
    in->position[j] = position;
}

/* What a decoder needs of a layer. Codes are right-justified to last_nbits here. */
typedef struct symbol_book {
    __m256i symbol[4]; /* of 16 codes, twice */
    __m256i list_code;
    int has_list;
} symbol_book;

LMC_INLINE symbol_book load_symbol_book(const unsigned last, const lmc_layer *layer)
{
    uint8_t symbol[64] = {0};
    for (unsigned i = 0; i < 1u << last; i++)
        symbol[i] = layer->symbol[i << (LMC_FMT_LAYER_NBITS_MAX - last)];
    symbol_book book;
    for (unsigned i = 0; i < 4; i++)
        book.symbol[i] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(symbol + 16 * i)));
    book.list_code = _mm256_set1_epi8((char)(layer->list_code >> (6 - last)));
    book.has_list = layer->has_list;
    return book;
}

/* One more bit at the right end of each code. */
LMC_INLINE bytes64 append_bits(bytes64 codes, uint64_t word)
{
    const __m256i bytes_0_to_3 = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
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
    return _mm256_blendv_epi8(look_up_32(book->symbol, codes), look_up_32(book->symbol + 2, codes), bit5_to_7);
}

/* Symbols of a group of n <= 64 codes; what is listed becomes 0 and is marked. */
LMC_INLINE void decode_group(const unsigned last, const symbol_book *book, const code_bits *bits, size_t at,
                             size_t n, marks *m, uint8_t *symbols)
{
    bytes64 codes = {{_mm256_setzero_si256(), _mm256_setzero_si256()}};
    for (unsigned j = 0; j < last; j++)
        codes = append_bits(codes, bits->word[j][at / GROUP]);
    bytes64 known = {{look_up_symbols(last, book, codes.half[0]), look_up_symbols(last, book, codes.half[1])}};
    if (book->has_list) {
        const bytes64 listed = equal_bytes(n < GROUP ? void_beyond(codes, n) : codes, book->list_code);
        for (unsigned h = 0; h < 2; h++)
            known.half[h] = _mm256_andnot_si256(listed.half[h], known.half[h]);
        mark_group(m, at, listed);
    }
    store_bytes64(symbols + at, known);
}

LMC_INLINE void decode_layer(const unsigned last, const lmc_layer *layer, size_t n, lmc_levels_in *in,
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
    if (book.has_list)
        in->list = fill_listed(in->list, &m, whole_groups(n), symbols);
}

static void levels_decode(const lmc_layer *layer, lmc_levels_in *in, size_t n, uint8_t *symbols)
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

/* ---- split ---- */

/* Packing narrows 128 bits at a time; these orders of 32-bit lanes put 32 bytes back in line that came from
 * two registers of 16-bit lanes, or from four of 32-bit lanes by way of two of 16-bit lanes. */
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

/* 16-bit lanes of at most 255 to bytes; 256 .. 32767 become 255. */
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
    return (word_pair){
        {_mm256_packus_epi32(_mm256_and_si256(x[0], mask), _mm256_and_si256(x[1], mask)),
         _mm256_packus_epi32(_mm256_and_si256(x[2], mask), _mm256_and_si256(x[3], mask))}};
}

LMC_INLINE word_pair high_words(const __m256i x[4])
{
    return (word_pair){{_mm256_packus_epi32(_mm256_srli_epi32(x[0], 16), _mm256_srli_epi32(x[1], 16)),
                        _mm256_packus_epi32(_mm256_srli_epi32(x[2], 16), _mm256_srli_epi32(x[3], 16))}};
}

/* How heads are cut into symbol and low bits, in registers. */
typedef struct head_cut {
    unsigned low_nbits;
    __m256i head_mask;  /* 16-bit lanes */
    __m256i shift;      /* offset - (base << low_nbits): then the symbol is what is above the low bits */
    __m128i low_count;
    __m256i low_mask;
    __m256i pairs;      /* 1 and 2^low_nbits, bytes: two low parts to a 16-bit lane */
    __m256i quads;      /* 1 and 4^low_nbits, 16 bits each: four to a 32-bit lane */
    __m256i octet_counts;
    __m256i octet_mask; /* the four low parts of a 64-bit lane's lower half */
    __m256i gather;     /* the bytes of two 64-bit lanes that the low parts fill */
} head_cut;

LMC_INLINE head_cut load_head_cut(const lmc_split *split, const unsigned head_nbits)
{
    const unsigned p = split->low_nbits;
    uint8_t gather[24];
    lmc_store64(gather, IN_ORDER);
    lmc_store64(gather + p, IN_ORDER + UINT64_C(0x0808080808080808));
    head_cut cut;
    cut.low_nbits = p;
    cut.head_mask = _mm256_set1_epi16((short)((1u << head_nbits) - 1));
    cut.shift = _mm256_set1_epi16((short)(split->offset - ((unsigned)split->base << p)));
    cut.low_count = _mm_cvtsi32_si128((int)p);
    cut.low_mask = _mm256_set1_epi16((short)((1u << p) - 1));
    cut.pairs = _mm256_set1_epi16((short)(1u | 1u << (p + 8)));
    cut.quads = _mm256_set1_epi32((int)(1u | 1u << (2 * p + 16) % 32));
    cut.octet_counts = _mm256_set1_epi64x(32 - 4 * (int)p);
    cut.octet_mask = _mm256_set1_epi64x((long long)((UINT64_C(1) << 4 * p) - 1));
    cut.gather = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)gather));
    return cut;
}

/* 32 bytes of low_nbits < 8 bits each to 4 * low_nbits bytes; writes 16 - 2 * low_nbits bytes more. */
LMC_INLINE void pack_low(const head_cut *cut, __m256i low, uint8_t *dst)
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

/* Cuts 32 heads; `low` as pack_low(). Returns the symbols. */
LMC_INLINE __m256i cut_heads(const head_cut *cut, word_pair heads, __m256i order, uint8_t *symbols,
                             uint8_t *low)
{
    const __m256i h0 = _mm256_and_si256(_mm256_add_epi16(heads.word[0], cut->shift), cut->head_mask);
    const __m256i h1 = _mm256_and_si256(_mm256_add_epi16(heads.word[1], cut->shift), cut->head_mask);
    const word_pair wide_symbols = {
        {_mm256_srl_epi16(h0, cut->low_count), _mm256_srl_epi16(h1, cut->low_count)}};
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

/* Cuts 32 elements of 1, 2 or 4 bytes into planes at dst, whose low plane is written as pack_low() does. */
LMC_INLINE __m256i split_half(const unsigned nbytes, const head_cut *cut, unsigned rotation,
                              const uint8_t *src, const lmc_plane_set *dst)
{
    __m256i x[4];
    for (unsigned i = 0; i < nbytes; i++)
        x[i] = load256(src + 32 * i);
    for (unsigned i = 0; i < 32 * nbytes; i += 64)
        fetch(src, AHEAD_ELEMENTS + i);
    fetch(dst->low, AHEAD_LOW);
    if (nbytes == 1) { /* a byte twice in a 16-bit lane */
        word_pair heads = {{_mm256_unpacklo_epi8(x[0], x[0]), _mm256_unpackhi_epi8(x[0], x[0])}};
        if (rotation)
            for (unsigned i = 0; i < 2; i++)
                heads.word[i] = _mm256_srli_epi16(heads.word[i], 7);
        return cut_heads(cut, heads, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), dst->symbols, dst->low);
    }
    if (nbytes == 2) {
        if (rotation)
            for (unsigned i = 0; i < 2; i++)
                x[i] = _mm256_or_si256(_mm256_add_epi16(x[i], x[i]), _mm256_srli_epi16(x[i], 15));
        return cut_heads(cut, (word_pair){{x[0], x[1]}}, order_from_words(), dst->symbols, dst->low);
    }
    const __m256i order = order_from_dwords();
    if (rotation)
        for (unsigned i = 0; i < 4; i++)
            x[i] = _mm256_or_si256(_mm256_add_epi32(x[i], x[i]), _mm256_srli_epi32(x[i], 31));
    const word_pair rest = low_words(x);
    store256(dst->rest[0], high_bytes(rest, order));
    store256(dst->rest[1], low_bytes(rest, order));
    return cut_heads(cut, high_words(x), order, dst->symbols, dst->low);
}

/* Cuts a group of 64 elements; the low plane as pack_low() */
LMC_INLINE __m256i split_group(const unsigned nbytes, const head_cut *cut, unsigned rotation,
                               const uint8_t *src, const lmc_plane_set *dst)
{
    lmc_plane_set upper = *dst;
    const __m256i s = split_half(nbytes, cut, rotation, src, dst);
    upper.symbols += 32;
    if (cut->low_nbits > 0)
        upper.low += 4 * cut->low_nbits;
    for (unsigned j = 0; j + 2 < nbytes; j++)
        upper.rest[j] += 32;
    return _mm256_max_epu8(s, split_half(nbytes, cut, rotation, src + 32 * nbytes, &upper));
}

/* The last groups of a call, up to the exact ends of their planes, by way of buffers. n <= 64. */
LMC_INLINE __m256i split_last(const unsigned nbytes, const head_cut *cut, unsigned rotation,
                              const uint8_t *src, size_t n, const lmc_plane_set *dst)
{
    uint8_t elements[4 * GROUP] = {0};
    uint8_t low[GROUP + 16];
    uint8_t rest[LMC_COUNT(dst->rest)][GROUP];
    memcpy(elements, src, n * nbytes);
    const lmc_plane_set planes = {dst->symbols, low, {rest[0], rest[1]}};
    split_group(nbytes, cut, rotation, elements, &planes);
    memset(dst->symbols + n, 0, GROUP - n); /* no escapes there */
    const size_t low_nbits = n * cut->low_nbits;
    if (low_nbits % 8 != 0)
        low[low_nbits / 8] &= (uint8_t)((1u << low_nbits % 8) - 1);
    if (low_nbits > 0)
        memcpy(dst->low, low, lmc_bits_nbytes(low_nbits));
    for (unsigned j = 0; j + 2 < nbytes; j++)
        memcpy(dst->rest[j], rest[j], n);
    return _mm256_max_epu8(load256(dst->symbols), load256(dst->symbols + 32));
}

LMC_INLINE unsigned split_elements(const unsigned nbytes, const lmc_split *split, const uint8_t *src, size_t n,
                                   const lmc_plane_set *dst)
{
    const unsigned p = split->low_nbits;
    const unsigned head_nbits = nbytes == 1 ? 8 : 16;
    const unsigned rotation = split->rotation;
    const head_cut cut = load_head_cut(split, head_nbits);
    const size_t overrun = p > 0 ? lmc_div_ceil(8 * (16 - 2 * p), p) : 0; /* of pack_low(), in elements */
    const lmc_plane_set planes = *dst;
    __m256i greatest = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + GROUP + overrun <= n; i += GROUP) {
        const lmc_plane_set at = planes_at(nbytes, &planes, p, i);
        greatest = _mm256_max_epu8(greatest, split_group(nbytes, &cut, rotation, src + i * nbytes, &at));
    }
    for (; i < n; i += GROUP) {
        const lmc_plane_set at = planes_at(nbytes, &planes, p, i);
        greatest = _mm256_max_epu8(greatest, split_last(nbytes, &cut, rotation, src + i * nbytes,
                                                        lmc_min_size(GROUP, n - i), &at));
    }
    const __m256i escape = _mm256_set1_epi8((char)LMC_FMT_SYMBOL_ESCAPE);
    return head_nbits - p > 8 && _mm256_movemask_epi8(_mm256_cmpeq_epi8(greatest, escape)) != 0;
}

/* ---- join ---- */

/* Low parts to 16- or 32-bit lanes: the two bytes that hold each part, and a shift to the right. */
typedef struct low_spread {
    __m256i source; /* in 16 bytes, which each half of the register has a copy of */
    __m256i shift;  /* 16-bit lanes: factors of which the upper half of the product counts; 32-bit: counts */
    __m256i mask;
    unsigned low_nbits;
} low_spread;

LMC_INLINE low_spread load_low_spread_16(unsigned low_nbits)
{
    uint8_t source[32];
    uint16_t factor[16];
    for (unsigned k = 0; k < 16; k++) {
        const unsigned second = (k * low_nbits + 7) / 8; /* shifts are 1..8: a factor of 2^16 does not exist */
        source[2 * k] = (uint8_t)(second - 1);           /* 255, byte -1, reads as 0 */
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

/* How heads are joined, in registers. */
typedef struct head_join {
    low_spread low;
    __m128i low_count;
    __m256i shift; /* (base << low_nbits) - offset */
    unsigned rotation;
} head_join;

LMC_INLINE head_join load_head_join(const unsigned nbytes, const lmc_split *split)
{
    const int shift = (int)(((unsigned)split->base << split->low_nbits) - split->offset);
    head_join join;
    join.low = nbytes == 4 ? load_low_spread_32(split->low_nbits) : load_low_spread_16(split->low_nbits);
    join.low_count = _mm_cvtsi32_si128(split->low_nbits);
    join.shift = nbytes == 4 ? _mm256_set1_epi32(shift) : _mm256_set1_epi16((short)shift);
    join.rotation = split->rotation;
    return join;
}

/* 16 heads */
LMC_INLINE __m256i join_heads_16(const head_join *join, const uint8_t *symbols, const uint8_t *low)
{
    const __m256i s = _mm256_sll_epi16(widen_to_16(symbols), join->low_count);
    return _mm256_add_epi16(_mm256_add_epi16(s, join->shift), unpack_low_16(&join->low, low));
}

LMC_INLINE __m256i join_2_bytes(const head_join *join, const uint8_t *symbols, const uint8_t *low)
{
    const __m256i x = join_heads_16(join, symbols, low);
    return join->rotation ? _mm256_or_si256(_mm256_srli_epi16(x, 1), _mm256_slli_epi16(x, 15)) : x;
}

/* 32 elements of 1 byte */
LMC_INLINE __m256i join_1_byte(const head_join *join, const uint8_t *symbols, const uint8_t *low)
{
    const __m256i mask = _mm256_set1_epi16(0xff);
    word_pair x;
    for (unsigned i = 0; i < 2; i++) {
        const __m256i head = join_heads_16(join, symbols + 16 * i, low + 2 * i * join->low.low_nbits);
        const __m256i byte = _mm256_and_si256(head, mask);
        const __m256i rotated = _mm256_or_si256(_mm256_srli_epi16(byte, 1), _mm256_slli_epi16(byte, 7));
        x.word[i] = join->rotation ? _mm256_and_si256(rotated, mask) : byte;
    }
    return narrow_words(x, order_from_words());
}

LMC_INLINE __m256i join_4_bytes(const head_join *join, const uint8_t *symbols, const uint8_t *low,
                                const uint8_t *upper_rest, const uint8_t *lower_rest)
{
    const __m256i s = _mm256_sll_epi32(widen_to_32(symbols), join->low_count);
    const __m256i head = _mm256_add_epi32(_mm256_add_epi32(s, join->shift), unpack_low_32(&join->low, low));
    const __m256i rest = _mm256_or_si256(_mm256_slli_epi32(widen_to_32(upper_rest), 8), widen_to_32(lower_rest));
    const __m256i x = _mm256_or_si256(_mm256_slli_epi32(head, 16), rest);
    return join->rotation ? _mm256_or_si256(_mm256_srli_epi32(x, 1), _mm256_slli_epi32(x, 31)) : x;
}

/* A group of 64 elements of 1, 2 or 4 bytes. */
LMC_INLINE void join_group(const unsigned nbytes, const head_join *join, const lmc_plane_set *src, uint8_t *dst)
{
    const unsigned count = 32 / nbytes; /* elements to a register */
    fetch(src->low, AHEAD_LOW);
    for (unsigned i = 0; i < GROUP; i += count) {
        const uint8_t *const symbols = src->symbols + i;
        const uint8_t *const low = src->low + i / 8 * join->low.low_nbits;
        __m256i x;
        if (nbytes == 1)
            x = join_1_byte(join, symbols, low);
        else if (nbytes == 2)
            x = join_2_bytes(join, symbols, low);
        else
            x = join_4_bytes(join, symbols, low, src->rest[0] + i, src->rest[1] + i);
        store256(dst + i * nbytes, x);
    }
}

LMC_INLINE void join_elements(const unsigned nbytes, const lmc_split *split, const lmc_plane_set *src, size_t n,
                              uint8_t *dst)
{
    const unsigned p = split->low_nbits;
    const head_join join = load_head_join(nbytes, split);
    lmc_plane_set planes = *src;
    if (p == 0)
        planes.low = planes.symbols; /* anything that may be read */
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP) {
        const lmc_plane_set at = planes_at(nbytes, &planes, p, i);
        join_group(nbytes, &join, &at, dst + i * nbytes);
    }
    if (i < n) {
        const lmc_plane_set at = planes_at(nbytes, &planes, p, i);
        uint8_t elements[4 * GROUP];
        join_group(nbytes, &join, &at, elements);
        memcpy(dst + i * nbytes, elements, (n - i) * nbytes);
    }
}

#define DEFINE_WIDTH(nbytes)                                                                             \
    static unsigned split_##nbytes(const lmc_split *split, const uint8_t *src, size_t n,                 \
                                   const lmc_plane_set *dst)                                             \
    {                                                                                                    \
        return split_elements(nbytes, split, src, n, dst);                                               \
    }                                                                                                    \
    static void join_##nbytes(const lmc_split *split, const lmc_plane_set *src, size_t n, uint8_t *dst) \
    {                                                                                                    \
        join_elements(nbytes, split, src, n, dst);                                                       \
    }                                                                                                    \
    static void join_streaming_##nbytes(const lmc_split *split, const lmc_plane_set *src, size_t n,      \
                                        uint8_t *dst)                                                    \
    {                                                                                                    \
        join_by_copy(nbytes, join_##nbytes, copy_streaming, split, src, n, dst);                         \
    }

DEFINE_WIDTH(1)
DEFINE_WIDTH(2)
DEFINE_WIDTH(4)

/* Elements of 8 bytes: nothing here is faster than what the compiler makes of the reference. */
static unsigned split_8(const lmc_split *split, const uint8_t *src, size_t n, const lmc_plane_set *dst)
{
    return lmc_kernels_scalar.split[3](split, src, n, dst);
}

static void join_8(const lmc_split *split, const lmc_plane_set *src, size_t n, uint8_t *dst)
{
    lmc_kernels_scalar.join[3](split, src, n, dst);
}

/* ---- copy ---- */

static void copy_past_cache(uint8_t *dst, const uint8_t *src, size_t nbytes)
{
    const size_t before = lmc_min_size(nbytes, (size_t)(-(uintptr_t)dst & 31));
    memcpy(dst, src, before);
    size_t i = before;
    for (; i + 32 <= nbytes; i += 32)
        _mm256_stream_si256((__m256i *)(void *)(dst + i), _mm256_loadu_si256((const __m256i *)(const void *)(src + i)));
    memcpy(dst + i, src + i, nbytes - i);
    _mm_sfence();
}

const lmc_kernels lmc_kernels_avx2 = {
    .name = "avx2",
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
typedef int lmc_avx2_is_empty; /* ISO C wants a declaration */
#endif
