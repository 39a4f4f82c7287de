/* test_rans.c - rANS planes: the bytes are those of format.md, whatever the kernel set, and damaged ones are refused by
 * all sets alike. */
#include "lmc_test_data.h"

#include "codec/rans/rans_plane.h"
#include "lmc_test.h"
#include "lmc_test_rans.h"

#define N_MAX 70000
#define HEAD_NBYTES 260
#define CARRIED_NBYTES 128

static const lmc_kernels *sets[KERNEL_SETS_MAX];
static size_t set_count;
static lmc_scratch scratch;
static guarded stored_memory, symbol_memory;
static uint8_t *symbols, *expected, *stored, *scratch_memory;
static lmc_rans *rans;
static uint8_t carried[CARRIED_NBYTES], found_carried[CARRIED_NBYTES];

static void open_memory(void)
{
    set_count = kernel_sets(sets);
    scratch_memory = must_malloc_zeros(lmc_scratch_nbytes(&(lmc_scratch_size){N_MAX, 1, 0, 0}));
    lmc_scratch_place(&scratch, &(lmc_scratch_size){N_MAX, 1, 0, 0}, scratch_memory);
    stored_memory = guarded_open(4 * N_MAX);
    symbol_memory = guarded_open(2 * N_MAX);
    symbols = must_malloc(N_MAX + 64);
    expected = must_malloc(HEAD_NBYTES + 2 * N_MAX);
    stored = must_malloc(HEAD_NBYTES + 2 * N_MAX);
    rans = must_malloc(sizeof *rans);
}

static void close_memory(void)
{
    free(scratch_memory);
    guarded_close(&stored_memory);
    guarded_close(&symbol_memory);
    free(symbols);
    free(expected);
    free(stored);
    free(rans);
}

