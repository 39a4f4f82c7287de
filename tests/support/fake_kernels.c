/* fake_kernels.c - stands in the place of the compiled kernels: the driver of fake_cuda.c takes any image. */
#include "gpu/host/gpu_kernels.h"

const lmc_cuda_image lmc_cuda_images[] = {
    {"sm_80", 80, 0, "cubin of sm_80"},
    {"sm_90", 90, 0, "cubin of sm_90"},
    {"sm_100", 100, 0, "cubin of sm_100"},
    {"compute_80", 80, 1, "PTX of compute_80"},
};
const size_t lmc_cuda_image_count = sizeof lmc_cuda_images / sizeof *lmc_cuda_images;
const unsigned lmc_cuda_thread_count = 512;
const char lmc_cuda_images_text[] = "sm_80 sm_90 sm_100 compute_80";
