/*
 * avx2_lists_impl.h - scatters high parts of differences to the lists of their classes, and gathers them, for the sets
 * avx2 and avx2-nopext. 32 elements are compared with a class. The bytes of those that belong to it are packed, eight
 * at a time, and their list grows by them. The elements of rare classes are brought together first, so that these
 * classes go through few elements.
 */
#ifndef LMC_CODEC_KERNELS_AVX2_AVX2_LISTS_IMPL_H
#define LMC_CODEC_KERNELS_AVX2_AVX2_LISTS_IMPL_H

#define LIST_GROUP 32

/* The high parts of a strip as two bytes each. Elements beyond its n are of no class. */
typedef struct list_strip {
    size_t n;
    uint8_t classes[LMC_STRIP_VALUES + LIST_GROUP];
    uint8_t lower[LMC_STRIP_VALUES + LIST_GROUP];
    uint8_t upper[LMC_STRIP_VALUES + LIST_GROUP];
} list_strip;

#define NO_CLASS 255

LMC_INLINE size_t whole_list_groups(size_t n)
{
    return (n + LIST_GROUP - 1) & ~(size_t)(LIST_GROUP - 1);
}

/* Copies n classes, and NO_CLASS behind them up to a whole group. */
LMC_INLINE void copy_classes(const uint8_t *classes, size_t n, list_strip *strip)
{
    strip->n = n;
    for (size_t i = 0; i < n; i += LIST_GROUP)
        store256(strip->classes + i, load256(classes + i));
    memset(strip->classes + n, NO_CLASS, whole_list_groups(n) - n);
}

/* Bytes are 255 for each class that is not taken directly; `rare` looks them up. */
LMC_INLINE __m256i load_rare(const lmc_class_order *order)
{
    uint8_t is_rare[LMC_FMT_CLASS_COUNT_MAX] = {0};
    for (unsigned k = order->direct_count; k < order->count; k++)
        is_rare[order->class[k]] = 255;
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)is_rare));
}

/* The lower, or the upper, bytes of 32 words. */
LMC_INLINE __m256i lower_bytes_of(__m256i w0, __m256i w1)
{
    const __m256i byte = _mm256_set1_epi16(0xff);
    return _mm256_permute4x64_epi64(
        _mm256_packus_epi16(_mm256_and_si256(w0, byte), _mm256_and_si256(w1, byte)), 0xd8);
}

LMC_INLINE __m256i upper_bytes_of(__m256i w0, __m256i w1)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(_mm256_srli_epi16(w0, 8), _mm256_srli_epi16(w1, 8)),
                                    0xd8);
}

/* ---- scatter ---- */

/* Classes as a set: a bit for each of 0..7 in bytes of lower, of 8..15 in those of upper. */
typedef struct class_bits {
    __m256i lower, upper;
} class_bits;

LMC_INLINE void add_classes(class_bits *bits, __m256i classes, __m256i chosen)
{
    const __m256i bit = _mm256_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16,
                                         32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m256i of_upper = _mm256_permute4x64_epi64(bit, 0xb1); /* halves of each lane change places */
    const __m256i lower = _mm256_shuffle_epi8(bit, classes), upper = _mm256_shuffle_epi8(of_upper, classes);
    bits->lower = _mm256_or_si256(bits->lower, _mm256_and_si256(lower, chosen));
    bits->upper = _mm256_or_si256(bits->upper, _mm256_and_si256(upper, chosen));
}

