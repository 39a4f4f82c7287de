/*
 * plan.h - decides how a tensor is coded: the split, a code for each plane, or nothing at all. The only place
 * that weighs ratio against speed.
 */
#ifndef LMC_CODEC_PLAIN_PLAN_H
#define LMC_CODEC_PLAIN_PLAN_H

#include "codec/plain/plan_section.h"
#include "codec/plain/sample.h"

/* Working memory of one decision: allocated by the caller, contents undefined before and after. */
typedef struct lmc_plan_work {
    lmc_sample sample;
    lmc_code_shape shapes[LMC_FMT_PLANE_COUNT_MAX];
    uint8_t buffer[LMC_SAMPLE_BUFFER_NBYTES];
} lmc_plan_work;

/* What was decided. */
typedef struct lmc_decision {
    lmc_coding coding;     /* its tables point into `tables` of the caller */
    int is_raw;            /* no plane gains anything */
    double nbits;          /* bits an element, about, that it takes so */
    size_t section_nbytes; /* plan section as it stands in the frame */
    uint8_t section[LMC_FMT_PLAN_NBYTES_MAX];
} lmc_decision;

/* Decides for content of at least one element, read through `read`. tables: LMC_FMT_PLANE_COUNT_MAX.
 * Errors: what read returns. */
LMC_NODISCARD lmc_status lmc_decide(lmc_dtype dtype, lmc_level level, uint64_t content_nbytes,
                                    lmc_read_fn read, void *user, lmc_plan_work *work, lmc_table *tables,
                                    lmc_decision *decision);

#endif
