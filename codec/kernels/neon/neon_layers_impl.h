/*
 * neon_layers_impl.h - codes one layer of a canonical code, for kernels/neon/neon.c. It takes two groups of 64 symbols
 * at a time: bit j of their codes is one register, and one store writes their plane. Codes become planes and back by
 * exchanging bits of registers that hold every fourth symbol. Next symbols are packed and filled in by shuffles of
 * eight bytes.
 */
#ifndef LMC_CODEC_KERNELS_NEON_NEON_LAYERS_IMPL_H
#define LMC_CODEC_KERNELS_NEON_NEON_LAYERS_IMPL_H

#include "codec/kernels/shared/byte_orders.h"

#define PAIR (2 * GROUP) /* symbols at a time */

/* ---- shuffles by mask ---- */

/* Byte i: the number of bits set in bytes 0 .. i of a word. */
LMC_INLINE uint64_t counts_so_far(uint64_t word)
{
    const uint64_t counts = vget_lane_u64(vreinterpret_u64_u8(vcnt_u8(vcreate_u8(word))), 0);
    return counts * UINT64_C(0x0101010101010101);
}

/* Appends the symbols of a group whose bits are set in a word. Writes 8 bytes more. Returns the end of the next
 * symbols. */
LMC_INLINE uint8_t *append_passed_on(uint8_t *next_symbols, const uint8_t *symbols, uint64_t passed_on)
{
    const uint64_t ends = counts_so_far(passed_on);
    const uint64_t starts = ends << 8;
    for (unsigned i = 0; i < 8; i++) {
        const uint8x8_t order = vcreate_u8(pack_order[passed_on >> 8 * i & 0xff]);
        const uint8x16_t s = vcombine_u8(vld1_u8(symbols + 8 * i), vdup_n_u8(0));
        vst1_u8(next_symbols + (starts >> 8 * i & 0xff), vqtbl1_u8(s, order));
    }
    return next_symbols + (ends >> 56);
}

/* Stores the symbols of a group. Those whose bits are set in a word are next symbols. Returns the next symbols that
 * are left. */
LMC_INLINE const uint8_t *fill_passed_on(const uint8_t *next_symbols, uint64_t passed_on,
                                         const uint8x16_t known[4], uint8_t *symbols)
{
    const uint64_t ends = counts_so_far(passed_on);
    const uint64_t starts = ends << 8;
    for (unsigned i = 0; i < 8; i++) {
        const uint8x8_t order = vcreate_u8(fill_order[passed_on >> 8 * i & 0xff]);
        const uint8x16_t next = vld1q_u8(next_symbols + (starts >> 8 * i & 0xff));
        const uint8x8_t s = i % 2 ? vget_high_u8(known[i / 2]) : vget_low_u8(known[i / 2]);
        vst1_u8(symbols + 8 * i, vqtbx1_u8(s, next, order));
    }
    return next_symbols + (ends >> 56);
}

/* ---- codes and planes ---- */

/* Word i: bit i of every code of two groups. */
typedef struct code_words {
    uint64x2_t word[LMC_FMT_LAYER_NBITS_MAX];
} code_words;

/* Masks for the first n <= 128 codes of two groups. */
LMC_INLINE uint64x2_t first_lanes(size_t n)
{
    const uint64_t word[2] = {n == 0 ? 0 : lmc_low_mask((unsigned)lmc_min_size(n, GROUP)),
                              n <= GROUP ? 0 : lmc_low_mask((unsigned)(n - GROUP))};
    return vld1q_u64(word);
}

/* Makes every plane of 64 codes in bytes. Register r of c has codes r, r + 4, ... Register i of the result has plane
 * i (bit 7 - i of the codes) in the upper halves of its bytes, and plane i + 4 in the lower halves, four codes in a
 * row each. */
