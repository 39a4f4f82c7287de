/*
 * delta_plan_section.h - writes and reads the plan section of a delta frame (format.md "Delta plan").
 */
#ifndef LMC_CODEC_DELTA_DELTA_PLAN_SECTION_H
#define LMC_CODEC_DELTA_DELTA_PLAN_SECTION_H

#include "codec/common/bytes.h"
#include "codec/common/diag.h"
#include "codec/kernels/kernels.h"

/* Writes the section; returns its bytes, at most LMC_DELTA_SECTION_NBYTES_MAX. */
#define LMC_DELTA_SECTION_NBYTES_MAX (4 + 2 * LMC_FMT_CLASS_COUNT_MAX)
size_t lmc_delta_write(const lmc_delta *delta, uint8_t *dst);

/* Reads a section of exactly nbytes for elements of element_nbytes. Errors: CORRUPT, UNSUPPORTED; offsets count
 * from the section's start. */
LMC_NODISCARD lmc_status lmc_delta_read(const uint8_t *section, size_t nbytes, unsigned element_nbytes,
                                        lmc_delta *delta, lmc_diag *diag);

#endif
