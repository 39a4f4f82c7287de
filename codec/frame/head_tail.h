/*
 * head_tail.h - what a frame has around its blocks (format.md "Head" and "Tail"): the head, and behind the blocks their
 * index, or the hash of content that is stored as it is, and the frame's check. Writes, reads and verifies them, and
 * computes the sizes of a frame's parts. plain/ and delta/ have plan sections and blocks. Never allocates.
 */
#ifndef LMC_CODEC_FRAME_HEAD_TAIL_H
#define LMC_CODEC_FRAME_HEAD_TAIL_H

#include "codec/common/diag.h"
#include "codec/kernels/kernels.h"

/* ---- head ---- */

/* Computes the fields that follow from mode, dtype, block_log2, content_nbytes and the plan section's size. */
void lmc_info_complete(lmc_info *info, size_t section_nbytes);

/* Copies the fields that the caller's struct has. Error: ARG for a struct_size that is not known. */
LMC_NODISCARD lmc_status lmc_info_give(lmc_info *given, const lmc_info *info);

/* Writes the head without the plan section. features: LMC_FMT_FEATURE_... */
void lmc_head_write(const lmc_info *info, uint32_t features, uint8_t *dst);

/* The features of a head that lmc_head_read() accepted. */
uint32_t lmc_head_features(const lmc_info *info, const uint8_t *head);

/* Reads the fixed part of a head, not the plan section, and completes *info. Errors: TRUNCATED, CORRUPT,
 * UNSUPPORTED. */
LMC_NODISCARD lmc_status lmc_head_read(const uint8_t *src, size_t nbytes, lmc_info *info, lmc_diag *diag);

/* Coded and delta frames have a plan section and an index. Stored and short frames have one hash of their content. */
LMC_INLINE int lmc_is_coded(const lmc_info *info)
{
    return info->mode == LMC_FRAME_CODED || info->mode == LMC_FRAME_DELTA;
}

/* Bytes of the plan section in a head that lmc_head_read() accepted. */
LMC_INLINE size_t lmc_section_nbytes(const lmc_info *info)
{
    return lmc_is_coded(info) ? info->head_nbytes - LMC_FMT_HEAD_NBYTES : 0;
}

/* Content bytes of block i. */
LMC_INLINE size_t lmc_block_content_nbytes(const lmc_info *info, uint64_t i)
{
    return (size_t)lmc_min_u64(info->block_nbytes, info->content_nbytes - i * info->block_nbytes);
}

/* Content bytes of the largest block. */
LMC_INLINE size_t lmc_largest_block_nbytes(const lmc_info *info)
{
    return (size_t)lmc_min_u64(info->block_nbytes, info->content_nbytes);
}

/* ---- tail ---- */

/* Bytes of the index for one block. */
LMC_INLINE size_t lmc_entry_nbytes(const lmc_info *info)
{
    return info->mode == LMC_FRAME_DELTA ? LMC_FMT_DELTA_INDEX_ENTRY_NBYTES : LMC_FMT_INDEX_ENTRY_NBYTES;
}

/* Bytes of the tail before the check: the index, or the content hash. */
LMC_INLINE uint64_t lmc_tail_body_nbytes(const lmc_info *info)
{
    return info->tail_nbytes - LMC_FMT_HASH_NBYTES;
}

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
