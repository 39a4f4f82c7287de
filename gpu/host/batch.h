/*
 * batch.h - a batch: its frames, and the descriptors of their blocks. All memory of the library is allocated here.
 */
#ifndef LMC_GPU_HOST_BATCH_H
#define LMC_GPU_HOST_BATCH_H

#include "gpu/device/descriptors.h"
#include "lmc_cuda.h"

/* Bytes that grow. */
typedef struct lmc_cuda_bytes {
    uint8_t *bytes;
    size_t nbytes, capacity;
} lmc_cuda_bytes;

/* A frame of a batch. */
typedef struct lmc_cuda_member {
    lmc_cuda_frame given;
    lmc_info info;
    uint64_t content_hash;
    uint64_t first_block; /* of its descriptors; a frame that is the host's has none */
    unsigned host_reason; /* lmc_cuda_reason of all its blocks; 0: they are the device's */
} lmc_cuda_member;

/* The largest blocks of a batch, which scratch serves, and the kernels for them. */
typedef struct lmc_cuda_extent {
    uint64_t value_count, stored_nbytes, content_nbytes;
    unsigned plane_count;
    uint32_t kernels; /* bit k: a block has a plan of kernel k */
} lmc_cuda_extent;

struct lmc_cuda_batch {
    lmc_allocator allocator;
    lmc_ctx *ctx;
    lmc_diag diag;
    lmc_cuda_bytes members;  /* lmc_cuda_member */
    lmc_cuda_bytes blocks;   /* lmc_cuda_block */
    lmc_cuda_bytes data;     /* plans, layers and columns */
    lmc_cuda_bytes failures; /* lmc_cuda_failure */
    lmc_cuda_extent extent;
    uint64_t block_count, host_block_count, content_nbytes;
};

/* Fills a diagnostic, of a batch or of a call without one, and returns the status. */
__attribute__((format(printf, 4, 5))) lmc_status lmc_cuda_fail(lmc_diag *diag, lmc_status status,
                                                               uint64_t offset, const char *format, ...);

/* Takes over the diagnostic of the batch's context. */
lmc_status lmc_cuda_fail_as_ctx(lmc_cuda_batch *batch, lmc_status status);

/* NULL when the allocator has no memory left. */
void *lmc_cuda_allocate(lmc_cuda_batch *batch, size_t nbytes);
void lmc_cuda_release(lmc_cuda_batch *batch, void *pointer);

/* Appends nbytes of zeros and returns where they begin, or NULL when out of memory; then nothing was appended. The
 * bytes may move when more are appended. */
void *lmc_cuda_append(lmc_cuda_batch *batch, lmc_cuda_bytes *bytes, size_t nbytes);

/* Counts, and elements of the vectors above. */
uint64_t lmc_cuda_member_count(const lmc_cuda_batch *batch);
const lmc_cuda_member *lmc_cuda_member_at(const lmc_cuda_batch *batch, uint64_t i);
uint64_t lmc_cuda_descriptor_count(const lmc_cuda_batch *batch);

/* Divides the scratch of one thread block. */
lmc_cuda_scratch lmc_cuda_scratch_layout(const lmc_cuda_batch *batch);

#endif