static size_t padded(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* ---- format.md "rANS planes" ---- */

static uint32_t start_of(unsigned symbol)
{
    uint32_t start = 0;
    for (unsigned s = 0; s < symbol; s++)
        start += rans->frequency[s];
    return start;
}

/* Undoes the steps of a decoder one by one. Returns the plane's bytes, also if they are more than may be. */
static size_t encode_by_the_book(const uint8_t *src, size_t n, uint8_t *dst)
{
    uint16_t *const words = must_malloc(2 * n);
    uint32_t state[64], start[256];
    size_t first = n;
    for (unsigned s = 0; s < 256; s++)
        start[s] = start_of(s);
    for (unsigned lane = 0; lane < 64; lane++)
        state[lane] = 0x10000u + carried[2 * lane] + 256u * carried[2 * lane + 1];
    for (size_t i = n; i-- > 0;) {
        const uint64_t f = rans->frequency[src[i]];
        uint32_t *const x = &state[i % 64];
        if (*x >= f << 20) {
            words[--first] = (uint16_t)*x;
            *x >>= 16;
        }
        *x = (uint32_t)((*x / f << 12) + *x % f + start[src[i]]);
    }
    const uint32_t word_count = (uint32_t)(n - first);
    memcpy(dst, &word_count, 4);
    memcpy(dst + 4, state, sizeof state);
    memcpy(dst + HEAD_NBYTES, words + first, 2 * word_count);
    free(words);
    return HEAD_NBYTES + 2 * (size_t)word_count;
}

/* ---- the codec ---- */

static size_t encode(const lmc_kernels *kernels, const uint8_t *src, size_t n, uint8_t *dst, size_t capacity)
{
    return lmc_rans_plane_encode(kernels, rans, &scratch, src, n, carried, dst, capacity);
}

/* Decodes n symbols to the end of symbol_memory. *used: bytes taken from the input. */
static lmc_status decode(const lmc_kernels *kernels, const uint8_t *src, size_t src_nbytes, size_t n,
                         size_t *used)
{
    lmc_reader reader = {src, src + src_nbytes, 0};
    lmc_diag diag;
    const lmc_status status = lmc_rans_plane_decode(
        kernels, rans, &reader, n, guarded_end(&symbol_memory, padded(n)), found_carried, &diag);
    CU_ASSERT(status == LMC_OK || diag.status == status);
    *used = src_nbytes - lmc_reader_left(&reader);
    return status;
}

static void make_case(rans_kind kind, size_t n)
{
    random_rans(kind, rans);
    random_rans_symbols(rans, symbols, n);
    memset(symbols + n, 0x5a, padded(n) - n);
    random_fill(carried, sizeof carried);
}

/* A case whose plane is small enough to be one. Returns its bytes, in `expected`. */
static size_t make_valid_case(size_t n)
{
    for (;;) {
        make_case((rans_kind)random_below(RANS_KIND_COUNT), n);
        const size_t nbytes = encode_by_the_book(symbols, n, expected);
        if (nbytes < n)
            return nbytes;
    }
}

static int is_decoded(size_t n)
{
    return memcmp(guarded_end(&symbol_memory, padded(n)), symbols, n) == 0 &&
           memcmp(found_carried, carried, sizeof carried) == 0;
}

/* Every set writes what the book says, into exactly that room, or nothing if the plane would not be smaller than its
 * symbols, and reads it back. */
static void check_round_trip(rans_kind kind, size_t n)
{
    make_case(kind, n);
    const size_t nbytes = encode_by_the_book(symbols, n, expected);
    for (size_t k = 0; k < set_count; k++) {
        uint8_t *const dst = guarded_end(&stored_memory, nbytes);
        const uint8_t *const src = guarded_copy(&symbol_memory, symbols, padded(n));
        size_t used;
        CU_ASSERT_EQUAL_FATAL(encode(sets[k], src, n, dst, nbytes), nbytes < n ? nbytes : 0);
        if (nbytes >= n) {
            memcpy(dst, expected, nbytes);
            CU_ASSERT_EQUAL(decode(sets[k], dst, nbytes, n, &used), LMC_ERR_CORRUPT);
            continue;
        }
        CU_ASSERT_EQUAL(memcmp(dst, expected, nbytes), 0);
        CU_ASSERT_EQUAL_FATAL(decode(sets[k], dst, nbytes, n, &used), LMC_OK);
        CU_ASSERT_EQUAL(used, nbytes);
        CU_ASSERT(is_decoded(n));
    }
}

/* ---- tests ---- */

LMC_TEST(test_small_planes)
{
    for (size_t n = 1; n <= 600; n++)
        for (unsigned kind = 0; kind < RANS_KIND_COUNT; kind++)
            check_round_trip((rans_kind)kind, n);
}

LMC_TEST(test_planes_about_a_strip)
{
    for (size_t n = 1; n <= 3; n++)
        for (size_t d = 0; d < 5; d++)
            for (unsigned kind = 0; kind < RANS_KIND_COUNT; kind++)
                check_round_trip((rans_kind)kind, n * LMC_STRIP_VALUES - 2 + d);
    for (unsigned i = 0; i < 100; i++)
        check_round_trip((rans_kind)(i % RANS_KIND_COUNT), 1 + random_below(6000));
}

LMC_TEST(test_large_planes)
{
    static const size_t sizes[] = {65535, 65536, 65537, 69999, N_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (unsigned kind = 0; kind < RANS_KIND_COUNT; kind++)
            check_round_trip((rans_kind)kind, sizes[i]);
}

/* A plane of symbols that need no word is all head. */
LMC_TEST(test_no_words)
{
    make_case(RANS_SINGLE, 261);
    CU_ASSERT_EQUAL(encode(sets[0], symbols, 261, stored, 261), HEAD_NBYTES);
    CU_ASSERT_EQUAL(encode(sets[0], symbols, 260, stored, 260), 0);
    CU_ASSERT_EQUAL(encode(sets[0], symbols, 261, stored, HEAD_NBYTES - 1), 0);
}

/* The plane is not the last of its block: any bytes follow, fewer or more than the slack of a kernel. */
LMC_TEST(test_bytes_behind)
{
    for (size_t behind = 1; behind < 2 * LMC_RANS_SLACK; behind += 1 + random_below(200)) {
        const size_t n = 300 + random_below(12000);
        const size_t nbytes = make_valid_case(n);
        for (size_t k = 0; k < set_count; k++) {
            uint8_t *const src = guarded_end(&stored_memory, nbytes + behind);
            size_t used;
            memcpy(src, expected, nbytes);
            random_fill(src + nbytes, behind);
            CU_ASSERT_EQUAL_FATAL(decode(sets[k], src, nbytes + behind, n, &used), LMC_OK);
            CU_ASSERT_EQUAL(used, nbytes);
            CU_ASSERT(is_decoded(n));
        }
    }
}

/* Less room than the plane takes: none is written beyond it, and the answer is 0. */
LMC_TEST(test_capacity)
{
    for (unsigned i = 0; i < 40; i++) {
        const size_t n = 400 + random_below(6000);
        const size_t nbytes = make_valid_case(n);
        for (size_t k = 0; k < set_count; k++)
            for (size_t short_of = 1; short_of <= nbytes; short_of += 1 + random_below(100)) {
                const size_t capacity = nbytes - short_of;
                uint8_t *const dst = guarded_end(&stored_memory, capacity);
                CU_ASSERT_EQUAL(encode(sets[k], symbols, n, dst, capacity), 0);
            }
    }
}

LMC_TEST(test_symbol_without_a_frequency)
{
    for (unsigned i = 0; i < 300; i++) {
        const size_t n = 300 + random_below(6000);
        make_case(RANS_FEW, n);
        unsigned missing = (unsigned)random_below(256);
        while (rans->frequency[missing] > 0)
            missing = (unsigned)random_below(256);
        symbols[i % 3 == 0 ? 0 : i % 3 == 1 ? n - 1 : random_below(n)] = (uint8_t)missing;
        for (size_t k = 0; k < set_count; k++)
            CU_ASSERT_EQUAL(encode(sets[k], symbols, n, stored, n), 0);
    }
}

LMC_TEST(test_truncation)
{
    for (unsigned i = 0; i < 40; i++) {
        const size_t n = i % 4 ? 300 + random_below(500) : 6000;
        const size_t nbytes = make_valid_case(n);
        for (size_t k = 0; k < set_count; k++)
            for (size_t cut = 0; cut < nbytes; cut++) {
                size_t used;
                const uint8_t *const copy = guarded_copy(&stored_memory, expected, cut);
                CU_ASSERT_EQUAL(decode(sets[k], copy, cut, n, &used), LMC_ERR_CORRUPT);
            }
    }
}

/* ---- damage ---- */

/* A damaged plane ends in one status for all sets; one that is accepted stands for other symbols or carried bytes, of
 * which it is the only coded form: encoding them gives the damaged bytes back. Returns the status. */
static lmc_status check_damaged(size_t n, size_t nbytes)
{
    lmc_status first = LMC_OK;
    for (size_t k = 0; k < set_count; k++) {
        size_t used;
        const uint8_t *const copy = guarded_copy(&stored_memory, stored, nbytes);
        const lmc_status status = decode(sets[k], copy, nbytes, n, &used);
        if (k == 0)
            first = status;
        CU_ASSERT_EQUAL(status, first);
        CU_ASSERT(status == LMC_OK || status == LMC_ERR_CORRUPT);
        if (status != LMC_OK)
            continue;
        memcpy(carried, found_carried, sizeof carried);
        CU_ASSERT_EQUAL(encode_by_the_book(guarded_end(&symbol_memory, padded(n)), n, expected), used);
        CU_ASSERT_EQUAL(memcmp(expected, stored, used), 0);
    }
    return first;
}

LMC_TEST(test_damage)
{
    for (unsigned i = 0; i < 3000; i++) {
        const size_t n = 300 + random_below(i % 8 ? 300 : 6000);
        const size_t nbytes = make_valid_case(n);
        memcpy(stored, expected, nbytes);
        for (size_t flips = 1 + random_below(2); flips > 0; flips--)
            stored[random_below(nbytes)] ^= (uint8_t)(1u << random_below(8));
        check_damaged(n, nbytes);
    }
}

/* Any states and any words, whose number is right by chance. */
LMC_TEST(test_noise)
{
    for (unsigned i = 0; i < 1000; i++) {
        const size_t n = 400 + random_below(8000);
        const uint32_t word_count = (uint32_t)random_below((n - HEAD_NBYTES - 1) / 2 + 1);
        const size_t nbytes = HEAD_NBYTES + 2 * (size_t)word_count;
        make_case((rans_kind)random_below(RANS_KIND_COUNT), 1);
        random_fill(stored, nbytes);
        memcpy(stored, &word_count, 4);
        for (size_t lane = 0; lane < 64; lane++)
            stored[4 + 4 * lane + 2] |= 1;
        check_damaged(n, nbytes);
    }
}

static void set_word_count(uint32_t word_count)
{
    memcpy(stored, &word_count, 4);
}

LMC_TEST(test_word_count)
{
    for (unsigned i = 0; i < 200; i++) {
        const size_t n = 300 + random_below(3000);
        const size_t nbytes = make_valid_case(n);
        const uint32_t word_count = (uint32_t)(nbytes - HEAD_NBYTES) / 2;
        const uint32_t wrong[] = {word_count + 1, word_count - 1, (uint32_t)n / 2,
                                  0x7fffffff,     0x80000000,     UINT32_MAX};
        memcpy(stored, expected, nbytes);
        memset(stored + nbytes, 0, 2);
        for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
            set_word_count(wrong[w]);
            CU_ASSERT_EQUAL(check_damaged(n, nbytes), LMC_ERR_CORRUPT);
            CU_ASSERT_EQUAL(check_damaged(n, nbytes + 2), LMC_ERR_CORRUPT);
        }
    }
}

/* The limit of word_count is that of the format, to the word: with a single symbol, no word is used. */
LMC_TEST(test_plane_is_smaller_than_its_symbols)
{
    make_case(RANS_SINGLE, N_MAX);
    for (size_t n = 261; n < 300; n++) {
        CU_ASSERT_EQUAL_FATAL(encode(sets[0], symbols, n, stored, n), HEAD_NBYTES);
        CU_ASSERT_EQUAL(check_damaged(n, HEAD_NBYTES), LMC_OK);
        CU_ASSERT_EQUAL(check_damaged(n - 261 + 1, HEAD_NBYTES), LMC_ERR_CORRUPT);
    }
    CU_ASSERT_EQUAL(check_damaged(260, HEAD_NBYTES), LMC_ERR_CORRUPT);
    CU_ASSERT_EQUAL(check_damaged(261, HEAD_NBYTES), LMC_OK);
}

/* First states below 2^16 and last states from 2^17 on. A single symbol leaves the states as they are. */
LMC_TEST(test_states)
{
    static const struct {
        uint32_t state;
        lmc_status status;
    } cases[] = {{0, LMC_ERR_CORRUPT},
                 {0xffff, LMC_ERR_CORRUPT},
                 {0x10000, LMC_OK},
                 {0x1ffff, LMC_OK},
                 {0x20000, LMC_ERR_CORRUPT},
                 {0x30000, LMC_ERR_CORRUPT},
                 {0x10010000, LMC_ERR_CORRUPT},
                 {UINT32_MAX, LMC_ERR_CORRUPT}};
    make_case(RANS_SINGLE, 500);
    CU_ASSERT_EQUAL_FATAL(encode(sets[0], symbols, 500, stored, 500), HEAD_NBYTES);
    for (size_t lane = 0; lane < 64; lane++)
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            uint8_t before[4];
            memcpy(before, stored + 4 + 4 * lane, 4);
            memcpy(stored + 4 + 4 * lane, &cases[c].state, 4);
            CU_ASSERT_EQUAL(check_damaged(500, HEAD_NBYTES), cases[c].status);
            memcpy(stored + 4 + 4 * lane, before, 4);
        }
}

LMC_TEST_MAIN_WITH("rans", open_memory(), close_memory())
