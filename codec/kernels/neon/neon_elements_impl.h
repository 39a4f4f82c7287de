/*
 * neon_elements_impl.h - cuts elements into planes and joins them, for kernels/neon/neon.c, 16 elements at a time. Zips
 * make elements narrower and wider, by half each time. Low bits are packed by shifts that differ by lane, and byte
 * shuffles.
 */
#ifndef LMC_CODEC_KERNELS_NEON_NEON_ELEMENTS_IMPL_H
#define LMC_CODEC_KERNELS_NEON_NEON_ELEMENTS_IMPL_H

/* 16 lanes of 16 bits. */
typedef uint16x8x2_t words16;

LMC_INLINE uint8x16_t lower_bytes(words16 w)
{
    return vuzp1q_u8(vreinterpretq_u8_u16(w.val[0]), vreinterpretq_u8_u16(w.val[1]));
}

LMC_INLINE uint8x16_t upper_bytes(words16 w)
{
    return vuzp2q_u8(vreinterpretq_u8_u16(w.val[0]), vreinterpretq_u8_u16(w.val[1]));
}

LMC_INLINE words16 words_of_bytes(uint8x16_t lower, uint8x16_t upper)
{
    return (words16){
        {vreinterpretq_u16_u8(vzip1q_u8(lower, upper)), vreinterpretq_u16_u8(vzip2q_u8(lower, upper))}};
}

LMC_INLINE words16 lower_words(uint32x4x4_t x)
{
    return (words16){{vuzp1q_u16(vreinterpretq_u16_u32(x.val[0]), vreinterpretq_u16_u32(x.val[1])),
                      vuzp1q_u16(vreinterpretq_u16_u32(x.val[2]), vreinterpretq_u16_u32(x.val[3]))}};
}

LMC_INLINE words16 upper_words(uint32x4x4_t x)
{
    return (words16){{vuzp2q_u16(vreinterpretq_u16_u32(x.val[0]), vreinterpretq_u16_u32(x.val[1])),
                      vuzp2q_u16(vreinterpretq_u16_u32(x.val[2]), vreinterpretq_u16_u32(x.val[3]))}};
}

LMC_INLINE uint32x4x4_t dwords_of_words(words16 lower, words16 upper)
{
    uint32x4x4_t x;
    for (unsigned i = 0; i < 2; i++) {
        x.val[2 * i] = vreinterpretq_u32_u16(vzip1q_u16(lower.val[i], upper.val[i]));
        x.val[2 * i + 1] = vreinterpretq_u32_u16(vzip2q_u16(lower.val[i], upper.val[i]));
    }
    return x;
}

/* ---- split ---- */

/* Registers for cutting high parts into symbols and low bits. */
typedef struct high_cut {
    unsigned low_nbits;
    uint16x8_t
        shift;      /* offset - (window_start << low_nbits): then the symbol is the part above the low bits */
    int16x8_t down; /* shift counts: to the symbol */
    uint8x16_t byte_shift; /* these for elements of 1 byte */
    int8x16_t byte_down;
    int16x8_t to_pairs;   /* to put two low parts in a lane of 16 bits, ... */
    int32x4_t to_quads;   /* ... four in 32 bits, ... */
    int64x2_t to_octets;  /* ... eight in 64 bits */
    uint16x8_t pair_mask; /* bits of each lane that stay in place */
    uint32x4_t quad_mask;
    uint64x2_t octet_mask;
    uint8x16_t gather; /* the bytes of two 64-bit lanes that the low parts fill */
} high_cut;