LMC_INLINE uint8x16x4_t nibbles_of_codes(uint8x16x4_t c)
{
    const uint8x16_t odd_bits = vdupq_n_u8(0xaa), odd_pairs = vdupq_n_u8(0xcc);
    const uint8x16_t even_01 = vbslq_u8(odd_bits, c.val[1], vshrq_n_u8(c.val[0], 1));
    const uint8x16_t even_23 = vbslq_u8(odd_bits, c.val[3], vshrq_n_u8(c.val[2], 1));
    const uint8x16_t odd_01 = vbslq_u8(odd_bits, vshlq_n_u8(c.val[1], 1), c.val[0]);
    const uint8x16_t odd_23 = vbslq_u8(odd_bits, vshlq_n_u8(c.val[3], 1), c.val[2]);
    uint8x16x4_t nibbles;
    nibbles.val[0] = vbslq_u8(odd_pairs, even_23, vshrq_n_u8(even_01, 2));
    nibbles.val[1] = vbslq_u8(odd_pairs, odd_23, vshrq_n_u8(odd_01, 2));
    nibbles.val[2] = vbslq_u8(odd_pairs, vshlq_n_u8(even_23, 2), even_01);
    nibbles.val[3] = vbslq_u8(odd_pairs, vshlq_n_u8(odd_23, 2), odd_01);
    return nibbles;
}

/* The inverse. */
LMC_INLINE uint8x16x4_t codes_of_nibbles(uint8x16x4_t nibbles)
{
    const uint8x16_t odd_bits = vdupq_n_u8(0xaa), odd_pairs = vdupq_n_u8(0xcc);
    const uint8x16_t even_01 = vbslq_u8(odd_pairs, vshlq_n_u8(nibbles.val[0], 2), nibbles.val[2]);
    const uint8x16_t even_23 = vbslq_u8(odd_pairs, nibbles.val[0], vshrq_n_u8(nibbles.val[2], 2));
    const uint8x16_t odd_01 = vbslq_u8(odd_pairs, vshlq_n_u8(nibbles.val[1], 2), nibbles.val[3]);
    const uint8x16_t odd_23 = vbslq_u8(odd_pairs, nibbles.val[1], vshrq_n_u8(nibbles.val[3], 2));
    uint8x16x4_t c;
    c.val[0] = vbslq_u8(odd_bits, vshlq_n_u8(even_01, 1), odd_01);
    c.val[1] = vbslq_u8(odd_bits, even_01, vshrq_n_u8(odd_01, 1));
    c.val[2] = vbslq_u8(odd_bits, vshlq_n_u8(even_23, 1), odd_23);
    c.val[3] = vbslq_u8(odd_bits, even_23, vshrq_n_u8(odd_23, 1));
    return c;
}

/* Makes the planes of the codes of two groups. Their first bit is bit 7. */
LMC_INLINE code_words words_of_codes(const unsigned last, const uint8x16x4_t codes[2])
{
    const uint8x16x4_t n0 = nibbles_of_codes(codes[0]), n1 = nibbles_of_codes(codes[1]);
    code_words words;
    for (unsigned j = 0; j < last && j < 4; j++) {
        const uint8x16_t even = vuzp1q_u8(n0.val[j], n1.val[j]), odd = vuzp2q_u8(n0.val[j], n1.val[j]);
        words.word[j] = vreinterpretq_u64_u8(vsriq_n_u8(odd, even, 4));
        if (j + 4 < last)
            words.word[j + 4] = vreinterpretq_u64_u8(vsliq_n_u8(even, odd, 4));
    }
    return words;
}

