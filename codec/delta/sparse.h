/*
 * sparse.h - delta blocks in which few elements differ from the base. Their bytes are those of any other delta block,
 * but only the elements that differ are compared, listed and restored. That asks for a plan without low bytes. In a
 * class without low bits, an element that is equal to the base's leaves nothing but a clear bit in a bitset. Other
 * classes have few elements in such blocks: they are coded as whole lists.
 */
#ifndef LMC_CODEC_DELTA_SPARSE_H
#define LMC_CODEC_DELTA_SPARSE_H

#include "codec/delta/delta_block.h"

/* The elements that a sparse block may list: one of so many. */
#define LMC_SPARSE_STEP_MIN 16

LMC_INLINE size_t lmc_sparse_count_max(const lmc_delta_job *job, size_t n)
{
    assert(job->kernels->sparse_step >= LMC_SPARSE_STEP_MIN);
    return n / job->kernels->sparse_step;
}

/* A bit for each class that is coded as a whole list. */
LMC_INLINE uint32_t lmc_whole_classes(const lmc_delta *delta)
{
    uint32_t whole = 0;
    for (unsigned c = 0; c < delta->class_count; c++)
        whole |= (uint32_t)(delta->class_low_nbits[c] > 0) << c;
    return whole;
}

/* Encodes a block of at least one element as lmc_delta_encode() does. The first same_nbytes bytes, whole strips, are
 * the base's; they were hashed already. Returns the block's bytes; 0 if it is not sparse or would not get smaller. */
size_t lmc_sparse_encode(const lmc_delta_job *job, const lmc_content_block *block, size_t same_nbytes,
                         uint8_t *dst, uint64_t *content_hash, uint64_t *base_hash);

/* Decodes the n elements of a block whose base was classified: `values`, lists->count and scratch->classes. Goes on
 * with the hash of the content. *is_sparse: 0 if too many elements differ; then nothing was written. Errors:
 * CORRUPT, UNSUPPORTED. */
LMC_NODISCARD lmc_status lmc_sparse_decode(const lmc_delta_job *job, lmc_source *source,
                                           const uint8_t *values, const lmc_class_lists *lists, size_t n,
                                           uint8_t *dst, int *is_sparse, lmc_diag *diag);

#endif
