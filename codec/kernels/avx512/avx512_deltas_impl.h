/*
 * avx512_deltas_impl.h - compares elements with the base and classifies the base, for kernels/avx512/avx512.c, 64
 * elements at a time. Classes come from a look-up of the keys.
 */
#ifndef LMC_CODEC_KERNELS_AVX512_AVX512_DELTAS_IMPL_H
#define LMC_CODEC_KERNELS_AVX512_AVX512_DELTAS_IMPL_H

static const uint8_t bytes_in_order[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                           16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                           32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                           48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

/* ---- lanes of an element's width; `nbytes` is a constant wherever these are used ---- */

LMC_INLINE __m512i lanes_set(const unsigned nbytes, uint64_t x)
{
    return nbytes == 2   ? _mm512_set1_epi16((short)x)
           : nbytes == 4 ? _mm512_set1_epi32((int)x)
                         : _mm512_set1_epi64((long long)x);
}

LMC_INLINE __m512i lanes_add(const unsigned nbytes, __m512i a, __m512i b)
{
    return nbytes == 2   ? _mm512_add_epi16(a, b)
           : nbytes == 4 ? _mm512_add_epi32(a, b)
                         : _mm512_add_epi64(a, b);
}

LMC_INLINE __m512i lanes_sub(const unsigned nbytes, __m512i a, __m512i b)
{
    return nbytes == 2   ? _mm512_sub_epi16(a, b)
           : nbytes == 4 ? _mm512_sub_epi32(a, b)
                         : _mm512_sub_epi64(a, b);
}

LMC_INLINE __m512i lanes_left(const unsigned nbytes, __m512i a, unsigned count)
{
    const __m128i c = _mm_cvtsi32_si128((int)count);
    return nbytes == 2   ? _mm512_sll_epi16(a, c)
           : nbytes == 4 ? _mm512_sll_epi32(a, c)
                         : _mm512_sll_epi64(a, c);
}

LMC_INLINE __m512i lanes_right(const unsigned nbytes, __m512i a, unsigned count)
{
    const __m128i c = _mm_cvtsi32_si128((int)count);
    return nbytes == 2   ? _mm512_srl_epi16(a, c)
           : nbytes == 4 ? _mm512_srl_epi32(a, c)
                         : _mm512_srl_epi64(a, c);
}

/* Elements of 1 byte take lanes of 2. */
#define DELTA_LANE(nbytes) ((nbytes) == 1 ? 2 : (nbytes))

/* All ones where the top bit is set. */
LMC_INLINE __m512i lanes_sign(const unsigned nbytes, __m512i a)
{
    return nbytes == 2   ? _mm512_srai_epi16(a, 15)
           : nbytes == 4 ? _mm512_srai_epi32(a, 31)
                         : _mm512_srai_epi64(a, 63);
}

/* mask ? a : b */
LMC_INLINE __m512i choose_bits(__m512i mask, __m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi64(mask, a, b, 0xca);
}

/* Loads 64 elements; elements of 1 byte go to the upper half of each lane. */
LMC_INLINE void load_wide(const unsigned nbytes, const uint8_t *src, size_t n, __m512i *x)
{
    if (nbytes > 1) {
        load_elements(nbytes, src, n, x);
        return;
    }
    const __m512i bytes = load_first(src, n);
    x[0] = _mm512_slli_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(bytes)), 8);
    x[1] = _mm512_slli_epi16(_mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(bytes, 1)), 8);
}

/* The lower halves of 64 lanes of 8 bytes. Lanes of 4 bytes stay as they are. */
LMC_INLINE void gather_dwords(const unsigned nbytes, const __m512i *x, __m512i dwords[4])
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    for (unsigned i = 0; i < 4; i++)
        dwords[i] = nbytes == 4 ? x[i] : _mm512_permutex2var_epi32(x[2 * i], even, x[2 * i + 1]);
}

