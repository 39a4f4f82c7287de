/*
 * loaded.h - the kernels in a context of CUDA.
 */
#ifndef LMC_GPU_HOST_LOADED_H
#define LMC_GPU_HOST_LOADED_H

#include "gpu/device/descriptors.h"
#include "gpu/host/driver.h"

/* By their numbers, LMC_CUDA_KERNEL_... */
extern const char *const lmc_cuda_kernel_names[LMC_CUDA_KERNEL_COUNT];

typedef struct lmc_cuda_loaded_kernel {
    lmc_cuda_function function;
    unsigned thread_block_count; /* that run at once */
} lmc_cuda_loaded_kernel;

typedef struct lmc_cuda_loaded {
    const lmc_cuda_driver *driver;
    lmc_cuda_loaded_kernel kernels[LMC_CUDA_KERNEL_COUNT];
    lmc_cuda_device device;
} lmc_cuda_loaded;

/* The kernels in the calling thread's current context. The first call in a context loads them, which allocates and
 * waits. Threads may call this at once. Errors: those of lmc_cuda_init(). */
LMC_NODISCARD lmc_status lmc_cuda_load(lmc_cuda_loaded *loaded, lmc_diag *diag);

#endif
