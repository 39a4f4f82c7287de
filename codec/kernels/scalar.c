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

/* spread8[b]: the eight bits of b as eight bytes of 0 or 1. */
#define BIT_TO_BYTE(b, i) ((uint64_t)((b) >> (i)&1) << 8 * (i))
#define SPREAD_1(b)                                                                                      \
    (BIT_TO_BYTE(b, 0) | BIT_TO_BYTE(b, 1) | BIT_TO_BYTE(b, 2) | BIT_TO_BYTE(b, 3) | BIT_TO_BYTE(b, 4) | \
     BIT_TO_BYTE(b, 5) | BIT_TO_BYTE(b, 6) | BIT_TO_BYTE(b, 7))
#define SPREAD_4(b) SPREAD_1(b), SPREAD_1((b) + 1), SPREAD_1((b) + 2), SPREAD_1((b) + 3)
#define SPREAD_16(b) SPREAD_4(b), SPREAD_4((b) + 4), SPREAD_4((b) + 8), SPREAD_4((b) + 12)
#define SPREAD_64(b) SPREAD_16(b), SPREAD_16((b) + 16), SPREAD_16((b) + 32), SPREAD_16((b) + 48)
static const uint64_t spread8[256] = {SPREAD_64(0), SPREAD_64(64), SPREAD_64(128), SPREAD_64(192)};

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

/* Without an instruction for it, the compiler would call a function (Warren, Hacker's Delight 5-1). */
LMC_INLINE unsigned count_bits(uint64_t x)
{
    x -= x >> 1 & EVEN_BITS;
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(x * EACH_BYTE >> 56);
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
        lmc_put_bits(&out->partial[j], gather_bits(word[j], longer), count_bits(longer));
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

/* Symbols of a layer whose codes are all 1 bit or all 2 bits long and whose list has the last code, all ones:
 * constants, blended by the words. Lanes of the list come out as anything. */
LMC_INLINE void blend_constants(const unsigned nbits, const lmc_layer *layer, const uint64_t *word,
                                uint8_t *symbols)
{
    const uint64_t s0 = layer->symbol[0];
    if (nbits == 1) {
        memset(symbols, (int)s0, GROUP);
        return;
    }
    const uint64_t if_10 = s0 ^ layer->symbol[32];
    const uint64_t if_01 = s0 ^ layer->symbol[16];
    for (unsigned i = 0; i < GROUP; i += 8)
        lmc_store64(symbols + i, EACH_BYTE * s0 ^ spread8[word[0] >> i & 0xff] * if_10 ^
                                     spread8[word[1] >> i & 0xff] * if_01);
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
        in->position[j] += count_bits(longer);
    }
    if (last <= 2 && first == last && layer->has_list && layer->list_code == 64 - (64 >> last))
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

/* Bytes of p < 8 bits each to 8 p bits in a row, and back: neighbours merge in three steps. */
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
    if (p == 8) {
        memcpy(dst, low, nbytes);
        return;
    }
    for (unsigned i = 0; i < 8; i++)
        lmc_store64(packed + i * p, pack8(lmc_load64(low + 8 * i), p));
    memcpy(dst, packed, nbytes);
}

LMC_INLINE void read_low(const uint8_t *src, unsigned p, uint8_t *low)
{
    if (p == 8) {
        memcpy(low, src, GROUP);
        return;
    }
    for (unsigned i = 0; i < 8; i++)
        lmc_store64(low + 8 * i, unpack8(lmc_load64(src + i * p), p));
}

/* One group of heads of head_nbits bits to symbols and the low bits of the first n. Plain loops over 16-bit
 * lanes, one thing at a time: the form that compilers turn into vector code. */
