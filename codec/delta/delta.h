/*
 * delta.h - one block compared with its base: high parts of differences in lists by class, low bytes in planes
 * (format.md "Deltas"). Which classes, and how many low bits, has been decided (delta_plan.h).
 */
#ifndef LMC_CODEC_DELTA_DELTA_H
#define LMC_CODEC_DELTA_DELTA_H

#include "codec/bitset/buckets.h"
#include "codec/common/diag.h"
#include "codec/delta/base_values.h"
#include "codec/prefix/scratch.h"

/* Everything that coding a delta block takes. scratch serves deltas and blocks of this size. */
typedef struct lmc_delta_job {
    const lmc_kernels *kernels;
    const lmc_delta *delta;
    const lmc_bucket_code *bucket_code;
    lmc_scratch *scratch;
    unsigned element_nbytes;
    lmc_base_form base_form;
    uint8_t
        *base_values; /* unless LMC_BASE_PLAIN: room for what the base stands for, as long as the content */
    int past_cache;   /* decode: dst is part of an output too large for the caches */
} lmc_delta_job;

/* Encodes src_nbytes >= 1 bytes against the base's part of the block, at dst (lmc_block_bound), and hashes both on
 * the way. Returns the block's bytes, at most src_nbytes + 1. */
size_t lmc_delta_encode(const lmc_delta_job *job, const uint8_t *src, const uint8_t *base, size_t src_nbytes,
                        uint8_t *dst, uint64_t *content_hash, uint64_t *base_hash);

/* A stored block, the base's part of it, and the hash that this must have. */
typedef struct lmc_delta_stored {
    const uint8_t *stored;
    size_t stored_nbytes; /* at least 1 */
    const uint8_t *base;
    uint64_t base_hash;
} lmc_delta_stored;

/* Decodes a block to exactly dst_nbytes >= 1 bytes and hashes them on the way. Errors: BASE (without a text),
 * CORRUPT, UNSUPPORTED; offsets are 0. */
LMC_NODISCARD lmc_status lmc_delta_decode(const lmc_delta_job *job, const lmc_delta_stored *block,
                                          uint8_t *dst, size_t dst_nbytes, uint64_t *content_hash,
                                          lmc_diag *diag);

#endif
