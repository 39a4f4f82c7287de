/*
 * plan.h - decides how a tensor is coded without a base: the split, a code for each plane, or no coding at all. Only
 * this file weighs ratio against speed.
 */
#ifndef LMC_CODEC_PLAIN_PLAN_H
#define LMC_CODEC_PLAIN_PLAN_H

#include "codec/plain/offsets_plan.h"
#include "codec/plain/plan_section.h"
#include "codec/plain/sample.h"

/* Working memory of one decision. The caller allocates it; its content is undefined before and after. */
typedef struct lmc_plan_work {
    lmc_sample sample;
    lmc_code_shape shapes[LMC_FMT_PLANE_COUNT_MAX];
    uint8_t buffer[LMC_SAMPLE_BUFFER_NBYTES];
    lmc_offsets_work offsets;
} lmc_plan_work;

/* The content, of at least one element. */
typedef struct lmc_plan_input {
    lmc_dtype dtype;
    lmc_level level;
    uint64_t content_nbytes;
    uint32_t column_count; /* elements of a row; 0 unknown */
    lmc_read_fn read;
    void *user;
} lmc_plan_input;

/* What a decision points to. */
typedef struct lmc_plan_room {
    lmc_table *tables; /* LMC_FMT_PLANE_COUNT_MAX */
    uint16_t *columns; /* column_count, if that is at most LMC_COLUMN_COUNT_MAX */
    uint8_t *section;  /* lmc_section_nbytes_max() and 8 bytes more */
} lmc_plan_room;

/* The result. */
typedef struct lmc_decision {
    lmc_coding coding;     /* points into the room */
    int is_raw;            /* coding gains nothing in any plane */
    double nbits;          /* about how many bits an element takes when coded so */
    size_t section_nbytes; /* plan section as it stands in the frame */
} lmc_decision;

/* Decides how the input is coded, and writes the plan section. Errors: what read returns. */
LMC_NODISCARD lmc_status lmc_decide(const lmc_plan_input *input, lmc_plan_work *work,
                                    const lmc_plan_room *room, lmc_decision *decision);

#endif
