/*
 * decode.h - a parsed frame, and decoding one of its blocks. decode_pieces.c has it and the public calls for pieces;
 * decode.c decodes whole frames and ranges by it.
 */
#ifndef LMC_CODEC_FRAME_DECODE_H
#define LMC_CODEC_FRAME_DECODE_H

#include "codec/common/input.h"
#include "codec/frame/ctx.h"
#include "codec/frame/head_tail.h"
#include "codec/narrow/narrow_block.h"

struct lmc_frame {
    lmc_allocator allocator;
    lmc_info info;
    uint64_t content_hash;
    uint64_t base_hash;       /* of a delta frame, else 0 */
    uint64_t *offsets;        /* with an index: of each block, and of the tail */
    lmc_block_entry *entries; /* the index, if there is one */
    lmc_delta delta;
    lmc_coding coding;  /* of the narrow elements if there are any */
    lmc_narrow narrow;  /* how elements are made from them */
    uint16_t *columns;  /* of the coding's offsets, or NULL */
    lmc_rans *rans;     /* of the coding, or NULL */
    lmc_table tables[]; /* of a coded frame: one for each plane */
};

/* lmc_frame_create() within a public call: *frame is NULL after a failure. */
LMC_NODISCARD lmc_status lmc_frame_parse(lmc_ctx *ctx, const uint8_t *head, size_t head_nbytes,
                                         const uint8_t *tail, size_t tail_nbytes, uint64_t frame_nbytes,
                                         lmc_frame **frame);

/* Checks that head, tail and frame have the lengths that *info asks for. Errors: TRUNCATED, CORRUPT, ARG. */
LMC_NODISCARD lmc_status lmc_frame_check_sizes(const lmc_info *info, size_t head_nbytes, size_t tail_nbytes,
                                               uint64_t frame_nbytes, lmc_diag *diag);

/* Checks that a delta frame's base is there and has the right length for content_nbytes, of the content or of a
 * block. Checks that nothing that is read lies where dst_nbytes bytes are written. Errors: BASE, ARG. */
LMC_NODISCARD lmc_status lmc_frame_check_stored(const lmc_info *info, uint64_t content_nbytes,
                                                const lmc_stored *stored, const uint8_t *dst,
                                                size_t dst_nbytes, lmc_diag *diag);

/* Where block i stands in the frame, and how many bytes it takes. */
uint64_t lmc_frame_block_offset(const lmc_frame *frame, uint64_t i);
size_t lmc_frame_block_stored_nbytes(const lmc_frame *frame, uint64_t i);

/* Makes ctx hold the memory for decoding blocks of up to content_nbytes. Error: NOMEM. */
LMC_NODISCARD lmc_status lmc_frame_reserve(lmc_ctx *ctx, const lmc_frame *frame, size_t content_nbytes);

/* Decodes block i to its content's size and hashes it. Of *block it fills in what the index says. In a frame with an
 * index first the base, then the block is verified. Errors: CORRUPT, UNSUPPORTED, CHECKSUM, BASE. NOMEM stands in
 * ctx->diag, and cannot happen after lmc_frame_reserve(). */
LMC_NODISCARD lmc_status lmc_frame_decode_block(lmc_ctx *ctx, const lmc_frame *frame, uint64_t i,
                                                lmc_stored *block, uint8_t *dst, uint64_t *hash,
                                                lmc_diag *diag);

#endif
