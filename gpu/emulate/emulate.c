/* emulate.c - the kernels, compiled for a host with LMC_CUDA_THREADS threads to a thread block. */
#include "gpu/emulate/emulate.h"

#include "gpu/emulate/cta.h"

#include "gpu/device/fused.cuh"
#include "gpu/host/launch.h"

typedef struct emulated_kernel {
    void (*run)(lmc_cuda_job job);
    lmc_cuda_job job;
} emulated_kernel;

static void (*const kernels[LMC_CUDA_KERNEL_COUNT])(lmc_cuda_job job) = {
    [LMC_CUDA_KERNEL_6_3_5] = lmc_cuda_decode_6_3_5,
    [LMC_CUDA_KERNEL_8_2_2] = lmc_cuda_decode_8_2_2,
    [LMC_CUDA_KERNEL_ANY] = lmc_cuda_decode_any,
};

static void run_kernel(void *user)
{
    const emulated_kernel *const kernel = user;
    kernel->run(kernel->job);
}

int LMC_EMULATE_KERNEL(unsigned number, const lmc_cuda_job *job, uint32_t cta_count, uint64_t seed)
{
    static _Alignas(16) unsigned char shared[EMULATED_SHARED_NBYTES];
    emulated_kernel kernel = {kernels[number], *job};
    emulated_count = cta_count;
    for (emulated_index = 0; emulated_index < cta_count; emulated_index++) {
        memset(shared, 0xa5, sizeof shared);
        if (!fibers_run(LMC_CUDA_THREADS, seed + emulated_index, run_kernel, &kernel, shared))
            return 0;
    }
    return 1;
}

static uint64_t count_done(const lmc_cuda_job *job)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < job->block_count; i++)
        count += job->results[i].outcome == LMC_CUDA_DONE;
    return count;
}

int LMC_EMULATE_NAME(const lmc_cuda_batch *batch, const lmc_cuda_launch *launch, uint32_t cta_count,
                     uint64_t seed, uint64_t done_count[LMC_CUDA_KERNEL_COUNT])
{
    const lmc_cuda_job job = lmc_cuda_make_job(batch, launch);
    memset((void *)(uintptr_t)launch->results, 0, job.block_count * sizeof *job.results);
    for (unsigned k = 0; k < LMC_CUDA_KERNEL_COUNT; k++) {
        const uint64_t done_before = count_done(&job);
        if (lmc_cuda_kernel_is_wanted(batch, k) && !LMC_EMULATE_KERNEL(k, &job, cta_count, seed))
            return 0;
        done_count[k] = count_done(&job) - done_before;
    }
    return 1;
}
