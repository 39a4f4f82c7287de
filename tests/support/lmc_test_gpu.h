/*
 * lmc_test_gpu.h - decodes frames with the kernels in their emulation, or with LMC_CUDA_DRIVER in the environment by
 * that driver. In the emulation device memory is the host's: each frame has a
 * copy of just its size, at an address that no word begins at, and so has each content.
 */
#ifndef LMC_TEST_GPU_H
#define LMC_TEST_GPU_H

#include "lmc_test_frame.h"

#include <lmc_cuda.h>

#include "lmc_test_cuda.h"

#include "gpu/emulate/emulate.h"

/* A tensor on its way through a batch. */
typedef struct gpu_tensor {
    const uint8_t *frame; /* the caller's */
    size_t frame_nbytes;
    const uint8_t *base; /* the caller's, or NULL */
    size_t base_nbytes;
    uint8_t *device_memory, *content; /* of the frame's copy and of the content: gpu_free() */
    size_t content_nbytes;
    lmc_status prepared;
} gpu_tensor;

/* How a batch is decoded. */
typedef struct gpu_run {
    uint32_t cta_count;
    int has_small_blocks; /* 1: thread blocks of 64 threads, else of 512 */
    uint64_t seed;
} gpu_run;

/* What became of it. */
typedef struct gpu_outcome {
    lmc_status status;
    lmc_cuda_report report;
    uint64_t done_count[LMC_CUDA_KERNEL_COUNT]; /* blocks, by kernel */
} gpu_outcome;

static MAYBE_UNUSED void *gpu_allocate(size_t nbytes)
{
    void *memory;
    if (posix_memalign(&memory, LMC_CUDA_ALIGNMENT, nbytes > 0 ? nbytes : 1) != 0)
        abort();
    memset(memory, 0xee, nbytes);
    if (cuda_is_used())
        cuda_make_twin(memory, nbytes);
    return memory;
}

static MAYBE_UNUSED void gpu_release(void *memory)
{
    if (memory && cuda_is_used())
        cuda_free_twin(memory);
    free(memory);
}

/* The address that the device has for it. */
static MAYBE_UNUSED uint64_t gpu_address(const void *memory)
{
    return cuda_is_used() ? cuda_find_twin(memory)->device : (uintptr_t)memory;
}

static MAYBE_UNUSED lmc_status gpu_write(void *user, uint64_t device_address, const void *src, size_t nbytes)
{
    (void)user;
    memcpy(cuda_is_used() ? cuda_host_of(device_address) : (void *)(uintptr_t)device_address, src, nbytes);
    return LMC_OK;
}

/* Adds a tensor; skew: what the copy's address is above a multiple of 16. */
static MAYBE_UNUSED void gpu_prepare(lmc_cuda_batch *batch, gpu_tensor *tensor, size_t skew)
{
    lmc_info info = LMC_INIT(lmc_info);
    const size_t known_nbytes =
        tensor->frame_nbytes < LMC_INFO_NBYTES ? tensor->frame_nbytes : LMC_INFO_NBYTES;
    const lmc_status status = lmc_frame_read_info(tensor->frame, known_nbytes, &info, NULL);
    tensor->content_nbytes =
        status == LMC_OK && info.content_nbytes < (1u << 30) ? (size_t)info.content_nbytes : 0;
    tensor->device_memory = gpu_allocate(tensor->frame_nbytes + skew);
    tensor->content = gpu_allocate(tensor->content_nbytes);
    memcpy(tensor->device_memory + skew, tensor->frame, tensor->frame_nbytes);
    const lmc_cuda_frame frame = {.struct_size = sizeof frame,
                                  .name = "tensor",
                                  .frame = tensor->frame,
                                  .frame_nbytes = tensor->frame_nbytes,
                                  .base = tensor->base,
                                  .base_nbytes = tensor->base_nbytes,
                                  .device_frame = gpu_address(tensor->device_memory) + skew,
                                  .device_content = gpu_address(tensor->content),
                                  .content_capacity = tensor->content_nbytes};
    tensor->prepared = lmc_cuda_prepare(batch, &frame);
}

