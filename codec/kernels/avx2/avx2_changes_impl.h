/*
 * avx2_changes_impl.h - the changed elements of a strip and their places in their classes, for the sets avx2 and
 * avx2-nopext. Few elements are changed, so classes are counted one by one: of each, the elements between two changes.
 */
#ifndef LMC_CODEC_KERNELS_AVX2_AVX2_CHANGES_IMPL_H
#define LMC_CODEC_KERNELS_AVX2_AVX2_CHANGES_IMPL_H

/* ---- which elements differ ---- */

/* A bit for each of 64 elements that is equal to the base's. */
LMC_INLINE uint64_t equal_group(const unsigned nbytes, const uint8_t *src, const uint8_t *base)
{
    uint64_t word = 0;
    for (unsigned k = 0; k < 2 * nbytes; k++) {
        const __m256i x = load256(src + 32 * k), b = load256(base + 32 * k);
        if (nbytes == 2) { /* with the next register */
            const __m256i x1 = load256(src + 32 * (k + 1)), b1 = load256(base + 32 * (k + 1));
            const __m256i equal = _mm256_packs_epi16(_mm256_cmpeq_epi16(x, b), _mm256_cmpeq_epi16(x1, b1));
            const int bits = _mm256_movemask_epi8(_mm256_permute4x64_epi64(equal, 0xd8));
            word |= (uint64_t)(uint32_t)bits << 16 * k;
            k++;
            continue;
        }
        const int bits = nbytes == 1   ? _mm256_movemask_epi8(_mm256_cmpeq_epi8(x, b))
                         : nbytes == 4 ? _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(x, b)))
                                       : _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(x, b)));
        word |= (uint64_t)(uint32_t)bits << 32 / nbytes * k;
    }
    return word;
}

