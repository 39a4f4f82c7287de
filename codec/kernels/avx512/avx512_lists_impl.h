/*
 * avx512_lists_impl.h - scatters high parts of differences to the lists of their classes, and gathers them, for
 * kernels/avx512/avx512.c. A group of 64 high parts is compared with each class, and compressed to its list or expanded
 * from it. Include it after kernels/avx512/avx512_deltas_impl.h.
 */
#ifndef LMC_CODEC_KERNELS_AVX512_AVX512_LISTS_IMPL_H
#define LMC_CODEC_KERNELS_AVX512_AVX512_LISTS_IMPL_H

/* ---- lists ---- */

/* Two registers of high parts as bytes; 255 for high parts that do not fit. */
LMC_INLINE __m512i clamp_high(__m512i h0, __m512i h1)
{
    const __m512i most = _mm512_set1_epi16(LMC_HIGH_WIDE);
    return narrow_words((word_pair){{_mm512_min_epu16(h0, most), _mm512_min_epu16(h1, most)}},
                        order_from_words());
}

/* State of a walk over all elements for some classes, in the order of the classes. */
typedef struct class_walk {
    __m512i class[LMC_FMT_CLASS_COUNT_MAX];
    uint8_t *next[LMC_FMT_CLASS_COUNT_MAX];
    uint64_t wide[LMC_FMT_CLASS_COUNT_MAX]; /* of lists of bytes: not 0 if they have wide high parts */
    size_t upper[LMC_FMT_CLASS_COUNT_MAX];
    uint8_t has_bytes[LMC_FMT_CLASS_COUNT_MAX];
} class_walk;

LMC_INLINE void open_walk(const lmc_class_order *order, const lmc_high_lists *lists, class_walk *walk)
{
    for (unsigned k = 0; k < order->count; k++) {
        const unsigned c = order->class[k];
        walk->class[k] = _mm512_set1_epi8((char)c);
        walk->next[k] = lists->next[c];
        walk->wide[k] = 0;
        walk->upper[k] = lists->upper[c];
        walk->has_bytes[k] = lists->nbytes[c] == 1;
    }
}

LMC_INLINE void close_walk(const lmc_class_order *order, const class_walk *walk, lmc_high_lists *lists)
{
    for (unsigned k = 0; k < order->count; k++) {
        const unsigned c = order->class[k];
        lists->next[c] = walk->next[k];
        lists->wide |= (uint32_t)(walk->wide[k] != 0) << c;
    }
}

LMC_INLINE void append_high(uint8_t *to, uint64_t mask, word_pair high_parts)
{
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi16((__mmask32)mask, high_parts.word[0]));
    to += 2 * lmc_popcount64((uint32_t)mask);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi16((__mmask32)(mask >> 32), high_parts.word[1]));
}

/* Writes the upper bytes of a group's wide high parts to their lists of bytes, before their lower bytes are written. */
static void scatter_high(unsigned first, unsigned end, __m512i classes, word_pair high_parts, uint64_t wide,
                         uint64_t valid, class_walk *walk)
{
    const __m512i bytes = high_bytes(high_parts, order_from_words());
    for (unsigned k = first; k < end; k++) {
        const uint64_t mask = _mm512_mask_cmpeq_epi8_mask(valid, classes, walk->class[k]);
        if (!walk->has_bytes[k] || (mask & wide) == 0)
            continue;
        _mm512_storeu_si512(walk->next[k] + walk->upper[k], _mm512_maskz_compress_epi8(mask, bytes));
        walk->wide[k] |= mask & wide;
    }
}

/* Writes the high parts of a group that are of these classes. bytes_valid: lanes whose lists are of bytes. */
LMC_INLINE void scatter_group(unsigned first, unsigned end, const uint8_t *classes, const uint16_t *high,
                              uint64_t valid, uint64_t bytes_valid, class_walk *walk)
{
    const __m512i class = _mm512_loadu_si512(classes);
    const word_pair high_parts = {{_mm512_loadu_si512(high), _mm512_loadu_si512(high + 32)}};
    const __m512i clamped = clamp_high(high_parts.word[0], high_parts.word[1]);
    const uint64_t wide = _mm512_mask_cmpeq_epi8_mask(bytes_valid, clamped, _mm512_set1_epi8(-1));
    __m512i low = clamped;
    if (LMC_UNLIKELY(wide != 0)) {
        low = low_bytes(high_parts, order_from_words());
        scatter_high(first, end, class, high_parts, wide, valid, walk);
    }
    for (unsigned k = first; k < end; k++) {
        const uint64_t mask = _mm512_mask_cmpeq_epi8_mask(valid, class, walk->class[k]);
        const unsigned count = lmc_popcount64(mask);
        if (LMC_LIKELY(walk->has_bytes[k])) {
            _mm512_storeu_si512(walk->next[k], _mm512_maskz_compress_epi8(mask, low));
            walk->next[k] += count;
        } else {
            append_high(walk->next[k], mask, high_parts);
            walk->next[k] += 2 * count;
        }
    }
}

