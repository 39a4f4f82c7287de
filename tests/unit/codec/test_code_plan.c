/* test_code_plan.c - the code that is planned for a histogram: valid, and near the entropy. */
#include "lmc_test_data.h"

#include "codec/common/entropy.h"
#include "codec/prefix/code_build.h"
#include "lmc_test.h"

#include <math.h>

/* A value count at which a table's bytes do not matter. */
#define MANY 16e6

/* ---- histograms ---- */

static void fill_geometric(uint32_t weight[256], unsigned count, double ratio)
{
    double w = 1e7;
    memset(weight, 0, 256 * sizeof *weight);
    for (unsigned i = 0; i < count; i++) {
        weight[i * 83 % 256] = (uint32_t)w + 1; /* 83: all places, none in order */
        w *= ratio;
    }
}

static void fill_uniform(uint32_t weight[256], unsigned count)
{
    fill_geometric(weight, count, 1);
}

static void fill_random(uint32_t weight[256])
{
    const unsigned share = 1 + (unsigned)random_below(100);
    const unsigned skew = (unsigned)random_below(20);
    memset(weight, 0, 256 * sizeof *weight);
    for (unsigned s = 0; s < 256; s++)
        if (random_below(100) < share)
            weight[s] = (uint32_t)(1 + random_below(1000) * (random_u64() >> (63 - random_below(skew + 1))));
    weight[random_below(256)] += 1;
}

/* A normal distribution, as of quantised weights and, with a tail, of exponents. */
static void fill_hill(uint32_t weight[256], double sigma, double tail)
{
    for (int s = 0; s < 256; s++) {
        const double d = (s - 128) / sigma;
        weight[s] = (uint32_t)(1e6 * exp(-d * d / 2) + (s > 128 ? 0 : tail * exp(d)));
    }
}

/* ---- claims ---- */

static lmc_code_options options_of(int flat, int is_strict, int may_omit_literals, double value_count)
{
    return (lmc_code_options){.flat_layers = flat,
                              .tolerance = is_strict ? 0 : 0.001,
                              .may_omit_literals = may_omit_literals,
                              .value_count = value_count};
}

static double sum_of(const uint32_t weight[256])
{
    double sum = 0;
    for (unsigned s = 0; s < 256; s++)
        sum += weight[s];
    return sum;
}

static double entropy_of(const uint32_t weight[256])
{
    double w[256];
    for (unsigned s = 0; s < 256; s++)
        w[s] = weight[s];
    return lmc_entropy(w, 256);
}

/* Bits a symbol that the code takes, by its own lengths. */
static double true_cost(const uint32_t weight[256], const lmc_table *table)
{
    double nbits = 0;
    for (unsigned s = 0; s < 256; s++)
        nbits += weight[s] * (table->code_nbits[s] + (table->is_coded[s] ? 0 : 8));
    return nbits / sum_of(weight);
}

/* Plans, builds, and checks what holds for any histogram. Returns the true cost. */
static double plan_and_check(const uint32_t weight[256], const lmc_code_options *options)
{
    lmc_code_shape shape, again;
    lmc_table table;
    const double estimate = lmc_code_plan(weight, options, &shape);
    CU_ASSERT_EQUAL(lmc_code_plan(weight, options, &again), estimate);
    CU_ASSERT_EQUAL(memcmp(&shape, &again, sizeof shape), 0);
    CU_ASSERT_FATAL(shape.layer_count >= 1 && shape.layer_count <= LMC_FMT_LAYER_COUNT_MAX);
    CU_ASSERT_EQUAL_FATAL(lmc_table_build(&shape, &table, NULL), LMC_OK);
    CU_ASSERT(table.has_literals || options->may_omit_literals);
    for (unsigned s = 0; s < 256; s++) {
        CU_ASSERT(table.is_coded[s] || table.has_literals || weight[s] == 0);
        CU_ASSERT(!table.is_coded[s] || weight[s] > 0);
    }
    for (unsigned i = 0; i < shape.layer_count; i++)
        CU_ASSERT(!options->flat_layers || shape.first_nbits[i] == shape.last_nbits[i]);

    const double cost = true_cost(weight, &table);
    CU_ASSERT(cost >= entropy_of(weight) - LMC_LOG2_ERROR_MAX); /* no prefix code is shorter */
    CU_ASSERT(isfinite(estimate));
    CU_ASSERT(estimate >= cost - 1e-9); /* the estimate has the table's share on top */
    return cost;
}