/* The inverse, but the last bit of a code is bit 0. */
LMC_INLINE void codes_of_words(const unsigned last, const code_words *words, uint8x16x4_t codes[2])
{
    const unsigned absent = 8 - last; /* planes */
    uint8x16x4_t nibbles[2];
    for (unsigned j = 0; j < 4; j++) {
        uint8x16_t even = vdupq_n_u8(0), odd = even;
        if (j + 4 >= absent) {
            const uint8x16_t lower = vreinterpretq_u8_u64(words->word[j + 4 - absent]);
            even = vandq_u8(lower, vdupq_n_u8(15));
            odd = vshrq_n_u8(lower, 4);
            if (j >= absent) {
                const uint8x16_t upper = vreinterpretq_u8_u64(words->word[j - absent]);
                even = vsliq_n_u8(lower, upper, 4);
                odd = vsriq_n_u8(upper, lower, 4);
            }
        }
        nibbles[0].val[j] = vzip1q_u8(even, odd);
        nibbles[1].val[j] = vzip2q_u8(even, odd);
    }
    codes[0] = codes_of_nibbles(nibbles[0]);
    codes[1] = codes_of_nibbles(nibbles[1]);
}

/* For each bit of a code, first bit first: all ones if it is 1. */
typedef struct bit_masks {
    uint64x2_t bit[LMC_FMT_LAYER_NBITS_MAX];
} bit_masks;

LMC_INLINE bit_masks masks_of(unsigned code)
{
    bit_masks masks;
    for (unsigned i = 0; i < LMC_FMT_LAYER_NBITS_MAX; i++)
        masks.bit[i] = vdupq_n_u64(-(uint64_t)(code >> (5 - i) & 1));
    return masks;
}

/* The codes whose first nbits >= 1 bits are at least those of a threshold. */
LMC_INLINE uint64x2_t codes_at_least(const code_words *words, const unsigned nbits,
                                     const bit_masks *threshold)
{
    uint64x2_t lanes = vdupq_n_u64(~UINT64_C(0));
    for (unsigned i = nbits; i-- > 0;)
        lanes =
            vbslq_u64(threshold->bit[i], vandq_u64(words->word[i], lanes), vorrq_u64(words->word[i], lanes));
    return lanes;
}

/* The codes of `nbits` bits that are equal to the code of the masks. */
LMC_INLINE uint64x2_t codes_equal(const code_words *words, const unsigned nbits, const bit_masks *code)
{
    uint64x2_t differ = veorq_u64(words->word[0], code->bit[0]);
    for (unsigned i = 1; i < nbits; i++)
        differ = vorrq_u64(differ, veorq_u64(words->word[i], code->bit[i]));
    return vreinterpretq_u64_u8(vmvnq_u8(vreinterpretq_u8_u64(differ)));
}

/* ---- encode ---- */

/* Tables of an encoder for a layer. Codes are looked up 16 symbols at a time, and only where they differ from
 * `common`, the code of most symbols. Their first bit is bit 7 here. */
typedef struct code_book {
    uint8x16_t code[16];   /* of 16 symbols */
    uint8x16_t to_low[16]; /* XOR with it makes the 16 symbols 0..15 */
    unsigned count;
    uint8x16_t common;
    bit_masks threshold[LMC_FMT_LAYER_NBITS_MAX];
    bit_masks continuation;
    int has_continuation;
} code_book;

LMC_INLINE void load_code_book(const unsigned first, const unsigned last, const lmc_layer *layer,
                               code_book *book)
{
    const uint8_t common = layer->has_continuation ? layer->continuation : layer->code[255];
    book->common = vdupq_n_u8((uint8_t)(common << 2));
    book->count = 0;
    for (unsigned i = 0; i < 256; i += 16) {
        const uint8x16_t code = vld1q_u8(layer->code + i);
        if (vmaxvq_u8(veorq_u8(code, vdupq_n_u8(common))) != 0) {
            book->code[book->count] = vshlq_n_u8(code, 2);
            book->to_low[book->count] = vdupq_n_u8((uint8_t)i);
            book->count++;
        }
    }
    for (unsigned j = first; j < last; j++)
        book->threshold[j] = masks_of(layer->threshold[j]);
    book->continuation = masks_of(layer->continuation);
    book->has_continuation = layer->has_continuation;
}

