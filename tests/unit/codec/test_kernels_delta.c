/* test_kernels_delta.c - the kernels of deltas of every set against the reference, as test_kernels.c does it. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "lmc_test.h"
#include "lmc_test_kernels.h"

/* ---- deltas ---- */

static lmc_delta random_delta(unsigned width, unsigned transform, unsigned low_nbytes, unsigned class_count)
{
    lmc_delta delta;
    memset(&delta, 0, sizeof delta);
    delta.transform = (uint8_t)transform;
    delta.low_nbytes = (uint8_t)low_nbytes;
    delta.class_count = (uint8_t)class_count;
    delta.key_shift = (uint8_t)random_below(8u << width);
    for (unsigned c = 1; c < class_count; c++) /* close together or far apart */
        delta.first_key[c] =
            (uint8_t)(delta.first_key[c - 1] + 1 +
                      random_below(random_below(2) ? 1
                                                   : (255u - delta.first_key[c - 1]) / (class_count - c)));
    return delta;
}

/* Bases, and elements that are the same, near, or anywhere. */
static void random_pairs(unsigned nbytes, size_t n, uint8_t *src, uint8_t *base)
{
    const unsigned near_share = random_below(3) * 50;
    random_fill(src, n * nbytes);
    random_fill(base, n * nbytes);
    for (size_t i = 0; i < n; i++)
        if (random_below(100) < near_share) {
            const uint64_t x = lmc_load_n(base + i * nbytes, nbytes) + random_below(500) - 250;
            memcpy(src + i * nbytes, &x, nbytes);
        }
}

/* Classes, high parts and low bytes as one set makes them, and what they join to. */
typedef struct delta_result {
    uint8_t *classes, *joined;
    uint16_t *high;
    uint8_t *low[7];
    size_t counts[LMC_FMT_CLASS_COUNT_MAX];
    unsigned is_wide;
} delta_result;

static void compare_with(const lmc_kernels *k, const lmc_delta *delta, unsigned width, const uint8_t *src,
                         const uint8_t *base, size_t n, placement place, delta_result *r)
{
    const uint8_t *readable[7];
    memset(r, 0, sizeof *r);
    r->classes = take(padded(n), place);
    r->high = (uint16_t *)(void *)take(2 * padded(n), place == AT_ODD_PLACE ? AT_END : place);
    for (unsigned j = 0; j < delta->low_nbytes; j++)
        r->low[j] = take(n, place);
    k->classify[width](delta, base, n, r->classes, r->counts);
    r->is_wide = k->delta_split[width](delta, src, base, n, r->high, r->low);
    for (unsigned j = 0; j < delta->low_nbytes; j++)
        readable[j] = take_copy(r->low[j], n, 64, place);
    r->joined = take(n << width, place);
    k->delta_join[width](delta, r->high, readable, base, n, r->joined);
}

static int delta_case(const lmc_kernels *k, const lmc_delta *delta, unsigned width, size_t n, placement place)
{
    const unsigned nbytes = 1u << width;
    uint8_t *const src = take(n * nbytes, place);
    uint8_t *const base = take(n * nbytes, place);
    delta_result expected, got;
    random_pairs(nbytes, n, src, base);
    compare_with(&lmc_kernels_scalar, delta, width, src, base, n, AT_START, &expected);
    compare_with(k, delta, width, src, base, n, place, &got);
    int good = !expected.is_wide == !got.is_wide;
    good &= memcmp(expected.classes, got.classes, n) == 0;
    good &= memcmp(expected.counts, got.counts, sizeof got.counts) == 0;
    good &= memcmp(expected.high, got.high, 2 * n) == 0;
    for (unsigned j = 0; j < delta->low_nbytes; j++)
        good &= memcmp(expected.low[j], got.low[j], n) == 0;
    good &= memcmp(expected.joined, got.joined, n * nbytes) == 0;
    good &= got.is_wide || memcmp(src, got.joined, n * nbytes) == 0;
    /* high parts and low bytes as a damaged stream has them */
    random_fill((uint8_t *)got.high, 2 * padded(n));
    const uint8_t *readable[7];
    for (unsigned j = 0; j < delta->low_nbytes; j++)
        readable[j] = take_copy(got.low[j], n, 64, place);
    lmc_kernels_scalar.delta_join[width](delta, got.high, readable, base, n, expected.joined);
    k->delta_join[width](delta, got.high, readable, base, n, got.joined);
    good &= memcmp(expected.joined, got.joined, n * nbytes) == 0;
    return good & release_all();
}

