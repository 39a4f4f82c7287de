/*
 * plan.h - decides how a tensor is coded without a base: the split, a code for each plane, or no coding at all. Only
 * this file weighs ratio against speed.
 */
#ifndef LMC_CODEC_PLAIN_PLAN_H
#define LMC_CODEC_PLAIN_PLAN_H

#include "codec/plain/plan_section.h"
#include "codec/plain/sample.h"

/* Working memory of one decision. The caller allocates it; its content is undefined before and after. */
typedef struct lmc_plan_work {
    lmc_sample sample;
    lmc_code_shape shapes[LMC_FMT_PLANE_COUNT_MAX];
    uint8_t buffer[LMC_SAMPLE_BUFFER_NBYTES];
} lmc_plan_work;

/* The result. */
typedef struct lmc_decision {
    lmc_coding coding;     /* its tables point into the caller's `tables` */
    int is_raw;            /* coding gains nothing in any plane */
    double nbits;          /* about how many bits an element takes when coded so */
    size_t section_nbytes; /* plan section as it stands in the frame */
    uint8_t section[LMC_FMT_PLAN_NBYTES_MAX];
} lmc_decision;

/* Decides for content of at least one element, read through `read`. tables: LMC_FMT_PLANE_COUNT_MAX.
 * Errors: what read returns. */
LMC_NODISCARD lmc_status lmc_decide(lmc_dtype dtype, lmc_level level, uint64_t content_nbytes,
                                    lmc_read_fn read, void *user, lmc_plan_work *work, lmc_table *tables,
                                    lmc_decision *decision);

#endif
