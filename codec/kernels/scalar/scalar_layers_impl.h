/*
 * scalar_layers_impl.h - codes one layer of a canonical code, in portable C. Bit j of the codes of a group of 64
 * symbols is one word, so that few operations compare 64 codes. The groups of a strip make a batch, and each step is
 * done for all of them: compilers turn that into vector code.
 */
#ifndef LMC_CODEC_KERNELS_SCALAR_SCALAR_LAYERS_IMPL_H
#define LMC_CODEC_KERNELS_SCALAR_SCALAR_LAYERS_IMPL_H

#include "codec/kernels/scalar/scalar_bits_impl.h"

#define BATCH WORDS_MAX /* groups at most */

/* The codes of up to BATCH groups: word bit[j][g] has bit j of the codes of group g; bit 0 is the first. */
typedef struct layer_batch {
    size_t group_count;
    uint64_t last_valid; /* lanes of the last group that hold a symbol */
    uint64_t bit[LMC_FMT_LAYER_NBITS_MAX][BATCH];
    uint64_t longer[BATCH]; /* lanes whose codes have a bit in the current plane ... */
    uint64_t counts[BATCH]; /* ... and their numbers, by count_lanes() */
} layer_batch;

/* Opens a batch of n symbols, 1..LMC_STRIP_VALUES. Planes that no code reaches are 0. */
LMC_INLINE void open_batch(layer_batch *b, const lmc_layer *layer, size_t n)
{
    b->group_count = (n + GROUP - 1) / GROUP;
    b->last_valid = lmc_low_mask((unsigned)(n - 1) % GROUP + 1);
    for (unsigned j = layer->last_nbits; j < LMC_FMT_LAYER_NBITS_MAX; j++)
        memset(b->bit[j], 0, b->group_count * sizeof b->bit[j][0]);
}

/* Finds the lanes whose codes have more than nbits bits: the prefix of nbits bits is at least the threshold. */
LMC_INLINE void find_longer(layer_batch *b, const lmc_layer *layer, unsigned nbits)
{
    const unsigned threshold = layer->threshold[nbits];
    if (nbits > layer->first_nbits && threshold == layer->threshold[nbits - 1])
        return; /* no code has nbits bits: the lanes stay as they are */
    memset(b->longer, 0xff, b->group_count * sizeof b->longer[0]);
    for (unsigned j = nbits; j-- > 0;) {
        const uint64_t *restrict const bit = b->bit[j];
        uint64_t *restrict const longer = b->longer;
        if (threshold >> (5 - j) & 1)
            for (size_t g = 0; g < b->group_count; g++)
                longer[g] &= bit[g];
        else
            for (size_t g = 0; g < b->group_count; g++)
                longer[g] |= bit[g];
    }
    b->longer[b->group_count - 1] &= b->last_valid;
    for (size_t g = 0; g < b->group_count; g++)
        b->counts[g] = count_lanes(b->longer[g]);
}

/* Finds the lanes whose symbols belong to the next layer. */
LMC_INLINE void find_passed_on(const layer_batch *b, const lmc_layer *layer, uint64_t *restrict passed_on)
{
    memset(passed_on, 0xff, b->group_count * sizeof *passed_on);
    for (unsigned j = 0; j < layer->last_nbits; j++) {
        const uint64_t unwanted = (uint64_t)(layer->continuation >> (5 - j) & 1) - 1;
        for (size_t g = 0; g < b->group_count; g++)
            passed_on[g] &= b->bit[j][g] ^ unwanted;
    }
    passed_on[b->group_count - 1] &= b->last_valid;
}

/* Symbols of the next layer move in rounds of so many, since the end of a loop over single ones could not be predicted.
 * Where a round has more than are left, lane 63 comes again. */
#define ROUND 12

/* Removes the lowest bit of a word and returns its place; 63 if there is none. */
LMC_INLINE unsigned remove_lowest(uint64_t *word)
{
    const unsigned place = lmc_lowest_bit(*word | UINT64_C(1) << 63);
    *word &= *word - 1;
    return place;
}

/* ---- encode ---- */

/* A code of 1 or 2 bits: at most four symbols. flip: their codes XOR the continuation. */
typedef struct short_code {
    uint8_t symbol[4], flip[4], other;
} short_code;

/* The layer may name any symbol at the continuation. The own code of that symbol is another one: it is left out. */
LMC_INLINE short_code find_short_code(const lmc_layer *layer)
{
    short_code code = {.other = layer->has_continuation ? layer->continuation >> 4 : 0};
    for (unsigned c = 0; c < 4; c++) {
        code.symbol[c] = layer->symbol[16 * c];
        if (layer->code[code.symbol[c]] == 16 * c)
            code.flip[c] = (uint8_t)(c ^ code.other);
    }
    return code;
}

