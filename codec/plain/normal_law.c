/* normal_law.c - fits a normal distribution to counts of symbols, and shrinks the counts towards it (James and Stein):
 * by the share of their difference that chance explains. */
#include "codec/plain/normal_law.h"

#include "codec/common/entropy.h"

/* Smaller samples say too little of the scale. */
#define COUNT_MIN 4096

/* Symbols whose counts correct the law of the one in their middle. */
#define SMOOTHED 5

/* The law takes part from this share on. */
#define SHARE_MIN 0.1

/* The share of a normal distribution that is less than one standard deviation from 0. */
#define WITHIN_DEVIATION 0.6826895

/* Symbols with fewer expected values are compared together. */
#define CELL_MIN 8

/* A symbol that the sample missed gets a weight if so many values were expected, and if it is no further than this from
 * those that it has. */
#define MISSED_MIN 0.15
#define MISSED_COUNT_MAX 12

/* The magnitude at which a symbol begins, in units of that octave which symbol 0 begins in. It is linear within an
 * octave. */
static double symbol_begin(const lmc_symbol_places *places, unsigned symbol)
{
    const int32_t high = places->first + (int32_t)(symbol << places->low_nbits);
    const unsigned octave_log2 = places->octave_log2;
    const int32_t first_octave = places->first > 0 ? places->first >> octave_log2 : 0;
    if (high < 0)
        return 0;
    const int32_t octave = (high >> octave_log2) - first_octave;
    const int32_t within = high & ((1 << octave_log2) - 1);
    return (within + (1 << octave_log2)) * lmc_power_of_2(octave - (int)octave_log2);
}

/* Symbols that may get a weight: those in use, and some around them. */
typedef struct symbol_range {
    unsigned begin, end;
} symbol_range;

/* The density of magnitudes x, in standard deviations. */
static double density(double x)
{
    const double half_log2_e = 0.72134752044448170;
    const double at_0 = 0.79788456080286536; /* sqrt(2 / pi) */
    return at_0 * lmc_exp2(-half_log2_e * x * x);
}

/* Fills in how many of `total` values each symbol gets by the law: the integral of the density, by Simpson's rule. */
static void expect_counts(const lmc_symbol_places *places, symbol_range range, double deviation, double total,
                          double expected[256])
{
    const double unit = 1 / deviation;
    double begin = symbol_begin(places, range.begin) * unit;
    double density_at_begin = density(begin);
    for (unsigned s = range.begin; s < range.end; s++) {
        const double end = symbol_begin(places, s + 1) * unit;
        const double density_at_end = density(end);
        expected[s] = total * (end - begin) * (1 / 6.) *
                      (density_at_begin + 4 * density((begin + end) / 2) + density_at_end);
        begin = end;
        density_at_begin = density_at_end;
    }
}

/* Distributions with heavier tails differ from the law slowly: from symbol to symbol by little. So expected counts are
 * corrected by what is counted in SMOOTHED neighbouring symbols together. */
static void correct_expected(const uint32_t counts[256], symbol_range range, double expected[256])
{
    double by_law[256];
    double window_expected = 0, window_counted = 0;
    memcpy(by_law + range.begin, expected + range.begin, (range.end - range.begin) * sizeof *expected);
    for (unsigned s = range.begin; s < range.end + SMOOTHED / 2; s++) {
        if (s < range.end) {
            window_expected += by_law[s];
            window_counted += counts[s];
        }
        if (s >= range.begin + SMOOTHED) {
            window_expected -= by_law[s - SMOOTHED];
            window_counted -= counts[s - SMOOTHED];
        }
        if (s >= range.begin + SMOOTHED / 2 && window_expected > CELL_MIN)
            expected[s - SMOOTHED / 2] *= window_counted / window_expected;
    }
}

/* The share of the counts' difference from the law that chance explains. Squares of differences, in units of what is
 * expected, add up to the number of cells if it is all chance. */
static double share_of_chance(const uint32_t counts[256], symbol_range range, const double expected[256])
{
    double squares = 0, rest_expected = 0, rest = 0;
    unsigned cell_count = 0;
    for (unsigned s = range.begin; s < range.end; s++) {
        const double difference = counts[s] - expected[s];
        if (expected[s] < CELL_MIN) {
            rest_expected += expected[s];
            rest += counts[s];
            continue;
        }
        squares += difference * difference / expected[s];
        cell_count++;
    }
    const double rest_difference = rest - rest_expected;
    squares += rest_difference * rest_difference / (rest_expected > 1 ? rest_expected : 1);
    const double by_chance = cell_count * (1 - 1. / SMOOTHED) - 1; /* what was fitted is no chance */
    if (by_chance < 1)
        return 0;
    return squares > by_chance ? by_chance / squares : 1;
}

int lmc_normal_law_apply(const lmc_symbol_places *places, uint32_t counts[256])
{
    symbol_range range = {0, 256};
    while (range.end > 0 && counts[range.end - 1] == 0)
        range.end--;
    while (range.begin < range.end && counts[range.begin] == 0)
        range.begin++;
    range.begin = range.begin > MISSED_COUNT_MAX ? range.begin - MISSED_COUNT_MAX : 0;
    range.end = range.end < 256 - MISSED_COUNT_MAX ? range.end + MISSED_COUNT_MAX : 256;
    double expected[256] = {0};
    double total = 0;
    for (unsigned s = range.begin; s < range.end; s++)
        total += counts[s];
    if (total < COUNT_MIN)
        return 0;
    const double within = WITHIN_DEVIATION * total; /* magnitudes below the standard deviation */
    double below = 0;
    unsigned last = 0; /* the symbol in which it lies */
    while (last < 255 && below + counts[last] < within)
        below += counts[last++];
    const double begin = symbol_begin(places, last), end = symbol_begin(places, last + 1);
    const double deviation = counts[last] > 0 ? begin + (end - begin) * (within - below) / counts[last] : end;
    expect_counts(places, range, deviation, total, expected);
    correct_expected(counts, range, expected);
    const double share = share_of_chance(counts, range, expected);
    if (share < SHARE_MIN)
        return 0;
    for (unsigned s = range.begin; s < range.end; s++) {
        const double blended = counts[s] + share * (expected[s] - counts[s]);
        const uint32_t weight = (uint32_t)(LMC_LAW_UNIT * blended + 0.5);
        if (counts[s] > 0)
            counts[s] = weight > 0 ? weight : 1;
        else
            counts[s] = expected[s] >= MISSED_MIN ? weight : 0;
    }
    return 1;
}
