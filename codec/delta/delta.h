/*
 * delta.h - one block of a delta frame (format.md "Deltas"): high parts of differences in a list for each class, their
 * lower bytes in planes. delta_plan.h decides the classes and their low bits.
 */
#ifndef LMC_CODEC_DELTA_DELTA_H
#define LMC_CODEC_DELTA_DELTA_H

#include "codec/delta/delta_block.h"

/* Encodes a block against the base's part of it, at dst (lmc_block_bound), and hashes both. Returns the block's bytes,
 * at most block->nbytes + 1. */
size_t lmc_delta_encode(const lmc_delta_job *job, const lmc_content_block *block, uint8_t *dst,
                        uint64_t *content_hash, uint64_t *base_hash);

/* Decodes a block to exactly dst_nbytes >= 1 bytes and hashes them. Errors: BASE (without a text), CORRUPT,
 * UNSUPPORTED; offsets are 0. */
LMC_NODISCARD lmc_status lmc_delta_decode(const lmc_delta_job *job, const lmc_stored *block, uint8_t *dst,
                                          size_t dst_nbytes, uint64_t *content_hash, lmc_diag *diag);

#endif
