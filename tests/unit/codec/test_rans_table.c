/* test_rans_table.c - rANS tables: frequencies have the least cost, what is written is read back, everything else is
 * refused. */
#include "lmc_test_data.h"

#include <math.h>

#include "codec/common/entropy.h"
#include "codec/rans/rans_table.h"
#include "lmc_test.h"
#include "lmc_test_rans.h"

#define TOTAL LMC_FMT_RANS_TOTAL

static lmc_rans built, found;

/* ---- frequencies ---- */

/* Counts of up to symbols_max symbols, of any size or all alike. */
static void random_histogram(unsigned symbols_max, uint32_t histogram[256])
{
    const unsigned shift = (unsigned)random_below(32);
    memset(histogram, 0, 256 * sizeof *histogram);
    for (unsigned i = 0; i < symbols_max; i++) {
        const unsigned s = symbols_max == 256 ? i : (unsigned)random_below(256);
        histogram[s] = (uint32_t)(random_u64() >> 32 >> shift >> (shift % 2 ? random_geometric() % 32 : 0));
    }
    histogram[random_below(256)] |= 1;
}

static double log2_of_frequency(unsigned frequency)
{
    return log2((double)frequency);
}

/* No step from one symbol to another saves more than what lmc_log2() may be off. Since the cost is convex, no other
 * frequencies are better. */
static void check_frequencies(const uint32_t histogram[256], const uint16_t frequency[256])
{
    unsigned sum = 0;
    double gain_max = 0, loss_min = 1e300, total = 0;
    for (unsigned s = 0; s < 256; s++) {
        const unsigned f = frequency[s];
        sum += f;
        total += histogram[s];
        CU_ASSERT_EQUAL(f > 0, histogram[s] > 0);
        if (f == 0)
            continue;
        const double gain = histogram[s] * (log2_of_frequency(f + 1) - log2_of_frequency(f));
        gain_max = gain > gain_max ? gain : gain_max;
        if (f == 1)
            continue;
        const double loss = histogram[s] * (log2_of_frequency(f) - log2_of_frequency(f - 1));
        loss_min = loss < loss_min ? loss : loss_min;
    }
    CU_ASSERT_EQUAL(sum, TOTAL);
    CU_ASSERT(gain_max <= loss_min + total * 4 * LMC_LOG2_ERROR_MAX);
}

LMC_TEST(test_frequencies_have_the_least_cost)
{
    for (unsigned i = 0; i < 3000; i++) {
        uint32_t histogram[256];
        random_histogram(i % 3 ? 1 + (unsigned)random_below(40) : 256, histogram);
        lmc_rans_normalize(histogram, built.frequency);
        check_frequencies(histogram, built.frequency);
    }
}

LMC_TEST(test_extreme_histograms)
{
    uint32_t histogram[256] = {0};
    histogram[99] = 5;
    lmc_rans_normalize(histogram, built.frequency);
    CU_ASSERT_EQUAL(built.frequency[99], TOTAL);
    histogram[255] = UINT32_MAX;
    lmc_rans_normalize(histogram, built.frequency);
    CU_ASSERT_EQUAL(built.frequency[99], 1);
    CU_ASSERT_EQUAL(built.frequency[255], TOTAL - 1);
    for (unsigned s = 0; s < 256; s++)
        histogram[s] = UINT32_MAX;
    lmc_rans_normalize(histogram, built.frequency);
    for (unsigned s = 0; s < 256; s++)
        CU_ASSERT_EQUAL(built.frequency[s], TOTAL / 256);
    memset(histogram, 0, sizeof histogram);
    for (unsigned s = 0; s < 255; s++)
        histogram[s] = 1; /* each needs 1, and the last one would have all */
    histogram[255] = UINT32_MAX;
    lmc_rans_normalize(histogram, built.frequency);
    check_frequencies(histogram, built.frequency);
    CU_ASSERT_EQUAL(built.frequency[255], TOTAL - 255);
}

LMC_TEST(test_cost)
{
    for (unsigned i = 0; i < 300; i++) {
        uint32_t histogram[256] = {0};
        double nbits = 0;
        random_rans((rans_kind)(i % RANS_KIND_COUNT), &built);
        for (unsigned s = 0; s < 256; s++)
            histogram[s] = built.frequency[s] > 0 ? (uint32_t)(random_u64() >> 40) : 0;
        const unsigned left_out = (unsigned)random_below(257);
        for (unsigned s = 0; s < 256; s++)
            if (histogram[s] > 0 && s != left_out)
                nbits += histogram[s] * (12 - log2_of_frequency(built.frequency[s]));
        const double cost = lmc_rans_cost_nbits(built.frequency, histogram, left_out);
        CU_ASSERT(fabs(cost - nbits) <= 256 * 16777216. * LMC_LOG2_ERROR_MAX);
        const unsigned missing = (unsigned)random_below(256);
        if (built.frequency[missing] > 0)
            continue;
        histogram[missing] = 1;
        CU_ASSERT(lmc_rans_cost_nbits(built.frequency, histogram, 256) > 1e200);
        CU_ASSERT(lmc_rans_cost_nbits(built.frequency, histogram, missing) < 1e200);
    }
}

