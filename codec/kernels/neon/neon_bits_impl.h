/*
 * neon_bits_impl.h - gathers and scatters bits of words for kernels/neon/neon.c, two words at a time, since NEON has no
 * instructions for that. Each byte is done by the moves of Hacker's Delight 7-4, whose parities are products of
 * polynomials. Neighbours are joined after that, or parted before, by their counts.
 */
#ifndef LMC_CODEC_KERNELS_NEON_NEON_BITS_IMPL_H
#define LMC_CODEC_KERNELS_NEON_NEON_BITS_IMPL_H

/* A shift by lanes takes the lowest byte of each lane as a signed number; the bits above do not matter. So the
 * counts of bytes are those of the lower halves of 16-bit lanes, and so on. */

/* The moves that gather the bits of each byte under a mask: move[i] has the bits that go 2^i places down. */
LMC_INLINE void byte_moves(uint8x16_t mask, uint8x16_t move[3])
{
    const poly8x16_t ones = vdupq_n_p8(0xff); /* times this, bit k becomes the parity of bits 0 .. k */
    uint8x16_t gaps = vshlq_n_u8(vmvnq_u8(mask), 1);
    uint8x16_t parity = vreinterpretq_u8_p8(vmulq_p8(vreinterpretq_p8_u8(gaps), ones));
    move[0] = vandq_u8(parity, mask);
    mask = vsraq_n_u8(veorq_u8(mask, move[0]), move[0], 1);
    gaps = vbicq_u8(gaps, parity);
    parity = vreinterpretq_u8_p8(vmulq_p8(vreinterpretq_p8_u8(gaps), ones));
    move[1] = vandq_u8(parity, mask);
    mask = vsraq_n_u8(veorq_u8(mask, move[1]), move[1], 2);
    gaps = vbicq_u8(gaps, parity);
    parity = vreinterpretq_u8_p8(vmulq_p8(vreinterpretq_p8_u8(gaps), ones));
    move[2] = vandq_u8(parity, mask);
}

/* Gathers the bits of each word of x under its mask to the lowest places. *counts: how many. */
LMC_INLINE uint64x2_t gather_words(uint64x2_t x, uint64x2_t mask, uint64x2_t *counts)
{
    const uint8x16_t count8 = vcntq_u8(vreinterpretq_u8_u64(mask));
    const uint16x8_t count16 = vpaddlq_u8(count8);
    const uint32x4_t count32 = vpaddlq_u16(count16);
    uint8x16_t move[3];
    byte_moves(vreinterpretq_u8_u64(mask), move);
    uint8x16_t b = vreinterpretq_u8_u64(vandq_u64(x, mask));
    b = vsraq_n_u8(vbicq_u8(b, move[0]), vandq_u8(b, move[0]), 1);
    b = vsraq_n_u8(vbicq_u8(b, move[1]), vandq_u8(b, move[1]), 2);
    b = vsraq_n_u8(vbicq_u8(b, move[2]), vandq_u8(b, move[2]), 4);
    uint16x8_t h = vreinterpretq_u16_u8(b);
    h = vorrq_u16(vandq_u16(h, vdupq_n_u16(0xff)),
                  vshlq_u16(vshrq_n_u16(h, 8), vreinterpretq_s16_u8(count8)));
    uint32x4_t w = vreinterpretq_u32_u16(h);
    w = vorrq_u32(vandq_u32(w, vdupq_n_u32(0xffff)),
                  vshlq_u32(vshrq_n_u32(w, 16), vreinterpretq_s32_u16(count16)));
    uint64x2_t d = vreinterpretq_u64_u32(w);
    d = vorrq_u64(vandq_u64(d, vdupq_n_u64(0xffffffff)),
                  vshlq_u64(vshrq_n_u64(d, 32), vreinterpretq_s64_u32(count32)));
    *counts = vpaddlq_u32(count32);
    return d;
}

/* Spreads the lowest bits of each word of x to the places of its mask. */
LMC_INLINE uint64x2_t scatter_words(uint64x2_t x, uint64x2_t mask)
{
    const int8x16_t minus8 = vnegq_s8(vreinterpretq_s8_u8(vcntq_u8(vreinterpretq_u8_u64(mask))));
    const int16x8_t minus16 = vpaddlq_s8(minus8);
    const int32x4_t minus32 = vpaddlq_s16(minus16);
    uint8x16_t move[3];
    byte_moves(vreinterpretq_u8_u64(mask), move);
    /* the upper half of a lane gets the bits that the lower half has no place for; spare bits move nowhere */
    const uint64x2_t d = vshlq_u64(x, vreinterpretq_s64_s32(minus32));
    uint32x4_t w = vtrn1q_u32(vreinterpretq_u32_u64(x), vreinterpretq_u32_u64(d));
    uint16x8_t h = vtrn1q_u16(vreinterpretq_u16_u32(w),
                              vreinterpretq_u16_u32(vshlq_u32(w, vreinterpretq_s32_s16(minus16))));
    uint8x16_t b =
        vtrn1q_u8(vreinterpretq_u8_u16(h), vreinterpretq_u8_u16(vshlq_u16(h, vreinterpretq_s16_s8(minus8))));
    b = vbslq_u8(move[2], vshlq_n_u8(b, 4), b);
    b = vbslq_u8(move[1], vshlq_n_u8(b, 2), b);
    b = vbslq_u8(move[0], vshlq_n_u8(b, 1), b);
    return vandq_u64(vreinterpretq_u64_u8(b), mask);
}

LMC_INLINE uint64x2_t count_words(uint64x2_t x)
{
    return vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(vcntq_u8(vreinterpretq_u8_u64(x)))));
}

/* ---- the bit operations that kernels/shared/hierarchy_loops_impl.h asks for ---- */

LMC_INLINE uint64_t gather_bits(uint64_t x, uint64_t mask)
{
    uint64x2_t counts;
    return vgetq_lane_u64(gather_words(vdupq_n_u64(x), vdupq_n_u64(mask), &counts), 0);
}

LMC_INLINE uint64_t scatter_word(uint64_t x, uint64_t mask)
{
    return vgetq_lane_u64(scatter_words(vdupq_n_u64(x), vdupq_n_u64(mask)), 0);
}

/* Gathers the even bits of each byte by its halves, then those of pairs of bytes. */
LMC_INLINE uint64_t gather_even(uint64_t x)
{
    static const uint8_t even_bits[16] = {0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3};
    const uint8x16_t table = vld1q_u8(even_bits);
    const uint8x16_t bytes = vreinterpretq_u8_u64(vdupq_n_u64(x));
    const uint8x16_t lower = vqtbl1q_u8(table, vandq_u8(bytes, vdupq_n_u8(15)));
    const uint8x16_t upper = vqtbl1q_u8(table, vshrq_n_u8(bytes, 4));
    const uint16x8_t four = vreinterpretq_u16_u8(vsliq_n_u8(lower, upper, 2));
    const uint8x8_t eight = vmovn_u16(vsraq_n_u16(four, four, 4));
    return vget_lane_u32(vreinterpret_u32_u8(eight), 0);
}

/* The square of a polynomial has its bits, each followed by a 0. */
LMC_INLINE uint64_t scatter_even(uint64_t x)
{
    const poly8x8_t bytes = vcreate_p8(x);
    return vgetq_lane_u64(vreinterpretq_u64_p16(vmull_p8(bytes, bytes)), 0);
}

LMC_INLINE unsigned count_bits(uint64_t x)
{
    return vaddv_u8(vcnt_u8(vcreate_u8(x)));
}

#endif
