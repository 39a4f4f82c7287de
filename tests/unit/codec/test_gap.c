/* test_gap.c - bitsets as bitmaps, gaps and hierarchies: all densities, the form that is chosen, hostile bodies. */
#include "lmc_test_data.h"

#include "codec/bitset/bitset.h"
#include "lmc_test.h"

#include <math.h>

#define N_MAX 70000

static lmc_scratch scratch;
static uint8_t *scratch_memory;
static guarded bytes_memory, bitset_memory;
static uint64_t *bitset;

static void open_memory(void)
{
    scratch_memory = must_malloc_zeros(lmc_scratch_nbytes(&(lmc_scratch_size){N_MAX, 1, 0, 0}));
    lmc_scratch_place(&scratch, &(lmc_scratch_size){N_MAX, 1, 0, 0}, scratch_memory);
    bytes_memory = guarded_open(N_MAX);
    bitset_memory = guarded_open(N_MAX);
    bitset = must_malloc(lmc_bitset_words(N_MAX) * 8);
}

static void close_memory(void)
{
    free(scratch_memory);
    guarded_close(&bytes_memory);
    guarded_close(&bitset_memory);
    free(bitset);
}

static void set_bit(size_t i)
{
    bitset[i / 64] |= UINT64_C(1) << i % 64;
}

static void clear_bitset(size_t n)
{
    memset(bitset, 0, lmc_bitset_words(n) * 8);
}

/* Sets each bit with this probability. Returns the number of set bits. */
static size_t fill_random(size_t n, double density)
{
    size_t count = 0;
    clear_bitset(n);
    for (size_t i = 0; i < n; i++) {
        if ((double)(random_u64() >> 11) < density * 9007199254740992.0) {
            set_bit(i);
            count++;
        }
    }
    return count;
}

/* Decodes nbytes at src to a bitset that ends at a guard page, and *found points there. */
static lmc_status decode(const uint8_t *src, size_t nbytes, size_t n, uint64_t **found, size_t *used)
{
    lmc_diag diag;
    lmc_reader reader = {src, src + nbytes, 0};
    *found = (uint64_t *)(void *)guarded_end(&bitset_memory, lmc_bitset_words(n) * 8);
    const lmc_status status = lmc_bitset_decode(lmc_kernels_get(), &scratch, &reader, n, *found, &diag);
    *used = nbytes - lmc_reader_left(&reader);
    return status;
}

/* Encodes, into exactly the room that it takes, and decodes. Returns the bytes; *mode: the form. */
static size_t round_trip(size_t n, unsigned *mode)
{
    const size_t bitmap_nbytes = 1 + lmc_bits_nbytes(n);
    const size_t nbytes = lmc_bitset_encode(lmc_kernels_get(), &scratch, bitset, n,
                                            guarded_end(&bytes_memory, bitmap_nbytes), bitmap_nbytes);
    CU_ASSERT_FATAL(nbytes > 0 && nbytes <= bitmap_nbytes);
    uint8_t *const dst = guarded_end(&bytes_memory, nbytes);
    uint64_t *found;
    size_t used;
    CU_ASSERT_EQUAL(lmc_bitset_encode(lmc_kernels_get(), &scratch, bitset, n, dst, nbytes), nbytes);
    CU_ASSERT_EQUAL_FATAL(decode(dst, nbytes, n, &found, &used), LMC_OK);
    CU_ASSERT_EQUAL(used, nbytes);
    CU_ASSERT_EQUAL(memcmp(found, bitset, lmc_bitset_words(n) * 8), 0);
    *mode = dst[0];
    return nbytes;
}

/* ---- round trips ---- */

LMC_TEST(test_densities)
{
    static const double densities[] = {0, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.99, 0.999, 1};
    static const size_t sizes[] = {1000, 4096, 65535, 65536, N_MAX};
    unsigned mode;
    for (size_t d = 0; d < sizeof densities / sizeof densities[0]; d++) {
        for (size_t n = 1; n < 300; n++) {
            fill_random(n, densities[d]);
            round_trip(n, &mode);
        }
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            CU_ASSERT_EQUAL(fill_random(sizes[i], densities[d]),
                            lmc_bitset_count(lmc_kernels_get(), bitset, sizes[i]));
            round_trip(sizes[i], &mode);
        }
    }
}

/* Every set of up to 12 bits. */
LMC_TEST(test_all_small_sets)
{
    unsigned mode;
    for (size_t n = 1; n <= 12; n++) {
        for (uint64_t set = 0; set < UINT64_C(1) << n; set++) {
            bitset[0] = set;
            round_trip(n, &mode);
        }
    }
}

