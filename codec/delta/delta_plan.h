/*
 * delta_plan.h - decides from a sample of content and base how elements are compared: classes, lower bytes, low bits,
 * block size. It also tells if the base helps, and writes and reads the plan section.
 */
#ifndef LMC_CODEC_DELTA_DELTA_PLAN_H
#define LMC_CODEC_DELTA_DELTA_PLAN_H

#include "codec/delta/delta_sample.h"

typedef struct lmc_delta_decision {
    lmc_delta delta;
    unsigned block_log2;       /* the best block size */
    double nbits;              /* about how many bits an element takes when coded so */
    double static_floor_nbits; /* about the least without the base */
} lmc_delta_decision;

/* Working memory of one decision. It is the caller's; its content is undefined before and after. */
typedef struct lmc_delta_plan_work {
    lmc_delta_sample *sample;
    uint8_t *buffer; /* LMC_PAIRS_BUFFER_NBYTES */
} lmc_delta_plan_work;

/* Finds the best way to compare content of at least one element with its base. Errors: what a read returns. */
LMC_NODISCARD lmc_status lmc_delta_decide(const lmc_content *content, const lmc_delta_plan_work *work,
                                          lmc_delta_decision *decision);

/* Is the delta surely better than any coding without the base? If that is not sure: is it better than static_nbits
 * an element? */
int lmc_delta_is_surely_gain(const lmc_delta_decision *decision);
int lmc_delta_is_gain(const lmc_delta_decision *decision, double static_nbits);

/* ---- the plan section of a delta frame (format.md "Delta plan") ---- */

/* Writes the section; returns its bytes, at most LMC_DELTA_SECTION_NBYTES_MAX. */
#define LMC_DELTA_SECTION_NBYTES_MAX (4 + 2 * LMC_FMT_CLASS_COUNT_MAX)
size_t lmc_delta_write(const lmc_delta *delta, uint8_t *dst);

/* Reads a section of exactly nbytes for elements of element_nbytes. Errors: CORRUPT, UNSUPPORTED; offsets count
 * from the section's start. */
LMC_NODISCARD lmc_status lmc_delta_read(const uint8_t *section, size_t nbytes, unsigned element_nbytes,
                                        lmc_delta *delta, lmc_diag *diag);

#endif
