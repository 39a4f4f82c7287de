/*
 * delta.h - one block compared with its base: heads of differences in lists by class, low bytes in planes
 * (format.md "Deltas"). Which classes, and how many low bits, has been decided (delta_plan.h).
 */
#ifndef LMC_CODEC_DELTA_H
#define LMC_CODEC_DELTA_H

#include "diag.h"
#include "ladder.h"
#include "scratch.h"

/* Everything that coding a delta block takes. scratch serves deltas and blocks of this size. */
typedef struct lmc_delta_job {
    const lmc_kernels *kernels;
    const lmc_delta *delta;
    const lmc_ladder *ladder;
    lmc_scratch *scratch;
    unsigned unit_nbytes;
} lmc_delta_job;

/* Encodes src_nbytes >= 1 bytes against as many of the base, at dst (lmc_block_bound). Returns the block's bytes,
 * at most src_nbytes + 1. */
size_t lmc_delta_encode(const lmc_delta_job *job, const uint8_t *src, const uint8_t *base, size_t src_nbytes,
                        uint8_t *dst);

/* Decodes a block to exactly dst_nbytes >= 1 bytes. Errors: CORRUPT, UNSUPPORTED; offsets are 0. */
LMC_NODISCARD lmc_status lmc_delta_decode(const lmc_delta_job *job, const uint8_t *stored,
                                          size_t stored_nbytes, const uint8_t *base, uint8_t *dst,
                                          size_t dst_nbytes, lmc_diag *diag);

#endif
