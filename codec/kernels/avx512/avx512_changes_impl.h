/*
 * avx512_changes_impl.h - the changed elements of a strip and their places in their classes, for
 * kernels/avx512/avx512.c. A register holds the masks of 8 classes in a group of 64 elements: counting the bits of its
 * words counts 8 classes at once.
 */
#ifndef LMC_CODEC_KERNELS_AVX512_AVX512_CHANGES_IMPL_H
#define LMC_CODEC_KERNELS_AVX512_AVX512_CHANGES_IMPL_H

/* ---- which elements differ ---- */

LMC_INLINE size_t find_changed(const unsigned nbytes, const uint8_t *src, const uint8_t *base, size_t n,
                               uint64_t *changed)
{
    size_t count = 0;
    for (size_t g = 0; g < n; g += GROUP) {
        uint64_t word = 0;
        for (unsigned k = 0; k < nbytes; k++) { /* a register has 64 / nbytes elements */
            const size_t left = bytes_left((n - g) * nbytes, 64 * k), at = g * nbytes + 64 * k;
            const __m512i x = load_first(src + at, left), b = load_first(base + at, left);
            word |= lanes_that_differ(nbytes, x, b) << k * (64 / nbytes);
        }
        changed[g / GROUP] = word;
        count += lmc_popcount64(word);
    }
    return count;
}

#define DEFINE_FIND_CHANGED(nbits, nbytes)                                                                   \
    static size_t find_changed_##nbits(const uint8_t *src, const uint8_t *base, size_t n, uint64_t *changed) \
    {                                                                                                        \
        return find_changed(nbytes, src, base, n, changed);                                                  \
    }

DEFINE_FIND_CHANGED(8, 1)
DEFINE_FIND_CHANGED(16, 2)
DEFINE_FIND_CHANGED(32, 4)
DEFINE_FIND_CHANGED(64, 8)

/* ---- their places in their classes ---- */

LMC_INLINE class_words load_counts(const uint32_t counts[LMC_FMT_CLASS_COUNT_MAX])
{
    const __m512i all = _mm512_loadu_si512(counts);
    return (class_words){{_mm512_cvtepu32_epi64(_mm512_castsi512_si256(all)),
                          _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(all, 1))}};
}

LMC_INLINE void store_counts(uint32_t counts[LMC_FMT_CLASS_COUNT_MAX], const class_words *words)
{
    const __m512i all = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(words->half[0])),
                                           _mm512_cvtepi64_epi32(words->half[1]), 1);
    _mm512_storeu_si512(counts, all);
}

LMC_INLINE void store_words(uint64_t words[LMC_FMT_CLASS_COUNT_MAX], const class_words *from)
{
    _mm512_storeu_si512(words, from->half[0]);
    _mm512_storeu_si512(words + 8, from->half[1]);
}

static size_t number_changes(const uint8_t *classes, const uint64_t *changed, uint32_t whole, size_t n,
                             uint32_t *counts, lmc_change *changes)
{
    class_words sums = load_counts(counts);
    const __m512i is_whole =
        _mm512_broadcast_i32x4(_mm_maskz_set1_epi8((__mmask16)whole, -1)); /* for each class */
    size_t count = 0;
    for (size_t g = 0; g < n; g += GROUP) {
        const uint64_t valid = valid_lanes(n - g);
        const __m512i class = _mm512_loadu_si512(classes + g);
        const class_words lanes = class_lanes(class, valid);
        uint64_t word = changed[g / GROUP];
        word |= _mm512_movepi8_mask(_mm512_shuffle_epi8(is_whole, class)) & valid;
        if (word != 0) {
            uint64_t lane_words[LMC_FMT_CLASS_COUNT_MAX], before[LMC_FMT_CLASS_COUNT_MAX];
            store_words(lane_words, &lanes);
            store_words(before, &sums);
            for (; word != 0; word &= word - 1) {
                const unsigned bit = lmc_lowest_bit(word);
                const uint8_t c = classes[g + bit];
                const uint64_t rank = lmc_popcount64(_bzhi_u64(lane_words[c], bit));
                changes[count++] = (lmc_change){(uint32_t)(before[c] + rank), (uint16_t)(g + bit), c};
            }
        }
        add_lanes(&sums, &lanes);
    }
    store_counts(counts, &sums);
    return count;
}

/* Lists the changes of a group that belong to the classes `reached`, of those from `first_class` on. before:
 * elements of each class so far. Mends `wanted`. */
LMC_INLINE lmc_change *list_reached(lmc_change_search *search, unsigned first_class, unsigned reached,
                                    __m512i lanes, __m512i before, size_t group, lmc_change *changes,
                                    __m512i *wanted)
{
    uint64_t lane_words[8], first[8];
    _mm512_storeu_si512(lane_words, lanes);
    _mm512_storeu_si512(first, before);
    for (; reached != 0; reached &= reached - 1) {
        const unsigned k = lmc_lowest_bit(reached), class = first_class + k;
        const uint64_t end = first[k] + lmc_popcount64(lane_words[k]);
        const uint32_t *place = search->next_place[class];
        for (; *place < end; place++) {
            const uint64_t bit = _pdep_u64(UINT64_C(1) << (*place - first[k]), lane_words[k]);
            *changes++ = (lmc_change){*place, (uint16_t)(group + lmc_lowest_bit(bit)), (uint8_t) class};
        }
        search->next_place[class] = place;
        *wanted = _mm512_mask_set1_epi64(*wanted, (__mmask8)(1u << k), (long long)*place);
    }
    return changes;
}

static size_t locate_changes(const uint8_t *classes, size_t n, lmc_change_search *search, lmc_change *changes,
                             const uint8_t *ahead, size_t ahead_nbytes)
{
    const size_t share = n > 0 ? group_share(ahead_nbytes, n) : 0;
    lmc_change *end = changes;
    class_words sums = load_counts(search->counts);
    class_words wanted = load_counts(search->wanted);
    for (size_t g = 0; g < n; g += GROUP) {
        const class_words lanes = class_lanes(_mm512_loadu_si512(classes + g), valid_lanes(n - g));
        const class_words before = sums;
        fetch_lines(&ahead, share);
        add_lanes(&sums, &lanes);
        const unsigned lower = _mm512_cmplt_epu64_mask(wanted.half[0], sums.half[0]);
        const unsigned upper = _mm512_cmplt_epu64_mask(wanted.half[1], sums.half[1]);
        if (LMC_LIKELY((lower | upper) == 0))
            continue;
        end = list_reached(search, 0, lower, lanes.half[0], before.half[0], g, end, &wanted.half[0]);
        end = list_reached(search, 8, upper, lanes.half[1], before.half[1], g, end, &wanted.half[1]);
    }
    store_counts(search->counts, &sums);
    store_counts(search->wanted, &wanted);
    return (size_t)(end - changes);
}

#endif
