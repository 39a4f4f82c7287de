/* kernels.cu - all kernels, for NVRTC. */
#include "gpu/device/cta_cuda.cuh"

#include "gpu/device/fused.cuh"
