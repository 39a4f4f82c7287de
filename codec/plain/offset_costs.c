/* offset_costs.c - counts magnitudes by bins, and compares what they cost at a few neighbouring offsets. Costs are
 * integers: every machine chooses alike. */
#include "codec/plain/offset_costs.h"

#include "codec/common/entropy.h"

/* Bins below the level, of LMC_COST_BINS. */
#define BINS_BELOW 160

/* A value that did not occur counts half. It costs no more than an escape. */
#define NBITS_MAX 16.0
#define COST_OF_BIT 256

/* Costs are summed up over a multiple of so many bins. */
#define BINS_AT_ONCE 16

/* Values whose bins are found together. */
#define PIECE_VALUES 64

/* Columns that are counted together: their counts stay in the first-level cache. */
#define COLUMNS_AT_ONCE 32

/* Costs are set by about so many values. */
#define COUNTED_VALUES 32768

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
    size_t used_first = LMC_COST_BINS, used_end = 0;
    for (size_t i = 0; i < LMC_COST_BINS; i++) {
        total += counts[i];
        if (counts[i] == 0)
            continue;
        used_first = used_first < i ? used_first : i;
        used_end = i + 1;
    }
    costs->used_first = (uint16_t)(used_first / BINS_AT_ONCE * BINS_AT_ONCE);
    costs->used_end = (uint16_t)((used_end + BINS_AT_ONCE - 1) / BINS_AT_ONCE * BINS_AT_ONCE);
    const double total_log2 = lmc_log2(total > 0 ? (double)total : 1);
    uint16_t *const nbits = costs->nbits + LMC_COST_SLACK;
    for (size_t i = 0; i < LMC_COST_BINS; i++) {
        const double cost = total_log2 - lmc_log2(counts[i] > 0 ? (double)counts[i] : 0.5);
        nbits[i] = (uint16_t)((cost < NBITS_MAX ? cost : NBITS_MAX) * COST_OF_BIT);
    }
    for (size_t i = 0; i < LMC_COST_SLACK; i++) {
        costs->nbits[i] = nbits[0];
        nbits[LMC_COST_BINS + i] = nbits[LMC_COST_BINS - 1];
    }
}

/* The bins of n <= PIECE_VALUES values. Numbers fit 16 bits with a sign, which compilers compare quickly. */
static void find_bins(const lmc_offset_costs *costs, const uint16_t *high, const uint16_t *shift,
                      uint16_t row, size_t n, uint8_t *bins)
{
    static const uint16_t no_shift[PIECE_VALUES];
    const uint16_t mask = costs->mask;
    const int16_t first = (int16_t)costs->first_bin;
    const unsigned step_log2 = costs->step_log2;
    if (!shift)
        shift = no_shift;
    for (size_t i = 0; i < n; i++) {
        const uint16_t magnitude = (uint16_t)(high[i] + shift[i] + row) & mask;
        int16_t bin = (int16_t)((int16_t)(magnitude >> step_log2) - first);
        bin = (int16_t)(bin > 0 ? bin : 0);
        bins[i] = (uint8_t)(bin < LMC_COST_BINS - 1 ? bin : LMC_COST_BINS - 1);
    }
}

void lmc_offset_costs_count(const lmc_offset_costs *costs, const uint16_t *high, const uint16_t *shift,
                            uint16_t row, size_t n, uint16_t counts[LMC_COST_BINS])
{
    uint8_t bins[PIECE_VALUES];
    for (size_t first = 0; first < n; first += PIECE_VALUES) {
        const size_t m = lmc_min_size(PIECE_VALUES, n - first);
        size_t i = 0;
        find_bins(costs, high + first, shift ? shift + first : NULL, row, m, bins);
        for (; i + 8 <= m; i += 8) {
            const uint64_t eight = lmc_load64(bins + i);
            for (unsigned k = 0; k < 64; k += 8)
                counts[eight >> k & 0xff]++;
        }
        for (; i < m; i++)
            counts[bins[i]]++;
    }
}

