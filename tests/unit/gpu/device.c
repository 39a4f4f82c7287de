/*
 * device.c - gpu_device: the device that liblmc_cuda finds by LMC_CUDA_DRIVER, and the kernels that it chooses for it.
 * Exit status 1, with the reason, if there is none.
 */
#include "lmc_test_gpu.h"

static int fail(const lmc_diag *diag)
{
    printf("%s: %s\n", lmc_status_text(diag->status), diag->text);
    return 1;
}

int main(void)
{
    lmc_cuda_device device = LMC_INIT(lmc_cuda_device);
    lmc_diag diag = LMC_INIT(lmc_diag);
    setenv("LMC_CUDA_DRIVER", "libcuda.so.1", 0);
    printf("kernels: %s\n", lmc_cuda_kernels_text());
    /* ARG: all but a context is there, which is made next */
    if (lmc_cuda_init(NULL, &diag) != LMC_ERR_ARG)
        return fail(&diag);
    if (!cuda_is_used() || lmc_cuda_init(&device, &diag) != LMC_OK)
        return fail(&diag);
    printf("%s for compute capability %u.%u: %u multiprocessors, %u thread blocks at once\n", device.kernels,
           device.capability_major, device.capability_minor, device.multiprocessor_count,
           device.thread_block_count);
    return 0;
}