LMC_SETS_TEST(test_deltas_match_scalar)
{
    for (unsigned c = 0; c < 4 * 3 * 8; c++) {
        const unsigned width = c & 3, low_nbytes = c / 12;
        for (size_t n = 0; low_nbytes < 1u << width && n <= SIZE_MAX_TRIED; n = next_size(n)) {
            const lmc_delta delta = random_delta(width, c / 4 % 3, low_nbytes, 1 + (unsigned)n % 16);
            CU_ASSERT(delta_case(k, &delta, width, n, (placement)random_below(3)));
        }
    }
}

/* A class that splits, joins and lists agree on, for every one of its bits. */
LMC_TEST(test_classes_are_those_of_the_keys)
{
    for (unsigned i = 0; i < 2000; i++) {
        const unsigned width = random_below(4), nbytes = 1u << width;
        const lmc_delta delta = random_delta(width, random_below(3), 0, 1 + random_below(16));
        uint8_t base[64 * 8], classes[64];
        size_t counts[LMC_FMT_CLASS_COUNT_MAX] = {0};
        random_fill(base, sizeof base);
        lmc_kernels_scalar.classify[width](&delta, base, 64, classes, counts);
        for (unsigned e = 0; e < 64; e++) {
            uint64_t b = lmc_load_n(base + e * nbytes, nbytes);
            if (delta.transform == LMC_FMT_DELTA_MAGNITUDE)
                b &= lmc_low_mask(8 * nbytes - 1);
            const unsigned key = b >> delta.key_shift & 0xff;
            CU_ASSERT_FATAL(classes[e] < delta.class_count && key >= delta.first_key[classes[e]]);
            CU_ASSERT_FATAL(classes[e] + 1 == delta.class_count || key < delta.first_key[classes[e] + 1]);
            counts[classes[e]]--;
        }
        for (unsigned c = 0; c < LMC_FMT_CLASS_COUNT_MAX; c++)
            CU_ASSERT_EQUAL(counts[c], 0);
    }
}

