/*
 * scalar_bits_impl.h - operations on words in portable C that other sets have instructions for: counts, bits gathered
 * under a mask and spread to it, transposed matrices of bits. They use arithmetic without branches and tables. So
 * compilers make vector code of a loop that applies one of them to each word.
 */
#ifndef LMC_CODEC_KERNELS_SCALAR_SCALAR_BITS_IMPL_H
#define LMC_CODEC_KERNELS_SCALAR_SCALAR_BITS_IMPL_H

#include "codec/kernels/kernels.h"

#define GROUP 64                             /* values whose bits of one kind make a word */
#define WORDS_MAX (LMC_STRIP_VALUES / GROUP) /* that a function takes at once */
#define EACH_BYTE UINT64_C(0x0101010101010101)

/* __builtin_popcountll() is a function call on CPUs without an instruction for it (Warren, Hacker's Delight 5-1). */
LMC_INLINE unsigned count_bits(uint64_t x)
{
    x -= x >> 1 & EVEN_BITS;
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(x * EACH_BYTE >> 56);
}

/* ---- bits under a mask ---- */

/* Words are cut into lanes of 16 bits: moves inside a lane are loops over lanes, which compilers turn into vector code.
 * Lanes come to their places in the word by shifts. */
#define LANE_NBITS 16
#define LANE_COUNT 4 /* in a word */

/* How far bits of a lane move when those under a mask are gathered: by the number of clear bits in the mask below them.
 * Bit p of step[i] is bit i of that number for place p. */
typedef struct lane_moves {
    uint16_t step[4];
} lane_moves;

/* Bit p of the result: is the number of bits of x below place p odd? */
LMC_INLINE uint16_t parities_below(uint16_t x)
{
    x = (uint16_t)(x << 1);
    x ^= (uint16_t)(x << 1);
    x ^= (uint16_t)(x << 2);
    x ^= (uint16_t)(x << 4);
    return x ^ (uint16_t)(x << 8);
}

/* Every second clear bit of the mask carries to the next digit of the count. */
LMC_INLINE lane_moves find_moves(uint16_t mask)
{
    lane_moves moves;
    uint16_t clear = (uint16_t)~mask;
    for (unsigned i = 0; i < 4; i++) {
        moves.step[i] = parities_below(clear);
        clear &= moves.step[i];
    }
    return moves;
}

/* The bits of x under the mask, at the lowest places (pext). A bit that moved by the lower digits of its number has
 * passed clear bits of the mask only, so its higher digits are still right. */
LMC_INLINE uint16_t gather_lane(uint16_t x, uint16_t mask)
{
    const lane_moves moves = find_moves(mask);
    x &= mask;
    for (unsigned i = 0; i < 4; i++) {
        const uint16_t moving = x & moves.step[i];
        x = (uint16_t)((x ^ moving) | moving >> (1u << i));
    }
    return x;
}

/* The lowest bits of x at the places of the mask (pdep). */
LMC_INLINE uint16_t scatter_lane(uint16_t x, uint16_t mask)
{
    const lane_moves moves = find_moves(mask);
    for (unsigned i = 4; i-- > 0;)
        x ^= (uint16_t)((uint16_t)(x << (1u << i)) ^ x) & moves.step[i];
    return x & mask;
}