LMC_INLINE high_cut load_high_cut(const lmc_split *split)
{
    const int p = split->low_nbits;
    uint8_t gather[24];
    memset(gather, 0, sizeof gather);
    for (unsigned i = 0; i < 8; i++)
        gather[i] = (uint8_t)i;
    for (unsigned i = 0; i < 8; i++)
        gather[split->low_nbits + i] = (uint8_t)(8 + i);
    high_cut cut;
    cut.low_nbits = split->low_nbits;
    cut.shift = vdupq_n_u16((uint16_t)(split->offset - ((unsigned)split->window_start << p)));
    cut.down = vdupq_n_s16((int16_t)-p);
    cut.byte_shift = vdupq_n_u8((uint8_t)(split->offset - ((unsigned)split->window_start << p)));
    cut.byte_down = vdupq_n_s8((int8_t)-p);
    cut.to_pairs = vdupq_n_s16((int16_t)(p - 8));
    cut.to_quads = vdupq_n_s32(2 * p - 16);
    cut.to_octets = vdupq_n_s64(4 * p - 32);
    cut.pair_mask = vdupq_n_u16((uint16_t)((1u << p) - 1));
    cut.quad_mask = vdupq_n_u32((1u << 2 * p) - 1);
    cut.octet_mask = vdupq_n_u64((UINT64_C(1) << 4 * p) - 1);
    cut.gather = vld1q_u8(gather);
    return cut;
}

/* Packs the lowest low_nbits < 8 bits of 16 bytes to 2 * low_nbits bytes. Writes 16. */
LMC_INLINE void pack_low(const high_cut *cut, uint8x16_t low, uint8_t *dst)
{
    const uint16x8_t bytes = vreinterpretq_u16_u8(low);
    const uint32x4_t pairs =
        vreinterpretq_u32_u16(vbslq_u16(cut->pair_mask, bytes, vshlq_u16(bytes, cut->to_pairs)));
    const uint64x2_t quads =
        vreinterpretq_u64_u32(vbslq_u32(cut->quad_mask, pairs, vshlq_u32(pairs, cut->to_quads)));
    const uint64x2_t octets = vbslq_u64(cut->octet_mask, quads, vshlq_u64(quads, cut->to_octets));
    vst1q_u8(dst, vqtbl1q_u8(vreinterpretq_u8_u64(octets), cut->gather));
}

LMC_INLINE void store_low(const high_cut *cut, uint8x16_t low, uint8_t *dst)
{
    if (cut->low_nbits == 8)
        vst1q_u8(dst, low);
    else if (cut->low_nbits > 0)
        pack_low(cut, low, dst);
}

/* Cuts 16 high parts. Returns the symbols. */
LMC_INLINE uint8x16_t cut_high(const high_cut *cut, words16 high_parts, uint8_t *symbols, uint8_t *low)
{
    const words16 h = {{vaddq_u16(high_parts.val[0], cut->shift), vaddq_u16(high_parts.val[1], cut->shift)}};
    const uint8x8_t lower = vqmovn_u16(vshlq_u16(h.val[0], cut->down));
    const uint8x16_t s = vqmovn_high_u16(lower, vshlq_u16(h.val[1], cut->down));
    vst1q_u8(symbols, s);
    store_low(cut, lower_bytes(h), low);
    return s;
}

/* Cuts 16 elements of 1 byte, which are their own high parts. */
LMC_INLINE uint8x16_t cut_bytes(const high_cut *cut, uint8x16_t high_parts, uint8_t *symbols, uint8_t *low)
{
    const uint8x16_t h = vaddq_u8(high_parts, cut->byte_shift);
    const uint8x16_t s = vshlq_u8(h, cut->byte_down);
    vst1q_u8(symbols, s);
    store_low(cut, h, low);
    return s;
}

LMC_INLINE words16 shift_words(words16 high_parts, const uint16_t *shift)
{
    return (words16){
        {vaddq_u16(high_parts.val[0], vld1q_u16(shift)), vaddq_u16(high_parts.val[1], vld1q_u16(shift + 8))}};
}

LMC_INLINE words16 take_shifts(words16 high_parts, const uint16_t *shift)
{
    return (words16){
        {vsubq_u16(high_parts.val[0], vld1q_u16(shift)), vsubq_u16(high_parts.val[1], vld1q_u16(shift + 8))}};
}

/* 16 shifts as bytes. */
LMC_INLINE uint8x16_t load_byte_shifts(const uint16_t *shift)
{
    return lower_bytes((words16){{vld1q_u16(shift), vld1q_u16(shift + 8)}});
}

