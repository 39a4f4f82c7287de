/*
 * scalar.c - the reference kernels: portable C, complete on its own, no intrinsics and no CPU macros.
 * They define what the other sets must write, byte for byte. One group of 64 values at a time: bit j of 64
 * codes is one word, so that a comparison of 64 codes is a few word operations.
 */
#include "kernels.h"

#include "hash.h"
#include "instances.h"

#define GROUP 64
#define EACH_BYTE UINT64_C(0x0101010101010101)

/* ---- bits of words ---- */

/* Transposes an 8 x 8 bit matrix: bit j of byte i becomes bit i of byte j (Warren, Hacker's Delight 7-3). */
LMC_INLINE uint64_t transpose8(uint64_t x)
{
    uint64_t t = (x ^ x >> 7) & UINT64_C(0x00aa00aa00aa00aa);
    x ^= t ^ t << 7;
    t = (x ^ x >> 14) & UINT64_C(0x0000cccc0000cccc);
    x ^= t ^ t << 14;
    t = (x ^ x >> 28) & UINT64_C(0x00000000f0f0f0f0);
    return x ^ t ^ t << 28;
}

/* Eight bits to eight bytes of 0 or 1. */
LMC_INLINE uint64_t spread8(uint64_t bits)
{
    return ((bits * EACH_BYTE & UINT64_C(0x8040201008040201)) + 0x7f * EACH_BYTE) >> 7 & EACH_BYTE;
}

/* The moves that gather the bits under a mask: move[i] names the bits that go 2^i places down (Hacker's
 * Delight 7-4, parallel suffix). */
LMC_INLINE void gather_moves(uint64_t mask, uint64_t move[6])
{
    uint64_t gaps = ~mask << 1;
    for (unsigned i = 0; i < 6; i++) {
        uint64_t parity = gaps ^ gaps << 1;
        parity ^= parity << 2;
        parity ^= parity << 4;
        parity ^= parity << 8;
        parity ^= parity << 16;
        parity ^= parity << 32;
        move[i] = parity & mask;
        mask = (mask ^ move[i]) | move[i] >> (1u << i);
        gaps &= ~parity;
    }
}

/* The bits of x under mask, gathered to the lowest places (pext). */
LMC_INLINE uint64_t gather_bits(uint64_t x, uint64_t mask)
{
    uint64_t move[6];
    gather_moves(mask, move);
    x &= mask;
    for (unsigned i = 0; i < 6; i++) {
        const uint64_t moving = x & move[i];
        x = (x ^ moving) | moving >> (1u << i);
    }
    return x;
}

/* The lowest bits of x, spread to the places of mask (pdep). */
LMC_INLINE uint64_t scatter_bits(uint64_t x, uint64_t mask)
{
    uint64_t move[6];
    gather_moves(mask, move);
    for (int i = 5; i >= 0; i--)
        x = (x & ~move[i]) | (x << (1u << i) & move[i]);
    return x & mask;
}

/* Lanes whose prefix of `nbits` bits is at least `threshold` (left-justified to 6 bits); word[i] holds bit
 * i of every lane, first bit first. */
LMC_INLINE uint64_t lanes_at_least(const uint64_t *word, unsigned nbits, unsigned threshold)
{
    uint64_t lanes = ~UINT64_C(0);
    for (unsigned i = nbits; i-- > 0;) {
        const uint64_t wanted = -(uint64_t)(threshold >> (5 - i) & 1);
        lanes = (word[i] & lanes) | ((word[i] | lanes) & ~wanted);
    }
    return lanes;
}

/* Lanes whose code is `code` of `nbits` bits. */
LMC_INLINE uint64_t lanes_equal(const uint64_t *word, unsigned nbits, unsigned code)
{
    uint64_t lanes = ~UINT64_C(0);
    for (unsigned i = 0; i < nbits; i++)
        lanes &= word[i] ^ ((uint64_t)(code >> (5 - i) & 1) - 1);
    return lanes;
}

/* ---- levels: encode ---- */

/* word[j] = bit j of the codes of 64 symbols */
LMC_INLINE void codes_to_words(const lmc_layer *layer, const uint8_t *symbols, unsigned nbits, uint64_t *word)
{
    for (unsigned j = 0; j < nbits; j++)
        word[j] = 0;
    for (unsigned i = 0; i < GROUP; i += 8) {
        uint64_t codes = 0;
        for (unsigned k = 0; k < 8; k++)
            codes |= (uint64_t)layer->code[symbols[i + k]] << 8 * k;
        codes = transpose8(codes);
        for (unsigned j = 0; j < nbits; j++)
            word[j] |= (codes >> 8 * (5 - j) & 0xff) << i;
    }
}

