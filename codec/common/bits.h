/*
 * bits.h - bits in 64-bit words: counting and scanning, bitsets and planes of bits, and a bit writer without branches.
 */
#ifndef LMC_CODEC_COMMON_BITS_H
#define LMC_CODEC_COMMON_BITS_H

#include "common/bytes.h"

LMC_INLINE unsigned lmc_popcount64(uint64_t x)
{
    return (unsigned)__builtin_popcountll(x);
}

/* Index of the lowest set bit; x != 0. */
LMC_INLINE unsigned lmc_lowest_bit(uint64_t x)
{
    return (unsigned)__builtin_ctzll(x);
}

/* Index of the highest set bit; x != 0. */
LMC_INLINE unsigned lmc_highest_bit(uint64_t x)
{
    return 63 - (unsigned)__builtin_clzll(x);
}

/* A word whose lowest n bits are set, 1 <= n <= 64. */
LMC_INLINE uint64_t lmc_low_mask(unsigned n)
{
    return ~UINT64_C(0) >> (64 - n);
}

#define EVEN_BITS UINT64_C(0x5555555555555555)

/* 64 bits from bit `position` of a little-endian bit string. Reads 16 bytes from byte position / 64 * 8 on. */
LMC_INLINE uint64_t lmc_load_bits(const uint8_t *p, uint64_t position)
{
    const uint8_t *const word = p + (position >> 6) * 8;
    const unsigned shift = position & 63;
    return lmc_load64(word) >> shift | (lmc_load64(word + 8) << 1) << (63 - shift);
}

/* A bitset keeps value i in bit i % 64 of word i / 64; bits beyond its n values are 0. Words of n values. */
LMC_INLINE size_t lmc_bitset_words(size_t n)
{
    return n / 64 + (n % 64 != 0);
}

/* A plane of n bits at p: is a spare bit of its last byte set? */
LMC_INLINE int lmc_has_spare_bits(const uint8_t *p, size_t n)
{
    return n % 8 != 0 && p[n / 8] >> n % 8 != 0;
}

/* The next plane of n bits, or NULL when it ends early or has spare bits set. */
LMC_INLINE const uint8_t *lmc_read_bits(lmc_reader *reader, size_t n)
{
    const uint8_t *const p = lmc_read_span(reader, lmc_bits_nbytes(n));
    return p && !lmc_has_spare_bits(p, n) ? p : NULL;
}

/* Appends bits to a byte string, the least significant first. The buffer needs 8 bytes beyond its content. */
typedef struct lmc_bit_writer {
    uint8_t *next;          /* where the pending bits will stand */
    uint64_t pending;       /* bits that do not fill a word yet */
    unsigned pending_nbits; /* 0..63 */
} lmc_bit_writer;

/* Appends the lowest n <= 64 bits of `bits`. Its other bits are 0. */
LMC_INLINE void lmc_put_bits(lmc_bit_writer *w, uint64_t bits, unsigned n)
{
    const uint64_t low = w->pending | bits << w->pending_nbits;
    const uint64_t high = (bits >> 1) >> (63 - w->pending_nbits);
    lmc_store64(w->next, low);
    const unsigned filled = w->pending_nbits + n;
    const uint64_t word_done = filled >> 6;
    w->pending = low ^ ((low ^ high) & -word_done);
    w->next += 8 * word_done;
    w->pending_nbits = filled & 63;
}

/* Bits written since `start`. */
LMC_INLINE uint64_t lmc_bits_written(const lmc_bit_writer *w, const uint8_t *start)
{
    return (uint64_t)(w->next - start) * 8 + w->pending_nbits;
}

#endif
