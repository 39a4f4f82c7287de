/* test_offset_costs.c - moves by costs are never worse than none, the range is the cheapest there is, and a sample's
 * offsets come to where they belong. */
#include "lmc_test_data.h"

#include "codec/plain/offset_costs.h"
#include "lmc_test.h"

#include <math.h>

#define STEP_LOG2 4
#define OCTAVE 128 /* in magnitudes: 8 steps */
#define LEVEL (60 * OCTAVE)

static lmc_offset_costs costs;

static uint16_t random_magnitude(int shift)
{
    double sum = -6;
    for (unsigned i = 0; i < 12; i++)
        sum += (double)(random_u64() >> 11) / (double)(UINT64_C(1) << 53);
    return (uint16_t)(LEVEL + shift + (int)lround(OCTAVE * log2(fabs(sum) + 1e-3)));
}

static void set_costs(size_t n)
{
    uint16_t counts[LMC_COST_BINS] = {0};
    uint32_t total[LMC_COST_BINS];
    lmc_offset_costs_place(&costs, 0x7fff, STEP_LOG2, LEVEL);
    for (size_t i = 0; i < n; i++) {
        const uint16_t high = random_magnitude(0);
        lmc_offset_costs_count(&costs, &high, NULL, 0, 1, counts);
    }
    for (size_t i = 0; i < LMC_COST_BINS; i++)
        total[i] = counts[i];
    lmc_offset_costs_set(&costs, total);
}

static uint64_t cost_of(const uint16_t counts[LMC_COST_BINS], int move)
{
    uint64_t sum = 0;
    for (unsigned i = costs.used_first; i < costs.used_end; i++)
        sum += (uint64_t)counts[i] * costs.nbits[LMC_COST_SLACK + (int)i + move];
    return sum;
}

LMC_TEST(test_a_row_goes_where_it_is_cheapest)
{
    unsigned right = 0, tried = 0;
    set_costs(20000);
    for (int steps = -LMC_COST_REACH; steps <= LMC_COST_REACH; steps++) {
        for (unsigned i = 0; i < 50; i++) {
            uint16_t high[512], counts[LMC_COST_BINS] = {0};
            const size_t n = 512;
            for (size_t k = 0; k < n; k++)
                high[k] = random_magnitude(-steps * (1 << STEP_LOG2));
            lmc_offset_costs_count(&costs, high, NULL, 0, n, counts);
            const lmc_offset_move move = lmc_offset_costs_move(&costs, counts);
            const uint64_t here = cost_of(counts, move.steps);
            CU_ASSERT(move.steps >= -LMC_COST_REACH && move.steps <= LMC_COST_REACH);
            CU_ASSERT(here <= cost_of(counts, 0));
            const uint64_t up = cost_of(counts, move.steps + LMC_COST_FAR);
            const uint64_t down = cost_of(counts, move.steps - LMC_COST_FAR);
            CU_ASSERT_EQUAL(move.rise, up > here ? up - here : 0);
            CU_ASSERT_EQUAL(move.fall, down > here ? down - here : 0);
            right += abs(move.steps - steps) <= 1;
            tried++;
        }
    }
    CU_ASSERT(right >= tried * 95 / 100);
}

/* Any high parts, shifts and lengths: the same counts as one by one. */
LMC_TEST(test_counts)
{
    for (unsigned i = 0; i < 200; i++) {
        uint16_t high[300], shift[300], together[LMC_COST_BINS] = {0}, alone[LMC_COST_BINS] = {0};
        const size_t n = random_below(301);
        const uint16_t row = (uint16_t)random_u64();
        const uint16_t mask = i % 3 == 0 ? 0xffff : i % 3 == 1 ? 0x7fff : 0xff;
        const unsigned step_log2 = 1 + (unsigned)random_below(8);
        lmc_offset_costs_place(&costs, mask, step_log2, (unsigned)random_below(mask + 1u));
        for (size_t k = 0; k < n; k++) {
            high[k] = (uint16_t)random_u64();
            shift[k] = (uint16_t)random_u64();
            const int bin = ((high[k] + shift[k] + row) & mask) >> step_log2;
            const int above = bin - costs.first_bin;
            alone[above < 0 ? 0 : above > LMC_COST_BINS - 1 ? LMC_COST_BINS - 1 : above]++;
        }
        lmc_offset_costs_count(&costs, high, shift, row, n, together);
        CU_ASSERT(memcmp(together, alone, sizeof alone) == 0);
    }
}

/* ---- ranges ---- */

#define OFFSETS_MAX 40

static uint64_t cost_of_range(const int32_t *steps, const lmc_offset_move *moves, size_t n, int32_t least,
                              unsigned nbits)
{
    const int32_t most = least + (1 << nbits) - 1;
    uint64_t sum = (uint64_t)n * nbits * 256 * LMC_COST_FAR * LMC_COST_FAR;
    for (size_t i = 0; i < n; i++) {
        const int64_t up = least - steps[i], down = steps[i] - most;
        sum += up > 0 ? moves[i].rise * (uint64_t)(up * up) : 0;
        sum += down > 0 ? moves[i].fall * (uint64_t)(down * down) : 0;
    }
    return sum;
}