/* The lowest bytes of 64 lanes, whose other bits are 0. */
LMC_INLINE __m512i narrow_lanes(const unsigned nbytes, const __m512i *x)
{
    if (nbytes <= 2)
        return narrow_words((word_pair){{x[0], x[1]}}, order_from_words());
    __m512i dwords[4];
    gather_dwords(nbytes, x, dwords);
    const word_pair words = {
        {_mm512_packus_epi32(dwords[0], dwords[1]), _mm512_packus_epi32(dwords[2], dwords[3])}};
    return narrow_words(words, order_from_dwords());
}

/* Bits [shift, shift + 8) of each lane, in order. */
LMC_INLINE __m512i lane_bytes(const unsigned nbytes, const __m512i *x, unsigned shift)
{
    const unsigned width = DELTA_LANE(nbytes);
    __m512i part[8];
    for (unsigned i = 0; i < DELTA_LANE(nbytes); i++)
        part[i] = _mm512_and_si512(lanes_right(width, x[i], shift), lanes_set(width, 0xff));
    return narrow_lanes(nbytes, part);
}

/* ---- classes ---- */

/* The first n of a group's lanes. */
LMC_INLINE uint64_t valid_lanes(size_t n)
{
    return LMC_LIKELY(n >= GROUP) ? ALL : lmc_low_mask((unsigned)n);
}

/* Tables for the class of each key. One register is enough if the first keys of the classes are near each other. */
typedef struct class_book {
    __m512i class[4];
    __m512i below; /* the near form: keys up to this one are of class 0 */
    int is_near;
} class_book;

LMC_INLINE class_book load_classes(const lmc_delta *delta)
{
    const __m512i one = _mm512_set1_epi8(1);
    const unsigned count = delta->class_count;
    const unsigned below = count > 1 ? delta->first_key[1] - 1u : 0;
    class_book book = {.is_near = delta->first_key[count - 1] < below + 64};
    const __m512i step = _mm512_set1_epi8(64);
    book.below = _mm512_set1_epi8((char)below);
    __m512i keys = _mm512_loadu_si512(bytes_in_order);
    if (book.is_near)
        keys = _mm512_adds_epu8(keys, book.below);
    for (unsigned i = 0; i < (book.is_near ? 1 : 4); i++) {
        book.class[i] = _mm512_setzero_si512();
        for (unsigned c = 1; c < count; c++) {
            const __m512i first = _mm512_set1_epi8((char)delta->first_key[c]);
            book.class[i] =
                _mm512_mask_add_epi8(book.class[i], _mm512_cmpge_epu8_mask(keys, first), book.class[i], one);
        }
        keys = _mm512_add_epi8(keys, step);
    }
    return book;
}

LMC_INLINE __m512i look_up_classes(const class_book *book, __m512i keys)
{
    if (LMC_LIKELY(book->is_near)) {
        const __m512i index = _mm512_min_epu8(_mm512_subs_epu8(keys, book->below), _mm512_set1_epi8(63));
        return _mm512_permutexvar_epi8(index, book->class[0]);
    }
    const __m512i lower = _mm512_permutex2var_epi8(book->class[0], keys, book -> class[1]);
    const __m512i upper = _mm512_permutex2var_epi8(book->class[2], keys, book -> class[3]);
    return _mm512_mask_mov_epi8(lower, _mm512_movepi8_mask(keys), upper);
}

/* For each class: the lanes of a group, or a number. Classes 0 to 7 and 8 to 15. */
typedef struct class_words {
    __m512i half[2];
} class_words;

/* The lanes of each class: one bit of the class number after the other is compared. */
LMC_INLINE class_words class_lanes(__m512i classes, uint64_t valid)
{
    const __m512i not_bit_0 = _mm512_setr_epi64(-1, 0, -1, 0, -1, 0, -1, 0);
    const __m512i not_bit_1 = _mm512_setr_epi64(-1, -1, 0, 0, -1, -1, 0, 0);
    const __m512i not_bit_2 = _mm512_setr_epi64(-1, -1, -1, -1, 0, 0, 0, 0);
    const uint64_t upper = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(8));
    const __m512i bit_0 = _mm512_set1_epi64((long long)_mm512_test_epi8_mask(classes, _mm512_set1_epi8(1)));
    const __m512i bit_1 = _mm512_set1_epi64((long long)_mm512_test_epi8_mask(classes, _mm512_set1_epi8(2)));
    const __m512i bit_2 = _mm512_set1_epi64((long long)_mm512_test_epi8_mask(classes, _mm512_set1_epi8(4)));
    __m512i lanes = _mm512_xor_si512(bit_0, not_bit_0);
    lanes = _mm512_ternarylogic_epi64(lanes, bit_1, not_bit_1, 0x60); /* a & (b ^ c) */
    lanes = _mm512_ternarylogic_epi64(lanes, bit_2, not_bit_2, 0x60);
    return (class_words){{_mm512_and_si512(lanes, _mm512_set1_epi64((long long)(valid & ~upper))),
                          _mm512_and_si512(lanes, _mm512_set1_epi64((long long)(valid & upper)))}};
}

