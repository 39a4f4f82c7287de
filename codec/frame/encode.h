/*
 * encode.h - a plan, and encoding one block by it. encode_pieces.c has it and the public calls for pieces; encode.c
 * encodes whole frames by it.
 */
#ifndef LMC_CODEC_FRAME_ENCODE_H
#define LMC_CODEC_FRAME_ENCODE_H

#include "codec/common/input.h"
#include "codec/frame/ctx.h"
#include "codec/frame/head_tail.h"

struct lmc_plan {
    lmc_allocator allocator;
    lmc_info info;
    lmc_decision decision;    /* of the narrow elements if there are any */
    lmc_narrow_choice choice; /* how elements are made from them */
    lmc_delta delta;          /* of a delta frame */
    double blocks_nbits;      /* about how many bits all blocks take */
    lmc_table tables[LMC_FMT_PLANE_COUNT_MAX];
    lmc_rans rans;
    lmc_offset_costs costs;
    uint8_t *head;      /* with the plan section: info.head_nbytes bytes */
    uint16_t columns[]; /* as in lmc_plan_room, then room for the head */
};

/* Copies the caller's params and checks them; fields that they lack get their defaults. Error: ARG. */
LMC_NODISCARD lmc_status lmc_params_read(const lmc_params *given, lmc_params *params, lmc_diag *diag);

/* Content of so many bytes as params describe it; how it is read stays open. */
lmc_content lmc_params_content(const lmc_params *params, uint64_t nbytes);

/* Fills in the fields that params give. lmc_info_complete() does the others. */
void lmc_params_start_info(const lmc_params *params, uint64_t content_nbytes, lmc_frame_mode mode,
                           lmc_info *info);

/* lmc_plan_create() within a public call, with params that were read: *plan is NULL after a failure. */
LMC_NODISCARD lmc_status lmc_plan_make(lmc_ctx *ctx, const lmc_params *params, const lmc_content *content,
                                       lmc_plan **plan);

/* Makes ctx hold the memory for encoding blocks of up to src_nbytes. Error: NOMEM. */
LMC_NODISCARD lmc_status lmc_plan_reserve(lmc_ctx *ctx, const lmc_plan *plan, size_t src_nbytes);

/* Encodes a block whose size and room the caller has checked. Error: NOMEM, never after lmc_plan_reserve(). */
LMC_NODISCARD lmc_status lmc_plan_encode_block(lmc_ctx *ctx, const lmc_plan *plan,
                                               const lmc_content_block *block, uint8_t *dst,
                                               lmc_block_entry *entry);

#endif