/* Lists are filled and emptied in calls of whole groups; each has its own guard pages. */
static int lists_case(const lmc_kernels *k, unsigned class_count, size_t n, placement place)
{
    uint8_t *const classes = take(padded(n), place);
    uint16_t *const high = (uint16_t *)(void *)take(2 * padded(n), place);
    uint16_t *const gathered = (uint16_t *)(void *)take(2 * padded(n), place);
    uint8_t *begin[LMC_FMT_CLASS_COUNT_MAX];
    size_t count[LMC_FMT_CLASS_COUNT_MAX] = {0}, found[LMC_FMT_CLASS_COUNT_MAX] = {0};
    uint32_t wide = 0;
    const unsigned skew = random_below(3), wide_share = random_below(3) * random_below(20);
    lmc_class_order order = {.count = (uint8_t)class_count,
                             .direct_count = (uint8_t)random_below(class_count + 1)};
    for (unsigned c = 0; c < class_count; c++) { /* any order will do */
        const unsigned other = random_below(c + 1);
        order.class[c] = order.class[other];
        order.class[other] = (uint8_t)c;
    }
    int good = 1;
    random_fill((uint8_t *)high, 2 * padded(n));
    random_fill(classes, padded(n)); /* what lies beyond n may be anything */
    for (size_t i = 0; i < n; i++) {
        classes[i] = (uint8_t)(random_below(class_count) / (1 + random_below(1 + skew)));
        if (random_below(100) >= wide_share)
            high[i] = (uint16_t)(random_below(50) == 0 ? 254 + random_below(2) : high[i] % 255);
        if (high[i] >= LMC_HIGH_WIDE)
            wide |= 1u << classes[i];
        count[classes[i]]++;
    }
    lmc_high_lists written = {.wide = 0};
    for (unsigned c = 0; c < class_count; c++) {
        written.nbytes[c] = (uint8_t)(1 + random_below(2));
        written.upper[c] = count[c] + LMC_HIGH_SLACK;
        begin[c] = written.next[c] = take(2 * written.upper[c], place == AT_END ? AT_END : AT_ODD_PLACE);
        if (written.nbytes[c] == 1)
            memset(begin[c] + written.upper[c], 0, count[c]);
    }
    lmc_high_lists read = written;
    for (size_t i = 0, step; i < n; i += step) {
        step = lmc_min_size(64 * (1 + random_below(32)), n - i);
        k->scatter(&order, classes + i, high + i, step, &written, classes, random_below(2) ? 4 * step : 0);
    }
    for (size_t i = 0; i < n; i++) {
        const unsigned c = classes[i];
        const uint8_t *const low = begin[c] + found[c]++ * written.nbytes[c];
        good &=
            low[0] == (high[i] & 0xff) && low[written.nbytes[c] == 1 ? written.upper[c] : 1] == high[i] >> 8;
    }
    for (unsigned c = 0; c < class_count; c++) {
        good &= (written.wide >> c & 1) == (written.nbytes[c] == 1 && (wide >> c & 1));
        good &= written.next[c] == begin[c] + count[c] * written.nbytes[c];
        for (size_t i = 0; i < n; i++) /* such a list is read without upper bytes */
            if (classes[i] == c && written.nbytes[c] == 1)
                high[i] &= 0xff;
    }
    for (size_t i = 0, step; i < n; i += step) {
        step = lmc_min_size(64 * (1 + random_below(32)), n - i);
        k->gather(&order, classes + i, step, &read, gathered + i, classes, random_below(2) ? 4 * step : 0);
    }
    good &= memcmp(high, gathered, 2 * n) == 0;
    for (unsigned c = 0; c < class_count; c++)
        good &= read.next[c] == written.next[c];
    return good & release_all();
}

LMC_SETS_TEST(test_lists_keep_order)
{
    for (unsigned classes = 1; classes <= LMC_FMT_CLASS_COUNT_MAX; classes++)
        for (size_t n = 0; n <= SIZE_MAX_TRIED; n = next_size(n))
            CU_ASSERT(lists_case(k, classes, n, random_below(2) ? AT_END : AT_START));
}

static int sign_changes_case(const lmc_kernels *k, size_t n, unsigned sign_change_share, placement place)
{
    uint16_t *const high = (uint16_t *)(void *)take(2 * (n + LMC_HIGH_SLACK), place);
    uint64_t *const sign_changes = (uint64_t *)(void *)take(padded(n) / 8, place);
    uint16_t before[SIZE_MAX_TRIED + LMC_HIGH_SLACK];
    int good = 1;
    for (size_t i = 0; i < n + LMC_HIGH_SLACK; i++)
        before[i] = high[i] =
            (uint16_t)((random_u64() & 0x7fff) | (random_below(100) < sign_change_share) << 15);
    k->take_sign_changes(high, n, sign_changes);
    for (size_t i = 0; i < n; i++)
        good &= high[i] == (before[i] & 0x7fff) && (sign_changes[i / 64] >> i % 64 & 1) == before[i] >> 15;
    good &= n % 64 == 0 || sign_changes[n / 64] >> n % 64 == 0;
    k->put_sign_changes(high, n, sign_changes);
    good &= memcmp(high, before, 2 * n) == 0;
    return good & release_all();
}

LMC_SETS_TEST(test_sign_changes_go_and_come_back)
{
    for (size_t n = 0; n <= SIZE_MAX_TRIED; n = next_size(n))
        for (unsigned share = 0; share <= 100; share += 25)
            CU_ASSERT(sign_changes_case(k, n, share == 25 ? 1 : share, random_below(2) ? AT_END : AT_START));
}

/* ---- changes ---- */