/* What the values cost after a move. Numbers fit 16 bits with a sign, which compilers multiply quickly. */
static uint32_t cost_after(const lmc_offset_costs *costs, const uint16_t counts[LMC_COST_BINS], int move)
{
    const uint16_t *const nbits = costs->nbits + (LMC_COST_SLACK + move);
    int32_t sum = 0;
    for (size_t i = costs->used_first; i < costs->used_end; i++)
        sum += (int32_t)(int16_t)nbits[i] * (int16_t)counts[i];
    return (uint32_t)sum;
}

lmc_offset_move lmc_offset_costs_move(const lmc_offset_costs *costs, const uint16_t counts[LMC_COST_BINS])
{
    uint32_t least = cost_after(costs, counts, 0);
    int steps = 0;
    for (int sign = -1; sign <= 1 && steps == 0; sign += 2) {
        for (int k = sign; k >= -LMC_COST_REACH && k <= LMC_COST_REACH; k += sign) {
            const uint32_t cost = cost_after(costs, counts, k);
            if (cost >= least)
                break;
            least = cost;
            steps = k;
        }
    }
    const uint32_t up = cost_after(costs, counts, steps + LMC_COST_FAR);
    const uint32_t down = cost_after(costs, counts, steps - LMC_COST_FAR);
    return (lmc_offset_move){steps, up > least ? up - least : 0, down > least ? down - least : 0};
}

/* ---- the range of offsets ---- */

void lmc_offset_ranges_begin(lmc_offset_ranges *ranges, int32_t steps)
{
    memset(ranges, 0, sizeof *ranges);
    ranges->first = steps - LMC_OFFSET_PLACES / 2;
    ranges->low = LMC_OFFSET_PLACES;
}

void lmc_offset_ranges_add(lmc_offset_ranges *ranges, int32_t steps, const lmc_offset_move *move)
{
    const lmc_offset_range all = {ranges->first, ranges->first + LMC_OFFSET_PLACES - 1};
    const unsigned place = (unsigned)(lmc_offset_clamp(&all, steps) - ranges->first);
    ranges->rise[place] += move->rise;
    ranges->fall[place] += move->fall;
    ranges->low = place < ranges->low ? place : ranges->low;
    ranges->high = place > ranges->high ? place : ranges->high;
    ranges->count++;
}

lmc_offset_range lmc_offset_ranges_choose(const lmc_offset_ranges *ranges)
{
    const uint64_t bit = (uint64_t)COST_OF_BIT * LMC_COST_FAR * LMC_COST_FAR * ranges->count;
    uint64_t up[LMC_OFFSET_PLACES], down[LMC_OFFSET_PLACES], best_cost = UINT64_MAX;
    unsigned best = ranges->low, best_nbits = 0;
    /* What it costs to bring all lower offsets up to each place, and all higher ones down to it. A cost grows with the
     * square of the distance: from one place to the next by twice the sum of distances, and by all that are moved. */
    uint64_t moved = 0, distances = 0;
    up[ranges->low] = 0;
    for (unsigned place = ranges->low; place < ranges->high; place++) {
        moved += ranges->rise[place];
        up[place + 1] = up[place] + 2 * distances + moved;
        distances += moved;
    }
    moved = distances = 0;
    down[ranges->high] = 0;
    for (unsigned place = ranges->high; place > ranges->low; place--) {
        moved += ranges->fall[place];
        down[place - 1] = down[place] + 2 * distances + moved;
        distances += moved;
    }
    for (unsigned nbits = 0; nbits <= LMC_FMT_OFFSET_NBITS_MAX; nbits++) {
        const unsigned span = (1u << nbits) - 1;
        for (unsigned low = ranges->low; low == ranges->low || low + span <= ranges->high; low++) {
            const unsigned last = low + span < ranges->high ? low + span : ranges->high;
            const uint64_t cost = nbits * bit + up[low] + down[last];
            if (cost >= best_cost)
                continue;
            best_cost = cost;
            best = low;
            best_nbits = nbits;
        }
    }
    const int32_t least = ranges->first + (int32_t)best;
    return (lmc_offset_range){least, least + (int32_t)((1u << best_nbits) - 1)};
}

/* ---- rows of a sample ---- */

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