LMC_INLINE void store_bytes_of(words16 words, uint8_t *const *planes, size_t i)
{
    vst1q_u8(planes[0] + i, upper_bytes(words));
    vst1q_u8(planes[1] + i, lower_bytes(words));
}

LMC_INLINE uint32x4x4_t load_dwords(const uint8_t *src, unsigned rotation)
{
    uint32x4x4_t x;
    for (unsigned i = 0; i < 4; i++) {
        x.val[i] = vreinterpretq_u32_u8(vld1q_u8(src + 16 * i));
        if (rotation)
            x.val[i] = vsliq_n_u32(vshrq_n_u32(x.val[i], 31), x.val[i], 1);
    }
    return x;
}

/* The halves of 16 elements of 8 bytes. */
LMC_INLINE void load_halves(const uint8_t *src, unsigned rotation, uint32x4x4_t *lower, uint32x4x4_t *upper)
{
    for (unsigned i = 0; i < 4; i++) {
        uint64x2_t x[2];
        for (unsigned k = 0; k < 2; k++) {
            x[k] = vreinterpretq_u64_u8(vld1q_u8(src + 32 * i + 16 * k));
            if (rotation)
                x[k] = vsliq_n_u64(vshrq_n_u64(x[k], 63), x[k], 1);
        }
        lower->val[i] = vuzp1q_u32(vreinterpretq_u32_u64(x[0]), vreinterpretq_u32_u64(x[1]));
        upper->val[i] = vuzp2q_u32(vreinterpretq_u32_u64(x[0]), vreinterpretq_u32_u64(x[1]));
    }
}

/* Cuts elements i .. i + 15 of a group; the low plane is written as pack_low() does. */
LMC_INLINE uint8x16_t split_16(const unsigned nbytes, const int is_shifted, const high_cut *cut,
                               unsigned rotation, const uint8_t *src, const lmc_plane_set *dst, size_t i)
{
    uint8_t *const symbols = dst->symbols + i;
    uint8_t *const low = cut->low_nbits > 0 ? dst->low + i / 8 * cut->low_nbits : NULL;
    if (nbytes == 1) {
        uint8x16_t x = vld1q_u8(src);
        if (rotation)
            x = vsliq_n_u8(vshrq_n_u8(x, 7), x, 1);
        if (is_shifted)
            x = vaddq_u8(x, load_byte_shifts(dst->shift + i));
        return cut_bytes(cut, x, symbols, low);
    }
    if (nbytes == 2) {
        words16 x;
        for (unsigned k = 0; k < 2; k++) {
            x.val[k] = vreinterpretq_u16_u8(vld1q_u8(src + 16 * k));
            if (rotation)
                x.val[k] = vsliq_n_u16(vshrq_n_u16(x.val[k], 15), x.val[k], 1);
        }
        if (is_shifted)
            x = shift_words(x, dst->shift + i);
        return cut_high(cut, x, symbols, low);
    }
    uint32x4x4_t upper, lower;
    if (nbytes == 4)
        upper = load_dwords(src, rotation);
    else {
        load_halves(src, rotation, &lower, &upper);
        store_bytes_of(upper_words(lower), dst->lower + 2, i);
        store_bytes_of(lower_words(lower), dst->lower + 4, i);
    }
    store_bytes_of(lower_words(upper), dst->lower, i);
    words16 high_parts = upper_words(upper);
    if (is_shifted)
        high_parts = shift_words(high_parts, dst->shift + i);
    return cut_high(cut, high_parts, symbols, low);
}

/* Cuts a group of 64 elements; the low plane is written as pack_low() does. Returns the greatest symbols. */
LMC_INLINE uint8x16_t split_group(const unsigned nbytes, const int is_shifted, const high_cut *cut,
                                  unsigned rotation, const uint8_t *src, const lmc_plane_set *dst)
{
    uint8x16_t greatest = split_16(nbytes, is_shifted, cut, rotation, src, dst, 0);
    for (unsigned i = 16; i < GROUP; i += 16)
        greatest = vmaxq_u8(greatest, split_16(nbytes, is_shifted, cut, rotation, src + i * nbytes, dst, i));
    return greatest;
}

/* Cuts the last groups of a call, n <= 64 elements each, by way of buffers, since planes are written to their exact
 * ends. */