/* Lane i of the result: how many bits are set in lanes 0..i of x. */
LMC_INLINE uint64_t count_lanes(uint64_t x)
{
    x -= x >> 1 & EVEN_BITS;
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    x = (x + (x >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
    x += x << 16;
    return x + (x << 32);
}

/* The count of lanes 0..i of such a result. */
LMC_INLINE unsigned lane_end(uint64_t counts, unsigned i)
{
    return counts >> LANE_NBITS * i & 0x7f;
}

/* Gathers the bits of words under their masks to the lowest places. counts: count_lanes() of the masks. */
LMC_INLINE void gather_words(const uint64_t *mask, const uint64_t *counts, size_t count, uint64_t *x)
{
    uint16_t lane[LANE_COUNT * WORDS_MAX], lane_mask[LANE_COUNT * WORDS_MAX];
    memcpy(lane, x, count * sizeof *x);
    memcpy(lane_mask, mask, count * sizeof *x);
    for (size_t i = 0; i < LANE_COUNT * count; i++)
        lane[i] = gather_lane(lane[i], lane_mask[i]);
    for (size_t i = 0; i < count; i++) {
        x[i] = lane[LANE_COUNT * i];
        for (unsigned k = 1; k < LANE_COUNT; k++)
            x[i] |= (uint64_t)lane[LANE_COUNT * i + k] << lane_end(counts[i], k - 1);
    }
}

/* The inverse: spreads the lowest bits of words to the places of their masks. */
LMC_INLINE void scatter_words(const uint64_t *mask, const uint64_t *counts, size_t count, uint64_t *x)
{
    uint16_t lane[LANE_COUNT * WORDS_MAX], lane_mask[LANE_COUNT * WORDS_MAX];
    memcpy(lane_mask, mask, count * sizeof *x);
    for (size_t i = 0; i < count; i++) {
        lane[LANE_COUNT * i] = (uint16_t)x[i];
        for (unsigned k = 1; k < LANE_COUNT; k++)
            lane[LANE_COUNT * i + k] = (uint16_t)(x[i] >> lane_end(counts[i], k - 1));
    }
    for (size_t i = 0; i < LANE_COUNT * count; i++)
        lane[i] = scatter_lane(lane[i], lane_mask[i]);
    memcpy(x, lane, count * sizeof *x);
}

/* ---- matrices of bits ---- */

/* Transposes an 8 x 8 bit matrix: bit j of byte i becomes bit i of byte j (Hacker's Delight 7-3). */
LMC_INLINE uint64_t transpose8(uint64_t x)
{
    uint64_t t = (x ^ x >> 7) & UINT64_C(0x00aa00aa00aa00aa);
    x ^= t ^ t << 7;
    t = (x ^ x >> 14) & UINT64_C(0x0000cccc0000cccc);
    x ^= t ^ t << 14;
    t = (x ^ x >> 28) & UINT64_C(0x00000000f0f0f0f0);
    return x ^ t ^ t << 28;
}

LMC_INLINE void exchange(uint64_t *a, uint64_t *b, unsigned shift, uint64_t mask)
{
    const uint64_t t = (*a >> shift ^ *b) & mask;
    *b ^= t;
    *a ^= t << shift;
}

/* Transposes eight 8 x 8 matrices that lie side by side: bit i of byte k of row j becomes bit j of byte k of row i. */
LMC_INLINE void transpose_rows(uint64_t row[8])
{
    const uint64_t half = UINT64_C(0x0f0f0f0f0f0f0f0f);
    const uint64_t quarter = UINT64_C(0x3333333333333333);
    exchange(&row[0], &row[4], 4, half);
    exchange(&row[1], &row[5], 4, half);
    exchange(&row[2], &row[6], 4, half);
    exchange(&row[3], &row[7], 4, half);
    exchange(&row[0], &row[2], 2, quarter);
    exchange(&row[1], &row[3], 2, quarter);
    exchange(&row[4], &row[6], 2, quarter);
    exchange(&row[5], &row[7], 2, quarter);
    exchange(&row[0], &row[1], 1, EVEN_BITS);
    exchange(&row[2], &row[3], 1, EVEN_BITS);
    exchange(&row[4], &row[5], 1, EVEN_BITS);
    exchange(&row[6], &row[7], 1, EVEN_BITS);
}

/* ---- bits and bytes ---- */

/* byte_mask[b]: byte i is 255 if bit i of b is set. */
#define BYTE_MASK_1(b)                                                                                       \
    (255 * ((uint64_t)((b)&1) | (uint64_t)((b)&2) << 7 | (uint64_t)((b)&4) << 14 | (uint64_t)((b)&8) << 21 | \
            (uint64_t)((b)&16) << 28 | (uint64_t)((b)&32) << 35 | (uint64_t)((b)&64) << 42 |                 \
            (uint64_t)((b)&128) << 49))
#define BYTE_MASK_4(b) BYTE_MASK_1(b), BYTE_MASK_1((b) + 1), BYTE_MASK_1((b) + 2), BYTE_MASK_1((b) + 3)
#define BYTE_MASK_16(b) BYTE_MASK_4(b), BYTE_MASK_4((b) + 4), BYTE_MASK_4((b) + 8), BYTE_MASK_4((b) + 12)
#define BYTE_MASK_64(b) \
    BYTE_MASK_16(b), BYTE_MASK_16((b) + 16), BYTE_MASK_16((b) + 32), BYTE_MASK_16((b) + 48)
static const uint64_t byte_mask[256] = {BYTE_MASK_64(0), BYTE_MASK_64(64), BYTE_MASK_64(128),
                                        BYTE_MASK_64(192)};

#endif