/* Above this entropy a plane is hardly worth a code: then only validity is claimed. */
#define ENTROPY_OF_INTEREST 6.0

/* With all options; the cost stays within `bound` bits of the entropy, flat layers within flat_bound. */
static void check_all_options(const uint32_t weight[256], double bound, double flat_bound)
{
    const double entropy = entropy_of(weight);
    for (int i = 0; i < 8; i++) {
        const lmc_code_options many = options_of(i & 1, i >> 1 & 1, i >> 2 & 1, MANY);
        const lmc_code_options few = options_of(i & 1, i >> 1 & 1, i >> 2 & 1, 300);
        const double cost = plan_and_check(weight, &many);
        const double cost_max = entropy + (i & 1 ? flat_bound : bound) + 1e-9;
        if (cost > cost_max && entropy <= ENTROPY_OF_INTEREST)
            printf("\noptions %d: %f bits, entropy %f\n", i, cost, entropy);
        CU_ASSERT(cost <= cost_max || entropy > ENTROPY_OF_INTEREST);
        plan_and_check(weight, &few);
    }
}

/* ---- tests ---- */

LMC_TEST(test_log2)
{
    for (int k = -20; k <= 60; k++)
        CU_ASSERT_EQUAL(lmc_log2(ldexp(1, k)), k);
    for (double x = 1e-6; x < 1e18; x *= 1.0007)
        CU_ASSERT_DOUBLE_EQUAL(lmc_log2(x), log2(x), LMC_LOG2_ERROR_MAX);
    for (int k = -20; k <= 60; k++)
        CU_ASSERT_EQUAL(lmc_log2_near(ldexp(1, k)), k);
    for (double x = 1e-6; x < 1e18; x *= 1.0007)
        CU_ASSERT_DOUBLE_EQUAL(lmc_log2_near(x), log2(x), LMC_LOG2_NEAR_ERROR_MAX);
}

LMC_TEST(test_powers)
{
    for (int k = -1022; k <= 1023; k++)
        CU_ASSERT_EQUAL(lmc_power_of_2(k), ldexp(1, k));
    for (int k = 0; k < 1000; k++)
        CU_ASSERT_DOUBLE_EQUAL(lmc_exp2(-k), ldexp(1, -k), LMC_EXP2_ERROR_MAX * ldexp(1, -k));
    for (double x = -999; x <= 0; x += 0.0037)
        CU_ASSERT_DOUBLE_EQUAL(lmc_exp2(x), exp2(x), LMC_EXP2_ERROR_MAX * exp2(x));
    CU_ASSERT_EQUAL(lmc_exp2(-1001), 0);
    CU_ASSERT_EQUAL(lmc_exp2(-1e300), 0);
}

static void check_entropy(const uint32_t weight[256], double entropy)
{
    unsigned used, wanted = 0;
    for (unsigned s = 0; s < 256; s++)
        wanted += weight[s] > 0;
    CU_ASSERT_DOUBLE_EQUAL(entropy_of(weight), entropy, LMC_LOG2_ERROR_MAX);
    CU_ASSERT_DOUBLE_EQUAL(lmc_counts_entropy(weight, 256, &used), entropy, LMC_COUNTS_ENTROPY_ERROR_MAX);
    CU_ASSERT_EQUAL(used, wanted);
}

LMC_TEST(test_entropy)
{
    uint32_t weight[256];
    for (unsigned k = 0; k <= 8; k++) {
        fill_uniform(weight, 1u << k);
        check_entropy(weight, k);
    }
    memset(weight, 0, sizeof weight);
    check_entropy(weight, 0);
    weight[0] = 3, weight[255] = 1;
    check_entropy(weight, 0.811278124459133);
    weight[0] = 3u << 30, weight[255] = 1u << 30;
    check_entropy(weight, 0.811278124459133);
    for (unsigned i = 0; i < 1000; i++) {
        fill_random(weight);
        check_entropy(weight, entropy_of(weight));
    }
}

LMC_TEST(test_single_symbol)
{
    uint32_t weight[256] = {0};
    for (unsigned s = 0; s < 256; s += 51) {
        weight[s] = 1000;
        check_all_options(weight, 1, 1);
        weight[s] = 1;
        check_all_options(weight, 1, 1);
        weight[s] = 0;
    }
}

LMC_TEST(test_two_symbols)
{
    for (double share = 1; share < 1e9; share *= 10) {
        uint32_t weight[256] = {0};
        weight[7] = 1000000000;
        weight[200] = (uint32_t)share;
        check_all_options(weight, 1.001, 1.001);
    }
}

