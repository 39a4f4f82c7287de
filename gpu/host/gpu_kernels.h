/*
 * gpu_kernels.h - the compiled kernels that the library holds. gpu/embed_kernels.py writes them as a C file; without
 * NVRTC gpu/host/no_kernels.c stands in its place.
 */
#ifndef LMC_GPU_HOST_GPU_KERNELS_H
#define LMC_GPU_HOST_GPU_KERNELS_H

#include <stddef.h>

/* The kernels for devices of one compute capability, and of higher ones: a cubin for those with the same major number,
 * PTX for all. */
typedef struct lmc_cuda_image {
    const char *name;    /* "sm_90", "compute_80" */
    unsigned capability; /* 10 times the major number + the minor one */
    int is_ptx;
    const void *bytes; /* PTX ends with a NUL */
} lmc_cuda_image;

extern const lmc_cuda_image lmc_cuda_images[];
extern const size_t lmc_cuda_image_count;
extern const unsigned lmc_cuda_thread_count; /* of each thread block */

/* The names of all of them; "none: " and why, if there are none. */
extern const char lmc_cuda_images_text[];

#endif
