/*
 * lmc_test_kernels.h - what tests of kernels share: the sets by number, random numbers, and buffers that lie between
 * pages that may not be touched. Define _DEFAULT_SOURCE before the first header (MAP_ANONYMOUS).
 */
#ifndef LMC_TEST_KERNELS_H
#define LMC_TEST_KERNELS_H

#include "codec/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lmc_test.h"

#define MAYBE_UNUSED __attribute__((unused))

/* ---- sets, random numbers ---- */

static const char *const set_names[] = {"scalar", "avx2", "avx2-nopext", "avx512", "neon"};

static uint64_t random_state = 1;

static MAYBE_UNUSED uint64_t random_u64(void)
{
    uint64_t x = random_state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static MAYBE_UNUSED unsigned random_below(unsigned bound)
{
    return (unsigned)(random_u64() % bound);
}

static MAYBE_UNUSED void random_fill(uint8_t *p, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        p[i] = (uint8_t)random_u64();
}

/* ---- buffers between guard pages ---- */

#define REGION_NBYTES 65536
#define REGION_COUNT 64
#define FILLER 0xa5
#define MARGIN 64 /* checked for FILLER where no guard page follows at once */

typedef enum { AT_END, AT_START, AT_ODD_PLACE } placement;

static uint8_t *regions[REGION_COUNT];
static size_t used_regions;

static struct {
    uint8_t *p;
    size_t nbytes;
} taken[REGION_COUNT];

static MAYBE_UNUSED void map_regions(void)
{
    const size_t guard = 65536; /* a multiple of every page size there is */
    for (size_t i = 0; i < REGION_COUNT && !regions[i]; i++) {
        uint8_t *const p =
            mmap(NULL, REGION_NBYTES + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED || mprotect(p + guard, REGION_NBYTES, PROT_READ | PROT_WRITE) != 0)
            abort();
        regions[i] = p + guard;
    }
}

/* nbytes that may be touched: against the guard page behind or before them, or anywhere. */
static MAYBE_UNUSED uint8_t *take(size_t nbytes, placement place)
{
    if (used_regions == REGION_COUNT || nbytes + 2 * MARGIN > REGION_NBYTES)
        abort();
    uint8_t *const region = regions[used_regions];
    uint8_t *const p = place == AT_END     ? region + REGION_NBYTES - nbytes
                       : place == AT_START ? region
                                           : region + MARGIN + 1 + random_below(7);
    uint8_t *const from = place == AT_START ? p : p - MARGIN;
    memset(from, FILLER, nbytes + (place == AT_ODD_PLACE ? 2 : 1) * (size_t)MARGIN);
    taken[used_regions].p = p;
    taken[used_regions].nbytes = nbytes;
    used_regions++;
    return p;
}

static MAYBE_UNUSED int is_filler(const uint8_t *p, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        if (p[i] != FILLER)
            return 0;
    return 1;
}

/* Ends a case: nothing beside any buffer has been written. */
static MAYBE_UNUSED int release_all(void)
{
    int intact = 1;
    for (size_t i = 0; i < used_regions; i++) {
        const uint8_t *const p = taken[i].p;
        const uint8_t *const end = p + taken[i].nbytes;
        if (p > regions[i])
            intact &= is_filler(p - MARGIN, MARGIN);
        if (end < regions[i] + REGION_NBYTES)
            intact &= is_filler(end, MARGIN);
    }
    used_regions = 0;
    return intact;
}

static MAYBE_UNUSED size_t padded(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* A test that is run with each set `k` of this machine. */
#define LMC_SETS_TEST(test)                                      \
    static void test##_of_set(const lmc_kernels *k);             \
    LMC_TEST(test)                                               \
    {                                                            \
        map_regions();                                           \
        for (size_t set = 0; set < LMC_COUNT(set_names); set++)  \
            if (lmc_kernels_find(set_names[set]))                \
                test##_of_set(lmc_kernels_find(set_names[set])); \
    }                                                            \
    static void test##_of_set(const lmc_kernels *k)

/* Sizes worth a try: all small ones, and those about a strip. */
static MAYBE_UNUSED size_t next_size(size_t n)
{
    return n < 200 ? n + 1 : n < 1984 ? 1984 : n < 1987 ? n + 1 : n < 2046 ? 2046 : n + 1;
}

#define SIZE_MAX_TRIED LMC_STRIP_VALUES

/* A copy of a plane with readable bytes behind it. */
static MAYBE_UNUSED uint8_t *take_copy(const uint8_t *src, size_t nbytes, size_t slack, placement place)
{
    uint8_t *const p = take(nbytes + slack, place);
    random_fill(p, nbytes + slack);
    if (nbytes > 0)
        memcpy(p, src, nbytes);
    return p;
}

#endif