LMC_TEST(test_uniform)
{
    for (unsigned count = 2; count <= 256; count += count < 34 ? 1 : 5) {
        uint32_t weight[256];
        fill_uniform(weight, count);
        check_all_options(weight, 0.5, 2.2); /* the symbols that were not seen are one entry more */
    }
}

LMC_TEST(test_geometric)
{
    static const double ratios[] = {0.02, 0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995};
    for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++) {
        for (unsigned count = 2; count <= 256; count = count * 2 + 1) {
            uint32_t weight[256];
            fill_geometric(weight, count, ratios[i]);
            check_all_options(weight, 1.0, 2.0);
        }
    }
}

/* What the codec is for: here a code must be near the entropy. */
LMC_TEST(test_hills)
{
    for (double sigma = 1; sigma < 60; sigma *= 1.3) {
        uint32_t weight[256];
        fill_hill(weight, sigma, 0);
        check_all_options(weight, 0.12, 0.6);
        fill_hill(weight, sigma, 1e3);
        check_all_options(weight, 0.12, 0.6);
    }
}

LMC_TEST(test_random)
{
    for (unsigned i = 0; i < 50; i++) {
        uint32_t weight[256];
        fill_random(weight);
        check_all_options(weight, 1.0, 2.0);
    }
}

/* Bits a symbol of Huffman's code, and its longest length. */
static double huffman_cost(const uint32_t weight[256], unsigned *depth_max)
{
    double node[256];
    unsigned depth[256], n = 0;
    double cost = 0;
    for (unsigned s = 0; s < 256; s++)
        if (weight[s] > 0)
            depth[n] = 0, node[n++] = weight[s];
    while (n > 1) {
        for (unsigned k = 0; k < 2; k++) { /* the two lightest go last */
            unsigned least = 0;
            for (unsigned i = 1; i < n - k; i++)
                least = node[i] < node[least] ? i : least;
            const double w = node[least];
            const unsigned d = depth[least];
            node[least] = node[n - k - 1], depth[least] = depth[n - k - 1];
            node[n - k - 1] = w, depth[n - k - 1] = d;
        }
        n--;
        node[n - 1] += node[n];
        depth[n - 1] = 1 + (depth[n] > depth[n - 1] ? depth[n] : depth[n - 1]);
        cost += node[n - 1];
    }
    *depth_max = depth[0];
    return cost / sum_of(weight);
}

/* Where Huffman's code of all symbols fits into one layer, no other code of one layer is better, and what is
 * found is no worse but for the price of partial planes. */
LMC_TEST(test_against_huffman)
{
    unsigned compared = 0;
    for (unsigned i = 0; i < 3000; i++) {
        uint32_t weight[256] = {0};
        unsigned depth;
        const unsigned count = 2 + (unsigned)random_below(62);
        const unsigned spread = 1 + (unsigned)random_below(40);
        for (unsigned s = 0; s < count; s++)
            weight[s * 83 % 256] = (uint32_t)(100 + random_below(100 * spread));
        const double huffman = huffman_cost(weight, &depth);
        if (depth > LMC_FMT_LAYER_NBITS_MAX)
            continue;
        const lmc_code_options options = options_of(0, 0, 1, MANY);
        const double cost = plan_and_check(weight, &options);
        CU_ASSERT(cost <= huffman * 1.001 + 0.06);
        compared++;
    }
    CU_ASSERT(compared > 1000);
}

/* A search that may miss less finds no dearer code, but for the ways that a coarse search does not look at. */
LMC_TEST(test_tolerance)
{
    double strict_sum = 0, loose_sum = 0;
    for (double sigma = 2; sigma < 40; sigma *= 1.05) {
        uint32_t weight[256];
        lmc_code_shape shape;
        lmc_code_options options = options_of(0, 0, 0, MANY);
        fill_hill(weight, sigma, 1e3);
        options.tolerance = 0;
        const double strict = lmc_code_plan(weight, &options, &shape);
        options.tolerance = 0.01;
        const double loose = lmc_code_plan(weight, &options, &shape);
        CU_ASSERT(strict <= loose * 1.001);
        CU_ASSERT(loose <= strict * 1.02);
        strict_sum += strict;
        loose_sum += loose;
    }
    CU_ASSERT(strict_sum < loose_sum); /* the tolerance is heeded */
}

LMC_TEST_MAIN("code_plan")
