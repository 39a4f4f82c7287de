/*
 * block.h - one block of a coded frame (format.md "Blocks"): elements to planes to bytes, and back. It needs only its
 * own bytes and the coding, and knows no frame and no index.
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

/* Everything that coding blocks takes. scratch serves blocks of this size. */
typedef struct lmc_block_coder {
    const lmc_kernels *kernels;
    const lmc_coding *coding;
    lmc_scratch *scratch;
    uint64_t first; /* the block's first element, in the frame */
    /* Encode: so many bytes behind the block are readable and will be encoded next. Rows are looked at before the block
     * is encoded: they had better be in the cache then. */
    size_t ahead_nbytes;
} lmc_block_coder;

/* Encodes src_nbytes >= 1 bytes at dst (lmc_block_bound) and hashes them. Returns the block's bytes. */
size_t lmc_block_encode(const lmc_block_coder *coder, const uint8_t *src, size_t src_nbytes, uint8_t *dst,
                        uint64_t *content_hash);

/* Stores the block without trying to code it. Returns its bytes. */
size_t lmc_block_store(const lmc_kernels *kernels, const uint8_t *src, size_t src_nbytes, uint8_t *dst,
                       uint64_t *content_hash);

/* How a decoder may treat the memory around a block; all 0 is always right. */
typedef struct lmc_block_memory {
    size_t ahead_nbytes; /* readable bytes behind the stored bytes, which will be decoded next */
    int past_cache;      /* dst is part of an output too large for the caches */
} lmc_block_memory;

/* A stored block. */
typedef struct lmc_block_source {
    const uint8_t *stored;
    size_t stored_nbytes;
    lmc_block_memory memory;
} lmc_block_source;

/* Decodes a block to exactly dst_nbytes >= 1 bytes and hashes them. Errors: CORRUPT, UNSUPPORTED; offsets are 0. */
LMC_NODISCARD lmc_status lmc_block_decode(const lmc_block_coder *coder, const lmc_block_source *block,
                                          uint8_t *dst, size_t dst_nbytes, uint64_t *content_hash,
                                          lmc_diag *diag);

#endif