/* The elements of a strip whose classes are not taken directly. */
typedef struct rare_elements {
    size_t n;
    uint64_t mask[LMC_STRIP_VALUES / GROUP];
    uint8_t classes[LMC_STRIP_VALUES + GROUP];
    uint16_t high[LMC_STRIP_VALUES + GROUP];
} rare_elements;

/* For each class, all ones if it is not taken directly. */
LMC_INLINE __m512i load_rare(const lmc_class_order *order)
{
    uint8_t is_rare[16] = {0};
    for (unsigned k = order->direct_count; k < order->count; k++)
        is_rare[order->class[k]] = 0xff;
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)is_rare));
}

/* For each class, all ones if its list has one byte a high part. */
LMC_INLINE __m512i load_bytes_kind(const lmc_high_lists *lists)
{
    const __m128i nbytes = _mm_loadu_si128((const __m128i *)(const void *)lists->nbytes);
    return _mm512_broadcast_i32x4(_mm_cmpeq_epi8(nbytes, _mm_set1_epi8(1)));
}

/* Fetches the next nbytes, line by line, and moves *ahead behind them. */
LMC_INLINE void fetch_lines(const uint8_t **ahead, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i += 64)
        fetch(*ahead, i);
    *ahead = (const uint8_t *)((uintptr_t)*ahead + nbytes);
}

LMC_INLINE size_t group_share(size_t ahead_nbytes, size_t n)
{
    return ahead_nbytes / ((n + GROUP - 1) / GROUP);
}

static void scatter(const lmc_class_order *order, const uint8_t *classes, const uint16_t *high, size_t n,
                    lmc_high_lists *lists, const uint8_t *ahead, size_t ahead_nbytes)
{
    const unsigned direct = order->direct_count;
    const int has_rare = direct < order->count;
    const __m512i is_rare = load_rare(order), has_bytes = load_bytes_kind(lists);
    const __m512i looked_at = _mm512_andnot_si512(is_rare, has_bytes);
    const size_t share = n > 0 ? group_share(ahead_nbytes, n) : 0;
    class_walk walk;
    rare_elements rare;
    rare.n = 0;
    open_walk(order, lists, &walk);
    for (size_t i = 0; i < n; i += GROUP) {
        const __m512i class = _mm512_loadu_si512(classes + i);
        const uint64_t valid = valid_lanes(n - i);
        const uint64_t bytes_valid = _mm512_movepi8_mask(_mm512_shuffle_epi8(looked_at, class)) & valid;
        fetch_lines(&ahead, share);
        scatter_group(0, direct, classes + i, high + i, valid, bytes_valid, &walk);
        if (!has_rare)
            continue;
        const uint64_t others = _mm512_movepi8_mask(_mm512_shuffle_epi8(is_rare, class)) & valid;
        const word_pair high_parts = {{_mm512_loadu_si512(high + i), _mm512_loadu_si512(high + i + 32)}};
        _mm512_storeu_si512(rare.classes + rare.n, _mm512_maskz_compress_epi8(others, class));
        append_high((uint8_t *)(rare.high + rare.n), others, high_parts);
        rare.n += lmc_popcount64(others);
    }
    for (size_t i = 0; i < rare.n; i += GROUP) {
        const __m512i class = _mm512_loadu_si512(rare.classes + i);
        const uint64_t valid = valid_lanes(rare.n - i);
        const uint64_t bytes_valid = _mm512_movepi8_mask(_mm512_shuffle_epi8(has_bytes, class)) & valid;
        scatter_group(direct, order->count, rare.classes + i, rare.high + i, valid, bytes_valid, &walk);
    }
    close_walk(order, &walk, lists);
}

/* Takes the high parts of a group that are of these classes. The other lanes of `words` stay as they are, those of
 * the bytes are 0. */
LMC_INLINE word_pair gather_classes(unsigned first, unsigned end, __m512i classes, uint64_t valid,
                                    class_walk *walk, word_pair words)
{
    const __m512i zero = _mm512_setzero_si512();
    const __m512i halves =
        _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7); /* in the order of unpacking lane by lane */
    __m512i bytes = zero;
    for (unsigned k = first; k < end; k++) {
        const uint64_t mask = _mm512_mask_cmpeq_epi8_mask(valid, classes, walk->class[k]);
        const uint8_t *const next = walk->next[k];
        const unsigned count = lmc_popcount64(mask);
        if (LMC_LIKELY(walk->has_bytes[k])) {
            bytes = _mm512_mask_expand_epi8(bytes, mask, _mm512_loadu_si512(next));
            walk->next[k] += count;
            continue;
        }
        const uint8_t *const second = next + 2 * lmc_popcount64((uint32_t)mask);
        words.word[0] = _mm512_mask_expand_epi16(words.word[0], (__mmask32)mask, _mm512_loadu_si512(next));
        words.word[1] =
            _mm512_mask_expand_epi16(words.word[1], (__mmask32)(mask >> 32), _mm512_loadu_si512(second));
        walk->next[k] += 2 * count;
    }
    bytes = _mm512_permutexvar_epi64(halves, bytes);
    words.word[0] = _mm512_or_si512(words.word[0], _mm512_unpacklo_epi8(bytes, zero));
    words.word[1] = _mm512_or_si512(words.word[1], _mm512_unpackhi_epi8(bytes, zero));
    return words;
}

