/* launch.c - enqueues the kernels. This build has none. */
#include "gpu/host/launch.h"

const lmc_cuda_kernel lmc_cuda_kernels[LMC_CUDA_KERNEL_COUNT] = {
    [LMC_CUDA_KERNEL_6_3_5] = {"lmc_cuda_decode_6_3_5", 2},
    [LMC_CUDA_KERNEL_8_2_2] = {"lmc_cuda_decode_8_2_2", 2},
    [LMC_CUDA_KERNEL_ANY] = {"lmc_cuda_decode_any", 1},
};

int lmc_cuda_kernel_is_wanted(const lmc_cuda_batch *batch, unsigned kernel)
{
    return (batch->extent.kernels >> kernel & 1) != 0;
}

lmc_cuda_job lmc_cuda_make_job(const lmc_cuda_batch *batch, const lmc_cuda_launch *launch)
{
    return (lmc_cuda_job){.blocks = (const lmc_cuda_block *)(uintptr_t)launch->image,
                          .data = (const uint8_t *)(uintptr_t)launch->image + batch->blocks.nbytes,
                          .results = (lmc_cuda_result *)(uintptr_t)launch->results,
                          .scratch = (uint8_t *)(uintptr_t)launch->scratch,
                          .layout = lmc_cuda_scratch_layout(batch),
                          .block_count = (uint32_t)lmc_cuda_descriptor_count(batch)};
}

lmc_status lmc_cuda_decode(lmc_cuda_batch *batch, const lmc_cuda_launch *launch)
{
    if (!batch)
        return LMC_ERR_ARG;
    if (!launch)
        return lmc_cuda_fail(batch, LMC_ERR_ARG, 0, "a required pointer is NULL");
    return lmc_cuda_fail(batch, LMC_ERR_UNSUPPORTED, 0, "this build of liblmc_cuda has no kernels");
}
