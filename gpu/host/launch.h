/*
 * launch.h - the parameter of the kernels.
 */
#ifndef LMC_GPU_HOST_LAUNCH_H
#define LMC_GPU_HOST_LAUNCH_H

#include "gpu/host/batch.h"

/* The parameter of the kernels for the batch's descriptors and a launch. Before them, the results are set to zeros. */
lmc_cuda_job lmc_cuda_make_job(const lmc_cuda_batch *batch, const lmc_cuda_launch *launch);

#endif
