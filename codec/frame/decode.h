/*
 * decode.h - a parsed frame, and decoding one block of it: what decode.c (pieces) and decode_frame.c (whole frames
 * over them) share.
 */
#ifndef LMC_CODEC_FRAME_DECODE_H
#define LMC_CODEC_FRAME_DECODE_H

#include "codec/frame/ctx.h"
#include "codec/frame/head.h"
#include "codec/plain/block.h"

struct lmc_frame {
    lmc_allocator allocator;
    lmc_info info;
    uint64_t content_hash;
    uint64_t base_hash;       /* delta, else 0 */
    uint64_t *offsets;        /* coded: of each block, and of the tail */
    lmc_block_entry *entries; /* coded: the index */
    lmc_delta delta;
    lmc_coding coding;
    lmc_table tables[]; /* coded: one for each plane */
};

/* The smallest frame with this head: blocks take a byte at least. */
uint64_t lmc_frame_least_nbytes(const lmc_info *info);

/* lmc_frame_open() within a public call: *frame is NULL after a failure. */
LMC_NODISCARD lmc_status lmc_frame_parse(lmc_ctx *ctx, const uint8_t *head, size_t head_nbytes,
                                         const uint8_t *tail, size_t tail_nbytes, uint64_t frame_nbytes,
                                         lmc_frame **frame);

/* Head, tail and frame are as long as they must be. Errors: TRUNCATED, CORRUPT, ARG. */
LMC_NODISCARD lmc_status lmc_frame_check_sizes(const lmc_info *info, size_t head_nbytes, size_t tail_nbytes,
                                               uint64_t frame_nbytes, lmc_diag *diag);

/* What a call is given to decode: a frame, or a stored block. */
typedef struct lmc_decode_input {
    const uint8_t *src;
    size_t src_nbytes;
    const uint8_t *base; /* of the frame or of the block; NULL: none */
    size_t base_nbytes;
} lmc_decode_input;

/* The base for so many bytes of content, all or a block's, is there and as long as it must be, and nothing that is read
 * lies where dst_nbytes bytes are written. Frames without a base ask for none. Errors: BASE, ARG. */
LMC_NODISCARD lmc_status lmc_frame_check_input(const lmc_info *info, uint64_t content_nbytes,
                                               const lmc_decode_input *input, const uint8_t *dst,
                                               size_t dst_nbytes, lmc_diag *diag);

/* Where block i stands in the frame, and how many bytes it takes. */
uint64_t lmc_frame_block_offset(const lmc_frame *frame, uint64_t i);
size_t lmc_frame_block_stored_nbytes(const lmc_frame *frame, uint64_t i);

/* Where a block comes from. */
typedef struct lmc_stored_block {
    const uint8_t *stored;
    const uint8_t *base; /* delta: the base's part */
    lmc_block_memory memory;
} lmc_stored_block;

/* Makes ctx hold what decoding blocks of up to content_nbytes asks for. Error: NOMEM. */
LMC_NODISCARD lmc_status lmc_frame_reserve(lmc_ctx *ctx, const lmc_info *info, size_t content_nbytes);

/* Decodes block i to its content's size and hashes it; one of a frame with an index is verified, and its base before
 * it. Errors: CORRUPT, UNSUPPORTED, CHECKSUM, BASE, and NOMEM, which is told in ctx->diag: never after
 * lmc_frame_reserve(). */
LMC_NODISCARD lmc_status lmc_frame_decode_block(lmc_ctx *ctx, const lmc_frame *frame, uint64_t i,
                                                const lmc_stored_block *block, uint8_t *dst, uint64_t *hash,
                                                lmc_diag *diag);

#endif
