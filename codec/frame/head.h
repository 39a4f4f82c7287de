/*
 * head.h - the head of a frame (format.md "Head"): writes, reads and checks it, and computes the sizes of a frame's
 * parts. index.h has the tail, plain/ and delta/ have plan sections and blocks. Never allocates.
 */
#ifndef LMC_CODEC_FRAME_HEAD_H
#define LMC_CODEC_FRAME_HEAD_H

#include "codec/common/diag.h"
#include "codec/delta/base_values.h"
#include "codec/kernels/kernels.h"

/* Computes the fields that follow from mode, dtype, block_log2, content_nbytes and the plan section's size. */
void lmc_info_complete(lmc_info *info, size_t section_nbytes);

/* Copies the fields that the caller's struct has. Does nothing for a struct_size that is not known. */
void lmc_info_give(lmc_info *given, const lmc_info *info);

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

/* Content bytes of block i. */
LMC_INLINE size_t lmc_block_content_nbytes(const lmc_info *info, uint64_t i)
{
    return (size_t)lmc_min_u64(info->block_nbytes, info->content_nbytes - i * info->block_nbytes);
}

#endif