LMC_INLINE void encode_group(const unsigned first, const unsigned last, const lmc_layer *layer,
                             const uint8_t *symbols, uint64_t valid, size_t plane_nbytes, lmc_levels_out *out)
{
    uint64_t word[6];
    codes_to_words(layer, symbols, last, word);
    for (unsigned j = 0; j < first; j++) {
        word[j] &= valid;
        memcpy(out->full[j], &word[j], plane_nbytes);
        out->full[j] += plane_nbytes;
    }
    for (unsigned j = first; j < last; j++) {
        const uint64_t longer = lanes_at_least(word, j, layer->threshold[j]) & valid;
        lmc_put_bits(&out->partial[j], gather_bits(word[j], longer), lmc_popcount64(longer));
    }
    if (layer->has_list) {
        uint64_t listed = lanes_equal(word, last, layer->list_code) & valid;
        for (; listed != 0; listed &= listed - 1)
            *out->list++ = symbols[lmc_lowest_bit(listed)];
    }
}

LMC_INLINE void encode_layer(const unsigned first, const unsigned last, const lmc_layer *layer,
                             const uint8_t *symbols, size_t n, lmc_levels_out *out)
{
    lmc_levels_out local = *out;
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        encode_group(first, last, layer, symbols + i, ~UINT64_C(0), 8, &local);
    if (i < n)
        encode_group(first, last, layer, symbols + i, lmc_low_mask((unsigned)(n - i)), lmc_bits_nbytes(n - i),
                     &local);
    *out = local;
}

static void levels_encode(const lmc_layer *layer, const uint8_t *symbols, size_t n, lmc_levels_out *out)
{
    LMC_LAYER_INSTANCE(layer, encode_layer, layer, symbols, n, out)
}

/* ---- levels: decode ---- */

/* Symbols of a layer whose codes are all 1 bit or all 2 bits long: constants, blended by the words. */
LMC_INLINE void blend_constants(const unsigned nbits, const lmc_layer *layer, const uint64_t *word,
                                uint8_t *symbols)
{
    const uint64_t s0 = layer->symbol[0];
    const uint64_t if_bit0 = s0 ^ layer->symbol[32]; /* s0 ^ if_bit0 is the symbol of code 1 or 10 */
    const uint64_t if_bit1 = nbits == 2 ? s0 ^ layer->symbol[16] : 0;
    const uint64_t if_both = nbits == 2 ? (uint64_t)(s0 ^ layer->symbol[48]) ^ if_bit0 ^ if_bit1 : 0;
    for (unsigned i = 0; i < GROUP; i += 8) {
        const uint64_t bit0 = spread8(word[0] >> i & 0xff);
        uint64_t v = EACH_BYTE * s0 ^ bit0 * if_bit0;
        if (nbits == 2) {
            const uint64_t bit1 = spread8(word[1] >> i & 0xff);
            v ^= bit1 * if_bit1 ^ (bit0 & bit1) * if_both;
        }
        lmc_store64(symbols + i, v);
    }
}

/* Symbols by table look-up of their codes. */
LMC_INLINE void look_up_symbols(const unsigned nbits, const uint8_t *table, const uint64_t *word,
                                uint8_t *symbols)
{
    for (unsigned i = 0; i < GROUP; i += 8) {
        uint64_t codes = 0;
        for (unsigned j = 0; j < nbits; j++)
            codes |= (word[j] >> i & 0xff) << 8 * (nbits - 1 - j);
        codes = transpose8(codes);
        for (unsigned k = 0; k < 8; k++)
            symbols[i + k] = table[codes >> 8 * k & 0xff];
    }
}

LMC_INLINE void decode_group(const unsigned first, const unsigned last, const lmc_layer *layer,
                             const uint8_t *table, uint64_t valid, lmc_levels_in *in, uint8_t *symbols)
{
    uint64_t word[6];
    for (unsigned j = 0; j < first; j++) {
        word[j] = lmc_load64(in->full[j]);
        in->full[j] += 8;
    }
    for (unsigned j = first; j < last; j++) {
        const uint64_t longer = lanes_at_least(word, j, layer->threshold[j]) & valid;
        word[j] = scatter_bits(lmc_load_bits(in->partial[j], in->position[j]), longer);
        in->position[j] += lmc_popcount64(longer);
    }
    if (last <= 2 && first == last)
        blend_constants(last, layer, word, symbols);
    else
        look_up_symbols(last, table, word, symbols);
    if (layer->has_list) {
        uint64_t listed = lanes_equal(word, last, layer->list_code) & valid;
        for (; listed != 0; listed &= listed - 1)
            symbols[lmc_lowest_bit(listed)] = *in->list++;
    }
}