/* Meanwhile fetches the next strip. */
LMC_INLINE size_t find_changed(const unsigned nbytes, const uint8_t *src, const uint8_t *base, size_t n,
                               uint64_t *changed)
{
    size_t count = 0;
    for (size_t g = 0; g < n; g += GROUP) {
        const uint8_t *const x = src + g * nbytes, *const b = base + g * nbytes;
        uint64_t word = 0;
        for (unsigned k = 0; k < nbytes; k++)
            fetch(x, LMC_STRIP_VALUES * nbytes + 64 * k);
        if (n - g >= GROUP)
            word = ~equal_group(nbytes, x, b);
        for (size_t i = 0; n - g < GROUP && i < n - g; i++)
            word |= (uint64_t)(memcmp(x + i * nbytes, b + i * nbytes, nbytes) != 0) << i;
        changed[g / GROUP] = word;
        count += count_bits(word);
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

/* The number of classes[i], first <= i < end, that are `class`. Nothing behind a group of 64 is read. */
LMC_INLINE uint32_t count_between(const uint8_t *classes, size_t first, size_t end, uint8_t class)
{
    const size_t whole = (end - first) & ~(size_t)31, last = end - first - whole;
    const size_t at = end < 32 ? 0 : end - 32; /* the last 32 */
    const uint32_t count = (uint32_t)count_class(classes + first, whole, class);
    if (last == 0)
        return count;
    const __m256i among_last = _mm256_cmpeq_epi8(load256(classes + at), _mm256_set1_epi8((char)class));
    const uint64_t mask = (uint32_t)_mm256_movemask_epi8(among_last);
    return count + count_bits(mask >> (end - last - at) & lmc_low_mask((unsigned)last));
}

/* One more than the highest class of the strip. */
LMC_INLINE unsigned class_end(const uint8_t *classes, size_t n)
{
    __m256i most = _mm256_setzero_si256();
    size_t i = 0;
    uint8_t highest[32], end = 0;
    for (; i + 32 <= n; i += 32)
        most = _mm256_max_epu8(most, load256(classes + i));
    store256(highest, most);
    for (unsigned k = 0; k < 32; k++)
        end = highest[k] > end ? highest[k] : end;
    for (; i < n; i++)
        end = classes[i] > end ? classes[i] : end;
    return end + 1u;
}

/* The changed elements of the group at g of a strip of n, and those of the classes in `whole`. */
LMC_INLINE uint64_t listed_in_group(const uint8_t *classes, uint64_t changed, uint32_t whole, size_t g,
                                    size_t n)
{
    for (; whole != 0; whole &= whole - 1)
        changed |= class_mask(classes + g, (uint8_t)lmc_lowest_bit(whole));
    return n - g < GROUP ? changed & lmc_low_mask((unsigned)(n - g)) : changed;
}

/* Counts each class from one change to the next. */
static size_t number_few(const uint8_t *classes, const uint64_t *changed, uint32_t whole, size_t n,
                         uint32_t *counts, lmc_change *changes)
{
    uint16_t counted[LMC_FMT_CLASS_COUNT_MAX] = {0}; /* elements of the strip that a class was counted in */
    const unsigned end = class_end(classes, n);
    size_t count = 0;
    for (size_t g = 0; g < n; g += GROUP) {
        uint64_t word = listed_in_group(classes, changed[g / GROUP], whole, g, n);
        for (; word != 0; word &= word - 1) {
            const size_t at = g + lmc_lowest_bit(word);
            const uint8_t class = classes[at];
            counts[class] += count_between(classes, counted[class], at, class);
            counted[class] = (uint16_t)at;
            changes[count++] = (lmc_change){counts[class], (uint16_t)at, class};
        }
    }
    for (unsigned c = 0; c < end; c++)
        counts[c] += count_between(classes, counted[c], n, (uint8_t)c);
    return count;
}

/* Counts all classes in each group. */
static size_t number_many(const uint8_t *classes, const uint64_t *changed, uint32_t whole, size_t n,
                          uint32_t *counts, lmc_change *changes)
{
    size_t count = 0;
    for (size_t g = 0; g < n; g += GROUP) {
        uint64_t word = listed_in_group(classes, changed[g / GROUP], whole, g, n);
        const uint64_t valid = n - g < GROUP ? lmc_low_mask((unsigned)(n - g)) : ~UINT64_C(0);
        for (; word != 0; word &= word - 1) {
            const unsigned bit = lmc_lowest_bit(word);
            const uint8_t class = classes[g + bit];
            const uint64_t before = class_mask(classes + g, class) & (lmc_low_mask(bit + 1) >> 1);
            changes[count++] = (lmc_change){counts[class] + count_bits(before), (uint16_t)(g + bit), class};
        }
        for (unsigned c = 0; c < LMC_FMT_CLASS_COUNT_MAX; c++)
            counts[c] += count_bits(class_mask(classes + g, (uint8_t)c) & valid);
    }
    return count;
}

/* So many changes of a strip are few; measured. */
#define FEW_CHANGES 16

static size_t number_changes(const uint8_t *classes, const uint64_t *changed, uint32_t whole, size_t n,
                             uint32_t *counts, lmc_change *changes)
{
    size_t count = 0;
    if (n == 0)
        return 0;
    for (size_t w = 0; w < lmc_bitset_words(n); w++)
        count += count_bits(changed[w]);
    return count <= FEW_CHANGES ? number_few(classes, changed, whole, n, counts, changes)
                                : number_many(classes, changed, whole, n, counts, changes);
}

/* Lists the changes of a class, at least one, among the n elements. before: its elements before the strip. */
static lmc_change *list_class(const uint8_t *classes, size_t n, uint32_t before, uint32_t end, uint8_t class,
                              lmc_change_search *search, lmc_change *changes)
{
    const uint32_t *place = search->next_place[class];
    for (size_t g = 0; *place < end; g += GROUP) {
        uint64_t mask = class_mask(classes + g, class);
        if (n - g < GROUP)
            mask &= lmc_low_mask((unsigned)(n - g));
        const uint32_t after = before + count_bits(mask);
        for (; *place < after; place++) {
            const uint64_t bit = scatter_word(UINT64_C(1) << (*place - before), mask);
            *changes++ = (lmc_change){*place, (uint16_t)(g + lmc_lowest_bit(bit)), class};
        }
        before = after;
    }
    search->next_place[class] = place;
    search->wanted[class] = *place;
    return changes;
}

static size_t locate_changes(const uint8_t *classes, size_t n, lmc_change_search *search, lmc_change *changes,
                             const uint8_t *ahead, size_t ahead_nbytes)
{
    lmc_change *next = changes;
    for (size_t i = 0; i < ahead_nbytes; i += 64)
        fetch(ahead, i);
    for (unsigned c = 0; c < LMC_FMT_CLASS_COUNT_MAX; c++) {
        const uint32_t end = search->ends[c];
        if (search->wanted[c] < end)
            next = list_class(classes, n, search->counts[c], end, (uint8_t)c, search, next);
        search->counts[c] = end;
    }
    return (size_t)(next - changes);
}

#endif
