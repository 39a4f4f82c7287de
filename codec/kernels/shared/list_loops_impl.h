/*
 * list_loops_impl.h - lists of high parts as plain loops, for sets that do not pack bytes. The including set has
 * defined count_class(classes, n, class), the number of the n classes that are `class`. Include it after
 * delta_loops_impl.h.
 */
#ifndef LMC_CODEC_KERNELS_SHARED_LIST_LOOPS_IMPL_H
#define LMC_CODEC_KERNELS_SHARED_LIST_LOOPS_IMPL_H

/* Brings the part of nbytes bytes from `ahead` on into the caches that belongs to element i of n, if it begins a
 * group. */
LMC_INLINE void fetch_share(const uint8_t *ahead, size_t nbytes, size_t i, size_t n)
{
    if (i % DELTA_GROUP != 0)
        return;
    const size_t share = nbytes / ((n + DELTA_GROUP - 1) / DELTA_GROUP);
    for (size_t at = 0; at < share; at += 64)
        LMC_PREFETCH(ahead + i / DELTA_GROUP * share + at);
}

/* Writes two bytes everywhere: in a list of bytes the next high part overwrites the second. The cursors are local
 * copies, since a compiler must assume that the bytes written might change them. */
static void scatter(const lmc_class_order *order, const uint8_t *classes, const uint16_t *high, size_t n,
                    lmc_high_lists *lists, const uint8_t *ahead, size_t ahead_nbytes)
{
    (void)order; /* elements are taken one after the other */
    uint8_t *next[LMC_FMT_CLASS_COUNT_MAX];
    uint8_t nbytes[LMC_FMT_CLASS_COUNT_MAX];
    uint32_t too_wide[LMC_FMT_CLASS_COUNT_MAX]; /* the least high part that is wide */
    memcpy(next, lists->next, sizeof next);
    memcpy(nbytes, lists->nbytes, sizeof nbytes);
    for (unsigned c = 0; c < LMC_FMT_CLASS_COUNT_MAX; c++)
        too_wide[c] = nbytes[c] == 1 ? LMC_HIGH_WIDE : UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        const unsigned class = classes[i];
        fetch_share(ahead, ahead_nbytes, i, n);
        uint8_t *const place = next[class];
        memcpy(place, &high[i], sizeof high[i]);
        next[class] = place + nbytes[class];
        if (LMC_UNLIKELY(high[i] >= too_wide[class])) {
            place[lists->upper[class]] = (uint8_t)(high[i] >> 8);
            lists->wide |= 1u << class;
        }
    }
    memcpy(lists->next, next, sizeof next);
}

/* Do all lists of classes that occur have one byte a high part? */
LMC_INLINE int are_lists_of_bytes(const lmc_class_order *order, const lmc_high_lists *lists)
{
    int all = 1;
    for (unsigned k = 0; k < order->count; k++)
        all &= lists->nbytes[order->class[k]] == 1;
    return all;
}

/* Where the elements go that follow the first n of a strip. Elements of one class wait for each other, since each moves
 * the cursor of the next. So the two halves of a strip are taken side by side. */
LMC_INLINE void skip_elements(const lmc_class_order *order, const uint8_t *classes, size_t n,
                              uint8_t *const *next, uint8_t **later)
{
    for (unsigned k = 0; k < order->count; k++) {
        const unsigned c = order->class[k];
        later[c] = next[c] + count_class(classes, n, c);
    }
}

/* For lists of one and of two bytes a high part. */
LMC_INLINE void gather_any(const uint8_t *classes, size_t n, lmc_high_lists *lists, uint16_t *high)
{
    uint8_t *next[LMC_FMT_CLASS_COUNT_MAX];
    uint16_t used[LMC_FMT_CLASS_COUNT_MAX]; /* bits of the 16 bits read that count */
    memcpy(next, lists->next, sizeof next);
    for (unsigned c = 0; c < LMC_FMT_CLASS_COUNT_MAX; c++)
        used[c] = lists->nbytes[c] == 1 ? 0xff : 0xffff;
    for (size_t i = 0; i < n; i++) {
        const unsigned class = classes[i];
        high[i] = lmc_load16(next[class]) & used[class];
        next[class] += 1 + (used[class] >> 15);
    }
    memcpy(lists->next, next, sizeof next);
}

static void gather(const lmc_class_order *order, const uint8_t *classes, size_t n, lmc_high_lists *lists,
                   uint16_t *high, const uint8_t *ahead, size_t ahead_nbytes)
{
    uint8_t *next[LMC_FMT_CLASS_COUNT_MAX], *later[LMC_FMT_CLASS_COUNT_MAX];
    const size_t half = n / 2;
    if (!are_lists_of_bytes(order, lists)) {
        gather_any(classes, n, lists, high);
        return;
    }
    memcpy(next, lists->next, sizeof next);
    skip_elements(order, classes, half, next, later);
    for (size_t i = 0; i < half; i++) {
        fetch_share(ahead, ahead_nbytes, i, half);
        high[i] = *next[classes[i]]++;
        high[half + i] = *later[classes[half + i]]++;
    }
    if (n % 2 != 0)
        high[n - 1] = *later[classes[n - 1]]++;
    for (unsigned k = 0; k < order->count; k++)
        lists->next[order->class[k]] = later[order->class[k]];
}

#endif
