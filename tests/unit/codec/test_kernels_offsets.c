/* test_kernels_offsets.c - the kernels of row and column offsets of every set against the reference, as test_kernels.c
 * does it. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "lmc_test.h"
#include "lmc_test_kernels.h"

/* n numbers of 16 bits that end, or begin, at a guard page. */
static uint16_t *take_u16(size_t n)
{
    return (uint16_t *)(void *)take(2 * n, random_below(2) ? AT_END : AT_START);
}

static uint16_t *random_u16(size_t n)
{
    uint16_t *const p = take_u16(n);
    const unsigned nbits = random_below(4) ? 16 : 3;
    for (size_t i = 0; i < n; i++)
        p[i] = (uint16_t)(random_u64() & ((1u << nbits) - 1));
    return p;
}

/* NULL in one of three cases. */
static uint16_t *random_u16_or_null(size_t n)
{
    return random_below(3) ? random_u16(n) : NULL;
}

/* ---- high parts ---- */

static int high_parts_case(const lmc_kernels *k, unsigned width, unsigned rotation, size_t n)
{
    const unsigned nbytes = 1u << width;
    uint8_t *const src = take(n * nbytes, (placement)random_below(3));
    uint16_t *const expected = take_u16(n), *const got = take_u16(n);
    random_fill(src, n * nbytes);
    lmc_kernels_scalar.high_parts[width](rotation, src, n, expected);
    k->high_parts[width](rotation, src, n, got);
    int good = memcmp(expected, got, 2 * n) == 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned nbits = 8 * nbytes;
        const uint64_t x = lmc_load_n(src + i * nbytes, nbytes);
        const uint64_t v = rotation ? (x << 1 | x >> (nbits - 1)) & lmc_low_mask(nbits) : x;
        good &= got[i] == (width == 0 ? v : v >> (nbits - 16));
    }
    return good & release_all();
}

LMC_SETS_TEST(test_high_parts)
{
    for (unsigned c = 0; c < 4 * 2; c++)
        for (size_t n = 0; n <= SIZE_MAX_TRIED; n = next_size(n))
            CU_ASSERT(high_parts_case(k, c & 3, c >> 2, n));
}

/* ---- clipped magnitudes ---- */

static lmc_clip random_clip(void)
{
    static const uint16_t masks[] = {0xffff, 0x7fff, 0xff, 0x7f, 0xfffe};
    const uint16_t mask = masks[random_below(LMC_COUNT(masks))];
    return (lmc_clip){mask, random_below(4) ? (uint16_t)random_below(mask) : 0};
}

/* By the letter of kernels.h. */
static uint32_t clipped(const lmc_clip *clip, const uint16_t *high, const uint16_t *shift, size_t i)
{
    const uint16_t magnitude = (uint16_t)((high[i] & clip->mask) + (shift ? shift[i] : 0));
    return magnitude < clip->floor ? clip->floor : magnitude;
}

static int clipped_case(const lmc_kernels *k, size_t n)
{
    const lmc_clip clip = random_clip();
    const uint16_t *const high = random_u16(n), *const shift = random_u16_or_null(n);
    uint32_t *const expected = (uint32_t *)(void *)take(4 * n, AT_START);
    uint32_t *const got = (uint32_t *)(void *)take(4 * n, random_below(2) ? AT_END : AT_START);
    uint32_t sum = 0;
    int good = 1;
    for (size_t i = 0; i < n; i++) {
        expected[i] = got[i] = (uint32_t)random_u64();
        sum += clipped(&clip, high, shift, i);
    }
    good &= lmc_kernels_scalar.sum_clipped(&clip, high, shift, n) == sum;
    good &= k->sum_clipped(&clip, high, shift, n) == sum;
    k->add_clipped(&clip, high, shift, n, got);
    for (size_t i = 0; i < n; i++)
        good &= got[i] == (uint32_t)(expected[i] + clipped(&clip, high, shift, i));
    lmc_kernels_scalar.add_clipped(&clip, high, shift, n, expected);
    good &= memcmp(expected, got, 4 * n) == 0;
    return good & release_all();
}

LMC_SETS_TEST(test_clipped_magnitudes)
{
    for (unsigned turn = 0; turn < 6; turn++)
        for (size_t n = 0; n <= SIZE_MAX_TRIED; n = next_size(n))
            CU_ASSERT(clipped_case(k, n));
}

/* The largest sum that there can be. */
LMC_SETS_TEST(test_large_sums)
{
    static uint16_t high[65536], shift[65536];
    const lmc_clip clip = {0x7fff, 100}, all = {0xffff, 0xffff};
    memset(high, 0xff, sizeof high);
    memset(shift, 0, sizeof shift);
    CU_ASSERT_EQUAL(k->sum_clipped(&clip, high, NULL, 65536), 0x7fffu * 65536u);
    CU_ASSERT_EQUAL(k->sum_clipped(&all, high, NULL, 65536), 0xffffu * 65536u);
    CU_ASSERT_EQUAL(k->sum_clipped(&all, high, shift, 65536), 0xffffu * 65536u);
}

/* ---- sums of offsets ---- */

static int add_shifts_case(const lmc_kernels *k, size_t n)
{
    const uint16_t *const a = random_u16_or_null(n), *const b = random_u16_or_null(n);
    const uint16_t c = (uint16_t)random_u64();
    uint16_t *const expected = take_u16(n), *const got = take_u16(n);
    lmc_kernels_scalar.add_shifts(a, b, c, n, expected);
    k->add_shifts(a, b, c, n, got);
    int good = memcmp(expected, got, 2 * n) == 0;
    for (size_t i = 0; i < n; i++)
        good &= got[i] == (uint16_t)((a ? a[i] : 0) + (b ? b[i] : 0) + c);
    return good & release_all();
}

LMC_SETS_TEST(test_sums_of_offsets)
{
    for (unsigned turn = 0; turn < 9; turn++)
        for (size_t n = 0; n <= SIZE_MAX_TRIED; n = next_size(n))
            CU_ASSERT(add_shifts_case(k, n));
}

LMC_TEST_MAIN("kernels_offsets")
