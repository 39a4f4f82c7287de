/*
 * offsets_plan.h - decides the row and column offsets of a tensor by a sample of whole rows: the values of columns, and
 * the level that an encoder brings rows to. plan.h decides the codes of what results.
 */
#ifndef LMC_CODEC_PLAIN_OFFSETS_PLAN_H
#define LMC_CODEC_PLAIN_OFFSETS_PLAN_H

#include "codec/plain/offsets.h"
#include "codec/plain/sample.h"

/* Values and rows of a sample at most. */
#define LMC_ROW_SAMPLE_VALUES (1 << 20)
#define LMC_ROW_SAMPLE_ROWS 1024

/* Bins that the entropy of high parts is estimated by. */
#define LMC_ROW_SAMPLE_BINS 4096

/* Working memory of one decision; its content is undefined before and after. */
typedef struct lmc_offsets_work {
    uint16_t high[LMC_ROW_SAMPLE_VALUES]; /* of the sampled rows, one behind the other */
    uint32_t sums[LMC_OFFSETS_COLUMNS_MAX];
    int32_t column_values[LMC_OFFSETS_COLUMNS_MAX];
    uint64_t row_sums[LMC_ROW_SAMPLE_ROWS];
    uint16_t row_offsets[LMC_ROW_SAMPLE_ROWS];
    uint32_t bins[LMC_ROW_SAMPLE_BINS];
} lmc_offsets_work;

typedef struct lmc_offsets_input {
    const lmc_kernels *kernels;
    unsigned element_nbytes;
    unsigned exponent_nbits;
    int is_thorough; /* look at more rows */
    uint64_t value_count;
    uint32_t column_count; /* elements of a row; 0 unknown */
    lmc_read_fn read;
    void *user;
} lmc_offsets_input;

/* Decides the offsets of floats whose sample was taken, and counts the high parts of that sample anew, with their
 * offsets. offsets->column_count is 0 if they gain too little. columns: as in lmc_plan_room. buffer:
 * LMC_SAMPLE_BUFFER_NBYTES. Returns in *nbits what offsets take, in bits a value. Errors: what read returns. */
LMC_NODISCARD lmc_status lmc_offsets_decide(const lmc_offsets_input *input, lmc_sample *sample,
                                            lmc_offsets_work *work, uint8_t *buffer, uint16_t *columns,
                                            lmc_offsets *offsets, double *nbits);

#endif
