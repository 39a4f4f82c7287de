/*
 * plain_plan.h - decides how a tensor is coded without a base: the split, a code for each plane, or no coding at all.
 * Only this file weighs ratio against speed.
 */
#ifndef LMC_CODEC_PLAIN_PLAIN_PLAN_H
#define LMC_CODEC_PLAIN_PLAIN_PLAN_H

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

/* What a decision points to. */
typedef struct lmc_plan_room {
    lmc_table *tables; /* LMC_FMT_PLANE_COUNT_MAX */
    lmc_rans *rans;
    uint16_t *columns; /* column_count, if that is at most LMC_COLUMN_COUNT_MAX */
    lmc_offset_costs *costs;
    uint8_t *section; /* lmc_section_nbytes_max() and 8 bytes more */
} lmc_plan_room;

/* The result. */
typedef struct lmc_decision {
    lmc_coding coding;     /* points into the room */
    int is_raw;            /* coding gains nothing in any plane */
    double nbits;          /* about how many bits an element takes when coded so */
    unsigned block_log2;   /* values of a block that the codes suit; 0: as usual */
    size_t section_nbytes; /* plan section as it stands in the frame */
} lmc_decision;

/* Decides how content of at least one element is coded without a base, and writes the plan section. Errors: what the
 * content's read returns. */
LMC_NODISCARD lmc_status lmc_decide(const lmc_content *content, lmc_plan_work *work,
                                    const lmc_plan_room *room, lmc_decision *decision);

#endif
