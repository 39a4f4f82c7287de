/*
 * block.h - one block of a frame: elements to planes to bytes, and back (format.md "Blocks").
 * Needs nothing but its own bytes and the coding; knows no frame and no index.
 */
#ifndef LMC_CODEC_PLAIN_BLOCK_H
#define LMC_CODEC_PLAIN_BLOCK_H

#include "codec/plain/plan_section.h"
#include "codec/prefix/scratch.h"

/* Capacity that encoding a block of src_nbytes asks for; the block itself takes at most src_nbytes + 1. */
LMC_INLINE size_t lmc_block_bound(size_t src_nbytes)
{
    return src_nbytes + 64;
}

/* Encodes src_nbytes >= 1 bytes at dst (lmc_block_bound) and hashes them on the way. Returns the block's
 * bytes. scratch serves blocks of this size. */
size_t lmc_block_encode(const lmc_kernels *kernels, const lmc_coding *coding, lmc_scratch *scratch,
                        const uint8_t *src, size_t src_nbytes, uint8_t *dst, uint64_t *content_hash);

/* The same without a try: the block is stored. Returns its bytes. */
size_t lmc_block_store(const lmc_kernels *kernels, const uint8_t *src, size_t src_nbytes, uint8_t *dst,
                       uint64_t *content_hash);

/* How a decoder may treat the memory around a block; all 0 is always right. */
typedef struct lmc_block_memory {
    size_t ahead_nbytes; /* readable bytes behind the stored ones that will be decoded next */
    int past_cache;      /* dst is part of an output too large for the caches */
} lmc_block_memory;

/* Decodes a block to exactly dst_nbytes >= 1 bytes and hashes them on the way.
 * Errors: CORRUPT, UNSUPPORTED; offsets are 0. */
LMC_NODISCARD lmc_status lmc_block_decode(const lmc_kernels *kernels, const lmc_coding *coding,
                                          lmc_scratch *scratch, const uint8_t *stored, size_t stored_nbytes,
                                          lmc_block_memory memory, uint8_t *dst, size_t dst_nbytes,
                                          uint64_t *content_hash, lmc_diag *diag);

#endif