/* Fills content with normally distributed values of bf16, as weights are. A few are so small that they are escapes. */
static MAYBE_UNUSED void gpu_fill_normal(uint8_t *content, size_t nbytes, float deviation)
{
    for (size_t i = 0; i + 2 <= nbytes; i += 2) {
        float sum = -6;
        uint32_t bits;
        for (unsigned k = 0; k < 12; k++)
            sum += (float)random_below(1 << 24) / (1 << 24);
        sum *= random_below(2000) == 0 ? deviation * 1e-12f : deviation;
        memcpy(&bits, &sum, sizeof bits);
        bits >>= 16;
        memcpy(content + i, &bits, 2);
    }
}

static MAYBE_UNUSED void gpu_free(gpu_tensor *tensor)
{
    gpu_release(tensor->device_memory);
    gpu_release(tensor->content);
}

/* Runs the kernels. A device does not say which of them did how many blocks. */
static MAYBE_UNUSED void gpu_run_kernels(lmc_cuda_batch *batch, const lmc_cuda_launch *launch,
                                         const gpu_run *run, uint64_t done_count[LMC_CUDA_KERNEL_COUNT])
{
    if (!cuda_is_used()) {
        CU_ASSERT_FATAL((run->has_small_blocks ? lmc_emulate_decode_64 : lmc_emulate_decode_512)(
            batch, launch, run->cta_count, run->seed, done_count));
        return;
    }
    cuda_copy_twins(0);
    const lmc_status status = lmc_cuda_decode(batch, launch);
    if (status != LMC_OK)
        printf("\n%s\n", lmc_cuda_diag(batch)->text);
    CU_ASSERT_EQUAL_FATAL(status, LMC_OK);
    cuda_copy_twins(1);
}

/* Decodes all blocks of a batch, and those that are the host's. */
static MAYBE_UNUSED gpu_outcome gpu_decode(lmc_cuda_batch *batch, const gpu_run *run)
{
    lmc_cuda_info info = LMC_INIT(lmc_cuda_info);
    gpu_outcome outcome = {LMC_OK, LMC_INIT(lmc_cuda_report), {0}};
    const lmc_cuda_memory memory = {gpu_write, NULL};
    CU_ASSERT_EQUAL(lmc_cuda_batch_info(batch, &info), LMC_OK);
    void *const image = gpu_allocate(info.image_nbytes), *const results = gpu_allocate(info.results_nbytes);
    void *const scratch = gpu_allocate(info.scratch_nbytes_least * run->cta_count);
    CU_ASSERT_EQUAL_FATAL(lmc_cuda_write_image(batch, image, info.image_nbytes), LMC_OK);
    const lmc_cuda_launch launch = {.struct_size = sizeof launch,
                                    .image = gpu_address(image),
                                    .results = gpu_address(results),
                                    .scratch = gpu_address(scratch),
                                    .scratch_nbytes = info.scratch_nbytes_least * run->cta_count};
    gpu_run_kernels(batch, &launch, run, outcome.done_count);
    outcome.status = lmc_cuda_finish(batch, results, info.results_nbytes, &memory, &outcome.report);
    gpu_release(image);
    gpu_release(results);
    gpu_release(scratch);
    return outcome;
}

/* Decodes one tensor in a batch of its own. The status is that of lmc_cuda_prepare() or of lmc_cuda_finish(). */
static MAYBE_UNUSED gpu_outcome gpu_decode_one(gpu_tensor *tensor, size_t skew, const gpu_run *run)
{
    lmc_cuda_batch *batch;
    gpu_outcome outcome = {LMC_OK, LMC_INIT(lmc_cuda_report), {0}};
    if (lmc_cuda_batch_create(NULL, &batch) != LMC_OK)
        abort();
    gpu_prepare(batch, tensor, skew);
    outcome.status = tensor->prepared;
    if (tensor->prepared == LMC_OK)
        outcome = gpu_decode(batch, run);
    lmc_cuda_batch_free(batch);
    return outcome;
}

#endif
