/*
 * launch.h - the kernels, and their parameter.
 */
#ifndef LMC_GPU_HOST_LAUNCH_H
#define LMC_GPU_HOST_LAUNCH_H

#include "gpu/host/batch.h"

/* A kernel: its name in the module, and how many thread blocks of LMC_CUDA_THREADS threads a multiprocessor holds. They
 * need no shared memory that is not declared. */
typedef struct lmc_cuda_kernel {
    const char *name;
    unsigned resident_count;
} lmc_cuda_kernel;

/* By their numbers, which is the order in which they run. */
extern const lmc_cuda_kernel lmc_cuda_kernels[LMC_CUDA_KERNEL_COUNT];

/* Has the batch blocks for the kernel? The others need not run. */
int lmc_cuda_kernel_is_wanted(const lmc_cuda_batch *batch, unsigned kernel);

/* The parameter of the kernels for the batch's descriptors and a launch. Before them, the results are set to zeros. */
lmc_cuda_job lmc_cuda_make_job(const lmc_cuda_batch *batch, const lmc_cuda_launch *launch);

#endif