/* Makes codes by comparison, two bits in a byte. Then bits of bytes in a row are put together. */
LMC_INLINE void compare_symbols(layer_batch *b, const short_code *code, const uint8_t *symbols)
{
    const uint8_t s0 = code->symbol[0], s1 = code->symbol[1], s2 = code->symbol[2], s3 = code->symbol[3];
    const uint8_t f0 = code->flip[0], f1 = code->flip[1], f2 = code->flip[2], f3 = code->flip[3];
    const uint8_t other = code->other;
    for (size_t g = 0; g < b->group_count; g++) {
        uint8_t codes[GROUP];
        uint64_t w[8];
        for (unsigned i = 0; i < GROUP; i++) {
            const uint8_t s = symbols[g * GROUP + i];
            codes[i] = (uint8_t)(other ^ (s == s0 ? f0 : 0) ^ (s == s1 ? f1 : 0) ^ (s == s2 ? f2 : 0) ^
                                 (s == s3 ? f3 : 0));
        }
        memcpy(w, codes, sizeof w);
        const uint64_t even = w[0] | w[2] << 2 | w[4] << 4 | w[6] << 6;
        const uint64_t odd = w[1] | w[3] << 2 | w[5] << 4 | w[7] << 6;
        b->bit[0][g] = (even >> 1 & EVEN_BITS) | (odd & ~EVEN_BITS);
        b->bit[1][g] = (even & EVEN_BITS) | (odd & EVEN_BITS) << 1;
    }
    for (size_t g = 0; g < b->group_count; g++) {
        b->bit[0][g] = transpose8(b->bit[0][g]);
        b->bit[1][g] = transpose8(b->bit[1][g]);
    }
}

/* Makes codes by table look-up. Row i gets the codes of lanes i, 8 + i, 16 + i, ..., which are bits 8 * k + i. */
LMC_INLINE void look_up_codes(layer_batch *b, const lmc_layer *layer, const uint8_t *symbols)
{
    uint64_t row[8][BATCH];
    for (size_t g = 0; g < b->group_count; g++) {
        const uint8_t *const s = symbols + g * GROUP;
        for (unsigned i = 0; i < 8; i++) {
            uint8_t *const codes = (uint8_t *)&row[i][g];
            for (unsigned k = 0; k < 8; k++)
                codes[k] = layer->code[s[8 * k + i]];
        }
    }
    for (size_t g = 0; g < b->group_count; g++) {
        uint64_t r[8];
        for (unsigned i = 0; i < 8; i++)
            r[i] = row[i][g];
        transpose_rows(r);
        for (unsigned j = 0; j < LMC_FMT_LAYER_NBITS_MAX; j++)
            b->bit[j][g] = r[5 - j];
    }
}

LMC_INLINE void write_full_planes(layer_batch *b, const lmc_layer *layer, size_t n, lmc_layer_out *out)
{
    for (unsigned j = 0; j < layer->first_nbits; j++) {
        b->bit[j][b->group_count - 1] &= b->last_valid;
        memcpy(out->full[j], b->bit[j], lmc_bits_nbytes(n));
        out->full[j] += lmc_bits_nbytes(n);
    }
}

LMC_INLINE void write_partial_planes(layer_batch *b, const lmc_layer *layer, lmc_layer_out *out)
{
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++) {
        uint64_t gathered[BATCH];
        memcpy(gathered, b->bit[j], b->group_count * sizeof gathered[0]);
        find_longer(b, layer, j);
        gather_words(b->longer, b->counts, b->group_count, gathered);
        for (size_t g = 0; g < b->group_count; g++)
            lmc_put_bits(&out->partial[j], gathered[g], lane_end(b->counts[g], LANE_COUNT - 1));
    }
}

LMC_INLINE void append_passed_on(const layer_batch *b, const lmc_layer *layer, const uint8_t *symbols,
                                 lmc_layer_out *out)
{
    uint64_t passed_on[BATCH];
    uint8_t *next_symbols = out->next_symbols;
    find_passed_on(b, layer, passed_on);
    for (size_t g = 0; g < b->group_count; g++, symbols += GROUP) {
        uint64_t word = passed_on[g];
        const unsigned count = count_bits(word);
        for (unsigned i = 0; i < count; i += ROUND)
            for (unsigned k = 0; k < ROUND; k++)
                next_symbols[i + k] = symbols[remove_lowest(&word)];
        next_symbols += count;
    }
    out->next_symbols = next_symbols;
}

