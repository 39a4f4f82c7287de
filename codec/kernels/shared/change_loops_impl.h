/*
 * change_loops_impl.h - the changed elements of a strip, for sets without wide registers of masks. The including set
 * has defined, for a group of 64 classes:
 *
 *   count_group(classes, counts)   adds the elements of each of LMC_FMT_CLASS_COUNT_MAX classes to counts
 *   class_mask(classes, class)     a bit for each element: is it of the class?
 */
#ifndef LMC_CODEC_KERNELS_SHARED_CHANGE_LOOPS_IMPL_H
#define LMC_CODEC_KERNELS_SHARED_CHANGE_LOOPS_IMPL_H

#define CHANGE_GROUP 64

/* ---- which elements differ ---- */

/* Most groups are equal: a group is compared as a whole first. */
#define DEFINE_FIND_CHANGED(nbits)                                                                           \
    LMC_INLINE uint64_t changed_in_##nbits(const uint8_t *src, const uint8_t *base, size_t n)                \
    {                                                                                                        \
        uint64_t word = 0;                                                                                   \
        for (size_t i = 0; i < n; i++)                                                                       \
            word |= (uint64_t)(load_##nbits(src, i) != load_##nbits(base, i)) << i;                          \
        return word;                                                                                         \
    }                                                                                                        \
    static size_t find_changed_##nbits(const uint8_t *src, const uint8_t *base, size_t n, uint64_t *changed) \
    {                                                                                                        \
        const size_t group_nbytes = CHANGE_GROUP * (nbits / 8);                                              \
        size_t count = 0;                                                                                    \
        for (size_t g = 0; g < n; g += CHANGE_GROUP) {                                                       \
            const uint8_t *const x = src + g * (nbits / 8), *const b = base + g * (nbits / 8);               \
            uint64_t differs = 0, word = 0;                                                                  \
            if (n - g < CHANGE_GROUP) {                                                                      \
                word = changed_in_##nbits(x, b, n - g);                                                      \
            } else {                                                                                         \
                for (size_t i = 0; i < group_nbytes; i += 8)                                                 \
                    differs |= lmc_load64(x + i) ^ lmc_load64(b + i);                                        \
                if (differs != 0)                                                                            \
                    word = changed_in_##nbits(x, b, CHANGE_GROUP);                                           \
            }                                                                                                \
            changed[g / CHANGE_GROUP] = word;                                                                \
            count += lmc_popcount64(word);                                                                   \
        }                                                                                                    \
        return count;                                                                                        \
    }

DEFINE_FIND_CHANGED(8)
DEFINE_FIND_CHANGED(16)
DEFINE_FIND_CHANGED(32)
DEFINE_FIND_CHANGED(64)

/* ---- their places in their classes ---- */

/* Adds the elements of a group that is not whole. */
LMC_INLINE void count_last(const uint8_t *classes, size_t n, uint32_t *counts)
{
    for (size_t i = 0; i < n; i++)
        counts[classes[i]]++;
}

static size_t number_changes(const uint8_t *classes, const uint64_t *changed, uint32_t whole, size_t n,
                             uint32_t *counts, lmc_change *changes)
{
    size_t count = 0;
    for (size_t g = 0; g < n; g += CHANGE_GROUP) {
        uint64_t word = changed[g / CHANGE_GROUP];
        for (uint32_t left = whole; left != 0; left &= left - 1)
            word |= class_mask(classes + g, (uint8_t)lmc_lowest_bit(left));
        if (n - g < CHANGE_GROUP)
            word &= lmc_low_mask((unsigned)(n - g));
        for (; word != 0; word &= word - 1) {
            const unsigned bit = lmc_lowest_bit(word);
            const uint8_t class = classes[g + bit];
            const uint64_t before = class_mask(classes + g, class) & (lmc_low_mask(bit + 1) >> 1);
            changes[count++] =
                (lmc_change){counts[class] + lmc_popcount64(before), (uint16_t)(g + bit), class};
        }
        if (n - g >= CHANGE_GROUP)
            count_group(classes + g, counts);
        else
            count_last(classes + g, n - g, counts);
    }
    return count;
}

/* The place of the set bit of that rank, counted from 0. */
LMC_INLINE unsigned bit_of_rank(uint64_t mask, uint32_t rank)
{
    for (; rank > 0; rank--)
        mask &= mask - 1;
    return lmc_lowest_bit(mask);
}

/* Classes are gone through one by one, and only as far as changes are wanted. */
static size_t locate_changes(const uint8_t *classes, size_t n, lmc_change_search *search, lmc_change *changes,
                             const uint8_t *ahead, size_t ahead_nbytes)
{
    (void)ahead, (void)ahead_nbytes;
    size_t count = 0;
    for (unsigned c = 0; c < LMC_FMT_CLASS_COUNT_MAX; c++) {
        const uint32_t end = search->ends[c];
        uint32_t before = search->counts[c], wanted = search->wanted[c];
        for (size_t g = 0; wanted < end && g < n; g += CHANGE_GROUP) {
            uint64_t mask = class_mask(classes + g, (uint8_t)c);
            if (n - g < CHANGE_GROUP)
                mask &= lmc_low_mask((unsigned)(n - g));
            const uint32_t reached = before + lmc_popcount64(mask);
            for (; wanted < reached; wanted = *++search->next_place[c])
                changes[count++] =
                    (lmc_change){wanted, (uint16_t)(g + bit_of_rank(mask, wanted - before)), (uint8_t)c};
            before = reached;
        }
        search->wanted[c] = wanted;
        search->counts[c] = end;
    }
    return count;
}

#endif