/* Slots and symbols are those of kernels.h. */
LMC_TEST(test_looked_up)
{
    for (unsigned i = 0; i < 100; i++) {
        unsigned start = 0;
        random_rans((rans_kind)(i % RANS_KIND_COUNT), &built);
        for (unsigned s = 0; s < 256; s++) {
            const unsigned frequency = built.frequency[s];
            CU_ASSERT_EQUAL(built.symbols[s].frequency, frequency);
            CU_ASSERT_EQUAL(built.symbols[s].start, start);
            for (unsigned k = 0; k < frequency; k++)
                CU_ASSERT_EQUAL(built.slots[start + k], s + 256 * (frequency - 1) + (k << 20));
            start += frequency;
        }
    }
}

/* ---- round trip ---- */

static size_t write_table(const uint16_t frequency[256], uint8_t bytes[LMC_RANS_TABLE_NBYTES_MAX])
{
    lmc_writer writer = {bytes, bytes + LMC_RANS_TABLE_NBYTES_MAX};
    lmc_rans_table_write(frequency, &writer);
    return (size_t)(writer.next - bytes);
}

LMC_TEST(test_round_trip)
{
    uint8_t bytes[LMC_RANS_TABLE_NBYTES_MAX];
    guarded g = guarded_open(sizeof bytes);
    for (unsigned i = 0; i < 3000; i++) {
        random_rans((rans_kind)(i % RANS_KIND_COUNT), &built);
        const size_t nbytes = write_table(built.frequency, bytes);
        const uint8_t *const copy = guarded_copy(&g, bytes, nbytes);
        lmc_reader reader = {copy, copy + nbytes, 0};
        memset(&found, 0xa5, sizeof found);
        CU_ASSERT_EQUAL_FATAL(lmc_rans_table_read(&reader, found.frequency, NULL), LMC_OK);
        CU_ASSERT_EQUAL(lmc_reader_left(&reader), 0);
        CU_ASSERT_EQUAL(memcmp(built.frequency, found.frequency, sizeof built.frequency), 0);
    }
    guarded_close(&g);
}

/* ---- damage ---- */

static lmc_status read_bytes(const guarded *g, const uint8_t *bytes, size_t nbytes)
{
    lmc_diag diag;
    const uint8_t *const copy = guarded_copy(g, bytes, nbytes);
    lmc_reader reader = {copy, copy + nbytes, 0};
    const lmc_status status = lmc_rans_table_read(&reader, found.frequency, &diag);
    if (status != LMC_OK) {
        CU_ASSERT_EQUAL(diag.status, status);
        CU_ASSERT(diag.offset <= nbytes);
    }
    return status;
}

LMC_TEST(test_truncation)
{
    uint8_t bytes[LMC_RANS_TABLE_NBYTES_MAX];
    guarded g = guarded_open(sizeof bytes);
    for (unsigned i = 0; i < 100; i++) {
        random_rans((rans_kind)(i % RANS_KIND_COUNT), &built);
        const size_t nbytes = write_table(built.frequency, bytes);
        for (size_t n = 0; n < nbytes; n++)
            CU_ASSERT_EQUAL(read_bytes(&g, bytes, n), LMC_ERR_CORRUPT);
        CU_ASSERT_EQUAL(read_bytes(&g, bytes, nbytes), LMC_OK);
    }
    guarded_close(&g);
}