LMC_INLINE void add_lanes(class_words *counts, const class_words *lanes)
{
    for (unsigned k = 0; k < 2; k++)
        counts->half[k] = _mm512_add_epi64(counts->half[k], _mm512_popcnt_epi64(lanes->half[k]));
}

LMC_INLINE void add_counts(size_t *counts, unsigned class_count, const class_words *sums)
{
    uint64_t sum[LMC_FMT_CLASS_COUNT_MAX];
    _mm512_storeu_si512(sum, sums->half[0]);
    _mm512_storeu_si512(sum + 8, sums->half[1]);
    for (unsigned c = 0; c < class_count; c++)
        counts[c] += (size_t)sum[c];
}

/* The keys of a group; the bits above them are not cleared. */
LMC_INLINE __m512i load_keys(const unsigned nbytes, unsigned key_shift, const uint8_t *base, size_t n)
{
    __m512i x[8];
    load_elements(nbytes, base, n, x);
    return nbytes == 1 ? _mm512_srl_epi16(x[0], _mm_cvtsi32_si128((int)key_shift))
                       : lane_bytes(nbytes, x, key_shift);
}

LMC_INLINE void classify_elements(const unsigned nbytes, const lmc_delta *delta, const uint8_t *base,
                                  size_t n, uint8_t *classes, size_t *counts)
{
    const uint64_t used =
        lmc_low_mask(8 * nbytes) >> (delta->transform == LMC_FMT_DELTA_MAGNITUDE) >> delta->key_shift;
    const __m512i key_mask = _mm512_set1_epi8((char)used);
    const unsigned key_shift = delta->key_shift;
    const class_book book = load_classes(delta);
    class_words sums = {{_mm512_setzero_si512(), _mm512_setzero_si512()}};
    for (size_t g = 0; g < n; g += GROUP) {
        for (unsigned k = 0; k < nbytes; k++)
            fetch(base + g * nbytes + 64 * k, LMC_STRIP_VALUES * nbytes);
        const __m512i keys = load_keys(nbytes, key_shift, base + g * nbytes, n - g);
        const __m512i group = look_up_classes(&book, _mm512_and_si512(keys, key_mask));
        _mm512_storeu_si512(classes + g, group);
        if (counts) {
            const class_words lanes = class_lanes(group, valid_lanes(n - g));
            add_lanes(&sums, &lanes);
        }
    }
    if (counts)
        add_counts(counts, delta->class_count, &sums);
}

/* ---- split and join ---- */

/* Differences of 64 elements from the base's, and the XOR of both for its top bits. */
LMC_INLINE void compare_group(const unsigned transform, const unsigned nbytes, const uint8_t *src,
                              const uint8_t *base, size_t n, __m512i *z, __m512i *sign_changes)
{
    const unsigned width = DELTA_LANE(nbytes);
    const __m512i magnitude = lanes_set(width, lmc_low_mask(8 * width) >> 1);
    __m512i x[8], b[8];
    load_wide(nbytes, src, n, x);
    load_wide(nbytes, base, n, b);
    for (unsigned i = 0; i < DELTA_LANE(nbytes); i++) {
        sign_changes[i] = _mm512_xor_si512(x[i], b[i]);
        if (transform == LMC_FMT_DELTA_XOR) {
            z[i] = sign_changes[i];
            continue;
        }
        __m512i d = lanes_sub(width, x[i], b[i]);
        if (transform == LMC_FMT_DELTA_MAGNITUDE)
            d = lanes_left(width, d, 1); /* the sign bits drop out */
        const __m512i sign = lanes_sign(width, d);
        if (transform == LMC_FMT_DELTA_DIFFERENCE)
            d = lanes_left(width, d, 1);
        z[i] = _mm512_xor_si512(d, sign);
        if (transform == LMC_FMT_DELTA_MAGNITUDE)
            z[i] = _mm512_and_si512(z[i], magnitude);
    }
    for (unsigned i = 0; nbytes == 1 && i < 2; i++)
        z[i] = _mm512_srli_epi16(z[i], 8);
}