LMC_INLINE unsigned split_heads(const unsigned head_nbits, const lmc_split *split, const uint16_t *head,
                                size_t n, uint8_t *symbols, uint8_t *low)
{
    const unsigned p = split->low_nbits;
    const uint16_t head_mask = (uint16_t)((1u << head_nbits) - 1);
    const uint16_t symbol_mask = (uint16_t)((1u << (head_nbits - p)) - 1);
    const uint16_t low_mask = (uint16_t)((1u << p) - 1);
    const uint16_t offset = split->offset, base = split->base;
    uint16_t moved[GROUP], wide[GROUP];
    uint8_t low_bytes[GROUP];
    unsigned escaped = 0;
    for (size_t i = 0; i < GROUP; i++)
        moved[i] = (uint16_t)(head[i] + offset) & head_mask;
    for (size_t i = 0; i < GROUP; i++)
        wide[i] = (uint16_t)((moved[i] >> p) - base) & symbol_mask;
    for (size_t i = 0; i < GROUP; i++)
        symbols[i] = (uint8_t)(wide[i] < LMC_FMT_SYMBOL_ESCAPE ? wide[i] : LMC_FMT_SYMBOL_ESCAPE);
    if (head_nbits - p > 8)
        for (size_t i = 0; i < n; i++)
            escaped |= symbols[i] == LMC_FMT_SYMBOL_ESCAPE;
    for (size_t i = 0; i < GROUP; i++)
        low_bytes[i] = (uint8_t)(moved[i] & low_mask);
    if (p > 0) {
        memset(low_bytes + n, 0, GROUP - n);
        write_low(low_bytes, p, low, lmc_bits_nbytes(n * p));
    }
    return escaped;
}

LMC_INLINE void join_heads(const unsigned head_nbits, const lmc_split *split, const uint8_t *symbols,
                           const uint8_t *low, uint16_t *head)
{
    const unsigned p = split->low_nbits;
    const uint16_t head_mask = (uint16_t)((1u << head_nbits) - 1);
    const uint16_t offset = split->offset, base = split->base;
    uint8_t low_bytes[GROUP] = {0};
    if (p > 0)
        read_low(low, p, low_bytes);
    for (size_t i = 0; i < GROUP; i++)
        head[i] = (uint16_t)((uint16_t)(symbols[i] + base) << p);
    for (size_t i = 0; i < GROUP; i++)
        head[i] = (uint16_t)((head[i] | low_bytes[i]) - offset) & head_mask;
}

/* ---- elements: a rotated element is its head (the top 16 bits, or all 8) and the bytes below ---- */

