/*
 * narrow_block.h - one block of a frame of wide elements (format.md "Narrow blocks"): its groups, its exceptions, and a
 * block of narrow elements.
 */
#ifndef LMC_CODEC_NARROW_NARROW_BLOCK_H
#define LMC_CODEC_NARROW_NARROW_BLOCK_H

#include "codec/narrow/narrow_plan.h"
#include "codec/plain/block.h"

/* Everything that coding such blocks takes. scratch serves blocks of this size, with narrow elements. */
typedef struct lmc_narrow_coder {
    lmc_block_coder plain; /* its coding is that of the narrow elements */
    const lmc_narrow *narrow;
    const lmc_narrow_choice *choice; /* encoder only */
} lmc_narrow_coder;

/* As lmc_block_encode() and lmc_block_decode(), which they call if there are no narrow elements. */
size_t lmc_narrow_block_encode(const lmc_narrow_coder *coder, const lmc_content_block *block, uint8_t *dst,
                               uint64_t *content_hash);
LMC_NODISCARD lmc_status lmc_narrow_block_decode(const lmc_narrow_coder *coder, const lmc_stored *block,
                                                 uint8_t *dst, size_t dst_nbytes, uint64_t *content_hash,
                                                 lmc_diag *diag);

#endif
