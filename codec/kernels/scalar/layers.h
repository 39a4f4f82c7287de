/*
 * layers.h - codes one layer of a canonical code, in portable C. Bit j of the codes of a group of 64 symbols is one
 * word, so that few operations compare 64 codes. Several groups make a batch, and each step is done for all of them:
 * compilers turn that into vector code.
 */
#ifndef LMC_CODEC_KERNELS_SCALAR_LAYERS_H
#define LMC_CODEC_KERNELS_SCALAR_LAYERS_H

#include "codec/kernels/scalar/bits.h"

#define BATCH 8 /* groups */
#define BATCH_VALUES (BATCH * GROUP)

/* The codes of a batch: word bit[j][g] has bit j of the codes of group g; bit 0 is the first. Missing groups are 0. */
typedef struct layer_batch {
    unsigned group_count;
    uint64_t valid[BATCH]; /* lanes that hold a symbol */
    uint64_t bit[LMC_FMT_LAYER_NBITS_MAX][BATCH];
    uint64_t longer[BATCH]; /* lanes whose codes have a bit in the current plane */
    bit_moves moves[BATCH]; /* moves that gather these lanes */
} layer_batch;

/* Opens a batch of n symbols, mostly BATCH_VALUES. */
LMC_INLINE void open_batch(layer_batch *b, size_t n)
{
    b->group_count = (unsigned)((n + GROUP - 1) / GROUP);
    for (unsigned g = 0; g < BATCH; g++)
        b->valid[g] = g < b->group_count ? ~UINT64_C(0) : 0;
    memset(b->bit, 0, sizeof b->bit);
    if (n % GROUP != 0)
        b->valid[n / GROUP] = lmc_low_mask(n % GROUP);
}

/* Finds the lanes whose codes have more than nbits bits: the prefix of nbits bits is at least the threshold. */
LMC_INLINE void find_longer(layer_batch *b, const lmc_layer *layer, unsigned nbits)
{
    const unsigned threshold = layer->threshold[nbits];
    if (nbits > layer->first_nbits && threshold == layer->threshold[nbits - 1])
        return; /* no code has nbits bits: the lanes stay as they are */
    for (unsigned g = 0; g < BATCH; g++)
        b->longer[g] = ~UINT64_C(0);
    for (unsigned j = nbits; j-- > 0;) {
        const uint64_t wanted = -(uint64_t)(threshold >> (5 - j) & 1);
        for (unsigned g = 0; g < BATCH; g++)
            b->longer[g] = (b->bit[j][g] & b->longer[g]) | ((b->bit[j][g] | b->longer[g]) & ~wanted);
    }
    for (unsigned g = 0; g < BATCH; g++) {
        b->longer[g] &= b->valid[g];
        b->moves[g] = find_moves(b->longer[g]);
    }
}

/* Finds the lanes whose symbols belong to the next layer. */
LMC_INLINE void find_passed_on(const layer_batch *b, const lmc_layer *layer, uint64_t passed_on[BATCH])
{
    for (unsigned g = 0; g < BATCH; g++)
        passed_on[g] = b->valid[g];
    for (unsigned j = 0; j < layer->last_nbits; j++) {
        const uint64_t unwanted = (uint64_t)(layer->continuation >> (5 - j) & 1) - 1;
        for (unsigned g = 0; g < BATCH; g++)
            passed_on[g] &= b->bit[j][g] ^ unwanted;
    }
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
    for (unsigned g = 0; g < b->group_count; g++) {
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
    for (unsigned g = 0; g < BATCH; g++) {
        b->bit[0][g] = transpose8(b->bit[0][g]);
        b->bit[1][g] = transpose8(b->bit[1][g]);
    }
}

/* Makes codes by table look-up. Row i gets the codes of lanes i, 8 + i, 16 + i, ..., which are bits 8 * k + i. */
LMC_INLINE void look_up_codes(layer_batch *b, const lmc_layer *layer, const uint8_t *symbols)
{
    uint64_t row[8][BATCH];
    for (unsigned g = 0; g < b->group_count; g++) {
        const uint8_t *const s = symbols + g * GROUP;
        for (unsigned i = 0; i < 8; i++) {
            uint64_t codes = 0;
            for (unsigned k = 0; k < 8; k++)
                codes |= (uint64_t)layer->code[s[8 * k + i]] << 8 * k;
            row[i][g] = codes;
        }
    }
    for (unsigned g = b->group_count; g < BATCH; g++)
        for (unsigned i = 0; i < 8; i++)
            row[i][g] = 0;
    for (unsigned g = 0; g < BATCH; g++) {
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
        for (unsigned g = 0; g < BATCH; g++)
            b->bit[j][g] &= b->valid[g];
        if (n == BATCH_VALUES)
            memcpy(out->full[j], b->bit[j], BATCH_VALUES / 8);
        else
            memcpy(out->full[j], b->bit[j], lmc_bits_nbytes(n));
        out->full[j] += lmc_bits_nbytes(n);
    }
}

LMC_INLINE void write_partial_planes(layer_batch *b, const lmc_layer *layer, lmc_layer_out *out)
{
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++) {
        uint64_t gathered[BATCH];
        find_longer(b, layer, j);
        for (unsigned g = 0; g < BATCH; g++)
            gathered[g] = gather_by(b->moves[g], b->bit[j][g], b->longer[g]);
        for (unsigned g = 0; g < b->group_count; g++)
            lmc_put_bits(&out->partial[j], gathered[g], count_bits(b->longer[g]));
    }
}

