/*
 * index.h - the tail of a frame (format.md "Tail"): the block index, or the hash of content that is stored as it is,
 * and the frame's check. Writes, reads and verifies them. Never allocates.
 */
#ifndef LMC_CODEC_FRAME_INDEX_H
#define LMC_CODEC_FRAME_INDEX_H

#include "codec/frame/head.h"
#include "codec/kernels/kernels.h"

/* What the frame's check must be: a hash over the tail before the check, whose seed is the hash of the head. */
uint64_t lmc_tail_hash(const lmc_kernels *kernels, const lmc_info *info, const uint8_t *head,
                       const uint8_t *tail);

/* Writes a tail of info->tail_nbytes bytes. head: info->head_nbytes bytes, with the plan section of a frame that has
 * one. */
void lmc_tail_write(const lmc_info *info, const uint8_t *head, const lmc_block_entry *entries,
                    uint64_t entry_count, uint8_t *dst);

/* Compares the check at the end of the tail with head and tail. head has info->head_nbytes bytes, tail
 * info->tail_nbytes. Error: CHECKSUM. */
LMC_NODISCARD lmc_status lmc_tail_check(const lmc_info *info, const uint8_t *head, const uint8_t *tail,
                                        lmc_diag *diag);

/* Reads the index of a coded frame of frame_nbytes bytes. entries: info->block_count of them. offsets: one more; where
 * each block stands in the frame, and where the tail does. Error: CORRUPT. */
LMC_NODISCARD lmc_status lmc_index_read(const lmc_info *info, const uint8_t *tail, uint64_t frame_nbytes,
                                        lmc_block_entry *entries, uint64_t *offsets, lmc_diag *diag);

#endif
