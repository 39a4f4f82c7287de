/* offset_costs.c - counts magnitudes by bins, and compares what they cost at a few neighbouring offsets. Costs are
 * integers: every machine chooses alike. */
#include "codec/plain/offset_costs.h"

#include "codec/common/entropy.h"

/* Bins below the level, of LMC_COST_BINS. */
#define BINS_BELOW 160

/* A value that did not occur counts half. It costs no more than an escape. */
#define NBITS_MAX 16.0
#define COST_OF_BIT 256

/* Values whose bins are found together. */
#define PIECE_VALUES 64

/* Columns that are counted together: their counts stay in the first-level cache. */
#define COLUMNS_AT_ONCE 32

/* The first costs come from about so many values. */
#define FIRST_VALUES 32768

#define ROUNDS 2

void lmc_offset_costs_place(lmc_offset_costs *costs, uint16_t mask, unsigned step_log2, unsigned level)
{
    const unsigned middle = level >> step_log2, bin_count = (mask >> step_log2) + 1u;
    const int fit = bin_count <= LMC_COST_BINS || middle <= BINS_BELOW;
    costs->mask = mask;
    costs->step_log2 = (uint8_t)step_log2;
    costs->first_bin = (uint16_t)(fit ? 0 : middle - BINS_BELOW);
}

void lmc_offset_costs_set(lmc_offset_costs *costs, const uint32_t counts[LMC_COST_BINS])
{
    uint64_t total = 0;
    for (size_t i = 0; i < LMC_COST_BINS; i++)
        total += counts[i];
    const double total_log2 = lmc_log2(total > 0 ? (double)total : 1);
    uint16_t *const nbits = costs->nbits + LMC_COST_REACH;
    for (size_t i = 0; i < LMC_COST_BINS; i++) {
        const double cost = total_log2 - lmc_log2(counts[i] > 0 ? (double)counts[i] : 0.5);
        nbits[i] = (uint16_t)((cost < NBITS_MAX ? cost : NBITS_MAX) * COST_OF_BIT);
    }
    for (size_t i = 0; i < LMC_COST_REACH; i++) {
        costs->nbits[i] = nbits[0];
        nbits[LMC_COST_BINS + i] = nbits[LMC_COST_BINS - 1];
    }
}

/* The bins of n <= PIECE_VALUES values. */
static void find_bins(const lmc_offset_costs *costs, const uint16_t *high, const uint16_t *shift,
                      uint16_t row, size_t n, uint8_t *bins)
{
    static const uint16_t no_shift[PIECE_VALUES];
    const uint16_t mask = costs->mask, first = costs->first_bin;
    const unsigned step_log2 = costs->step_log2;
    if (!shift)
        shift = no_shift;
    for (size_t i = 0; i < n; i++) {
        const uint16_t magnitude = (uint16_t)(high[i] + shift[i] + row) & mask;
        const uint16_t bin = (uint16_t)(magnitude >> step_log2);
        const uint16_t above = (uint16_t)(bin > first ? bin - first : 0);
        bins[i] = (uint8_t)(above < LMC_COST_BINS ? above : LMC_COST_BINS - 1);
    }
}

void lmc_offset_costs_count(const lmc_offset_costs *costs, const uint16_t *high, const uint16_t *shift,
                            uint16_t row, size_t n, uint16_t counts[LMC_COST_BINS])
{
    uint8_t bins[PIECE_VALUES];
    for (size_t first = 0; first < n; first += PIECE_VALUES) {
        const size_t m = lmc_min_size(PIECE_VALUES, n - first);
        find_bins(costs, high + first, shift ? shift + first : NULL, row, m, bins);
        for (size_t i = 0; i < m; i++)
            counts[bins[i]]++;
    }
}

/* What the values cost after a move. Numbers fit 16 bits with a sign, which compilers multiply quickly. */
static uint32_t cost_after(const lmc_offset_costs *costs, const uint16_t counts[LMC_COST_BINS], int move)
{
    const uint16_t *const nbits = costs->nbits + (LMC_COST_REACH + move);
    int32_t sum = 0;
    for (size_t i = 0; i < LMC_COST_BINS; i++)
        sum += (int32_t)(int16_t)nbits[i] * (int16_t)counts[i];
    return (uint32_t)sum;
}

int lmc_offset_costs_move(const lmc_offset_costs *costs, const uint16_t counts[LMC_COST_BINS], int32_t least,
                          int32_t most)
{
    int best = 0;
    uint32_t best_cost = cost_after(costs, counts, 0);
    for (int k = 1; k <= LMC_COST_REACH; k++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            const int move = sign * k;
            if (move < least || move > most)
                continue;
            const uint32_t cost = cost_after(costs, counts, move);
            if (cost < best_cost) {
                best_cost = cost;
                best = move;
            }
        }
    }
    return best;
}

lmc_offset_range lmc_offset_range_of(int32_t least, int32_t most, unsigned nbits)
{
    const int32_t spare = (int32_t)((1u << nbits) - 1) - (most - least);
    const int32_t first = least - spare / 2;
    return (lmc_offset_range){first, first + (int32_t)((1u << nbits) - 1)};
}

/* ---- rows of a sample ---- */

