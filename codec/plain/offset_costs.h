/*
 * offset_costs.h - what magnitudes cost under the code of their tensor, and which offsets make rows and columns
 * cheapest by that. Level max improves offsets so, after offsets_plan.h and offsets.h have chosen them by means.
 */
#ifndef LMC_CODEC_PLAIN_OFFSET_COSTS_H
#define LMC_CODEC_PLAIN_OFFSET_COSTS_H

#include "codec/kernels/kernels.h"

/* A bin of magnitudes is a step of offsets wide. */
#define LMC_COST_BINS 256

/* An offset moves by so many steps at most. How its cost rises on both sides is seen so many steps further. */
#define LMC_COST_REACH 3
#define LMC_COST_FAR 4
#define LMC_COST_SLACK (LMC_COST_REACH + LMC_COST_FAR)

/* Values of a row that are looked at, at most; those of a longer row in so many pieces from all over it. */
#define LMC_COST_VALUES_MAX LMC_STRIP_VALUES
#define LMC_COST_PIECES 4

/* Bins are counted from first_bin on. Lower ones count as the first of them, higher ones as the last. */
typedef struct lmc_offset_costs {
    uint16_t mask; /* of the magnitude in a high part */
    uint16_t first_bin;
    uint8_t step_log2;
    uint16_t used_first, used_end;                                   /* other bins have hardly any values */
    uint16_t nbits[LMC_COST_SLACK + LMC_COST_BINS + LMC_COST_SLACK]; /* of each bin, in 1 / 256 */
} lmc_offset_costs;

/* Places the bins around a magnitude. Costs are not set yet. */
void lmc_offset_costs_place(lmc_offset_costs *costs, uint16_t mask, unsigned step_log2, unsigned level);

/* Sets the costs by the counts of all values. */
void lmc_offset_costs_set(lmc_offset_costs *costs, const uint32_t counts[LMC_COST_BINS]);

/* Adds n high parts to the counts. Before, each is shifted, and all by `row` more; shift NULL: by nothing. */
void lmc_offset_costs_count(const lmc_offset_costs *costs, const uint16_t *high, const uint16_t *shift,
                            uint16_t row, size_t n, uint16_t counts[LMC_COST_BINS]);

/* Where a row or a column is cheapest. */
typedef struct lmc_offset_move {
    int steps;
    uint32_t rise, fall; /* what LMC_COST_FAR steps more cost, and less */
} lmc_offset_move;

/* The move of values with these counts, of 32767 at most. */
lmc_offset_move lmc_offset_costs_move(const lmc_offset_costs *costs, const uint16_t counts[LMC_COST_BINS]);

/* ---- the range of offsets ---- */

/* Offsets in a narrow range take fewer bits, but those outside must be brought into it. This has, for each number of
 * steps that some offsets have, the sums of their rise and fall. */
#define LMC_OFFSET_PLACES (2 << LMC_FMT_OFFSET_NBITS_MAX)

typedef struct lmc_offset_ranges {
    int32_t first;      /* steps of the first place */
    unsigned low, high; /* places in use */
    uint64_t count;
    uint64_t rise[LMC_OFFSET_PLACES], fall[LMC_OFFSET_PLACES];
} lmc_offset_ranges;

/* Before offsets about so many steps are added. Others count as LMC_OFFSET_PLACES / 2 less or more. */
void lmc_offset_ranges_begin(lmc_offset_ranges *ranges, int32_t steps);

/* After an offset was moved to so many steps. */
void lmc_offset_ranges_add(lmc_offset_ranges *ranges, int32_t steps, const lmc_offset_move *move);

typedef struct lmc_offset_range {
    int32_t least, most;
} lmc_offset_range;

/* The cheapest range of at least one offset. */
lmc_offset_range lmc_offset_ranges_choose(const lmc_offset_ranges *ranges);

LMC_INLINE int32_t lmc_offset_clamp(const lmc_offset_range *range, int32_t steps)
{
    return steps < range->least ? range->least : steps > range->most ? range->most : steps;
}

/* ---- rows of a sample ---- */

/* Rows with their offsets. */
typedef struct lmc_offset_rows {
    const uint16_t *high; /* of row_count rows of column_count elements */
    size_t row_count;
    uint32_t column_count;
    int has_row_values;
    int32_t *row_values; /* steps of each row; 0 unless has_row_values */
    uint16_t *columns;   /* offset of each column; NULL: none */
    int columns_move;    /* there are enough rows for that */
} lmc_offset_rows;

/* Moves rows and columns to where they are cheapest, and sets the costs by the result. The least column's offset
 * becomes 0. Returns the bits of a column's steps. */
unsigned lmc_offset_costs_refine(lmc_offset_costs *costs, const lmc_offset_rows *rows);

#endif