static void layer_encode(const lmc_layer *layer, const uint8_t *symbols, size_t n, lmc_layer_out *out)
{
    lmc_layer_out local = *out;
    short_code code = {{0}, {0}, 0};
    if (layer->last_nbits <= 2)
        code = find_short_code(layer);
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        const size_t count = lmc_min_size(n - i, LMC_STRIP_VALUES);
        layer_batch b;
        open_batch(&b, layer, count);
        if (layer->last_nbits <= 2)
            compare_symbols(&b, &code, symbols + i);
        else
            look_up_codes(&b, layer, symbols + i);
        write_full_planes(&b, layer, count, &local);
        write_partial_planes(&b, layer, &local);
        if (layer->has_continuation)
            append_passed_on(&b, layer, symbols + i, &local);
    }
    *out = local;
}

/* ---- decode ---- */

/* Symbols of a code of 1 or 2 bits with a continuation, in each byte: the symbol of code 00, and its XOR with those
 * of 10 and 01. */
typedef struct short_symbols {
    uint64_t if_00, flip_10, flip_01;
} short_symbols;

/* Lanes of the next layer may come out as anything. So their symbol is free, and is chosen such that code 11 needs no
 * term of its own. */
LMC_INLINE short_symbols find_short_symbols(const lmc_layer *layer)
{
    uint8_t s[4];
    const unsigned passed_on = layer->continuation >> 4;
    for (unsigned c = 0; c < 4; c++)
        s[c] = layer->symbol[16 * c];
    if (layer->last_nbits == 1)
        s[0] = s[1] = s[2] = s[3] = s[passed_on ^ 2];
    else
        s[passed_on] = s[passed_on ^ 1] ^ s[passed_on ^ 2] ^ s[passed_on ^ 3];
    return (short_symbols){EACH_BYTE * s[0], EACH_BYTE * (s[0] ^ s[2]), EACH_BYTE * (s[0] ^ s[1])};
}

LMC_INLINE void blend_symbols(const layer_batch *b, const short_symbols *blend, uint8_t *symbols)
{
    for (size_t g = 0; g < b->group_count; g++) {
        const uint64_t bit0 = b->bit[0][g], bit1 = b->bit[1][g];
        for (unsigned i = 0; i < GROUP; i += 8)
            lmc_store64(symbols + g * GROUP + i, blend->if_00 ^
                                                     (byte_mask[bit0 >> i & 0xff] & blend->flip_10) ^
                                                     (byte_mask[bit1 >> i & 0xff] & blend->flip_01));
    }
}

/* Puts the codes of each group in bytes: byte k of row i has the code of lane 8 k + i, right-justified to nbits. */
LMC_INLINE void find_codes(const layer_batch *b, const unsigned nbits, uint64_t row[8][BATCH])
{
    for (size_t g = 0; g < b->group_count; g++) {
        uint64_t r[8] = {0};
        for (unsigned j = 0; j < nbits; j++)
            r[nbits - 1 - j] = b->bit[j][g];
        transpose_rows(r);
        for (unsigned i = 0; i < 8; i++)
            row[i][g] = r[i];
    }
}

/* Makes symbols by table look-up of their codes. */
LMC_INLINE void look_up_symbols(const layer_batch *b, const lmc_layer *layer, uint8_t *symbols)
{
    uint64_t row[8][BATCH];
    find_codes(b, LMC_FMT_LAYER_NBITS_MAX, row);
    for (size_t g = 0; g < b->group_count; g++, symbols += GROUP)
        for (unsigned i = 0; i < 8; i++) {
            const uint8_t *const codes = (const uint8_t *)&row[i][g];
            for (unsigned k = 0; k < 8; k++)
                symbols[8 * k + i] = layer->symbol[codes[k]];
        }
}

/* Codes of up to so many bits are looked up in pairs, where there are enough symbols to pay a table. */
#define PAIR_NBITS 5
#define PAIRS_FROM 512

/* The symbols of neighbours with the codes c and d: pair[d][c]. */
typedef struct pair_table {
    uint16_t pair[1 << PAIR_NBITS][1 << PAIR_NBITS];
} pair_table;

LMC_INLINE void make_pairs(const lmc_layer *layer, pair_table *table)
{
    uint16_t symbol[1 << PAIR_NBITS];
    for (unsigned c = 0; c < 1 << PAIR_NBITS; c++)
        symbol[c] = layer->symbol[c << (LMC_FMT_LAYER_NBITS_MAX - PAIR_NBITS)];
    for (unsigned d = 0; d < 1 << PAIR_NBITS; d++)
        for (unsigned c = 0; c < 1 << PAIR_NBITS; c++)
            table->pair[d][c] = (uint16_t)(symbol[c] | symbol[d] << 8);
}