LMC_INLINE void append_passed_on(const layer_batch *b, const lmc_layer *layer, const uint8_t *symbols,
                                 lmc_layer_out *out)
{
    uint64_t passed_on[BATCH];
    uint8_t *next_symbols = out->next_symbols;
    find_passed_on(b, layer, passed_on);
    for (unsigned g = 0; g < b->group_count; g++) {
        for (unsigned i = 0; i < GROUP; i += 8) {
            const byte_moves *const moves = &moves_of[passed_on[g] >> i & 0xff];
            lmc_store64(next_symbols, gather_bytes(moves, lmc_load64(symbols + g * GROUP + i)));
            next_symbols += count_bytes(moves);
        }
    }
    out->next_symbols = next_symbols;
}

static void layer_encode(const lmc_layer *layer, const uint8_t *symbols, size_t n, lmc_layer_out *out)
{
    lmc_layer_out local = *out;
    short_code code = {{0}, {0}, 0};
    if (layer->last_nbits <= 2)
        code = find_short_code(layer);
    for (size_t i = 0; i < n; i += BATCH_VALUES) {
        const size_t count = lmc_min_size(n - i, BATCH_VALUES);
        layer_batch b;
        open_batch(&b, count);
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
    for (unsigned g = 0; g < b->group_count; g++) {
        const uint64_t bit0 = b->bit[0][g], bit1 = b->bit[1][g];
        for (unsigned i = 0; i < GROUP; i += 8)
            lmc_store64(symbols + g * GROUP + i, blend->if_00 ^
                                                     (moves_of[bit0 >> i & 0xff].here & blend->flip_10) ^
                                                     (moves_of[bit1 >> i & 0xff].here & blend->flip_01));
    }
}

/* Makes symbols by table look-up of their codes. */
LMC_INLINE void look_up_symbols(const layer_batch *b, const lmc_layer *layer, uint8_t *symbols)
{
    uint64_t row[8][BATCH];
    for (unsigned g = 0; g < BATCH; g++) {
        uint64_t r[8] = {0};
        for (unsigned j = 0; j < LMC_FMT_LAYER_NBITS_MAX; j++)
            r[5 - j] = b->bit[j][g];
        transpose_rows(r);
        for (unsigned i = 0; i < 8; i++)
            row[i][g] = r[i];
    }
    for (unsigned g = 0; g < b->group_count; g++) {
        uint8_t *const s = symbols + g * GROUP;
        for (unsigned i = 0; i < 8; i++)
            for (unsigned k = 0; k < 8; k++)
                s[8 * k + i] = layer->symbol[row[i][g] >> 8 * k & 63];
    }
}

LMC_INLINE void read_planes(layer_batch *b, const lmc_layer *layer, lmc_layer_in *in)
{
    for (unsigned j = 0; j < layer->first_nbits; j++) {
        memcpy(b->bit[j], in->full[j], sizeof b->bit[j]);
        in->full[j] += b->group_count * 8;
    }
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++) {
        uint64_t gathered[BATCH];
        find_longer(b, layer, j);
        for (unsigned g = 0; g < BATCH; g++) {
            gathered[g] = lmc_load_bits(in->partial[j], in->position[j]);
            in->position[j] += count_bits(b->longer[g]);
        }
        for (unsigned g = 0; g < BATCH; g++)
            b->bit[j][g] = scatter_by(b->moves[g], gathered[g], b->longer[g]);
    }
}

LMC_INLINE void insert_passed_on(const layer_batch *b, const lmc_layer *layer, uint8_t *symbols,
                                 lmc_layer_in *in)
{
    uint64_t passed_on[BATCH];
    const uint8_t *next_symbols = in->next_symbols;
    find_passed_on(b, layer, passed_on);
    for (unsigned g = 0; g < b->group_count; g++) {
        for (unsigned i = 0; i < GROUP; i += 8) {
            uint8_t *const s = symbols + g * GROUP + i;
            const byte_moves *const moves = &moves_of[passed_on[g] >> i & 0xff];
            lmc_store64(s, scatter_bytes(moves, lmc_load64(next_symbols), lmc_load64(s)));
            next_symbols += count_bytes(moves);
        }
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
    for (size_t i = 0; i < n; i += BATCH_VALUES) {
        layer_batch b;
        open_batch(&b, lmc_min_size(n - i, BATCH_VALUES));
        read_planes(&b, layer, &local);
        if (is_short && layer->last_nbits == 1)
            memset(symbols + i, (int)(blend.if_00 & 0xff), b.group_count * GROUP);
        else if (is_short)
            blend_symbols(&b, &blend, symbols + i);
        else
            look_up_symbols(&b, layer, symbols + i);
        if (layer->has_continuation)
            insert_passed_on(&b, layer, symbols + i, &local);
    }
    *in = local;
}

#endif
