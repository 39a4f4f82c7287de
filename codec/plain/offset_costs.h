/*
 * offset_costs.h - what magnitudes cost under the code of their tensor, and which offsets make rows and columns cheapest
 * by that. Level max improves offsets so, after offsets_plan.h and offsets.h have chosen them by means.
 */
#ifndef LMC_CODEC_PLAIN_OFFSET_COSTS_H
#define LMC_CODEC_PLAIN_OFFSET_COSTS_H

#include "codec/kernels/kernels.h"

/* A bin of magnitudes is a step of offsets wide. */
#define LMC_COST_BINS 256

/* An offset moves by so many steps at most. */
#define LMC_COST_REACH 3

/* Values of a row that are looked at, at most; those of a longer row in so many pieces from all over it. */
#define LMC_COST_VALUES_MAX LMC_STRIP_VALUES
#define LMC_COST_PIECES 4

/* Bins are counted from first_bin on. Lower ones count as the first of them, higher ones as the last. */
typedef struct lmc_offset_costs {
    uint16_t mask; /* of the magnitude in a high part */
    uint16_t first_bin;
    uint8_t step_log2;
    uint16_t nbits[LMC_COST_REACH + LMC_COST_BINS + LMC_COST_REACH]; /* of each bin, in 1 / 256 */
} lmc_offset_costs;

/* Places the bins around a magnitude. Costs are not set yet. */
void lmc_offset_costs_place(lmc_offset_costs *costs, uint16_t mask, unsigned step_log2, unsigned level);

/* Sets the costs by the counts of all values. */
void lmc_offset_costs_set(lmc_offset_costs *costs, const uint32_t counts[LMC_COST_BINS]);

/* Adds n high parts to the counts. Before, each is shifted, and all by `row` more; shift NULL: by nothing. */
void lmc_offset_costs_count(const lmc_offset_costs *costs, const uint16_t *high, const uint16_t *shift,
                            uint16_t row, size_t n, uint16_t counts[LMC_COST_BINS]);

/* The steps that values with these counts, of LMC_COST_VALUES_MAX at most, should move by: at least `least` <= 0, at
 * most `most` >= 0. Of equally cheap moves it is the least. */
int lmc_offset_costs_move(const lmc_offset_costs *costs, const uint16_t counts[LMC_COST_BINS], int32_t least,
                          int32_t most);

/* The values that offsets of nbits bits can have if they must include least..most: these are about in the middle. */
typedef struct lmc_offset_range {
    int32_t least, most;
} lmc_offset_range;

lmc_offset_range lmc_offset_range_of(int32_t least, int32_t most, unsigned nbits);

/* Rows with their offsets. */
typedef struct lmc_offset_rows {
    const uint16_t *high; /* of row_count rows of column_count elements */
    size_t row_count;
    uint32_t column_count;
    int has_row_values;
    int32_t *row_values;   /* steps of each row; 0 unless has_row_values */
    uint16_t *columns;     /* offset of each column, at least 0 steps; NULL: none */
    unsigned column_nbits; /* of a column's steps; 0: columns keep their offsets */
} lmc_offset_rows;

/* Moves rows and columns to where they are cheapest, and sets the costs by the result. */
void lmc_offset_costs_refine(lmc_offset_costs *costs, const lmc_offset_rows *rows);

#endif