/* Makes symbols by table look-up of two codes at once. Rows i and i + 1 of codes make the rows i (even bytes) and i + 1
 * (odd bytes) of pairs. */
LMC_INLINE void look_up_pairs(const layer_batch *b, const lmc_layer *layer, uint8_t *symbols)
{
    const uint64_t lower_bytes = UINT64_C(0x00ff00ff00ff00ff);
    uint64_t row[8][BATCH];
    uint16_t index[8][BATCH][4];
    pair_table table;
    make_pairs(layer, &table);
    find_codes(b, PAIR_NBITS, row);
    for (unsigned i = 0; i < 8; i += 2)
        for (size_t g = 0; g < b->group_count; g++) {
            const uint64_t c = row[i][g], d = row[i + 1][g];
            const uint64_t even = (c & lower_bytes) | (d & lower_bytes) << PAIR_NBITS;
            const uint64_t odd = (c >> 8 & lower_bytes) | (d >> 8 & lower_bytes) << PAIR_NBITS;
            memcpy(index[i][g], &even, sizeof even);
            memcpy(index[i + 1][g], &odd, sizeof odd);
        }
    const uint16_t *const pairs = table.pair[0];
    for (size_t g = 0; g < b->group_count; g++, symbols += GROUP)
        for (unsigned i = 0; i < 8; i++)
            for (unsigned k = 0; k < 4; k++)
                memcpy(symbols + 16 * k + (i % 2 * 8 + i / 2 * 2), &pairs[index[i][g][k]], sizeof pairs[0]);
}

LMC_INLINE void read_planes(layer_batch *b, const lmc_layer *layer, lmc_layer_in *in)
{
    for (unsigned j = 0; j < layer->first_nbits; j++) {
        memcpy(b->bit[j], in->full[j], b->group_count * sizeof b->bit[j][0]);
        in->full[j] += b->group_count * sizeof b->bit[j][0];
    }
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++) {
        uint64_t position = in->position[j];
        find_longer(b, layer, j);
        for (size_t g = 0; g < b->group_count; g++) {
            b->bit[j][g] = lmc_load_bits(in->partial[j], position);
            position += lane_end(b->counts[g], LANE_COUNT - 1);
        }
        in->position[j] = position;
        scatter_words(b->longer, b->counts, b->group_count, b->bit[j]);
    }
}

LMC_INLINE void insert_passed_on(const layer_batch *b, const lmc_layer *layer, uint8_t *symbols,
                                 lmc_layer_in *in)
{
    uint64_t passed_on[BATCH];
    const uint8_t *next_symbols = in->next_symbols;
    find_passed_on(b, layer, passed_on);
    for (size_t g = 0; g < b->group_count; g++, symbols += GROUP) {
        uint64_t word = passed_on[g];
        const unsigned count = count_bits(word);
        const uint8_t last = symbols[GROUP - 1];
        for (unsigned i = 0; i < count; i += ROUND)
            for (unsigned k = 0; k < ROUND; k++)
                symbols[remove_lowest(&word)] = next_symbols[i + k];
        next_symbols += count;
        symbols[GROUP - 1] = passed_on[g] >> (GROUP - 1) ? next_symbols[-1] : last;
    }
    in->next_symbols = next_symbols;
}

static void layer_decode(const lmc_layer *layer, lmc_layer_in *in, size_t n, uint8_t *symbols)
{
    lmc_layer_in local = *in;
    const int is_short = layer->has_continuation && layer->last_nbits <= 2;
    short_symbols blend = {0, 0, 0};
    if (is_short)
        blend = find_short_symbols(layer);
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        layer_batch b;
        open_batch(&b, layer, lmc_min_size(n - i, LMC_STRIP_VALUES));
        read_planes(&b, layer, &local);
        if (is_short && layer->last_nbits == 1)
            memset(symbols + i, (int)(blend.if_00 & 0xff), b.group_count * GROUP);
        else if (is_short)
            blend_symbols(&b, &blend, symbols + i);
        else if (layer->last_nbits <= PAIR_NBITS && n - i >= PAIRS_FROM)
            look_up_pairs(&b, layer, symbols + i);
        else
            look_up_symbols(&b, layer, symbols + i);
        if (layer->has_continuation)
            insert_passed_on(&b, layer, symbols + i, &local);
    }
    *in = local;
}

#endif
