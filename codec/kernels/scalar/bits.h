/*
 * bits.h - operations on words in portable C that other sets have instructions for: counts, bits gathered under a mask
 * and spread to it, transposed matrices of bits. They use arithmetic without branches and tables. So compilers make
 * vector code of a loop that applies one of them to each word.
 */
#ifndef LMC_CODEC_KERNELS_SCALAR_BITS_H
#define LMC_CODEC_KERNELS_SCALAR_BITS_H

#include "codec/kernels/kernels.h"

#define GROUP 64 /* values whose bits of one kind make a word */
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

#define MOVE_COUNT 6

/* How far bits of a word move when those under a mask are gathered: by the number of clear bits in the mask below
 * them. Bit p of step[i] is bit i of that number for place p. */
typedef struct bit_moves {
    uint64_t step[MOVE_COUNT];
} bit_moves;

/* Bit p of the result: is the number of bits of x at places 0..p odd? */
LMC_INLINE uint64_t parities(uint64_t x)
{
    x ^= x << 1;
    x ^= x << 2;
    x ^= x << 4;
    x ^= x << 8;
    x ^= x << 16;
    return x ^ x << 32;
}

/* Every second clear bit of the mask carries to the next digit of the count. */
LMC_INLINE bit_moves find_moves(uint64_t mask)
{
    bit_moves moves;
    uint64_t clear = ~mask;
    for (unsigned i = 0; i < MOVE_COUNT; i++) {
        moves.step[i] = parities(clear << 1);
        clear &= moves.step[i];
    }
    return moves;
}

/* The bits of x under the mask of these moves, at the lowest places (pext). A bit that moved by the lower digits of
 * its number has passed clear bits of the mask only, so its higher digits are still right. */
LMC_INLINE uint64_t gather_by(bit_moves moves, uint64_t x, uint64_t mask)
{
    x &= mask;
    for (unsigned i = 0; i < MOVE_COUNT; i++) {
        const uint64_t moving = x & moves.step[i];
        x = (x ^ moving) | moving >> (1u << i);
    }
    return x;
}

/* The lowest bits of x at the places of the mask of these moves (pdep). */
LMC_INLINE uint64_t scatter_by(bit_moves moves, uint64_t x, uint64_t mask)
{
    for (unsigned i = MOVE_COUNT; i-- > 0;)
        x = (x & ~moves.step[i]) | (x << (1u << i) & moves.step[i]);
    return x & mask;
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

/* ---- bytes under a mask of 8 bits ---- */

/* The moves of bytes under a mask of 8 bits. Byte p of step[i] is 255 if bit i of the number of clear bits below
 * place p is set. Byte p of here is 255 if bit p of the mask is set. */
typedef struct byte_moves {
    uint64_t here, step[3];
} byte_moves;

#define BIT_TO_BYTE(b, i) ((uint64_t)((b) >> (i)&1) << 8 * (i))
#define BITS_TO_BYTES(b)                                                                                 \
    (BIT_TO_BYTE(b, 0) | BIT_TO_BYTE(b, 1) | BIT_TO_BYTE(b, 2) | BIT_TO_BYTE(b, 3) | BIT_TO_BYTE(b, 4) | \
     BIT_TO_BYTE(b, 5) | BIT_TO_BYTE(b, 6) | BIT_TO_BYTE(b, 7))
#define CLEAR_BELOW(b) \
    (BITS_TO_BYTES(255 - (b)) * EACH_BYTE << 8) /* a product with EACH_BYTE adds up bytes */
#define MOVE_STEP(b, i) ((CLEAR_BELOW(b) >> (i)&EACH_BYTE) * 255)
#define MOVES_1(b)                                            \
    {                                                         \
        BITS_TO_BYTES(b) * 255,                               \
        {                                                     \
            MOVE_STEP(b, 0), MOVE_STEP(b, 1), MOVE_STEP(b, 2) \
        }                                                     \
    }
#define MOVES_4(b) MOVES_1(b), MOVES_1((b) + 1), MOVES_1((b) + 2), MOVES_1((b) + 3)
#define MOVES_16(b) MOVES_4(b), MOVES_4((b) + 4), MOVES_4((b) + 8), MOVES_4((b) + 12)
#define MOVES_64(b) MOVES_16(b), MOVES_16((b) + 16), MOVES_16((b) + 32), MOVES_16((b) + 48)
static const byte_moves moves_of[256] = {MOVES_64(0), MOVES_64(64), MOVES_64(128), MOVES_64(192)};

/* The bytes of x under the mask, at the lowest places. */
LMC_INLINE uint64_t gather_bytes(const byte_moves *moves, uint64_t x)
{
    x &= moves->here;
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t moving = x & moves->step[i];
        x = (x ^ moving) | moving >> (8u << i);
    }
    return x;
}

/* x with the lowest bytes of `packed` at the places of the mask. */
LMC_INLINE uint64_t scatter_bytes(const byte_moves *moves, uint64_t packed, uint64_t x)
{
    for (unsigned i = 3; i-- > 0;)
        packed ^= (packed << (8u << i) ^ packed) & moves->step[i];
    return x ^ ((packed ^ x) & moves->here);
}

LMC_INLINE unsigned count_bytes(const byte_moves *moves)
{
    return (unsigned)((moves->here & EACH_BYTE) * EACH_BYTE >> 56);
}

#endif