/* Adds counts of values that move by so many steps. */
static void add_moved(uint32_t total[LMC_COST_BINS], const uint16_t counts[LMC_COST_BINS], int move)
{
    const size_t up = move > 0 ? (size_t)move : 0, down = move < 0 ? (size_t)-move : 0;
    for (size_t i = 0; i < down; i++)
        total[0] += counts[i];
    for (size_t i = down; i < LMC_COST_BINS - up; i++)
        total[i + up - down] += counts[i];
    for (size_t i = LMC_COST_BINS - up; i < LMC_COST_BINS; i++)
        total[LMC_COST_BINS - 1] += counts[i];
}

/* Counts values of a row in pieces from all over it. */
static void count_row(const lmc_offset_costs *costs, const lmc_offset_rows *rows, size_t row,
                      uint16_t counts[LMC_COST_BINS])
{
    const size_t n = rows->column_count;
    const size_t pieces = n > LMC_COST_VALUES_MAX ? LMC_COST_PIECES : 1;
    const size_t piece = n > LMC_COST_VALUES_MAX ? LMC_COST_VALUES_MAX / LMC_COST_PIECES : n;
    memset(counts, 0, LMC_COST_BINS * sizeof *counts);
    for (size_t k = 0; k < pieces; k++) {
        const size_t at = n / pieces * k;
        lmc_offset_costs_count(costs, rows->high + row * n + at, rows->columns ? rows->columns + at : NULL,
                               (uint16_t)((uint32_t)rows->row_values[row] << costs->step_log2), piece,
                               counts);
    }
}

/* Counts the values of every step-th row. */
static void count_rows(const lmc_offset_costs *costs, const lmc_offset_rows *rows, size_t step,
                       uint32_t total[LMC_COST_BINS])
{
    uint16_t counts[LMC_COST_BINS];
    memset(total, 0, LMC_COST_BINS * sizeof *total);
    for (size_t i = 0; i < rows->row_count; i += step) {
        count_row(costs, rows, i, counts);
        add_moved(total, counts, 0);
    }
}

static void move_rows(const lmc_offset_costs *costs, const lmc_offset_rows *rows, lmc_offset_range range,
                      uint32_t total[LMC_COST_BINS])
{
    uint16_t counts[LMC_COST_BINS];
    memset(total, 0, LMC_COST_BINS * sizeof *total);
    for (size_t i = 0; i < rows->row_count; i++) {
        count_row(costs, rows, i, counts);
        const int32_t value = rows->row_values[i];
        const int move = lmc_offset_costs_move(costs, counts, range.least - value, range.most - value);
        rows->row_values[i] += move;
        add_moved(total, counts, move);
    }
}

static void move_columns(const lmc_offset_costs *costs, const lmc_offset_rows *rows,
                         uint32_t total[LMC_COST_BINS])
{
    uint16_t counts[COLUMNS_AT_ONCE][LMC_COST_BINS];
    uint8_t bins[COLUMNS_AT_ONCE];
    const int32_t most = (int32_t)((1u << rows->column_nbits) - 1);
    memset(total, 0, LMC_COST_BINS * sizeof *total);
    for (size_t first = 0; first < rows->column_count; first += COLUMNS_AT_ONCE) {
        const size_t n = lmc_min_size(COLUMNS_AT_ONCE, rows->column_count - first);
        memset(counts, 0, sizeof counts);
        for (size_t i = 0; i < rows->row_count; i++) {
            find_bins(costs, rows->high + i * rows->column_count + first, rows->columns + first,
                      (uint16_t)((uint32_t)rows->row_values[i] << costs->step_log2), n, bins);
            for (size_t j = 0; j < n; j++)
                counts[j][bins[j]]++;
        }
        for (size_t j = 0; j < n; j++) {
            const int32_t value = rows->columns[first + j] >> costs->step_log2;
            const int move = lmc_offset_costs_move(costs, counts[j], -value, most - value);
            rows->columns[first + j] = (uint16_t)((uint32_t)(value + move) << costs->step_log2);
            add_moved(total, counts[j], move);
        }
    }
}

void lmc_offset_costs_refine(lmc_offset_costs *costs, const lmc_offset_rows *rows)
{
    uint32_t total[LMC_COST_BINS];
    int32_t least = INT32_MAX, most = INT32_MIN;
    for (size_t i = 0; i < rows->row_count; i++) {
        least = rows->row_values[i] < least ? rows->row_values[i] : least;
        most = rows->row_values[i] > most ? rows->row_values[i] : most;
    }
    const unsigned nbits = most > least ? lmc_highest_bit((uint64_t)(most - least)) + 1 : 0;
    const lmc_offset_range range = lmc_offset_range_of(least, most, nbits);
    count_rows(costs, rows, rows->row_count * rows->column_count / FIRST_VALUES + 1, total);
    lmc_offset_costs_set(costs, total);
    for (unsigned round = 0; round < ROUNDS; round++) {
        if (rows->has_row_values) {
            move_rows(costs, rows, range, total);
            lmc_offset_costs_set(costs, total);
        }
        if (rows->column_nbits > 0) {
            move_columns(costs, rows, total);
            lmc_offset_costs_set(costs, total);
        }
    }
}