static int find_changed_case(const lmc_kernels *k, unsigned width, size_t n, placement place)
{
    const unsigned nbytes = 1u << width;
    uint8_t *const src = take(n * nbytes, place), *const base = take(n * nbytes, place);
    uint64_t *const changed = (uint64_t *)(void *)take(padded(n) / 8, place == AT_ODD_PLACE ? AT_END : place);
    const unsigned share = random_below(2) ? random_below(100) : random_below(3);
    size_t expected = 0;
    int good = 1;
    random_fill(base, n * nbytes);
    memcpy(src, base, n * nbytes);
    for (size_t i = 0; i < n; i++)
        if (random_below(100) < share)
            src[i * nbytes + random_below(nbytes)] ^= (uint8_t)random_below(3);
    const size_t found = k->find_changed[width](src, base, n, changed);
    for (size_t i = 0; i < padded(n); i++) {
        const unsigned differs = i < n && memcmp(src + i * nbytes, base + i * nbytes, nbytes) != 0;
        good &= (changed[i / 64] >> i % 64 & 1) == differs;
        expected += differs;
    }
    return good & (found == expected) & release_all();
}

/* The changes of an element after the other, as number_changes() lists them. */
static size_t list_changes(const uint8_t *classes, const uint64_t *changed, size_t n, lmc_change *changes)
{
    uint32_t counts[LMC_FMT_CLASS_COUNT_MAX] = {0};
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (changed[i / 64] >> i % 64 & 1)
            changes[count++] = (lmc_change){counts[classes[i]], (uint16_t)i, classes[i]};
        counts[classes[i]]++;
    }
    return count;
}

/* Are these the expected changes, whose elements count from `first`? Any order will do but that within a class. */
static int are_changes(const lmc_change *found, size_t count, const lmc_change *expected, size_t first)
{
    int good = 1;
    size_t next[LMC_FMT_CLASS_COUNT_MAX] = {0};
    for (size_t i = 0; i < count; i++) {
        size_t *const at = &next[found[i].class];
        while (*at < count && expected[*at].class != found[i].class)
            ++*at;
        good &= *at < count && expected[*at].place == found[i].place &&
                expected[*at].element == found[i].element + first;
        ++*at;
    }
    return good;
}

/* Changed elements get places in their classes, and are found by them again, in calls of whole groups. */
static int changes_case(const lmc_kernels *k, unsigned class_count, size_t n, unsigned share, placement place)
{
    uint8_t *const classes = take(padded(n), place);
    lmc_change expected[SIZE_MAX_TRIED], found[SIZE_MAX_TRIED];
    uint64_t changed[SIZE_MAX_TRIED / 64 + 1] = {0};
    uint32_t counts[LMC_FMT_CLASS_COUNT_MAX] = {0};
    uint32_t places[LMC_FMT_CLASS_COUNT_MAX][SIZE_MAX_TRIED + 1];
    const uint32_t *lists[LMC_FMT_CLASS_COUNT_MAX];
    size_t length[LMC_FMT_CLASS_COUNT_MAX] = {0}, at = 0;
    const unsigned skew = random_below(3);
    const uint32_t whole =
        random_below(2) ? (uint32_t)(random_u64() & random_u64() & lmc_low_mask(class_count)) : 0;
    uint64_t listed[SIZE_MAX_TRIED / 64 + 1] = {0};
    int good = 1;
    random_fill(classes, padded(n)); /* what lies beyond n may be anything */
    for (size_t i = 0; i < n; i++) {
        classes[i] = (uint8_t)(random_below(class_count) / (1 + random_below(1 + skew)));
        listed[i / 64] |= (uint64_t)(whole >> classes[i] & 1) << i % 64;
        changed[i / 64] |= (uint64_t)(random_below(100) < share) << i % 64;
    }
    for (size_t w = 0; w < LMC_COUNT(listed); w++)
        listed[w] |= changed[w];
    const size_t count = list_changes(classes, listed, n, expected);
    for (size_t i = 0; i < count; i++)
        places[expected[i].class][length[expected[i].class]++] = expected[i].place;
    for (unsigned c = 0; c < class_count; c++) {
        places[c][length[c]] = LMC_NO_PLACE;
        lists[c] = places[c];
    }
    lmc_change_search search;
    lmc_change_search_open(&search, lists, class_count);
    for (size_t i = 0, step; i < n; i += step) {
        step = lmc_min_size(64 * (1 + random_below(32)), n - i);
        const size_t numbered = k->number_changes(classes + i, changed + i / 64, whole, step, counts, found);
        good &= at + numbered <= count && are_changes(found, numbered, expected + at, i);
        search.ends = counts;
        const size_t located =
            k->locate_changes(classes + i, step, &search, found, classes, random_below(2) ? 4 * step : 0);
        good &= located == numbered && are_changes(found, located, expected + at, i);
        good &= memcmp(counts, search.counts, sizeof counts) == 0;
        at += numbered;
    }
    for (unsigned c = 0; c < class_count; c++)
        good &= search.wanted[c] == LMC_NO_PLACE && search.next_place[c] == lists[c] + length[c];
    return good & (at == count) & release_all();
}