static void set_by_rows(lmc_offset_costs *costs, const lmc_offset_rows *rows)
{
    uint16_t counts[LMC_COST_BINS];
    uint32_t total[LMC_COST_BINS] = {0};
    const size_t step = rows->row_count * rows->column_count / COUNTED_VALUES + 1;
    for (size_t i = 0; i < rows->row_count; i += step) {
        count_row(costs, rows, i, counts);
        for (size_t b = 0; b < LMC_COST_BINS; b++)
            total[b] += counts[b];
    }
    lmc_offset_costs_set(costs, total);
}

static void move_rows(const lmc_offset_costs *costs, const lmc_offset_rows *rows)
{
    uint16_t counts[LMC_COST_BINS];
    lmc_offset_ranges ranges;
    lmc_offset_ranges_begin(&ranges, rows->row_values[0]);
    for (size_t i = 0; i < rows->row_count; i++) {
        count_row(costs, rows, i, counts);
        const lmc_offset_move move = lmc_offset_costs_move(costs, counts);
        rows->row_values[i] += move.steps;
        lmc_offset_ranges_add(&ranges, rows->row_values[i], &move);
    }
    const lmc_offset_range range = lmc_offset_ranges_choose(&ranges);
    for (size_t i = 0; i < rows->row_count; i++)
        rows->row_values[i] = lmc_offset_clamp(&range, rows->row_values[i]);
}

/* Moves n <= COLUMNS_AT_ONCE columns from `first` on; the result may be less than 0, mod 2^16. */
static void move_some_columns(const lmc_offset_costs *costs, const lmc_offset_rows *rows, size_t first,
                              size_t n, int16_t *steps, lmc_offset_ranges *ranges)
{
    uint16_t counts[COLUMNS_AT_ONCE][LMC_COST_BINS];
    uint8_t bins[COLUMNS_AT_ONCE];
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < rows->row_count; i++) {
        find_bins(costs, rows->high + i * rows->column_count + first, rows->columns + first,
                  (uint16_t)((uint32_t)rows->row_values[i] << costs->step_log2), n, bins);
        for (size_t j = 0; j < n; j++)
            counts[j][bins[j]]++;
    }
    for (size_t j = 0; j < n; j++) {
        const lmc_offset_move move = lmc_offset_costs_move(costs, counts[j]);
        const int32_t moved = (rows->columns[first + j] >> costs->step_log2) + move.steps;
        lmc_offset_ranges_add(ranges, moved, &move);
        steps[j] = (int16_t)moved;
    }
}

/* The columns' least offset becomes 0, and rows make up for it. Returns the most steps. */
static unsigned move_columns(const lmc_offset_costs *costs, const lmc_offset_rows *rows)
{
    lmc_offset_ranges ranges;
    int16_t *const steps = (int16_t *)rows->columns; /* for a while */
    lmc_offset_ranges_begin(&ranges, rows->columns[0] >> costs->step_log2);
    for (size_t first = 0; first < rows->column_count; first += COLUMNS_AT_ONCE)
        move_some_columns(costs, rows, first, lmc_min_size(COLUMNS_AT_ONCE, rows->column_count - first),
                          steps + first, &ranges);
    const lmc_offset_range range = lmc_offset_ranges_choose(&ranges);
    unsigned most = 0;
    for (size_t j = 0; j < rows->column_count; j++) {
        const unsigned value = (unsigned)(lmc_offset_clamp(&range, steps[j]) - range.least);
        rows->columns[j] = (uint16_t)(value << costs->step_log2);
        most = value > most ? value : most;
    }
    for (size_t i = 0; i < rows->row_count; i++)
        rows->row_values[i] += range.least;
    return most;
}

unsigned lmc_offset_costs_refine(lmc_offset_costs *costs, const lmc_offset_rows *rows)
{
    unsigned most = 0;
    if (rows->has_row_values) {
        set_by_rows(costs, rows);
        move_rows(costs, rows);
    }
    if (rows->columns_move) {
        set_by_rows(costs, rows);
        most = move_columns(costs, rows);
    }
    set_by_rows(costs, rows);
    return most > 0 ? lmc_highest_bit(most) + 1 : 0;
}