/* Stores the lower words of 64 lanes to `high`. */
LMC_INLINE void store_high(const unsigned nbytes, const __m512i *x, uint16_t *high)
{
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    word_pair words = {{x[0], x[1]}};
    if (nbytes > 2) {
        __m512i dwords[4];
        gather_dwords(nbytes, x, dwords);
        words = low_words(dwords);
        for (unsigned i = 0; i < 2; i++)
            words.word[i] = _mm512_permutexvar_epi64(order, words.word[i]);
    }
    _mm512_storeu_si512(high, words.word[0]);
    _mm512_storeu_si512(high + 32, words.word[1]);
}

LMC_INLINE unsigned split_deltas(const unsigned transform, const unsigned nbytes, unsigned low_nbytes,
                                 const uint8_t *src, const uint8_t *base, size_t n, uint16_t *high,
                                 uint8_t *const *low)
{
    const unsigned width = DELTA_LANE(nbytes);
    const unsigned high_nbits = transform == LMC_FMT_DELTA_MAGNITUDE ? 15 : 16;
    const __m512i high_mask = lanes_set(width, lmc_low_mask(high_nbits));
    __m512i all = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += GROUP) {
        __m512i z[8], sign_changes[8];
        compare_group(transform, nbytes, src + i * nbytes, base + i * nbytes, n - i, z, sign_changes);
        for (unsigned j = 0; j < low_nbytes; j++)
            store_first(low[j] + i, lane_bytes(nbytes, z, 8 * (low_nbytes - 1 - j)), n - i);
        for (unsigned k = 0; k < width; k++) {
            z[k] = lanes_right(width, z[k], 8 * low_nbytes);
            all = _mm512_or_si512(all, z[k]);
            if (transform == LMC_FMT_DELTA_MAGNITUDE)
                z[k] = choose_bits(high_mask, z[k], lanes_right(width, sign_changes[k], 8 * (width - 2)));
        }
        store_high(nbytes, z, high + i);
    }
    return nbytes > 2 && _mm512_test_epi64_mask(all, _mm512_andnot_si512(high_mask, _mm512_set1_epi64(-1)));
}

/* Widens the first 64 / width high parts to lanes of `width` bytes. */
LMC_INLINE __m512i widen_high(const unsigned width, const uint16_t *high)
{
    if (width == 2)
        return _mm512_loadu_si512(high);
    if (width == 4)
        return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)high));
    return _mm512_cvtepu16_epi64(_mm_loadu_si128((const __m128i *)(const void *)high));
}

LMC_INLINE __m512i widen_bytes(const unsigned width, const uint8_t *p)
{
    if (width == 2)
        return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p));
    if (width == 4)
        return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

/* Restores one register of elements. b: the base's elements, h: high parts, low: their first lower bytes. */
LMC_INLINE __m512i join_lanes(const unsigned transform, const unsigned nbytes, unsigned low_nbytes, __m512i h,
                              const uint8_t *const *low, size_t at, __m512i b)
{
    const unsigned width = DELTA_LANE(nbytes);
    const __m512i zero = _mm512_setzero_si512();
    __m512i z = h;
    if (transform == LMC_FMT_DELTA_MAGNITUDE)
        z = _mm512_and_si512(z, lanes_set(width, 0x7fff));
    for (unsigned j = 0; j < low_nbytes; j++)
        z = _mm512_or_si512(lanes_left(width, z, 8), widen_bytes(width, low[j] + at));
    if (nbytes == 1)
        z = _mm512_slli_epi16(z, 8);
    if (transform == LMC_FMT_DELTA_XOR)
        return _mm512_xor_si512(z, b);
    const __m512i bottom = lanes_set(width, nbytes == 1 ? 0x100 : 1);
    const __m512i sign = lanes_sub(width, zero, _mm512_and_si512(z, bottom));
    const __m512i x = lanes_add(width, b, _mm512_xor_si512(lanes_right(width, z, 1), sign));
    if (transform == LMC_FMT_DELTA_DIFFERENCE)
        return x;
    const __m512i flipped = _mm512_xor_si512(b, lanes_left(width, h, 8 * (width - 2)));
    return choose_bits(lanes_set(width, lmc_low_mask(8 * width) >> 1), x, flipped);
}