/* Takes the high parts of classes that are not taken directly, in order. */
LMC_INLINE void gather_rare(const lmc_class_order *order, const uint8_t *classes, size_t n, class_walk *walk,
                            rare_elements *rare)
{
    const __m512i is_rare = load_rare(order), zero = _mm512_setzero_si512();
    rare->n = 0;
    for (size_t i = 0; i < n; i += GROUP) {
        const __m512i class = _mm512_loadu_si512(classes + i);
        const uint64_t mask = _mm512_movepi8_mask(_mm512_shuffle_epi8(is_rare, class)) & valid_lanes(n - i);
        rare->mask[i / GROUP] = mask;
        _mm512_storeu_si512(rare->classes + rare->n, _mm512_maskz_compress_epi8(mask, class));
        rare->n += lmc_popcount64(mask);
    }
    for (size_t i = 0; i < rare->n; i += GROUP) {
        const __m512i class = _mm512_loadu_si512(rare->classes + i);
        const word_pair high_parts =
            gather_classes(order->direct_count, order->count, class, valid_lanes(rare->n - i), walk,
                           (word_pair){{zero, zero}});
        _mm512_storeu_si512(rare->high + i, high_parts.word[0]);
        _mm512_storeu_si512(rare->high + i + 32, high_parts.word[1]);
    }
}

static void gather(const lmc_class_order *order, const uint8_t *classes, size_t n, lmc_high_lists *lists,
                   uint16_t *high, const uint8_t *ahead, size_t ahead_nbytes)
{
    const __m512i zero = _mm512_setzero_si512();
    const int has_rare = order->direct_count < order->count;
    const size_t share = n > 0 ? group_share(ahead_nbytes, n) : 0;
    class_walk walk;
    rare_elements rare;
    const uint16_t *next = rare.high;
    open_walk(order, lists, &walk);
    if (has_rare)
        gather_rare(order, classes, n, &walk, &rare);
    for (size_t i = 0; i < n; i += GROUP) {
        word_pair high_parts = {{zero, zero}};
        fetch_lines(&ahead, share);
        for (unsigned k = 0; has_rare && k < 2; k++) {
            const uint32_t mask = (uint32_t)(rare.mask[i / GROUP] >> 32 * k);
            high_parts.word[k] = _mm512_maskz_expand_epi16(mask, _mm512_loadu_si512(next));
            next += lmc_popcount64(mask);
        }
        high_parts = gather_classes(0, order->direct_count, _mm512_loadu_si512(classes + i),
                                    valid_lanes(n - i), &walk, high_parts);
        _mm512_storeu_si512(high + i, high_parts.word[0]);
        _mm512_storeu_si512(high + i + 32, high_parts.word[1]);
    }
    close_walk(order, &walk, lists);
}

/* ---- sign changes ---- */

static void take_sign_changes(uint16_t *high, size_t n, uint64_t *sign_changes)
{
    const __m512i magnitude = _mm512_set1_epi16(0x7fff);
    for (size_t i = 0; i < n; i += GROUP) {
        const __m512i h0 = _mm512_loadu_si512(high + i);
        const __m512i h1 = _mm512_loadu_si512(high + i + 32);
        const uint64_t word = _mm512_movepi16_mask(h0) | (uint64_t)_mm512_movepi16_mask(h1) << 32;
        sign_changes[i / GROUP] = n - i < GROUP ? _bzhi_u64(word, (unsigned)(n - i)) : word;
        _mm512_storeu_si512(high + i, _mm512_and_si512(h0, magnitude));
        _mm512_storeu_si512(high + i + 32, _mm512_and_si512(h1, magnitude));
    }
}

static void put_sign_changes(uint16_t *high, size_t n, const uint64_t *sign_changes)
{
    const __m512i top = _mm512_set1_epi16((short)0x8000);
    for (size_t i = 0; i < n; i += GROUP) {
        const uint64_t word = sign_changes[i / GROUP];
        if (word == 0)
            continue;
        for (unsigned h = 0; h < GROUP; h += 32) {
            const __m512i v = _mm512_loadu_si512(high + i + h);
            const __m512i with_sign = _mm512_or_si512(v, top);
            _mm512_storeu_si512(high + i + h, _mm512_mask_mov_epi16(v, (__mmask32)(word >> h), with_sign));
        }
    }
}

#endif
