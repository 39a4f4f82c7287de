/*
 * delta.h - one block of a delta frame (format.md "Deltas"): high parts of differences in a list for each class, their
 * lower bytes in planes. delta_plan.h decides the classes and their low bits.
 */
#ifndef LMC_CODEC_DELTA_DELTA_H
#define LMC_CODEC_DELTA_DELTA_H

#include "codec/bitset/buckets.h"
#include "codec/common/diag.h"
#include "codec/delta/base_values.h"
#include "codec/prefix/scratch.h"

/* Everything that coding a delta block takes. scratch serves blocks of this size, with deltas. */
typedef struct lmc_delta_job {
    const lmc_kernels *kernels;
    const lmc_delta *delta;
    const lmc_bucket_code *bucket_code;
    lmc_scratch *scratch;
    unsigned element_nbytes;
    lmc_base_form base_form;
    uint8_t *base_values; /* unless LMC_BASE_PLAIN: room for the values of the base, as long as the content */
    int past_cache;       /* decode: dst is part of an output too large for the caches */
} lmc_delta_job;

/* Encodes src_nbytes >= 1 bytes against the base's part of the block, at dst (lmc_block_bound), and hashes both.
 * Returns the block's bytes, at most src_nbytes + 1. */
size_t lmc_delta_encode(const lmc_delta_job *job, const uint8_t *src, const uint8_t *base, size_t src_nbytes,
                        uint8_t *dst, uint64_t *content_hash, uint64_t *base_hash);

/* A stored block, the part of the base that belongs to it, and the hash that this part must have. */
typedef struct lmc_delta_stored {
    const uint8_t *stored;
    size_t stored_nbytes; /* at least 1 */
    const uint8_t *base;
    uint64_t base_hash;
} lmc_delta_stored;

/* Decodes a block to exactly dst_nbytes >= 1 bytes and hashes them. Errors: BASE (without a text), CORRUPT,
 * UNSUPPORTED; offsets are 0. */
LMC_NODISCARD lmc_status lmc_delta_decode(const lmc_delta_job *job, const lmc_delta_stored *block,
                                          uint8_t *dst, size_t dst_nbytes, uint64_t *content_hash,
                                          lmc_diag *diag);

#endif