/* Looks up the codes of two groups. */
LMC_INLINE void look_up_codes(const code_book *book, const uint8_t *symbols, uint8x16x4_t codes[2])
{
    const uint8x16x4_t s[2] = {vld4q_u8(symbols), vld4q_u8(symbols + GROUP)};
    for (unsigned g = 0; g < 2; g++)
        for (unsigned r = 0; r < 4; r++)
            codes[g].val[r] = book->common;
    for (unsigned i = 0; i < book->count; i++)
        for (unsigned g = 0; g < 2; g++)
            for (unsigned r = 0; r < 4; r++)
                codes[g].val[r] =
                    vqtbx1q_u8(codes[g].val[r], book->code[i], veorq_u8(s[g].val[r], book->to_low[i]));
}

/* Encodes n symbols of two groups; is_whole: n == 128. */
LMC_INLINE void encode_pair(const unsigned first, const unsigned last, const code_book *book,
                            const uint8_t *symbols, const int is_whole, size_t n, lmc_layer_out *out)
{
    const uint64x2_t valid = first_lanes(n);
    uint8x16x4_t codes[2];
    look_up_codes(book, symbols, codes);
    const code_words words = words_of_codes(last, codes);
    for (unsigned j = 0; j < first; j++) {
        uint8_t plane[PAIR / 8];
        if (is_whole)
            vst1q_u8(out->full[j], vreinterpretq_u8_u64(words.word[j]));
        else {
            vst1q_u8(plane, vreinterpretq_u8_u64(vandq_u64(words.word[j], valid)));
            memcpy(out->full[j], plane, lmc_bits_nbytes(n));
        }
        out->full[j] += lmc_bits_nbytes(n);
    }
    for (unsigned j = first; j < last; j++) {
        uint64x2_t longer = codes_at_least(&words, j, &book->threshold[j]), counts;
        if (!is_whole)
            longer = vandq_u64(longer, valid);
        const uint64x2_t bits = gather_words(words.word[j], longer, &counts);
        lmc_put_bits(&out->partial[j], vgetq_lane_u64(bits, 0), (unsigned)vgetq_lane_u64(counts, 0));
        lmc_put_bits(&out->partial[j], vgetq_lane_u64(bits, 1), (unsigned)vgetq_lane_u64(counts, 1));
    }
    if (book->has_continuation) {
        uint64x2_t passed_on = codes_equal(&words, last, &book->continuation);
        if (!is_whole)
            passed_on = vandq_u64(passed_on, valid);
        out->next_symbols = append_passed_on(out->next_symbols, symbols, vgetq_lane_u64(passed_on, 0));
        out->next_symbols =
            append_passed_on(out->next_symbols, symbols + GROUP, vgetq_lane_u64(passed_on, 1));
    }
}

LMC_INLINE void encode_layer(const unsigned first, const unsigned last, const lmc_layer *layer,
                             const uint8_t *symbols, size_t n, lmc_layer_out *out)
{
    code_book book;
    load_code_book(first, last, layer, &book);
    lmc_layer_out local;
    copy_out_cursors(first, last, &local, out);
    size_t i = 0;
    for (; i + PAIR <= n; i += PAIR)
        encode_pair(first, last, &book, symbols + i, 1, PAIR, &local);
    if (i < n) {
        uint8_t last_symbols[PAIR] = {0};
        memcpy(last_symbols, symbols + i, n - i);
        encode_pair(first, last, &book, last_symbols, 0, n - i, &local);
    }
    copy_out_cursors(first, last, out, &local);
}

static void layer_encode(const lmc_layer *layer, const uint8_t *symbols, size_t n, lmc_layer_out *out)
{
    LMC_LAYER_INSTANCE(layer, encode_layer, layer, symbols, n, out)
}

/* ---- decode ---- */