/* One case for each rule of format.md "rANS table": the numbers b, and what follows them. */
static const struct rule {
    const char *text;
    lmc_status status;
    uint8_t class_count;
    char first, last;
    unsigned spare; /* bits behind the last frequency */
    unsigned count;
    struct {
        unsigned nbits, rest;
    } frequency[4];
} rules[] = {
    {"one symbol", LMC_OK, 1, 'a', 'a', 0, 1, {{13, 0}}},
    {"two symbols", LMC_OK, 1, 'a', 'b', 0, 2, {{12, 0}, {12, 0}}},
    {"a symbol without a frequency between", LMC_OK, 1, 'a', 'c', 0, 3, {{12, 0}, {0, 0}, {12, 0}}},
    {"1 and 4095", LMC_OK, 1, 'a', 'b', 0, 2, {{1, 0}, {12, 2047}}},
    {"four symbols", LMC_OK, 1, 'a', 'd', 0, 4, {{2, 1}, {2, 0}, {11, 1019}, {12, 0}}},
    {"no class", LMC_ERR_UNSUPPORTED, 0, 'a', 'a', 0, 1, {{13, 0}}},
    {"two classes", LMC_ERR_UNSUPPORTED, 2, 'a', 'a', 0, 1, {{13, 0}}},
    {"255 classes", LMC_ERR_UNSUPPORTED, 255, 'a', 'a', 0, 1, {{13, 0}}},
    {"symbols backwards", LMC_ERR_CORRUPT, 1, 'b', 'a', 0, 2, {{12, 0}, {12, 0}}},
    {"no frequency for the first symbol", LMC_ERR_CORRUPT, 1, 'a', 'b', 0, 2, {{0, 0}, {13, 0}}},
    {"no frequency for the last symbol", LMC_ERR_CORRUPT, 1, 'a', 'b', 0, 2, {{13, 0}, {0, 0}}},
    {"no frequency at all", LMC_ERR_CORRUPT, 1, 'a', 'a', 0, 1, {{0, 0}}},
    {"4095 together", LMC_ERR_CORRUPT, 1, 'a', 'b', 0, 2, {{12, 2047 - 1}, {1, 0}}},
    {"4097 together", LMC_ERR_CORRUPT, 1, 'a', 'b', 0, 2, {{13, 0}, {1, 0}}},
    {"a frequency of 4097", LMC_ERR_CORRUPT, 1, 'a', 'a', 0, 1, {{13, 1}}},
    {"a frequency of 14 bits", LMC_ERR_CORRUPT, 1, 'a', 'a', 0, 1, {{14, 0}}},
    {"a frequency of 15 bits", LMC_ERR_CORRUPT, 1, 'a', 'a', 0, 1, {{15, 0}}},
    {"4096 more than 4096", LMC_ERR_CORRUPT, 1, 'a', 'b', 0, 2, {{13, 0}, {13, 0}}},
    {"a spare bit", LMC_ERR_CORRUPT, 1, 'a', 'b', 1, 2, {{12, 0}, {12, 0}}},
    {"the last spare bit", LMC_ERR_CORRUPT, 1, 'a', 'b', 2, 2, {{12, 0}, {12, 0}}},
};

static size_t write_rule(const struct rule *rule, uint8_t bytes[64])
{
    lmc_bit_writer bits = {bytes + 3, 0, 0};
    memset(bytes, 0, 64);
    bytes[0] = rule->class_count;
    bytes[1] = (uint8_t)rule->first;
    bytes[2] = (uint8_t)rule->last;
    for (unsigned i = 0; i < rule->count; i++) {
        lmc_put_bits(&bits, rule->frequency[i].nbits, 4);
        if (rule->frequency[i].nbits > 1)
            lmc_put_bits(&bits, rule->frequency[i].rest, rule->frequency[i].nbits - 1);
    }
    lmc_put_bits(&bits, rule->spare, 2);
    lmc_store64(bits.next, bits.pending);
    return 3 + lmc_bits_nbytes((size_t)lmc_bits_written(&bits, bytes + 3) - 2);
}

LMC_TEST(test_rules)
{
    guarded g = guarded_open(64);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        uint8_t bytes[64];
        const size_t nbytes = write_rule(&rules[i], bytes);
        const lmc_status status = read_bytes(&g, bytes, nbytes);
        if (status != rules[i].status)
            printf("\n%s: %s\n", rules[i].text, lmc_status_text(status));
        CU_ASSERT_EQUAL(status, rules[i].status);
    }
    guarded_close(&g);
}

/* What is accepted is a table, and is written as it was read. */
LMC_TEST(test_random_damage)
{
    uint8_t bytes[LMC_RANS_TABLE_NBYTES_MAX], again[LMC_RANS_TABLE_NBYTES_MAX];
    guarded g = guarded_open(sizeof bytes);
    unsigned accepted = 0;
    for (unsigned i = 0; i < 60000; i++) {
        random_rans((rans_kind)(i % RANS_KIND_COUNT), &built);
        const size_t nbytes = write_table(built.frequency, bytes);
        for (size_t flips = 1 + random_below(3); flips > 0; flips--)
            bytes[random_below(nbytes)] ^= (uint8_t)(1u << random_below(8));
        const lmc_status status = read_bytes(&g, bytes, nbytes);
        CU_ASSERT(status == LMC_OK || status == LMC_ERR_CORRUPT ||
                  (status == LMC_ERR_UNSUPPORTED && bytes[0] != 1));
        if (status != LMC_OK)
            continue;
        accepted++;
        lmc_rans_set_slots(&found);
        const size_t again_nbytes = write_table(found.frequency, again);
        CU_ASSERT(again_nbytes <= nbytes);
        CU_ASSERT_EQUAL(memcmp(again, bytes, again_nbytes), 0);
    }
    CU_ASSERT(accepted > 100);
    guarded_close(&g);
}

LMC_TEST_MAIN("rans_table")
