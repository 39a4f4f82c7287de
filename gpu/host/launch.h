/*
 * launch.h - the parameter of the kernels, and which of them run.
 */
#ifndef LMC_GPU_HOST_LAUNCH_H
#define LMC_GPU_HOST_LAUNCH_H

#include "gpu/host/batch.h"

/* Has the batch blocks for the kernel? The others need not run. */
int lmc_cuda_kernel_is_wanted(const lmc_cuda_batch *batch, unsigned kernel);

/* The parameter of the kernels for the batch's descriptors and a launch. Before them, the results are set to zeros. */
lmc_cuda_job lmc_cuda_make_job(const lmc_cuda_batch *batch, const lmc_cuda_launch *launch);

#endif