/* Takes the first n <= GROUP elements at src apart, and puts n together; what lies beyond n is 0, or kept. */
#define DEFINE_WIDTH(nbits, head_nbits)                                                                 \
    LMC_INLINE void take_apart_##nbits(const uint8_t *src, size_t n, unsigned rotation, uint16_t *head, \
                                       uint8_t *const *rest, size_t first)                              \
    {                                                                                                   \
        uint##nbits##_t x[GROUP] = {0};                                                                 \
        memcpy(x, src, n * sizeof x[0]);                                                                \
        if (rotation)                                                                                   \
            for (size_t i = 0; i < GROUP; i++)                                                          \
                x[i] = (uint##nbits##_t)(x[i] << 1 | x[i] >> (nbits - 1));                              \
        for (size_t i = 0; i < GROUP; i++)                                                              \
            head[i] = (uint16_t)(x[i] >> (nbits - head_nbits));                                         \
        for (unsigned shift = nbits - head_nbits, j = 0; shift > 0; j++) {                              \
            shift -= 8;                                                                                 \
            for (size_t i = 0; i < n; i++)                                                              \
                rest[j][first + i] = (uint8_t)(x[i] >> shift);                                          \
        }                                                                                               \
    }                                                                                                   \
    LMC_INLINE void put_together_##nbits(const uint16_t *head, uint8_t *const *rest, size_t first,      \
                                         unsigned rotation, uint8_t *dst, size_t n)                     \
    {                                                                                                   \
        uint##nbits##_t x[GROUP];                                                                       \
        for (size_t i = 0; i < GROUP; i++)                                                              \
            x[i] = (uint##nbits##_t)((uint##nbits##_t)head[i] << (nbits - head_nbits));                 \
        for (unsigned shift = nbits - head_nbits, j = 0; shift > 0; j++) {                              \
            shift -= 8;                                                                                 \
            for (size_t i = 0; i < GROUP; i++)                                                          \
                x[i] |= (uint##nbits##_t)((uint##nbits##_t)rest[j][first + i] << shift);                \
        }                                                                                               \
        if (rotation)                                                                                   \
            for (size_t i = 0; i < GROUP; i++)                                                          \
                x[i] = (uint##nbits##_t)(x[i] >> 1 | x[i] << (nbits - 1));                              \
        memcpy(dst, x, n * sizeof x[0]);                                                                \
    }                                                                                                   \
    static unsigned split_##nbits(const lmc_split *split, const uint8_t *src, size_t n,                 \
                                  const lmc_plane_set *dst)                                             \
    {                                                                                                   \
        unsigned escaped = 0;                                                                           \
        for (size_t g = 0; g < n; g += GROUP) {                                                         \
            const size_t m = lmc_min_size(GROUP, n - g);                                                \
            uint8_t *const low = split->low_nbits ? dst->low + g / 8 * split->low_nbits : NULL;         \
            uint16_t head[GROUP];                                                                       \
            take_apart_##nbits(src + g * (nbits / 8), m, split->rotation, head, dst->rest, g);          \
            escaped |= split_heads(head_nbits, split, head, m, dst->symbols + g, low);                  \
        }                                                                                               \
        return escaped;                                                                                 \
    }                                                                                                   \
    static void join_##nbits(const lmc_split *split, const lmc_plane_set *src, size_t n, uint8_t *dst)  \
    {                                                                                                   \
        for (size_t g = 0; g < n; g += GROUP) {                                                         \
            const size_t m = lmc_min_size(GROUP, n - g);                                                \
            const uint8_t *const low = split->low_nbits ? src->low + g / 8 * split->low_nbits : NULL;   \
            uint16_t head[GROUP];                                                                       \
            join_heads(head_nbits, split, src->symbols + g, low, head);                                 \
            put_together_##nbits(head, src->rest, g, split->rotation, dst + g * (nbits / 8), m);        \
        }                                                                                               \
    }

DEFINE_WIDTH(8, 8)
DEFINE_WIDTH(16, 16)
DEFINE_WIDTH(32, 16)
DEFINE_WIDTH(64, 16)

/* ---- pairs ---- */

/* The even bits of a word, gathered in its lower half (Warren, Hacker's Delight 7-2), and back. */
LMC_INLINE uint64_t gather_even(uint64_t x)
{
    x &= EVEN_BITS;
    x = (x | x >> 1) & UINT64_C(0x3333333333333333);
    x = (x | x >> 2) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    x = (x | x >> 4) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x | x >> 8) & UINT64_C(0x0000ffff0000ffff);
    return (x | x >> 16) & UINT64_C(0x00000000ffffffff);
}

LMC_INLINE uint64_t scatter_even(uint64_t x)
{
    x &= UINT64_C(0x00000000ffffffff);
    x = (x | x << 16) & UINT64_C(0x0000ffff0000ffff);
    x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x | x << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    x = (x | x << 2) & UINT64_C(0x3333333333333333);
    return (x | x << 1) & EVEN_BITS;
}

/* The lowest bits of x, spread to the places of mask, four places at a time: quicker than scatter_bits() for few. */
LMC_INLINE uint32_t scatter_half(uint32_t x, uint32_t mask)
{
    static const uint8_t deposit[16][16] = {
        {0},
        {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1},
        {0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2},
        {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3},
        {0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4},
        {0, 1, 4, 5, 0, 1, 4, 5, 0, 1, 4, 5, 0, 1, 4, 5},
        {0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6},
        {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7},
        {0, 8, 0, 8, 0, 8, 0, 8, 0, 8, 0, 8, 0, 8, 0, 8},
        {0, 1, 8, 9, 0, 1, 8, 9, 0, 1, 8, 9, 0, 1, 8, 9},
        {0, 2, 8, 10, 0, 2, 8, 10, 0, 2, 8, 10, 0, 2, 8, 10},
        {0, 1, 2, 3, 8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11},
        {0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12},
        {0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13},
        {0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14},
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    };
    static const uint8_t places[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
    uint32_t spread = 0;
    for (unsigned i = 0; i < 32; i += 4) {
        const unsigned m = mask >> i & 15;
        spread |= (uint32_t)deposit[m][x & 15] << i;
        x >>= places[m];
    }
    return spread;
}

#include "pairs_loops.h"

/* ---- deltas ---- */

static void find_classes(const lmc_delta *delta, uint8_t *keys, size_t n, size_t *counts)
{
    uint8_t class_of[256];
    uint32_t count[4][LMC_FMT_CLASS_COUNT_MAX] = {
        {0}}; /* neighbours are often of one class, and would wait */
    for (unsigned c = 0; c < delta->class_count; c++) {
        const unsigned end = c + 1 < delta->class_count ? delta->first_key[c + 1] : 256;
        memset(class_of + delta->first_key[c], (int)c, end - delta->first_key[c]);
    }
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (unsigned k = 0; k < 4; k++)
            count[k][keys[i + k] = class_of[keys[i + k]]]++;
    for (; i < n; i++)
        count[0][keys[i] = class_of[keys[i]]]++;
    for (unsigned c = 0; c < LMC_FMT_CLASS_COUNT_MAX; c++)
        counts[c] += (size_t)count[0][c] + count[1][c] + count[2][c] + count[3][c];
}

#include "delta_loops.h"
#include "mask_loops.h"

/* The top bits of 64 heads: as bytes of 0 and 1, then of each 8 of these the 8 bits by multiplication. */
LMC_INLINE uint64_t head_tops(const uint16_t *head)
{
    uint8_t top[GROUP];
    uint64_t word = 0;
    for (size_t i = 0; i < GROUP; i++)
        top[i] = (uint8_t)(head[i] >> 15);
    for (size_t i = 0; i < GROUP; i += 8)
        word |= (lmc_load64(top + i) * UINT64_C(0x0102040810204080) >> 56) << i;
    return word;
}

static void take_flips(uint16_t *head, size_t n, uint64_t *flips)
{
    for (size_t g = 0; g < n; g += GROUP) {
        const uint64_t word = head_tops(head + g);
        for (size_t i = 0; i < GROUP; i++)
            head[g + i] &= 0x7fff;
        flips[g / GROUP] = n - g < GROUP ? word & lmc_low_mask((unsigned)(n - g)) : word;
    }
}

static void copy_past_cache(uint8_t *dst, const uint8_t *src, size_t nbytes)
{
    memcpy(dst, src, nbytes);
}

static void end_past_cache(void)
{
}

const lmc_kernels lmc_kernels_scalar = {
    .name = "scalar",
    .levels_encode = levels_encode,
    .levels_decode = levels_decode,
    .split = {split_8, split_16, split_32, split_64},
    .join = {join_8, join_16, join_32, join_64},
    .mask_split = {mask_split_1, mask_split_2, mask_split_4, mask_split_8},
    .mask_join = {mask_join_1, mask_join_2, mask_join_4, mask_join_8},
    .count_flags = count_flags,
    .pairs_split = pairs_split,
    .pairs_join = pairs_join,
    .classify = {classify_8, classify_16, classify_32, classify_64},
    .delta_split = {delta_split_8, delta_split_16, delta_split_32, delta_split_64},
    .delta_join = {delta_join_8, delta_join_16, delta_join_32, delta_join_64},
    .scatter = scatter,
    .gather = gather,
    .take_flips = take_flips,
    .put_flips = put_flips,
    .hash = hash_xxh3,
    .hash_begin = hash_xxh3_begin,
    .hash_update = hash_xxh3_update,
    .hash_end = hash_xxh3_end,
    .copy_past_cache = copy_past_cache,
    .end_past_cache = end_past_cache,
};
