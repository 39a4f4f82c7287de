/*
 * offsets_plan.h - decides the row and column offsets of a tensor by a sample of whole rows: the values of columns, and
 * the level that an encoder brings rows to. plain_plan.h decides the codes of what results.
 */
#ifndef LMC_CODEC_PLAIN_OFFSETS_PLAN_H
#define LMC_CODEC_PLAIN_OFFSETS_PLAN_H

#include "codec/plain/offsets.h"
#include "codec/plain/sample.h"

/* Blocks with a rANS code have so many values, unless the caller says otherwise: the states of the lanes are felt in
 * smaller ones. */
#define LMC_RANS_BLOCK_LOG2 18

/* Values and rows of a sample at most. */
#define LMC_ROW_SAMPLE_VALUES (1 << 20)
#define LMC_ROW_SAMPLE_ROWS 1024

/* Values that are worked on at once. */
#define LMC_ROW_PIECE_VALUES 4096

/* Bins that the entropy of high parts is estimated by. */
#define LMC_ROW_SAMPLE_BINS 4096

/* Working memory of one decision; its content is undefined before and after. */
typedef struct lmc_offsets_work {
    uint16_t high[LMC_ROW_SAMPLE_VALUES]; /* of the sampled rows, one behind the other */
    uint32_t sums[LMC_COLUMN_COUNT_MAX];
    float column_means[LMC_COLUMN_COUNT_MAX];
    int64_t row_sums[LMC_ROW_SAMPLE_ROWS];
    int32_t row_values[LMC_ROW_SAMPLE_ROWS]; /* in steps */
    uint16_t shifted[LMC_ROW_PIECE_VALUES];
    uint8_t piece[LMC_ROW_PIECE_VALUES * sizeof(uint64_t)];
    int32_t block_row_values[(1 << LMC_RANS_BLOCK_LOG2) / LMC_FMT_COLUMN_COUNT_MIN + 2]; /* of one block */
    uint16_t block_rows[(1 << LMC_RANS_BLOCK_LOG2) / LMC_FMT_COLUMN_COUNT_MIN + 2];
    uint32_t bins[LMC_ROW_SAMPLE_BINS];
} lmc_offsets_work;

/* Decides the offsets of floats whose sample was taken. If they gain enough, it counts high parts with their offsets;
 * else offsets->column_count is 0. columns, costs: as in lmc_plan_room. *nbits: what offsets take, in bits a value. At
 * level max more rows are looked at, and offsets are refined by their costs. Errors: what the content's read
 * returns. */
LMC_NODISCARD lmc_status lmc_offsets_decide(const lmc_content *content, lmc_sample *sample,
                                            lmc_offsets_work *work, uint16_t *columns,
                                            lmc_offset_costs *costs, lmc_offsets *offsets, double *nbits);

#endif