LMC_TEST(test_the_range_is_cheapest)
{
    static lmc_offset_ranges ranges;
    for (unsigned c = 0; c < 300; c++) {
        int32_t steps[OFFSETS_MAX], low = INT32_MAX, high = INT32_MIN;
        lmc_offset_move moves[OFFSETS_MAX];
        const size_t n = 1 + random_below(OFFSETS_MAX);
        const unsigned spread = 1 + (unsigned)random_below(c % 3 ? 20 : 200);
        const int32_t around = (int32_t)random_below(2000) - 1000;
        for (size_t i = 0; i < n; i++) {
            steps[i] = around + (int32_t)random_below(spread);
            moves[i] = (lmc_offset_move){0, (uint32_t)random_below(5000), (uint32_t)random_below(5000)};
            if (i == 0)
                lmc_offset_ranges_begin(&ranges, steps[i]);
            lmc_offset_ranges_add(&ranges, steps[i], &moves[i]);
            low = steps[i] < low ? steps[i] : low;
            high = steps[i] > high ? steps[i] : high;
        }
        const lmc_offset_range range = lmc_offset_ranges_choose(&ranges);
        unsigned nbits = 0;
        while (range.most - range.least > (1 << nbits) - 1)
            nbits++;
        CU_ASSERT_EQUAL(range.most - range.least, (1 << nbits) - 1);
        const uint64_t chosen = cost_of_range(steps, moves, n, range.least, nbits);
        uint64_t best = UINT64_MAX;
        for (unsigned b = 0; b <= LMC_FMT_OFFSET_NBITS_MAX; b++)
            for (int32_t least = low; least <= high; least++) {
                const uint64_t cost = cost_of_range(steps, moves, n, least, b);
                best = cost < best ? cost : best;
            }
        CU_ASSERT_EQUAL(chosen, best);
    }
}

/* Offsets far from all others are brought near, and none takes more than 8 bits. */
LMC_TEST(test_offsets_far_apart)
{
    static lmc_offset_ranges ranges;
    const lmc_offset_move move = {0, 100000, 100000};
    lmc_offset_ranges_begin(&ranges, 0);
    for (int32_t i = -5000; i <= 5000; i += 10)
        lmc_offset_ranges_add(&ranges, i, &move);
    const lmc_offset_range range = lmc_offset_ranges_choose(&ranges);
    CU_ASSERT_EQUAL(range.most - range.least, (1 << LMC_FMT_OFFSET_NBITS_MAX) - 1);
}

/* ---- samples ---- */

#define ROWS 128
#define COLUMNS 96

/* What the sample's bins take, in bits a value. */
static double entropy_of(const uint16_t *high, const int32_t *row_values, const uint16_t *columns)
{
    uint16_t counts[LMC_COST_BINS] = {0};
    double sum = 0;
    for (size_t i = 0; i < ROWS; i++)
        lmc_offset_costs_count(&costs, high + i * COLUMNS, columns,
                               (uint16_t)((uint32_t)row_values[i] << STEP_LOG2), COLUMNS, counts);
    for (size_t i = 0; i < LMC_COST_BINS; i++)
        sum -= counts[i] > 0 ? counts[i] * log2(counts[i] / (double)(ROWS * COLUMNS)) : 0;
    return sum / (ROWS * COLUMNS);
}

LMC_TEST(test_offsets_of_a_sample_get_better)
{
    static uint16_t high[ROWS * COLUMNS];
    for (unsigned c = 0; c < 20; c++) {
        int32_t row_values[ROWS];
        uint16_t columns[COLUMNS];
        /* what belongs to a row or column, and what it is off by */
        int row[ROWS], column[COLUMNS];
        for (size_t i = 0; i < ROWS; i++) {
            row[i] = (int)random_below(12) - 6;
            row_values[i] = -row[i] + (int)random_below(3) - 1;
        }
        for (size_t j = 0; j < COLUMNS; j++) {
            column[j] = (int)random_below(12);
            columns[j] = (uint16_t)((size_t)(12 - column[j] + (int)random_below(3)) << STEP_LOG2);
        }
        for (size_t i = 0; i < ROWS; i++)
            for (size_t j = 0; j < COLUMNS; j++)
                high[i * COLUMNS + j] = random_magnitude((row[i] + column[j]) * (1 << STEP_LOG2));
        lmc_offset_costs_place(&costs, 0x7fff, STEP_LOG2, LEVEL + (12 << STEP_LOG2));
        const double before = entropy_of(high, row_values, columns);
        const lmc_offset_rows rows = {.high = high,
                                      .row_count = ROWS,
                                      .column_count = COLUMNS,
                                      .has_row_values = 1,
                                      .row_values = row_values,
                                      .columns = columns,
                                      .columns_move = 1};
        const unsigned nbits = lmc_offset_costs_refine(&costs, &rows);
        CU_ASSERT(entropy_of(high, row_values, columns) < before);
        for (size_t j = 0; j < COLUMNS; j++)
            CU_ASSERT(columns[j] >> STEP_LOG2 < 1 << nbits);
    }
}

LMC_TEST_MAIN("offset_costs")