/* Tables of a decoder for a layer. */
typedef struct symbol_book {
    uint8x16x4_t symbol; /* by code, right-justified to last_nbits */
    bit_masks threshold[LMC_FMT_LAYER_NBITS_MAX];
    bit_masks continuation;
    int has_continuation;
} symbol_book;

LMC_INLINE void load_symbol_book(const unsigned first, const unsigned last, const lmc_layer *layer,
                                 symbol_book *book)
{
    uint8_t symbol[64] = {0};
    for (unsigned i = 0; i < 1u << last; i++)
        symbol[i] = layer->symbol[i << (LMC_FMT_LAYER_NBITS_MAX - last)];
    for (unsigned i = 0; i < 4; i++)
        book->symbol.val[i] = vld1q_u8(symbol + 16 * i);
    for (unsigned j = first; j < last; j++)
        book->threshold[j] = masks_of(layer->threshold[j]);
    book->continuation = masks_of(layer->continuation);
    book->has_continuation = layer->has_continuation;
}

LMC_INLINE uint8x16_t look_up_symbols(const unsigned last, uint8x16x4_t symbol, uint8x16_t codes)
{
    if (last <= 4)
        return vqtbl1q_u8(symbol.val[0], codes);
    if (last == 5)
        return vqtbl2q_u8((uint8x16x2_t){{symbol.val[0], symbol.val[1]}}, codes);
    return vqtbl4q_u8(symbol, codes);
}

/* Puts registers of every fourth byte in order. */
LMC_INLINE void in_order(uint8x16x4_t v, uint8x16_t ordered[4])
{
    const uint16x8_t a0 = vreinterpretq_u16_u8(vzip1q_u8(v.val[0], v.val[1]));
    const uint16x8_t a1 = vreinterpretq_u16_u8(vzip2q_u8(v.val[0], v.val[1]));
    const uint16x8_t b0 = vreinterpretq_u16_u8(vzip1q_u8(v.val[2], v.val[3]));
    const uint16x8_t b1 = vreinterpretq_u16_u8(vzip2q_u8(v.val[2], v.val[3]));
    ordered[0] = vreinterpretq_u8_u16(vzip1q_u16(a0, b0));
    ordered[1] = vreinterpretq_u8_u16(vzip2q_u16(a0, b0));
    ordered[2] = vreinterpretq_u8_u16(vzip1q_u16(a1, b1));
    ordered[3] = vreinterpretq_u8_u16(vzip2q_u16(a1, b1));
}

/* Looks up the symbols of the codes of two groups. */
LMC_INLINE void symbols_of_words(const unsigned last, const symbol_book *book, const code_words *words,
                                 uint8x16_t known[8])
{
    uint8x16x4_t codes[2];
    codes_of_words(last, words, codes);
    for (unsigned g = 0; g < 2; g++) {
        for (unsigned r = 0; r < 4; r++)
            codes[g].val[r] = look_up_symbols(last, book->symbol, codes[g].val[r]);
        in_order(codes[g], known + 4 * g);
    }
}

/* As above if all codes have 1 bit, or all have 2, and the last is the continuation: blends symbols by the words.
 * Lanes of the next layer come out as anything. */
LMC_INLINE void blend_symbols(const unsigned last, const symbol_book *book, const code_words *words,
                              uint8x16_t known[8])
{
    const uint8x16_t s0 = vdupq_laneq_u8(book->symbol.val[0], 0);
    const uint8x16_t s1 = vdupq_laneq_u8(book->symbol.val[0], 1);
    const uint8x16_t s2 = vdupq_laneq_u8(book->symbol.val[0], 2);
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(UINT64_C(0x8040201008040201)));
    uint8x16_t source = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1)); /* bytes of the words, eight times each */
    for (unsigned i = 0; i < 8; i++, source = vaddq_u8(source, vdupq_n_u8(2))) {
        known[i] = s0;
        for (unsigned j = 0; j < last && last > 1; j++) {
            const uint8x16_t bytes = vqtbl1q_u8(vreinterpretq_u8_u64(words->word[j]), source);
            known[i] = vbslq_u8(vtstq_u8(bytes, bit), j == 0 ? s2 : s1, known[i]);
        }
    }
}

