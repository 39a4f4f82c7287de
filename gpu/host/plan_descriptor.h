/*
 * plan_descriptor.h - the plan of a frame as the kernels read it.
 */
#ifndef LMC_GPU_HOST_PLAN_DESCRIPTOR_H
#define LMC_GPU_HOST_PLAN_DESCRIPTOR_H

#include "gpu/host/batch.h"

/* Appends the plan of an opened frame that is not a delta frame to the batch's data; it begins at *plan_at. Errors:
 * NOMEM, LIMIT. */
LMC_NODISCARD lmc_status lmc_cuda_describe_plan(lmc_cuda_batch *batch, const lmc_frame *frame,
                                                uint32_t *plan_at);

#endif
