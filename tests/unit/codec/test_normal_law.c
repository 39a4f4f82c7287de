/* test_normal_law.c - counts of samples that are normally distributed come nearer to what they were drawn from; all
 * others stay about as they were. */
#include "lmc_test_data.h"

#include "codec/common/entropy.h"
#include "codec/plain/normal_law.h"
#include "lmc_test.h"

#include <math.h>

#define SAMPLE_COUNT 16384

/* Symbols of two bits of the mantissa, as bf16 has them. */
static const lmc_symbol_places quarters = {.first = 0, .low_nbits = 6, .octave_log2 = 8};

/* Edges of a symbol, on a scale on which octave k begins at 2^k. */
static double edge(const lmc_symbol_places *places, unsigned symbol)
{
    const double high = places->first + (double)((size_t)symbol << places->low_nbits);
    const double octave = floor(high / (1 << places->octave_log2));
    return high < 0 ? 0 : ldexp(1 + high / (1 << places->octave_log2) - octave, (int)octave);
}

/* The share of each symbol in a normal distribution, or in one with exponential tails. */
static void fill_shares(const lmc_symbol_places *places, double deviation, int is_exponential,
                        double shares[256])
{
    for (unsigned s = 0; s < 256; s++) {
        const double from = edge(places, s) / deviation, to = edge(places, s + 1) / deviation;
        shares[s] = is_exponential ? exp(-from) - exp(-to) : erf(to / sqrt(2)) - erf(from / sqrt(2));
    }
}

/* Draws n symbols. */
static void draw_counts(const double shares[256], size_t n, uint32_t counts[256])
{
    memset(counts, 0, 256 * sizeof *counts);
    for (size_t i = 0; i < n; i++) {
        double at = (double)(random_u64() >> 11) / (double)(UINT64_C(1) << 53);
        unsigned s = 0;
        while (s < 255 && at >= shares[s])
            at -= shares[s++];
        counts[s]++;
    }
}

/* Bits a symbol that a code for these counts takes more than one for the shares. Symbols without a count take 16. */
static double loss(const double shares[256], const uint32_t counts[256])
{
    double total = 0, bits = 0;
    for (unsigned s = 0; s < 256; s++)
        total += counts[s];
    for (unsigned s = 0; s < 256; s++)
        if (shares[s] > 0)
            bits += shares[s] * ((counts[s] > 0 ? log2(total / counts[s]) : 16) + log2(shares[s]));
    return bits;
}

/* The loss of drawn counts after the law was applied, as a share of that before. */
static double loss_left(int is_exponential)
{
    double before = 0, after = 0;
    for (double deviation = 1e3; deviation < 2e3; deviation *= 1.03) {
        double shares[256];
        uint32_t counts[256];
        fill_shares(&quarters, deviation, is_exponential, shares);
        draw_counts(shares, SAMPLE_COUNT, counts);
        before += loss(shares, counts);
        CU_ASSERT(lmc_normal_law_apply(&quarters, counts) || is_exponential);
        after += loss(shares, counts);
    }
    return after / before;
}

/* Heavier tails than a normal distribution has: nothing is lost. */
LMC_TEST(test_drawn_counts)
{
    CU_ASSERT(loss_left(0) < 0.5);
    CU_ASSERT(loss_left(1) < 1.05);
}

/* Counts that follow no such law do not change, or hardly. */
LMC_TEST(test_other_counts)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        uint32_t counts[256] = {0}, found[256];
        for (unsigned s = 0; s < 256; s++) {
            const uint32_t spikes = s % 16 == 3 ? 1000 : 0, ramp = s < 128 ? 3 * s : 0,
                           comb = s % 2 ? 200 : 20;
            counts[s] = kind == 0 ? 64 : kind == 1 ? spikes : kind == 2 ? ramp : comb;
        }
        memcpy(found, counts, sizeof found);
        if (!lmc_normal_law_apply(&quarters, found))
            CU_ASSERT_EQUAL(memcmp(found, counts, sizeof found), 0);
        for (unsigned s = 0; s < 256; s++)
            CU_ASSERT(counts[s] == 0 || found[s] > 0);
        double shares[256], sum = 0;
        for (unsigned s = 0; s < 256; s++)
            sum += counts[s];
        for (unsigned s = 0; s < 256; s++)
            shares[s] = counts[s] / sum;
        CU_ASSERT(loss(shares, found) < 0.02);
    }
}

/* Too few values say nothing. A single symbol, or none, is no distribution. */
LMC_TEST(test_small_samples)
{
    double shares[256];
    uint32_t counts[256], found[256];
    fill_shares(&quarters, 1500, 0, shares);
    draw_counts(shares, 1000, counts);
    memcpy(found, counts, sizeof found);
    CU_ASSERT(!lmc_normal_law_apply(&quarters, found));
    CU_ASSERT_EQUAL(memcmp(found, counts, sizeof found), 0);
    memset(found, 0, sizeof found);
    CU_ASSERT(!lmc_normal_law_apply(&quarters, found));
    for (unsigned s = 0; s < 256; s += 51) {
        memset(counts, 0, sizeof counts);
        counts[s] = SAMPLE_COUNT;
        memcpy(found, counts, sizeof found);
        CU_ASSERT(!lmc_normal_law_apply(&quarters, found));
        CU_ASSERT_EQUAL(memcmp(found, counts, sizeof found), 0);
    }
}

/* A symbol that was seen keeps a weight. One that the sample missed gets one if the law expects it. */
LMC_TEST(test_missed_symbols)
{
    double shares[256];
    uint32_t counts[256];
    fill_shares(&quarters, 1e3, 0, shares);
    for (unsigned s = 0; s < 256; s++)
        counts[s] = (uint32_t)(SAMPLE_COUNT * shares[s] + 0.5);
    counts[20] = 0;
    counts[200] = 1; /* far from all others */
    CU_ASSERT(lmc_normal_law_apply(&quarters, counts));
    CU_ASSERT(counts[20] > 0);
    CU_ASSERT(counts[200] > 0);
    CU_ASSERT_EQUAL(counts[150], 0);
    CU_ASSERT_EQUAL(counts[201], 0);
}

/* All places that a split can give: also such that begin below 0, and high parts with 11 bits of an exponent. */
LMC_TEST(test_places)
{
    static const lmc_symbol_places all[] = {{-60, 6, 8}, {24, 6, 8},   {370 << 6, 6, 8}, {65535 - 64, 4, 5},
                                            {0, 4, 5},   {300, 8, 10}, {-16, 7, 10}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        double shares[256];
        uint32_t counts[256];
        const lmc_symbol_places from_0 = {all[i].first % (1 << all[i].octave_log2), all[i].low_nbits,
                                          all[i].octave_log2};
        fill_shares(&from_0, edge(&from_0, 40), 0, shares);
        draw_counts(shares, SAMPLE_COUNT, counts);
        const double before = loss(shares, counts);
        CU_ASSERT(lmc_normal_law_apply(&all[i], counts));
        CU_ASSERT(loss(shares, counts) < before);
    }
}

LMC_TEST_MAIN("normal_law")
