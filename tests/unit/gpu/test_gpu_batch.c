/* test_gpu_batch.c - batches: what they refuse, what becomes the host's, how failures are told, too little memory. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */

#include "lmc_test_gpu.h"

#include "lmc_test_alloc.h"

#include <sys/mman.h>
#include <unistd.h>

#define NBYTES 5000
#define CONTENT_NBYTES_AT 16 /* in a head */

static lmc_ctx *ctx;
static uint8_t content[NBYTES];

/* A frame of bf16 weights in blocks of 2 KiB. */
static test_frame make_frame(void)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    gpu_fill_normal(content, NBYTES, 0.02f);
    return frame_encode(ctx, &params, content, NBYTES);
}

static lmc_cuda_batch *make_batch(void)
{
    lmc_cuda_batch *batch;
    if (lmc_cuda_batch_create(NULL, &batch) != LMC_OK)
        abort();
    return batch;
}

LMC_TEST(test_arguments)
{
    lmc_cuda_batch *const batch = make_batch();
    test_frame frame = make_frame();
    uint8_t *const room = gpu_allocate(NBYTES);
    const lmc_cuda_frame good = {.struct_size = sizeof good,
                                 .frame = frame.bytes,
                                 .frame_nbytes = frame.nbytes,
                                 .device_frame = (uintptr_t)frame.bytes,
                                 .device_content = (uintptr_t)room,
                                 .content_capacity = NBYTES};
    lmc_cuda_frame bad = good;
    lmc_cuda_info info = LMC_INIT(lmc_cuda_info);
    CU_ASSERT_EQUAL(lmc_cuda_batch_create(NULL, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_cuda_prepare(NULL, &good), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_cuda_prepare(batch, NULL), LMC_ERR_ARG);
    bad.struct_size = sizeof bad + 1;
    CU_ASSERT_EQUAL(lmc_cuda_prepare(batch, &bad), LMC_ERR_ARG);
    bad = good;
    bad.frame = NULL;
    CU_ASSERT_EQUAL(lmc_cuda_prepare(batch, &bad), LMC_ERR_ARG);
    bad = good;
    bad.device_content += 8;
    CU_ASSERT_EQUAL(lmc_cuda_prepare(batch, &bad), LMC_ERR_ARG);
    bad = good;
    bad.content_capacity--;
    CU_ASSERT_EQUAL(lmc_cuda_prepare(batch, &bad), LMC_ERR_DST_SMALL);
    CU_ASSERT_EQUAL(lmc_cuda_diag(batch)->status, LMC_ERR_DST_SMALL);
    bad = good;
    bad.frame_nbytes -= 1;
    CU_ASSERT_EQUAL(lmc_cuda_prepare(batch, &bad), LMC_ERR_CHECKSUM);
    CU_ASSERT_EQUAL(lmc_cuda_batch_info(batch, &info), LMC_OK);
    CU_ASSERT(info.frame_count == 0 && info.block_count == 0 && info.image_nbytes == 0);
    CU_ASSERT_EQUAL(lmc_cuda_prepare(batch, &good), LMC_OK);
    CU_ASSERT_EQUAL(lmc_cuda_batch_info(batch, &info), LMC_OK);
    CU_ASSERT(info.frame_count == 1 && info.block_count == 3 && info.content_nbytes == NBYTES);
    CU_ASSERT_EQUAL(lmc_cuda_write_image(batch, room, info.image_nbytes - 1), LMC_ERR_DST_SMALL);
    CU_ASSERT_EQUAL(lmc_cuda_finish(batch, room, info.results_nbytes - 1, NULL, NULL), LMC_ERR_ARG);
    lmc_cuda_batch_clear(batch);
    CU_ASSERT_EQUAL(lmc_cuda_batch_info(batch, &info), LMC_OK);
    CU_ASSERT(info.frame_count == 0 && info.results_nbytes == 0);
    CU_ASSERT_EQUAL(lmc_cuda_finish(batch, NULL, 0, NULL, NULL), LMC_OK);
    lmc_cuda_batch_free(batch);
    lmc_cuda_batch_free(NULL);
    frame_free(&frame);
    free(room);
}

static lmc_status refuse_write(void *user, uint64_t device_address, const void *src, size_t nbytes)
{
    (void)user, (void)device_address, (void)src, (void)nbytes;
    return LMC_ERR_IO;
}

/* Blocks of which the device has said nothing, as if it had not run, are the host's. */
LMC_TEST(test_pending)
{
    lmc_cuda_batch *const batch = make_batch();
    test_frame frame = make_frame();
    gpu_tensor tensors[2] = {{.frame = frame.bytes, .frame_nbytes = frame.nbytes}};
    const lmc_params params = frame_params(LMC_DTYPE_U8, LMC_LEVEL_DEFAULT, 10);
    lmc_cuda_info info = LMC_INIT(lmc_cuda_info);
    lmc_cuda_report report = LMC_INIT(lmc_cuda_report);
    const lmc_cuda_memory memory = {gpu_write, NULL}, refusing = {refuse_write, NULL};
    const test_frame stored = frame_encode(ctx, &params, content, 100);
    tensors[1] = (gpu_tensor){.frame = stored.bytes, .frame_nbytes = stored.nbytes};
    gpu_prepare(batch, &tensors[0], 1);
    gpu_prepare(batch, &tensors[1], 1);
    CU_ASSERT_EQUAL(lmc_cuda_batch_info(batch, &info), LMC_OK);
    uint8_t *const results = gpu_allocate(info.results_nbytes);
    memset(results, 0, info.results_nbytes);
    CU_ASSERT_EQUAL(lmc_cuda_finish(batch, results, info.results_nbytes, NULL, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_cuda_finish(batch, results, info.results_nbytes, &refusing, NULL), LMC_ERR_IO);
    CU_ASSERT_EQUAL(lmc_cuda_finish(batch, results, info.results_nbytes, &memory, &report), LMC_OK);
    CU_ASSERT(report.host_block_count == 4 && report.device_block_count == 0 &&
              report.failed_block_count == 0);
    CU_ASSERT_EQUAL(report.reason_count[LMC_CUDA_REASON_PENDING], 4);
    CU_ASSERT_EQUAL(report.host_nbytes, NBYTES + 100);
    CU_ASSERT(memcmp(tensors[0].content, content, NBYTES) == 0);
    CU_ASSERT(memcmp(tensors[1].content, content, 100) == 0);
    CU_ASSERT_STRING_EQUAL(lmc_cuda_reason_text(LMC_CUDA_REASON_PENDING), "not decoded by the device");
    free(results);
    gpu_free(&tensors[0]);
    gpu_free(&tensors[1]);
    frame_free(&frame);
    free(stored.bytes);
    lmc_cuda_batch_free(batch);
}

/* Damage of one tensor is told by name and place, and leaves the others right. */
LMC_TEST(test_failures)
{
    lmc_cuda_batch *const batch = make_batch();
    test_frame frame = make_frame();
    gpu_tensor tensors[3];
    lmc_cuda_failure failure = LMC_INIT(lmc_cuda_failure);
    lmc_info info = LMC_INIT(lmc_info);
    const gpu_run run = {2, 1, 3};
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame.bytes, frame.nbytes, &info, NULL), LMC_OK);
    for (unsigned i = 0; i < 3; i++) {
        tensors[i] = (gpu_tensor){.frame = frame.bytes, .frame_nbytes = frame.nbytes};
        gpu_prepare(batch, &tensors[i], i);
    }
    tensors[1].device_memory[1 + info.head_nbytes] =
        LMC_FMT_BLOCK_DELTA; /* of the copy: the host's bytes are right */
    tensors[1].device_memory[1 + frame.nbytes - (size_t)info.tail_nbytes - 1] ^= 1;
    const gpu_outcome outcome = gpu_decode(batch, &run);
    CU_ASSERT_EQUAL(outcome.status, LMC_ERR_UNSUPPORTED);
    CU_ASSERT(strstr(lmc_cuda_diag(batch)->text, "tensor: block 0") != NULL);
    CU_ASSERT(outcome.report.failed_block_count == 2 && outcome.report.device_block_count == 7);
    CU_ASSERT_FATAL(lmc_cuda_failed_block(batch, 0, &failure) == 1);
    CU_ASSERT_STRING_EQUAL(failure.name, "tensor");
    CU_ASSERT(failure.frame_index == 1 && failure.block_index == 0 && failure.offset == info.head_nbytes);
    CU_ASSERT(failure.status == LMC_ERR_UNSUPPORTED && failure.found_by_device);
    CU_ASSERT_FATAL(lmc_cuda_failed_block(batch, 1, &failure) == 1);
    CU_ASSERT(failure.frame_index == 1 && failure.block_index == 2);
    CU_ASSERT(lmc_cuda_failed_block(batch, 2, &failure) == 0);
    CU_ASSERT(memcmp(tensors[0].content, content, NBYTES) == 0);
    CU_ASSERT(memcmp(tensors[2].content, content, NBYTES) == 0);
    for (unsigned i = 0; i < 3; i++)
        gpu_free(&tensors[i]);
    frame_free(&frame);
    lmc_cuda_batch_free(batch);
}

