/* no_kernels.c - a library without kernels. The build says why: LMC_CUDA_NO_KERNELS. */
#include "gpu/host/gpu_kernels.h"

const lmc_cuda_image lmc_cuda_images[1];
const size_t lmc_cuda_image_count = 0;
const unsigned lmc_cuda_thread_count = 0;
const char lmc_cuda_images_text[] = "none: " LMC_CUDA_NO_KERNELS;
