/* launch.c - enqueues the kernels. */
#include "gpu/host/launch.h"

#include "codec/common/diag.h"
#include "common/abi.h"
#include "gpu/host/gpu_kernels.h"
#include "gpu/host/loaded.h"

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

static lmc_status read_launch(lmc_cuda_batch *batch, const lmc_cuda_launch *given, lmc_cuda_launch *launch)
{
    memset(launch, 0, sizeof *launch);
    if (!given || !lmc_struct_is_known(given, sizeof *launch))
        return lmc_cuda_fail(&batch->diag, LMC_ERR_ARG, 0, "a launch's struct_size is not known");
    lmc_struct_copy(launch, given, lmc_struct_size(given));
    if (lmc_cuda_descriptor_count(batch) == 0)
        return LMC_OK;
    const uint64_t addresses = launch->image | launch->results | launch->scratch;
    if (launch->image == 0 || launch->results == 0 || launch->scratch == 0)
        return lmc_cuda_fail(&batch->diag, LMC_ERR_ARG, 0, "a required address is 0");
    if (addresses % LMC_CUDA_ALIGNMENT != 0)
        return lmc_cuda_fail(&batch->diag, LMC_ERR_ARG, 0, "memory on the device begins at a multiple of %u",
                             LMC_CUDA_ALIGNMENT);
    const uint64_t least = lmc_cuda_scratch_layout(batch).nbytes;
    if (launch->scratch_nbytes < least)
        return lmc_cuda_fail(&batch->diag, LMC_ERR_DST_SMALL, 0, "scratch takes %llu bytes at least",
                             (unsigned long long)least);
    return LMC_OK;
}

/* As many thread blocks as there are blocks, as have scratch, and as run at once. */
static unsigned grid_of(const lmc_cuda_job *job, const lmc_cuda_launch *launch,
                        const lmc_cuda_loaded_kernel *kernel)
{
    const uint64_t with_scratch = launch->scratch_nbytes / job->layout.nbytes;
    uint64_t count = job->block_count < with_scratch ? job->block_count : with_scratch;
    if (count > kernel->thread_block_count)
        count = kernel->thread_block_count;
    return (unsigned)count;
}

/* Kernels run one after another in a stream: each leaves blocks to the later ones. */
static lmc_status enqueue(lmc_cuda_batch *batch, const lmc_cuda_loaded *loaded, const lmc_cuda_launch *launch,
                          lmc_cuda_job *job)
{
    lmc_diag *const diag = &batch->diag;
    const lmc_cuda_driver *const driver = loaded->driver;
    const lmc_cuda_stream stream = launch->stream;
    void *parameters[] = {job};
    int error = driver->memset_async(launch->results, 0, job->block_count * sizeof *job->results, stream);
    if (error != 0)
        return lmc_cuda_fail_call(diag, driver, "cuMemsetD8Async", error);
    for (unsigned i = 0; error == 0 && i < LMC_CUDA_KERNEL_COUNT; i++)
        if (lmc_cuda_kernel_is_wanted(batch, i))
            error = driver->launch(loaded->kernels[i].function, grid_of(job, launch, &loaded->kernels[i]), 1,
                                   1, lmc_cuda_thread_count, 1, 1, 0, stream, parameters, NULL);
    return error == 0 ? LMC_OK : lmc_cuda_fail_call(diag, driver, "cuLaunchKernel", error);
}

lmc_status lmc_cuda_decode(lmc_cuda_batch *batch, const lmc_cuda_launch *given)
{
    lmc_cuda_launch launch;
    lmc_cuda_loaded loaded;
    if (!batch)
        return LMC_ERR_ARG;
    batch->diag.status = LMC_OK;
    LMC_TRY(read_launch(batch, given, &launch));
    lmc_cuda_job job = lmc_cuda_make_job(batch, &launch);
    if (job.block_count == 0)
        return LMC_OK;
    LMC_TRY(lmc_cuda_load(&loaded, &batch->diag));
    return enqueue(batch, &loaded, &launch, &job);
}
