/*
 * prepare.h - opening frames of a batch.
 */
#ifndef LMC_GPU_HOST_PREPARE_H
#define LMC_GPU_HOST_PREPARE_H

#include "gpu/host/batch.h"

/* Opens a frame, which verifies head, plan and tail. Free with lmc_frame_free(). Errors: as lmc_frame_create(). */
LMC_NODISCARD lmc_status lmc_cuda_open(lmc_cuda_batch *batch, const lmc_cuda_frame *frame,
                                       lmc_frame **opened);

#endif