LMC_INLINE void decode_layer(const unsigned first, const unsigned last, const lmc_layer *layer, size_t n,
                             lmc_levels_in *in, uint8_t *symbols)
{
    uint8_t table[64]; /* by code of `last` bits, right-justified */
    for (unsigned i = 0; i < 1u << last; i++)
        table[i] = layer->symbol[i << (LMC_FMT_LAYER_NBITS_MAX - last)];
    lmc_levels_in local = *in;
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        decode_group(first, last, layer, table, ~UINT64_C(0), &local, symbols + i);
    if (i < n)
        decode_group(first, last, layer, table, lmc_low_mask((unsigned)(n - i)), &local, symbols + i);
    *in = local;
}

static void levels_decode(const lmc_layer *layer, lmc_levels_in *in, size_t n, uint8_t *symbols)
{
    LMC_LAYER_INSTANCE(layer, decode_layer, layer, n, in, symbols)
}

/* ---- heads: symbol and low plane ---- */

/* Bytes of p bits each to 8 p bits in a row, and back: neighbours merge in three steps. */
LMC_INLINE uint64_t pack8(uint64_t v, unsigned p)
{
    const uint64_t even8 = UINT64_C(0x00ff00ff00ff00ff);
    const uint64_t even16 = UINT64_C(0x0000ffff0000ffff);
    v = (v & even8) | (v & ~even8) >> (8 - p);
    v = (v & even16) | (v & ~even16) >> (16 - 2 * p);
    return (v & UINT64_C(0xffffffff)) | (v >> 32) << 4 * p;
}

LMC_INLINE uint64_t unpack8(uint64_t v, unsigned p)
{
    const uint64_t lane16 = ((UINT64_C(1) << 2 * p) - 1) * UINT64_C(0x0000000100000001);
    const uint64_t lane8 = ((UINT64_C(1) << p) - 1) * UINT64_C(0x0001000100010001);
    const uint64_t half = (UINT64_C(1) << 4 * p) - 1;
    v = (v & half) | (v >> 4 * p & half) << 32;
    v = (v & lane16) | (v >> 2 * p & lane16) << 16;
    return (v & lane8) | (v >> p & lane8) << 8;
}

LMC_INLINE void write_low(const uint8_t *low, unsigned p, uint8_t *dst, size_t nbytes)
{
    uint8_t packed[GROUP + 8];
    for (unsigned i = 0; i < 8; i++)
        lmc_store64(packed + i * p, pack8(lmc_load64(low + 8 * i), p));
    memcpy(dst, packed, nbytes);
}

LMC_INLINE void read_low(const uint8_t *src, unsigned p, uint8_t *low)
{
    for (unsigned i = 0; i < 8; i++)
        lmc_store64(low + 8 * i, unpack8(lmc_load64(src + i * p), p));
}

/* One group of heads of head_nbits bits to `n` symbols and low bits. */
LMC_INLINE unsigned split_heads(const unsigned head_nbits, const lmc_split *split, const uint16_t *head,
                                size_t n, uint8_t *symbols, uint8_t *low)
{
    const unsigned p = split->low_nbits;
    const unsigned symbol_mask = (1u << (head_nbits - p)) - 1;
    uint8_t low_bytes[GROUP];
    unsigned escaped = 0;
    for (size_t i = 0; i < GROUP; i++) {
        const unsigned h = head[i] + split->offset;
        const unsigned s = ((h & ((1u << head_nbits) - 1)) >> p) - split->base;
        const unsigned folded = s & symbol_mask;
        const unsigned clamped = folded < LMC_FMT_SYMBOL_ESCAPE ? folded : LMC_FMT_SYMBOL_ESCAPE;
        symbols[i] = (uint8_t)clamped;
        escaped |= i < n && clamped == LMC_FMT_SYMBOL_ESCAPE;
        low_bytes[i] = (uint8_t)(h & ((1u << p) - 1));
    }
    if (p > 0) {
        memset(low_bytes + n, 0, GROUP - n);
        write_low(low_bytes, p, low, lmc_bits_nbytes(n * p));
    }
    return head_nbits - p > 8 ? escaped : 0;
}

LMC_INLINE void join_heads(const unsigned head_nbits, const lmc_split *split, const uint8_t *symbols,
                           const uint8_t *low, uint16_t *head)
{
    const unsigned p = split->low_nbits;
    uint8_t low_bytes[GROUP];
    if (p > 0)
        read_low(low, p, low_bytes);
    else
        memset(low_bytes, 0, sizeof low_bytes);
    for (size_t i = 0; i < GROUP; i++)
        head[i] = (uint16_t)((((unsigned)symbols[i] + split->base) << p | low_bytes[i]) - split->offset);
    if (head_nbits < 16)
        for (size_t i = 0; i < GROUP; i++)
            head[i] &= (uint16_t)((1u << head_nbits) - 1);
}

