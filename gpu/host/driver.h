/*
 * driver.h - the driver API of CUDA, loaded when it is used: neither a toolkit nor its headers are needed.
 */
#ifndef LMC_GPU_HOST_DRIVER_H
#define LMC_GPU_HOST_DRIVER_H

#include "lmc_cuda.h"

/* Types of the driver: handles, and the address of device memory. A result is 0 for success. */
typedef struct CUctx_st *lmc_cuda_context;
typedef struct CUmod_st *lmc_cuda_module;
typedef struct CUfunc_st *lmc_cuda_function;
typedef struct CUstream_st *lmc_cuda_stream;

/* Results and attributes that the library knows, by their names in cuda.h. */
#define LMC_CUDA_ERROR_NO_DEVICE 100
#define LMC_CUDA_ERROR_INVALID_IMAGE 200
#define LMC_CUDA_ERROR_NO_BINARY_FOR_GPU 209
#define LMC_CUDA_ERROR_JIT_COMPILER_NOT_FOUND 221
#define LMC_CUDA_ERROR_UNSUPPORTED_PTX_VERSION 222
#define LMC_CUDA_ERROR_JIT_COMPILATION_DISABLED 223
#define LMC_CUDA_MULTIPROCESSOR_COUNT 16
#define LMC_CUDA_CAPABILITY_MAJOR 75
#define LMC_CUDA_CAPABILITY_MINOR 76

typedef struct lmc_cuda_driver {
    int (*init)(unsigned flags);
    int (*driver_version)(int *version);
    int (*error_name)(int error, const char **name);
    int (*context_current)(lmc_cuda_context *context);
    int (*context_id)(lmc_cuda_context context, unsigned long long *id);
    int (*context_device)(int *device);
    int (*device_attribute)(int *value, int attribute, int device);
    int (*module_load)(lmc_cuda_module *module, const void *image, unsigned option_count, int *options,
                       void **values);
    int (*module_unload)(lmc_cuda_module module);
    int (*module_function)(lmc_cuda_function *function, lmc_cuda_module module, const char *name);
    int (*occupancy)(int *block_count, lmc_cuda_function function, int thread_count, size_t shared_nbytes);
    int (*memset_async)(unsigned long long address, unsigned char byte, size_t nbytes,
                        lmc_cuda_stream stream);
    int (*launch)(lmc_cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_nbytes,
                  lmc_cuda_stream stream, void **parameters, void **extra);
} lmc_cuda_driver;

/* IO, with the name of what the driver said to `call`. */
lmc_status lmc_cuda_fail_call(lmc_diag *diag, const lmc_cuda_driver *driver, const char *call, int error);

/* The driver, which is loaded and initialised once: the library that LMC_CUDA_DRIVER names in the environment, else
 * libcuda.so.1. One thread at a time may call this. Errors: UNSUPPORTED (no driver, one before CUDA 12, no device); IO
 * for another error of the driver. A later call tries again. */
LMC_NODISCARD lmc_status lmc_cuda_load_driver(const lmc_cuda_driver **driver, lmc_diag *diag);

#endif