LMC_TEST(test_one_bit_anywhere)
{
    static const size_t sizes[] = {1, 2, 63, 64, 65, 255, 256, 4000, 65535, 65536, N_MAX};
    unsigned mode;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t n = sizes[i];
        for (size_t place = 0; place < n; place += n < 300 ? 1 : 1 + random_below(n / 50)) {
            clear_bitset(n);
            set_bit(place);
            round_trip(n, &mode);
            CU_ASSERT(n < 256 || mode == LMC_FMT_BITSET_GAPS_OF_ONES);
            for (size_t w = 0; w < lmc_bitset_words(n); w++)
                bitset[w] = ~bitset[w];
            if (n % 64 != 0)
                bitset[n / 64] &= lmc_low_mask(n % 64);
            round_trip(n, &mode);
            CU_ASSERT(n < 256 || mode == LMC_FMT_BITSET_GAPS_OF_ZEROS);
        }
        clear_bitset(n);
        set_bit(n - 1);
        round_trip(n, &mode);
    }
}

/* Flags in bursts: most gaps are 0 and a few are huge, the worst for a Rice code. */
LMC_TEST(test_bursts)
{
    unsigned mode;
    for (unsigned i = 0; i < 200; i++) {
        const size_t n = 1 + random_below(N_MAX);
        const size_t every = 1 + random_below(n);
        clear_bitset(n);
        for (size_t first = random_below(every); first < n; first += every)
            for (size_t k = first; k < n && k < first + every / 20 + 1; k++)
                set_bit(k);
        round_trip(n, &mode);
    }
}

static double binary_entropy(double p)
{
    return p <= 0 || p >= 1 ? 0 : -p * log2(p) - (1 - p) * log2(1 - p);
}

/* Does the mode list set bits, or clear bits, as gaps or as a hierarchy?. */
static int lists_ones(unsigned mode)
{
    return mode == LMC_FMT_BITSET_GAPS_OF_ONES || mode == LMC_FMT_BITSET_HIERARCHY_OF_ONES;
}

static int lists_zeros(unsigned mode)
{
    return mode == LMC_FMT_BITSET_GAPS_OF_ZEROS || mode == LMC_FMT_BITSET_HIERARCHY_OF_ZEROS;
}

/* The right form, and near the entropy where there is something to gain. */
LMC_TEST(test_form_and_size)
{
    for (double density = 0.0005; density < 1; density += density < 0.02 ? 0.001 : 0.02) {
        const size_t n = 65536;
        unsigned mode;
        const size_t m = fill_random(n, density);
        const double entropy = binary_entropy((double)m / (double)n) * (double)n;
        const size_t nbytes = round_trip(n, &mode);
        if (entropy < 0.8 * (double)n) {
            CU_ASSERT(density < 0.5 ? lists_ones(mode) : lists_zeros(mode));
            CU_ASSERT((double)nbytes * 8 < 1.06 * entropy + 800); /* the steps of the hierarchy */
        }
        if (density > 0.45 && density < 0.55)
            CU_ASSERT_EQUAL(mode, LMC_FMT_BITSET_BITMAP);
        const double estimate = lmc_bitset_cost_nbits(n, m);
        CU_ASSERT(estimate > 0.85 * (double)nbytes * 8 - 100 && estimate < 1.25 * (double)nbytes * 8 + 100);
    }
}

LMC_TEST(test_capacity)
{
    for (unsigned i = 0; i < 100; i++) {
        const size_t n = 1 + random_below(i % 2 ? 300 : 5000);
        fill_random(n, 0.5 * pow(2, -(double)random_below(8)));
        unsigned mode;
        const size_t nbytes = round_trip(n, &mode);
        for (size_t capacity = 0; capacity < nbytes; capacity++) {
            uint8_t *const dst = guarded_end(&bytes_memory, capacity);
            CU_ASSERT_EQUAL(lmc_bitset_encode(lmc_kernels_get(), &scratch, bitset, n, dst, capacity), 0);
        }
    }
}

/* ---- hostile bodies ---- */

/* The body must end in this status. */
static void check_hostile(const char *what, size_t n, const uint8_t *body, size_t nbytes, lmc_status wanted)
{
    uint64_t *found;
    size_t used;
    const lmc_status status = decode(guarded_copy(&bytes_memory, body, nbytes), nbytes, n, &found, &used);
    if (status != wanted)
        printf("\n%s: %s\n", what, lmc_status_text(status));
    CU_ASSERT_EQUAL(status, wanted);
}