/* All bytes together. */
LMC_INLINE uint32_t any_byte(__m256i v)
{
    __m128i half = _mm_or_si128(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    half = _mm_or_si128(half, _mm_srli_si128(half, 8));
    half = _mm_or_si128(half, _mm_srli_si128(half, 4));
    half = _mm_or_si128(half, _mm_srli_si128(half, 2));
    half = _mm_or_si128(half, _mm_srli_si128(half, 1));
    return (uint32_t)_mm_cvtsi128_si32(half) & 0xff;
}

/* Fills the strip. Returns a bit for each class that has a wide high part. */
static uint32_t fill_strip(const uint8_t *classes, const uint16_t *high, size_t n, const uint8_t *ahead,
                           size_t ahead_nbytes, list_strip *strip)
{
    const __m256i zero = _mm256_setzero_si256(), most = _mm256_set1_epi8((char)LMC_HIGH_WIDE);
    const size_t share = n > 0 ? ahead_nbytes / (whole_list_groups(n) / LIST_GROUP) : 0;
    class_bits wide_classes = {zero, zero};
    int any = 0;
    copy_classes(classes, n, strip);
    for (size_t i = 0; i < n; i += LIST_GROUP) {
        const __m256i h0 = load256(high + i), h1 = load256(high + i + LIST_GROUP / 2);
        const __m256i lower = lower_bytes_of(h0, h1), upper = upper_bytes_of(h0, h1);
        const __m256i narrow =
            _mm256_andnot_si256(_mm256_cmpeq_epi8(lower, most), _mm256_cmpeq_epi8(upper, zero));
        for (size_t at = 0; at < share; at += 64)
            fetch(ahead, i / LIST_GROUP * share + at);
        store256(strip->lower + i, lower);
        store256(strip->upper + i, upper);
        if (LMC_UNLIKELY(_mm256_movemask_epi8(narrow) != -1)) {
            add_classes(&wide_classes, load256(strip->classes + i),
                        _mm256_andnot_si256(narrow, _mm256_set1_epi8(-1)));
            any = 1;
        }
    }
    return any ? any_byte(wide_classes.lower) | any_byte(wide_classes.upper) << 8 : 0;
}

/* Appends the bytes of a class to `to`. Returns its end; up to 8 bytes behind it become 0. */
LMC_INLINE uint8_t *append_of_class(const list_strip *strip, const uint8_t *bytes, __m256i class, uint8_t *to)
{
    for (size_t i = 0; i < strip->n; i += LIST_GROUP) {
        const byte_marks marks = mark_bytes(_mm256_cmpeq_epi8(load256(strip->classes + i), class));
        for (unsigned j = 0; j < LIST_GROUP / 8; j++) {
            lmc_store64(to, pack_marked(lmc_load64(bytes + i + 8 * j), &marks, j));
            to += count_marked(&marks, j);
        }
    }
    return to;
}

/* As append_of_class(), for both bytes of each high part. */
LMC_INLINE uint8_t *append_words_of_class(const list_strip *strip, __m256i class, uint8_t *to)
{
    for (size_t i = 0; i < strip->n; i += LIST_GROUP) {
        const byte_marks marks = mark_bytes(_mm256_cmpeq_epi8(load256(strip->classes + i), class));
        for (unsigned j = 0; j < LIST_GROUP / 8; j++) {
            const uint64_t lower = pack_marked(lmc_load64(strip->lower + i + 8 * j), &marks, j);
            const uint64_t upper = pack_marked(lmc_load64(strip->upper + i + 8 * j), &marks, j);
            const __m128i words =
                _mm_unpacklo_epi8(_mm_cvtsi64_si128((long long)lower), _mm_cvtsi64_si128((long long)upper));
            _mm_storeu_si128((__m128i *)(void *)to, words);
            to += 2 * count_marked(&marks, j);
        }
    }
    return to;
}

static void scatter_classes(const list_strip *strip, const uint8_t *classes, unsigned count, uint32_t wide,
                            lmc_high_lists *lists)
{
    for (unsigned k = 0; k < count; k++) {
        const unsigned c = classes[k];
        const __m256i class = _mm256_set1_epi8((char)c);
        uint8_t *const to = lists->next[c];
        if (lists->nbytes[c] == 2) {
            lists->next[c] = append_words_of_class(strip, class, to);
            continue;
        }
        lists->next[c] = append_of_class(strip, strip->lower, class, to);
        if (wide >> c & 1) {
            (void)append_of_class(strip, strip->upper, class, to + lists->upper[c]);
            lists->wide |= 1u << c;
        }
    }
}

/* Brings the elements of classes that are not taken directly together. */
static void take_rare(const list_strip *strip, const lmc_class_order *order, int has_upper, list_strip *rare)
{
    const __m256i is_rare = load_rare(order);
    size_t n = 0;
    for (size_t i = 0; i < strip->n; i += LIST_GROUP) {
        const byte_marks marks = mark_bytes(_mm256_shuffle_epi8(is_rare, load256(strip->classes + i)));
        for (unsigned j = 0; j < LIST_GROUP / 8; j++) {
            const size_t at = i + 8 * j;
            lmc_store64(rare->classes + n, pack_marked(lmc_load64(strip->classes + at), &marks, j));
            lmc_store64(rare->lower + n, pack_marked(lmc_load64(strip->lower + at), &marks, j));
            if (has_upper)
                lmc_store64(rare->upper + n, pack_marked(lmc_load64(strip->upper + at), &marks, j));
            n += count_marked(&marks, j);
        }
    }
    rare->n = n;
    memset(rare->classes + n, NO_CLASS, whole_list_groups(n) - n);
}

/* Has a list two bytes for each high part? */
LMC_INLINE int have_words(const lmc_class_order *order, const lmc_high_lists *lists)
{
    unsigned any = 0;
    for (unsigned k = 0; k < order->count; k++)
        any |= lists->nbytes[order->class[k]];
    return any > 1;
}

static void scatter(const lmc_class_order *order, const uint8_t *classes, const uint16_t *high, size_t n,
                    lmc_high_lists *lists, const uint8_t *ahead, size_t ahead_nbytes)
{
    const unsigned direct = order->direct_count;
    list_strip strip, rare;
    const uint32_t wide = fill_strip(classes, high, n, ahead, ahead_nbytes, &strip);
    scatter_classes(&strip, order->class, direct, wide, lists);
    if (direct == order->count)
        return;
    take_rare(&strip, order, wide != 0 || have_words(order, lists), &rare);
    scatter_classes(&rare, order->class + direct, order->count - direct, wide, lists);
}

/* ---- gather ---- */

/* Takes the high parts of one class for 32 elements. The other bytes stay as they are; those of the class were 0. */
LMC_INLINE const uint8_t *take_of_class(const byte_marks *marks, const uint8_t *next, uint64_t *lower)
{
    for (unsigned j = 0; j < LIST_GROUP / 8; j++) {
        lower[j] |= spread_to_marked(lmc_load64(next), marks, j);
        next += count_marked(marks, j);
    }
    return next;
}

/* The same for lists of two bytes. */
LMC_INLINE const uint8_t *take_words_of_class(const byte_marks *marks, const uint8_t *next, uint64_t *lower,
                                              uint64_t *upper)
{
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    for (unsigned j = 0; j < LIST_GROUP / 8; j++) {
        const __m128i words = _mm_loadu_si128((const __m128i *)(const void *)next);
        const __m128i parts = _mm_shuffle_epi8(words, order);
        lower[j] |= spread_to_marked((uint64_t)_mm_cvtsi128_si64(parts), marks, j);
        upper[j] |= spread_to_marked((uint64_t)_mm_extract_epi64(parts, 1), marks, j);
        next += 2 * count_marked(marks, j);
    }
    return next;
}

/* Takes the high parts of `count` classes for all elements of the strip. Those of other classes come from `rare`, which
 * has them in order; NULL: there are none, or they become 0. */
static void gather_classes(const uint8_t *classes, unsigned count, const list_strip *rare, __m256i is_rare,
                           lmc_high_lists *lists, list_strip *strip)
{
    size_t next_rare = 0;
    for (size_t i = 0; i < strip->n; i += LIST_GROUP) {
        const __m256i class = load256(strip->classes + i);
        uint64_t lower[LIST_GROUP / 8] = {0}, upper[LIST_GROUP / 8] = {0};
        if (rare) {
            const byte_marks marks = mark_bytes(_mm256_shuffle_epi8(is_rare, class));
            const uint8_t *const from = rare->lower + next_rare;
            next_rare = (size_t)(take_of_class(&marks, from, lower) - rare->lower);
            (void)take_of_class(&marks, rare->upper + (from - rare->lower), upper);
        }
        for (unsigned k = 0; k < count; k++) {
            const unsigned c = classes[k];
            const byte_marks marks = mark_bytes(_mm256_cmpeq_epi8(class, _mm256_set1_epi8((char)c)));
            const uint8_t *const next = lists->next[c];
            lists->next[c] = (uint8_t *)(uintptr_t)(lists->nbytes[c] == 1
                                                        ? take_of_class(&marks, next, lower)
                                                        : take_words_of_class(&marks, next, lower, upper));
        }
        memcpy(strip->lower + i, lower, sizeof lower);
        memcpy(strip->upper + i, upper, sizeof upper);
    }
}

/* Gathers the high parts of classes that are not taken directly, in order. */
static void gather_rare(const lmc_class_order *order, const list_strip *strip, lmc_high_lists *lists,
                        list_strip *rare)
{
    const __m256i is_rare = load_rare(order);
    size_t n = 0;
    for (size_t i = 0; i < strip->n; i += LIST_GROUP) {
        const byte_marks marks = mark_bytes(_mm256_shuffle_epi8(is_rare, load256(strip->classes + i)));
        for (unsigned j = 0; j < LIST_GROUP / 8; j++) {
            lmc_store64(rare->classes + n, pack_marked(lmc_load64(strip->classes + i + 8 * j), &marks, j));
            n += count_marked(&marks, j);
        }
    }
    rare->n = n;
    memset(rare->classes + n, NO_CLASS, whole_list_groups(n) - n);
    gather_classes(order->class + order->direct_count, order->count - order->direct_count, NULL,
                   _mm256_setzero_si256(), lists, rare);
    memset(rare->lower + whole_list_groups(n), 0, 8); /* taken from too: eight at a time */
    memset(rare->upper + whole_list_groups(n), 0, 8);
}

static void gather(const lmc_class_order *order, const uint8_t *classes, size_t n, lmc_high_lists *lists,
                   uint16_t *high, const uint8_t *ahead, size_t ahead_nbytes)
{
    const size_t share = n > 0 ? ahead_nbytes / (whole_list_groups(n) / LIST_GROUP) : 0;
    const int has_rare = order->direct_count < order->count;
    list_strip strip, rare;
    copy_classes(classes, n, &strip);
    if (has_rare)
        gather_rare(order, &strip, lists, &rare);
    gather_classes(order->class, order->direct_count, has_rare ? &rare : NULL, load_rare(order), lists,
                   &strip);
    for (size_t i = 0; i < n; i += LIST_GROUP) {
        for (size_t at = 0; at < share; at += 64)
            fetch(ahead, i / LIST_GROUP * share + at);
        for (unsigned h = 0; h < LIST_GROUP; h += 16) {
            const __m128i lower = _mm_loadu_si128((const __m128i *)(const void *)(strip.lower + i + h));
            const __m128i upper = _mm_loadu_si128((const __m128i *)(const void *)(strip.upper + i + h));
            store256(high + i + h,
                     _mm256_set_m128i(_mm_unpackhi_epi8(lower, upper), _mm_unpacklo_epi8(lower, upper)));
        }
    }
}

#endif