/* The descriptors of a stored frame of 2^40 bytes would take more than 4 GiB. Of its pages, the first one and the last
 * one alone are there. */
LMC_TEST(test_too_many_blocks)
{
    const lmc_kernels *const kernels = lmc_kernels_get();
    const uint64_t content_nbytes = UINT64_C(1) << 40;
    const size_t page_nbytes = (size_t)sysconf(_SC_PAGESIZE), tail_nbytes = 2 * LMC_FMT_HASH_NBYTES;
    const size_t frame_nbytes = LMC_FMT_HEAD_NBYTES + (size_t)content_nbytes + tail_nbytes;
    lmc_cuda_batch *const batch = make_batch();
    const lmc_params params = frame_params(LMC_DTYPE_U8, LMC_LEVEL_DEFAULT, 10);
    for (size_t i = 0; i < NBYTES; i++)
        content[i] = (uint8_t)random_u64();
    const test_frame small = frame_encode(ctx, &params, content, NBYTES);
    uint8_t *const frame =
        mmap(NULL, frame_nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CU_ASSERT_FATAL(frame != MAP_FAILED);
    uint8_t *const tail = frame + frame_nbytes - tail_nbytes;
    CU_ASSERT_EQUAL_FATAL(mprotect(frame, page_nbytes, PROT_READ | PROT_WRITE), 0);
    CU_ASSERT_EQUAL_FATAL(mprotect(tail - (uintptr_t)tail % page_nbytes, page_nbytes, PROT_READ | PROT_WRITE),
                          0);
    memcpy(frame, small.bytes, LMC_FMT_HEAD_NBYTES);
    memcpy(frame + CONTENT_NBYTES_AT, &content_nbytes, sizeof content_nbytes);
    const uint64_t check =
        kernels->hash(tail, LMC_FMT_HASH_NBYTES, kernels->hash(frame, LMC_FMT_HEAD_NBYTES, 0));
    memcpy(tail + LMC_FMT_HASH_NBYTES, &check, sizeof check);
    const lmc_cuda_frame given = {.struct_size = sizeof given,
                                  .frame = frame,
                                  .frame_nbytes = frame_nbytes,
                                  .content_capacity = content_nbytes};
    CU_ASSERT_EQUAL(lmc_cuda_prepare(batch, &given), LMC_ERR_LIMIT);
    munmap(frame, frame_nbytes);
    free(small.bytes);
    lmc_cuda_batch_free(batch);
}

/* ---- memory that runs out ---- */

/* Prepares a frame and decodes it on the host. */
static lmc_status use_batch(const test_frame *frame)
{
    lmc_cuda_batch *batch;
    const lmc_cuda_memory memory = {gpu_write, NULL};
    gpu_tensor tensor = {.frame = frame->bytes, .frame_nbytes = frame->nbytes};
    lmc_cuda_info info = LMC_INIT(lmc_cuda_info);
    lmc_status status = lmc_cuda_batch_create(&pool_allocator, &batch);
    if (status != LMC_OK)
        return status;
    gpu_prepare(batch, &tensor, 0);
    status = tensor.prepared;
    CU_ASSERT_EQUAL(lmc_cuda_batch_info(batch, &info), LMC_OK);
    uint8_t *const results = gpu_allocate(info.results_nbytes);
    memset(results, 0, info.results_nbytes);
    if (status == LMC_OK)
        status = lmc_cuda_finish(batch, results, info.results_nbytes, &memory, NULL);
    if (status == LMC_OK)
        CU_ASSERT(memcmp(tensor.content, content, NBYTES) == 0);
    free(results);
    gpu_free(&tensor);
    lmc_cuda_batch_free(batch);
    return status;
}

LMC_TEST(test_memory)
{
    test_frame frame = make_frame();
    lmc_status status = LMC_ERR_NOMEM;
    size_t count = 0;
    for (; status != LMC_OK && count < 1000; count++) {
        pool_fail(count, 0);
        status = use_batch(&frame);
        CU_ASSERT(status == LMC_OK || status == LMC_ERR_NOMEM);
        CU_ASSERT(pool_is_whole());
    }
    CU_ASSERT(count > 10 && count < 1000);
    frame_free(&frame);
}

LMC_TEST_MAIN_WITH("gpu_batch", ctx = must_create_ctx(), lmc_ctx_free(ctx))