/* Decodes n symbols of two groups; is_whole: n == 128. Else symbols is written as far as groups go. */
LMC_INLINE void decode_pair(const unsigned first, const unsigned last, const int is_short,
                            const symbol_book *book, const int is_whole, size_t n, lmc_layer_in *in,
                            uint8_t *symbols)
{
    const uint64x2_t valid = first_lanes(n);
    code_words words;
    uint8x16_t known[8];
    for (unsigned j = 0; j < first; j++) {
        words.word[j] = vreinterpretq_u64_u8(vld1q_u8(in->full[j]));
        in->full[j] += is_whole || n > GROUP ? PAIR / 8 : GROUP / 8;
    }
    for (unsigned j = first; j < last; j++) {
        uint64x2_t longer = codes_at_least(&words, j, &book->threshold[j]);
        if (!is_whole)
            longer = vandq_u64(longer, valid);
        const uint64x2_t counts = count_words(longer);
        const uint64_t position = in->position[j];
        const uint64_t next = position + vgetq_lane_u64(counts, 0);
        in->position[j] = next + vgetq_lane_u64(counts, 1);
        const uint64x2_t bits = vcombine_u64(vcreate_u64(lmc_load_bits(in->partial[j], position)),
                                             vcreate_u64(lmc_load_bits(in->partial[j], next)));
        words.word[j] = scatter_words(bits, longer);
    }
    if (is_short)
        blend_symbols(last, book, &words, known);
    else
        symbols_of_words(last, book, &words, known);
    uint64x2_t passed_on = vdupq_n_u64(0);
    if (is_short || book->has_continuation)
        passed_on = codes_equal(&words, last, &book->continuation);
    if (!is_whole)
        passed_on = vandq_u64(passed_on, valid);
    if (is_short || book->has_continuation) {
        in->next_symbols = fill_passed_on(in->next_symbols, vgetq_lane_u64(passed_on, 0), known, symbols);
        if (is_whole || n > GROUP)
            in->next_symbols =
                fill_passed_on(in->next_symbols, vgetq_lane_u64(passed_on, 1), known + 4, symbols + GROUP);
    } else
        for (unsigned i = 0; i < (is_whole || n > GROUP ? 8 : 4); i++)
            vst1q_u8(symbols + 16 * i, known[i]);
}

LMC_INLINE void decode_layer_as(const unsigned first, const unsigned last, const int is_short,
                                const lmc_layer *layer, size_t n, lmc_layer_in *in, uint8_t *symbols)
{
    symbol_book book;
    load_symbol_book(first, last, layer, &book);
    lmc_layer_in local;
    copy_in_cursors(first, last, &local, in);
    size_t i = 0;
    for (; i + PAIR <= n; i += PAIR)
        decode_pair(first, last, is_short, &book, 1, PAIR, &local, symbols + i);
    if (i < n)
        decode_pair(first, last, is_short, &book, 0, n - i, &local, symbols + i);
    copy_in_cursors(first, last, in, &local);
}

LMC_INLINE void decode_layer(const unsigned first, const unsigned last, const lmc_layer *layer, size_t n,
                             lmc_layer_in *in, uint8_t *symbols)
{
    if (first == last && last <= 2 && is_short_layer(layer))
        decode_layer_as(first, last, 1, layer, n, in, symbols);
    else
        decode_layer_as(first, last, 0, layer, n, in, symbols);
}

static void layer_decode(const lmc_layer *layer, lmc_layer_in *in, size_t n, uint8_t *symbols)
{
    LMC_LAYER_INSTANCE(layer, decode_layer, layer, n, in, symbols)
}

#endif