LMC_INLINE uint8x16_t split_last(const unsigned nbytes, const int is_shifted, const high_cut *cut,
                                 unsigned rotation, const uint8_t *src, size_t n, const lmc_plane_set *dst)
{
    uint8_t elements[8 * GROUP] = {0};
    uint8_t low[GROUP + 16];
    uint8_t lower[LMC_COUNT(dst->lower)][GROUP];
    memcpy(elements, src, n * nbytes);
    const lmc_plane_set planes = {
        dst->symbols, low, {lower[0], lower[1], lower[2], lower[3], lower[4], lower[5]}, dst->shift};
    split_group(nbytes, is_shifted, cut, rotation, elements, &planes);
    memset(dst->symbols + n, 0, GROUP - n);
    const size_t low_nbits = n * cut->low_nbits;
    if (low_nbits % 8 != 0)
        low[low_nbits / 8] &= (uint8_t)((1u << low_nbits % 8) - 1);
    if (low_nbits > 0)
        memcpy(dst->low, low, lmc_bits_nbytes(low_nbits));
    for (unsigned j = 0; j < LMC_COUNT(lower) && j + 2 < nbytes; j++)
        memcpy(dst->lower[j], lower[j], n);
    const uint8_t *const s = dst->symbols;
    return vmaxq_u8(vmaxq_u8(vld1q_u8(s), vld1q_u8(s + 16)), vmaxq_u8(vld1q_u8(s + 32), vld1q_u8(s + 48)));
}

LMC_INLINE unsigned split_elements(const unsigned nbytes, const int is_shifted, const lmc_split *split,
                                   const uint8_t *src, size_t n, const lmc_plane_set *dst)
{
    const unsigned p = split->low_nbits;
    const unsigned rotation = split->rotation;
    const high_cut cut = load_high_cut(split);
    const size_t overrun =
        p > 0 ? lmc_div_ceil(8 * (16 - 2 * p), p) : 0; /* that pack_low() writes too many */
    const lmc_plane_set planes = *dst;
    uint8x16_t greatest = vdupq_n_u8(0);
    size_t i = 0;
    for (; i + GROUP + overrun <= n; i += GROUP) {
        const lmc_plane_set at = planes_at(nbytes, &planes, p, i);
        greatest = vmaxq_u8(greatest, split_group(nbytes, is_shifted, &cut, rotation, src + i * nbytes, &at));
    }
    for (; i < n; i += GROUP) {
        const lmc_plane_set at = planes_at(nbytes, &planes, p, i);
        greatest = vmaxq_u8(greatest, split_last(nbytes, is_shifted, &cut, rotation, src + i * nbytes,
                                                 lmc_min_size(GROUP, n - i), &at));
    }
    return nbytes > 1 && p < 8 && vmaxvq_u8(greatest) == LMC_FMT_SYMBOL_ESCAPE;
}

/* ---- join ---- */

/* Registers for joining high parts. Low parts come to 16-bit lanes by the two bytes that hold each part, and a
 * shift. */
typedef struct high_join {
    unsigned low_nbits;
    uint8x16_t source[2]; /* for eight low parts each, in 16 bytes */
    int16x8_t down;
    uint16x8_t mask;
    uint16x8_t factor; /* 1 << low_nbits */
    uint16x8_t shift;  /* (window_start << low_nbits) - offset */
    unsigned rotation;
} high_join;

LMC_INLINE high_join load_high_join(const unsigned nbytes, const lmc_split *split)
{
    (void)nbytes; /* high parts have 16 bits here, whatever the element */
    const unsigned p = split->low_nbits;
    uint8_t source[2][16];
    int16_t down[8];
    for (unsigned k = 0; k < 8; k++) {
        source[0][2 * k] = (uint8_t)(k * p / 8);
        source[0][2 * k + 1] = (uint8_t)(k * p / 8 + 1);
        source[1][2 * k] = (uint8_t)(p + k * p / 8);
        source[1][2 * k + 1] = (uint8_t)(p + k * p / 8 + 1); /* at most 16, which reads as 0 */
        down[k] = (int16_t) - (int)(k * p % 8);
    }
    high_join join;
    join.low_nbits = p;
    join.source[0] = vld1q_u8(source[0]);
    join.source[1] = vld1q_u8(source[1]);
    join.down = vld1q_s16(down);
    join.mask = vdupq_n_u16((uint16_t)((1u << p) - 1));
    join.factor = vdupq_n_u16((uint16_t)(1u << p));
    join.shift = vdupq_n_u16((uint16_t)(((unsigned)split->window_start << p) - split->offset));
    join.rotation = split->rotation;
    return join;
}