LMC_SETS_TEST(test_changes_are_numbered_and_found)
{
    for (size_t n = 0; n <= SIZE_MAX_TRIED; n = next_size(n)) {
        for (unsigned width = 0; width < 4; width++)
            CU_ASSERT(find_changed_case(k, width, n, (placement)random_below(3)));
        for (unsigned classes = 1; classes <= LMC_FMT_CLASS_COUNT_MAX; classes++)
            CU_ASSERT(changes_case(k, classes, n, classes % 4 == 0 ? 100 : random_below(12),
                                   random_below(2) ? AT_END : AT_START));
    }
}

/* ---- gaps ---- */

/* Gaps of n bits, cut, put in unary planes and back. Sets agree with the reference, plane by plane. */
static int gaps_case(const lmc_kernels *k, size_t n, unsigned share, int inverted, placement place)
{
    const lmc_kernels *const reference = &lmc_kernels_scalar;
    const unsigned low_nbits = random_below(4) * random_below(5);
    uint64_t *const bitset = (uint64_t *)(void *)take(padded(n) / 8, place);
    uint32_t *const gaps = (uint32_t *)(void *)take(4 * (n + LMC_GAP_SLACK), place);
    uint32_t expected[SIZE_MAX_TRIED + LMC_GAP_SLACK], kept[SIZE_MAX_TRIED];
    uint8_t plane[15 * SIZE_MAX_TRIED / 8];
    for (size_t i = 0; i < padded(n) / 64; i++)
        for (unsigned b = 0; b < 64; b++)
            bitset[i] = bitset[i] << 1 | (random_below(100) < share);
    const size_t m = reference->gaps_find(bitset, n, inverted, expected);
    int good = k->gaps_find(bitset, n, inverted, gaps) == m && memcmp(gaps, expected, 4 * m) == 0;
    memcpy(kept, expected, 4 * m);
    const size_t plane_nbytes = lmc_bits_nbytes(m);
    uint8_t *const cut = take(low_nbits * plane_nbytes, place);
    reference->gaps_cut(expected, m, low_nbits, plane);
    k->gaps_cut(gaps, m, low_nbits, cut);
    good &= memcmp(gaps, expected, 4 * m) == 0 && memcmp(cut, plane, low_nbits * plane_nbytes) == 0;
    uint8_t *const unary = take(plane_nbytes, place);
    const size_t left = reference->gaps_unary_split(expected, m, plane);
    good &= k->gaps_unary_split(gaps, m, unary) == left;
    good &= memcmp(gaps, expected, 4 * left) == 0 && memcmp(unary, plane, plane_nbytes) == 0;
    if (m > 0)
        k->gaps_unary_join(unary, m, gaps, left);
    if (low_nbits > 0 && m % 8 != 0)
        cut[plane_nbytes - 1] |= (uint8_t)(0xff << m % 8); /* ignored */
    k->gaps_join(cut, m, low_nbits, gaps);
    good &= memcmp(gaps, kept, 4 * m) == 0;
    return good & release_all();
}

LMC_SETS_TEST(test_gaps_match_scalar)
{
    for (size_t n = 1; n <= SIZE_MAX_TRIED; n = next_size(n))
        for (unsigned share = 0; share <= 100; share += 20)
            CU_ASSERT(gaps_case(k, n, share == 20 ? 2 : share, random_below(2),
                                random_below(2) ? AT_END : AT_START));
}

LMC_TEST_MAIN("kernels of deltas")