LMC_INLINE void join_deltas(const unsigned transform, const unsigned nbytes, unsigned low_nbytes,
                            const uint16_t *high, const uint8_t *const *low, const uint8_t *base, size_t n,
                            uint8_t *dst)
{
    const unsigned width = DELTA_LANE(nbytes);
    for (size_t i = 0; i < n; i += GROUP) {
        __m512i x[8];
        load_wide(nbytes, base + i * nbytes, n - i, x);
        for (unsigned k = 0; k < width; k++) {
            const size_t at = i + k * (GROUP / width);
            x[k] = join_lanes(transform, nbytes, low_nbytes, widen_high(width, high + at), low, at, x[k]);
        }
        if (nbytes == 1)
            x[0] = high_bytes((word_pair){{x[0], x[1]}}, order_from_words());
        for (unsigned k = 0; k < nbytes; k++)
            store_first(dst + i * nbytes + 64 * k, x[k], bytes_left((n - i) * nbytes, 64 * k));
    }
}

#define DEFINE_DELTA(nbits, nbytes)                                                                         \
    static void classify_##nbits(const lmc_delta *delta, const uint8_t *base, size_t n, uint8_t *classes,   \
                                 size_t *counts)                                                            \
    {                                                                                                       \
        classify_elements(nbytes, delta, base, n, classes, counts);                                         \
    }                                                                                                       \
    static unsigned delta_split_##nbits(const lmc_delta *delta, const uint8_t *src, const uint8_t *base,    \
                                        size_t n, uint16_t *high, uint8_t *const *low)                      \
    {                                                                                                       \
        const unsigned low_nbytes = (nbytes) > 1 ? delta->low_nbytes : 0;                                   \
        if (delta->transform == LMC_FMT_DELTA_MAGNITUDE)                                                    \
            return split_deltas(LMC_FMT_DELTA_MAGNITUDE, nbytes, low_nbytes, src, base, n, high, low);      \
        if (delta->transform == LMC_FMT_DELTA_DIFFERENCE)                                                   \
            return split_deltas(LMC_FMT_DELTA_DIFFERENCE, nbytes, low_nbytes, src, base, n, high, low);     \
        return split_deltas(LMC_FMT_DELTA_XOR, nbytes, low_nbytes, src, base, n, high, low);                \
    }                                                                                                       \
    static void delta_join_##nbits(const lmc_delta *delta, const uint16_t *high, const uint8_t *const *low, \
                                   const uint8_t *base, size_t n, uint8_t *dst)                             \
    {                                                                                                       \
        const unsigned low_nbytes = (nbytes) > 1 ? delta->low_nbytes : 0;                                   \
        if (delta->transform == LMC_FMT_DELTA_MAGNITUDE)                                                    \
            join_deltas(LMC_FMT_DELTA_MAGNITUDE, nbytes, low_nbytes, high, low, base, n, dst);              \
        else if (delta->transform == LMC_FMT_DELTA_DIFFERENCE)                                              \
            join_deltas(LMC_FMT_DELTA_DIFFERENCE, nbytes, low_nbytes, high, low, base, n, dst);             \
        else                                                                                                \
            join_deltas(LMC_FMT_DELTA_XOR, nbytes, low_nbytes, high, low, base, n, dst);                    \
    }

DEFINE_DELTA(8, 1)
DEFINE_DELTA(16, 2)
DEFINE_DELTA(32, 4)
DEFINE_DELTA(64, 8)

#endif