/* Joins 16 high parts, before the rotation back. */
LMC_INLINE words16 join_high(const high_join *join, const lmc_plane_set *src, size_t i)
{
    const uint8x16_t s = vld1q_u8(src->symbols + i);
    const uint8x16_t low = vld1q_u8(src->low + i / 8 * join->low_nbits);
    const words16 wide = {{vmovl_u8(vget_low_u8(s)), vmovl_high_u8(s)}};
    words16 high_parts;
    for (unsigned k = 0; k < 2; k++) {
        const uint16x8_t two_bytes = vreinterpretq_u16_u8(vqtbl1q_u8(low, join->source[k]));
        const uint16x8_t parts = vandq_u16(vshlq_u16(two_bytes, join->down), join->mask);
        high_parts.val[k] = vmlaq_u16(vaddq_u16(parts, join->shift), wide.val[k], join->factor);
    }
    return high_parts;
}

LMC_INLINE words16 load_words(uint8_t *const *planes, size_t i)
{
    return words_of_bytes(vld1q_u8(planes[1] + i), vld1q_u8(planes[0] + i));
}

/* Joins 16 elements. */
LMC_INLINE void join_16(const unsigned nbytes, const int is_shifted, const high_join *join,
                        const lmc_plane_set *src, size_t i, uint8_t *dst)
{
    words16 high_parts = join_high(join, src, i);
    if (is_shifted)
        high_parts = take_shifts(high_parts, src->shift + i);
    if (nbytes == 1) {
        const uint8x16_t x = lower_bytes(high_parts);
        vst1q_u8(dst, join->rotation ? vsliq_n_u8(vshrq_n_u8(x, 1), x, 7) : x);
        return;
    }
    if (nbytes == 2) {
        for (unsigned k = 0; k < 2; k++) {
            const uint16x8_t x = high_parts.val[k];
            const uint16x8_t element = join->rotation ? vsliq_n_u16(vshrq_n_u16(x, 1), x, 15) : x;
            vst1q_u8(dst + 16 * k, vreinterpretq_u8_u16(element));
        }
        return;
    }
    const uint32x4x4_t upper = dwords_of_words(load_words(src->lower, i), high_parts);
    if (nbytes == 4) {
        for (unsigned k = 0; k < 4; k++) {
            const uint32x4_t x = upper.val[k];
            const uint32x4_t element = join->rotation ? vsliq_n_u32(vshrq_n_u32(x, 1), x, 31) : x;
            vst1q_u8(dst + 16 * k, vreinterpretq_u8_u32(element));
        }
        return;
    }
    const uint32x4x4_t lower = dwords_of_words(load_words(src->lower + 4, i), load_words(src->lower + 2, i));
    for (unsigned k = 0; k < 8; k++) {
        const uint32x4_t l = lower.val[k / 2], u = upper.val[k / 2];
        const uint64x2_t x = vreinterpretq_u64_u32(k % 2 ? vzip2q_u32(l, u) : vzip1q_u32(l, u));
        const uint64x2_t element = join->rotation ? vsliq_n_u64(vshrq_n_u64(x, 1), x, 63) : x;
        vst1q_u8(dst + 16 * k, vreinterpretq_u8_u64(element));
    }
}

LMC_INLINE void join_group(const unsigned nbytes, const int is_shifted, const high_join *join,
                           const lmc_plane_set *src, uint8_t *dst)
{
    for (unsigned i = 0; i < GROUP; i += 16)
        join_16(nbytes, is_shifted, join, src, i, dst + i * nbytes);
}

#endif
