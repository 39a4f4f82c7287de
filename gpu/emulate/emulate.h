/*
 * emulate.h - runs the kernels on a host, for tests. Device addresses are addresses of the host's memory.
 */
#ifndef LMC_GPU_EMULATE_EMULATE_H
#define LMC_GPU_EMULATE_EMULATE_H

#include "gpu/device/descriptors.h"
#include "lmc_cuda.h"

/* As lmc_cuda_decode() with cta_count thread blocks of 512 threads, or of 64, and waits for their end. Results and
 * scratch begin with any contents. Threads take turns as the seed decides. Returns 0 if the kernel would not end. */
int lmc_emulate_decode_512(const lmc_cuda_batch *batch, const lmc_cuda_launch *launch, uint32_t cta_count,
                           uint64_t seed, uint64_t done_count[LMC_CUDA_KERNEL_COUNT]);
int lmc_emulate_decode_64(const lmc_cuda_batch *batch, const lmc_cuda_launch *launch, uint32_t cta_count,
                          uint64_t seed, uint64_t done_count[LMC_CUDA_KERNEL_COUNT]);

/* What a launch of kernel `number` with this parameter does. One thread at a time may emulate. */
int lmc_emulate_kernel_512(unsigned number, const lmc_cuda_job *job, uint32_t cta_count, uint64_t seed);
int lmc_emulate_kernel_64(unsigned number, const lmc_cuda_job *job, uint32_t cta_count, uint64_t seed);

#endif
