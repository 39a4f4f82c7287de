/*
 * delta_plan.h - decides, from a sample of content and base, whether the base helps, and if so how elements are
 * compared with it: classes, low bytes, low bits, block size.
 */
#ifndef LMC_CODEC_DELTA_DELTA_PLAN_H
#define LMC_CODEC_DELTA_DELTA_PLAN_H

#include "codec/delta/delta_sample.h"

typedef struct lmc_delta_input {
    lmc_dtype dtype;
    lmc_base_form base_form;
    uint64_t content_nbytes; /* of one element at least */
    lmc_read_fn read, read_base;
    void *user;
} lmc_delta_input;

typedef struct lmc_delta_decision {
    lmc_delta delta;
    unsigned block_log2;       /* that suits it */
    double nbits;              /* bits an element, about, that it takes so */
    double static_floor_nbits; /* and that it takes at the least without the base */
} lmc_delta_decision;

/* Working memory of one decision: the caller's, contents undefined before and after. */
typedef struct lmc_delta_plan_work {
    lmc_delta_sample *sample;
    uint8_t *buffer; /* LMC_PAIRS_BUFFER_NBYTES */
} lmc_delta_plan_work;

/* The best way to compare content and base. Errors: what a read returns. */
LMC_NODISCARD lmc_status lmc_delta_decide(const lmc_delta_input *input, const lmc_delta_plan_work *work,
                                          lmc_delta_decision *decision);

/* Is that better than whatever there is without the base? If not, is it better than static_nbits an element? */
int lmc_delta_is_surely_gain(const lmc_delta_decision *decision);
int lmc_delta_is_gain(const lmc_delta_decision *decision, double static_nbits);

#endif
