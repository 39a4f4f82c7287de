/*
 * decode.h - a parsed frame, and decoding one of its blocks. decode.c has it and the public calls for pieces;
 * decode_frame.c decodes whole frames and ranges by it.
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
    uint64_t base_hash;       /* of a delta frame, else 0 */
    uint64_t *offsets;        /* with an index: of each block, and of the tail */
    lmc_block_entry *entries; /* the index, if there is one */
    lmc_delta delta;
    lmc_coding coding;
    uint16_t *columns;  /* of the coding's offsets, or NULL */
    lmc_table tables[]; /* of a coded frame: one for each plane */
};

/* Bytes of the smallest frame with this head: a block takes at least one byte. */
uint64_t lmc_frame_least_nbytes(const lmc_info *info);

/* lmc_frame_open() within a public call: *frame is NULL after a failure. */
LMC_NODISCARD lmc_status lmc_frame_parse(lmc_ctx *ctx, const uint8_t *head, size_t head_nbytes,
                                         const uint8_t *tail, size_t tail_nbytes, uint64_t frame_nbytes,
                                         lmc_frame **frame);

/* Checks that head, tail and frame have the lengths that *info asks for. Errors: TRUNCATED, CORRUPT, ARG. */
LMC_NODISCARD lmc_status lmc_frame_check_sizes(const lmc_info *info, size_t head_nbytes, size_t tail_nbytes,
                                               uint64_t frame_nbytes, lmc_diag *diag);

/* The input of a decoding call: a frame, or a stored block. */
typedef struct lmc_decode_input {
    const uint8_t *src;
    size_t src_nbytes;
    const uint8_t *base; /* of the frame or of the block; NULL: none */
    size_t base_nbytes;
} lmc_decode_input;

/* Checks that a delta frame's base is there and has the right length for content_nbytes, of the content or of a
 * block. Checks that nothing that is read lies where dst_nbytes bytes are written. Errors: BASE, ARG. */
LMC_NODISCARD lmc_status lmc_frame_check_input(const lmc_info *info, uint64_t content_nbytes,
                                               const lmc_decode_input *input, const uint8_t *dst,
                                               size_t dst_nbytes, lmc_diag *diag);

/* Where block i stands in the frame, and how many bytes it takes. */
uint64_t lmc_frame_block_offset(const lmc_frame *frame, uint64_t i);
size_t lmc_frame_block_stored_nbytes(const lmc_frame *frame, uint64_t i);

/* The source of a block. */
typedef struct lmc_stored_block {
    const uint8_t *stored;
    const uint8_t *base; /* of a delta frame: the part of the base that belongs to the block */
    lmc_block_memory memory;
} lmc_stored_block;

/* Makes ctx hold the memory for decoding blocks of up to content_nbytes. Error: NOMEM. */
LMC_NODISCARD lmc_status lmc_frame_reserve(lmc_ctx *ctx, const lmc_info *info, size_t content_nbytes);

/* Decodes block i to its content's size and hashes it. In a frame with an index first the base, then the block is
 * verified. Errors: CORRUPT, UNSUPPORTED, CHECKSUM, BASE. NOMEM stands in ctx->diag, and cannot happen after
 * lmc_frame_reserve(). */
LMC_NODISCARD lmc_status lmc_frame_decode_block(lmc_ctx *ctx, const lmc_frame *frame, uint64_t i,
                                                const lmc_stored_block *block, uint8_t *dst, uint64_t *hash,
                                                lmc_diag *diag);

#endif