/* ---- elements ---- */

LMC_INLINE uint64_t element_mask(const unsigned nbits)
{
    return ~UINT64_C(0) >> (64 - nbits);
}

LMC_INLINE uint64_t rotate_left(const unsigned nbits, uint64_t x, unsigned by_one)
{
    return by_one ? (x << 1 | x >> (nbits - 1)) & element_mask(nbits) : x;
}

LMC_INLINE uint64_t rotate_right(const unsigned nbits, uint64_t x, unsigned by_one)
{
    return by_one ? (x << (nbits - 1) | x >> 1) & element_mask(nbits) : x;
}

/* A rotated element is its head (the top 16 bits, or all 8) and `rest_count` bytes below. */
LMC_INLINE unsigned split_elements(const unsigned nbytes, const lmc_split *split, const uint8_t *src, size_t n,
                                   const lmc_plane_set *dst)
{
    const unsigned head_nbits = nbytes == 1 ? 8 : 16;
    const unsigned rest_nbits = 8 * nbytes - head_nbits;
    unsigned escaped = 0;
    for (size_t g = 0; g < n; g += GROUP) {
        const size_t m = lmc_min_size(GROUP, n - g);
        uint16_t head[GROUP] = {0};
        for (size_t i = 0; i < m; i++) {
            const uint64_t x =
                rotate_left(8 * nbytes, lmc_load_n(src + (g + i) * nbytes, nbytes), split->rotation);
            head[i] = (uint16_t)(x >> rest_nbits);
            for (unsigned shift = rest_nbits, j = 0; shift > 0; j++) {
                shift -= 8;
                dst->rest[j][g + i] = (uint8_t)(x >> shift);
            }
        }
        uint8_t *const low = split->low_nbits ? dst->low + g / 8 * split->low_nbits : NULL;
        escaped |= split_heads(head_nbits, split, head, m, dst->symbols + g, low);
    }
    return escaped;
}

LMC_INLINE void join_elements(const unsigned nbytes, const lmc_split *split, const lmc_plane_set *src, size_t n,
                              uint8_t *dst)
{
    const unsigned head_nbits = nbytes == 1 ? 8 : 16;
    const unsigned rest_nbits = 8 * nbytes - head_nbits;
    for (size_t g = 0; g < n; g += GROUP) {
        const size_t m = lmc_min_size(GROUP, n - g);
        const uint8_t *const low = split->low_nbits ? src->low + g / 8 * split->low_nbits : NULL;
        uint16_t head[GROUP];
        join_heads(head_nbits, split, src->symbols + g, low, head);
        for (size_t i = 0; i < m; i++) {
            uint64_t x = head[i];
            for (unsigned shift = rest_nbits, j = 0; shift > 0; shift -= 8, j++)
                x = x << 8 | src->rest[j][g + i];
            x = rotate_right(8 * nbytes, x, split->rotation);
            memcpy(dst + (g + i) * nbytes, &x, nbytes);
        }
    }
}

#define DEFINE_WIDTH(nbytes)                                                                          \
    static unsigned split_##nbytes(const lmc_split *split, const uint8_t *src, size_t n,              \
                                   const lmc_plane_set *dst)                                          \
    {                                                                                                 \
        return split_elements(nbytes, split, src, n, dst);                                            \
    }                                                                                                 \
    static void join_##nbytes(const lmc_split *split, const lmc_plane_set *src, size_t n, uint8_t *dst) \
    {                                                                                                 \
        join_elements(nbytes, split, src, n, dst);                                                    \
    }

DEFINE_WIDTH(1)
DEFINE_WIDTH(2)
DEFINE_WIDTH(4)
DEFINE_WIDTH(8)

static void copy_past_cache(uint8_t *dst, const uint8_t *src, size_t nbytes)
{
    memcpy(dst, src, nbytes);
}

const lmc_kernels lmc_kernels_scalar = {
    .name = "scalar",
    .levels_encode = levels_encode,
    .levels_decode = levels_decode,
    .split = {split_1, split_2, split_4, split_8},
    .join = {join_1, join_2, join_4, join_8},
    .join_streaming = {join_1, join_2, join_4, join_8},
    .hash = hash_xxh3,
    .hash_begin = hash_xxh3_begin,
    .hash_update = hash_xxh3_update,
    .hash_end = hash_xxh3_end,
    .copy_past_cache = copy_past_cache,
};
