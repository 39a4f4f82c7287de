/*
 * block.h - one block of a coded frame (format.md "Blocks"): elements to planes to bytes, and back. It needs only its
 * own bytes and the coding, and knows no frame and no index.
 */
#ifndef LMC_CODEC_PLAIN_BLOCK_H
#define LMC_CODEC_PLAIN_BLOCK_H

#include "codec/common/input.h"
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
} lmc_block_coder;

/* Encodes a block at dst (lmc_block_bound) and hashes it. Returns the block's bytes. */
size_t lmc_block_encode(const lmc_block_coder *coder, const lmc_content_block *block, uint8_t *dst,
                        uint64_t *content_hash);

/* Stores the block without trying to code it. Returns its bytes. */
size_t lmc_block_store(const lmc_kernels *kernels, const uint8_t *src, size_t src_nbytes, uint8_t *dst,
                       uint64_t *content_hash);

/* Decodes a block to exactly dst_nbytes >= 1 bytes and hashes them. Errors: CORRUPT, UNSUPPORTED; offsets are 0. */
LMC_NODISCARD lmc_status lmc_block_decode(const lmc_block_coder *coder, const lmc_stored *block, uint8_t *dst,
                                          size_t dst_nbytes, uint64_t *content_hash, lmc_diag *diag);

#endif