LMC_TEST(test_rules)
{
    static const struct {
        const char *what;
        size_t n;
        lmc_status status;
        uint8_t nbytes, body[16];
    } cases[] = {
        {"a bitmap", 9, LMC_OK, 3, {0, 0xff, 0x01}},
        {"a bitmap of none", 9, LMC_OK, 3, {0, 0, 0}},
        {"bitmap: spare bits", 9, LMC_ERR_CORRUPT, 3, {0, 0xff, 0x03}},
        {"bitmap: cut short", 9, LMC_ERR_CORRUPT, 2, {0, 0xff}},
        {"no mode", 9, LMC_ERR_CORRUPT, 0, {0}},
        {"none", 9, LMC_OK, 1, {3}},
        {"all", 9, LMC_OK, 1, {4}},
        {"mode 7", 9, LMC_ERR_UNSUPPORTED, 4, {7, 1, 0, 8}},
        {"mode 255", 9, LMC_ERR_UNSUPPORTED, 4, {255, 1, 0, 8}},
        {"a one at 8", 9, LMC_OK, 4, {1, 1, 0, 8}},
        {"a zero at 8", 9, LMC_OK, 4, {2, 1, 0, 8}},
        {"a one at 9 of 9", 9, LMC_ERR_CORRUPT, 4, {1, 1, 0, 9}},
        {"a zero at 9 of 9", 9, LMC_ERR_CORRUPT, 4, {2, 1, 0, 9}},
        {"no members", 9, LMC_ERR_CORRUPT, 3, {1, 0, 0}},
        {"as many members as places", 9, LMC_OK, 12, {1, 9, 0}},
        {"more members than places", 9, LMC_ERR_CORRUPT, 13, {1, 10, 0}},
        {"the second member is beyond", 9, LMC_ERR_CORRUPT, 5, {1, 2, 0, 4, 4}},
        {"the second member is the last", 9, LMC_OK, 5, {1, 2, 0, 4, 3}},
        {"k = 15", 70, LMC_OK, 19, {1, 1, 15, 1}},
        {"k = 16", 70, LMC_ERR_CORRUPT, 16, {1, 1, 16, 1}},
        {"k = 255", 70, LMC_ERR_CORRUPT, 16, {1, 1, 255, 1}},
        {"low bits: spare bits", 70, LMC_ERR_CORRUPT, 5, {1, 1, 1, 0x02, 0}},
        {"low bits: cut short", 70, LMC_ERR_CORRUPT, 4, {1, 2, 2, 0}},
        {"the count is cut short", 256, LMC_ERR_CORRUPT, 2, {1, 1}},
        {"the last quotients are cut short", 70, LMC_ERR_CORRUPT, 5, {1, 3, 0, 1, 1}},
        {"16 members have a unary plane", 70, LMC_OK, 5, {1, 16, 0, 0, 0}},
        {"a unary plane is cut short", 70, LMC_ERR_CORRUPT, 4, {1, 16, 0, 0}},
        {"a unary plane: spare bits", 70, LMC_ERR_CORRUPT, 6, {1, 17, 0, 0, 0, 0x02}},
        {"pairs: both of all", 8, LMC_OK, 3, {5, 4, 4}},
        {"pairs of zeros", 8, LMC_OK, 3, {6, 4, 4}},
        {"pairs: the last one is no pair", 9, LMC_ERR_CORRUPT, 3, {5, 4, 4}},
        {"pairs: the first of each", 9, LMC_OK, 4, {5, 4, 3, 0}},
        {"pairs: the second of each", 8, LMC_OK, 4, {5, 4, 3, 0x0f}},
        {"pairs: the second of the last", 9, LMC_ERR_CORRUPT, 4, {5, 4, 3, 0x10}},
        {"pairs: spare bits", 9, LMC_ERR_CORRUPT, 4, {5, 4, 3, 0x20}},
        {"pairs: which of the two is cut", 9, LMC_ERR_CORRUPT, 3, {5, 4, 3}},
        {"pairs: both is cut", 9, LMC_ERR_CORRUPT, 2, {5, 4}},
        {"pairs: their mode alone", 9, LMC_ERR_CORRUPT, 1, {5}},
        {"pairs: none has a member", 9, LMC_ERR_CORRUPT, 2, {5, 3}},
        {"pairs: of zeros, none", 9, LMC_ERR_CORRUPT, 2, {6, 3}},
        {"a pair of one bit", 1, LMC_ERR_CORRUPT, 3, {5, 4, 3}},
        {"pairs of pairs", 8, LMC_OK, 6, {5, 5, 4, 4, 3, 0}},
        {"pairs of pairs, to one bit", 2, LMC_ERR_CORRUPT, 5, {5, 5, 4, 3, 0}},
        {"pairs: any in mode 7", 9, LMC_ERR_UNSUPPORTED, 2, {5, 7}},
        {"pairs: both in mode 255", 9, LMC_ERR_UNSUPPORTED, 3, {5, 4, 255}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t body[32] = {0}; /* what a case does not give is 0 */
        memcpy(body, cases[i].body, sizeof cases[i].body);
        check_hostile(cases[i].what, cases[i].n, body, cases[i].nbytes, cases[i].status);
    }
}

/* 12 unary planes of 16 members that all go on, then the greatest last quotients and low bits: nothing overflows. */
LMC_TEST(test_greatest_gaps)
{
    uint8_t body[256] = {1, 16, 0, 15};
    size_t nbytes = 4; /* n >= 256: counts of 2 bytes */
    memset(body + nbytes, 0xff, 15 * 2 + 12 * 2 + 16);
    nbytes += 15 * 2 + 12 * 2 + 16;
    check_hostile("greatest gaps", 65535, body, nbytes, LMC_ERR_CORRUPT);
}

LMC_TEST(test_truncation)
{
    uint8_t *const bytes = must_malloc(N_MAX);
    for (unsigned i = 0; i < 60; i++) {
        const size_t n = 1 + random_below(5000);
        fill_random(n, i % 3 ? 0.02 : 0.97);
        const size_t nbytes = lmc_bitset_encode(lmc_kernels_get(), &scratch, bitset, n, bytes, N_MAX);
        for (size_t cut = 0; cut < nbytes; cut++)
            check_hostile("cut short", n, bytes, cut, LMC_ERR_CORRUPT);
    }
    free(bytes);
}

static int is_hierarchy(unsigned mode)
{
    return mode == LMC_FMT_BITSET_HIERARCHY_OF_ONES || mode == LMC_FMT_BITSET_HIERARCHY_OF_ZEROS;
}

/* Damage ends in OK or CORRUPT; bits beyond n are never set, and the members are as many as were said. */
LMC_TEST(test_random_damage)
{
    uint8_t *const bytes = must_malloc(N_MAX);
    for (unsigned i = 0; i < 20000; i++) {
        const size_t n = 1 + random_below(i % 50 ? 600 : N_MAX);
        fill_random(n, i % 3 ? 0.04 : 0.96);
        const size_t nbytes = lmc_bitset_encode(lmc_kernels_get(), &scratch, bitset, n, bytes, N_MAX);
        for (size_t sign_changes = 1 + random_below(4); sign_changes > 0; sign_changes--)
            bytes[random_below(random_below(2) ? nbytes : lmc_min_size(nbytes, 5))] ^=
                (uint8_t)(1u << random_below(8));
        uint64_t *found;
        size_t used;
        const lmc_status status =
            decode(guarded_copy(&bytes_memory, bytes, nbytes), nbytes, n, &found, &used);
        const int is_known = bytes[0] <= LMC_FMT_BITSET_HIERARCHY_OF_ZEROS;
        CU_ASSERT(status == LMC_OK || status == (is_known ? LMC_ERR_CORRUPT : LMC_ERR_UNSUPPORTED) ||
                  (is_hierarchy(bytes[0]) && status == LMC_ERR_UNSUPPORTED)); /* of bitsets within */
        if (status != LMC_OK)
            continue;
        CU_ASSERT(n % 64 == 0 || (found[n / 64] & ~lmc_low_mask(n % 64)) == 0);
        const size_t count = lmc_bitset_count(lmc_kernels_get(), found, n);
        const size_t q = n < 256 ? 1 : n < 65536 ? 2 : 3;
        if (bytes[0] == LMC_FMT_BITSET_NONE || bytes[0] == LMC_FMT_BITSET_ALL) {
            CU_ASSERT_EQUAL(count, bytes[0] == LMC_FMT_BITSET_ALL ? n : 0);
        } else if (bytes[0] != LMC_FMT_BITSET_BITMAP && !is_hierarchy(bytes[0])) {
            CU_ASSERT_EQUAL(lmc_load_n(bytes + 1, q),
                            bytes[0] == LMC_FMT_BITSET_GAPS_OF_ONES ? count : n - count);
        }
    }
    free(bytes);
}

LMC_TEST_MAIN_WITH("gap", open_memory(), close_memory())
