/* test_gpu_blocks.c - frames of all dtypes, levels, sizes and kinds of content through the emulated kernels: bytes as
 * they were encoded, all blocks by the kernels, whatever the order of threads. */
#include "lmc_test_gpu.h"

#define NBYTES_MAX (300 << 10)
#define SMALL_COUNT (1000 / LMC_TEST_STEP)

static lmc_ctx *ctx;
static uint8_t *content;

static uint64_t done_count[LMC_CUDA_KERNEL_COUNT]; /* by kernel, of the latest check */

/* Encodes nbytes of `content` and decodes them. Returns the frame, which the caller frees. */
static test_frame check_content(const lmc_params *params, size_t nbytes, const gpu_run *run)
{
    const test_frame frame = frame_encode(ctx, params, content, nbytes);
    gpu_tensor tensor = {.frame = frame.bytes, .frame_nbytes = frame.nbytes};
    const gpu_outcome outcome = gpu_decode_one(&tensor, random_below(16), run);
    const uint64_t host_count = outcome.report.host_block_count;
    const int is_right = outcome.status == LMC_OK &&
                         host_count == outcome.report.reason_count[LMC_CUDA_REASON_FORM] &&
                         (host_count == 0 || frame_is_for_host(&frame)) && tensor.content_nbytes == nbytes &&
                         memcmp(tensor.content, content, nbytes) == 0;
    if (!is_right)
        printf("\n%s, level %d, %zu bytes: %s\n", lmc_dtype_name(params->dtype), params->level, nbytes,
               lmc_status_text(outcome.status));
    CU_ASSERT(is_right);
    memcpy(done_count, outcome.done_count, sizeof done_count);
    gpu_free(&tensor);
    return frame;
}

static gpu_run any_run(void)
{
    return (gpu_run){1 + (uint32_t)random_below(3), random_below(4) != 0, random_u64()};
}

LMC_TEST(test_dtypes)
{
    for (unsigned i = 0; i < LMC_DTYPE_COUNT * DATA_KIND_COUNT; i += LMC_TEST_STEP) {
        const lmc_dtype dtype = (lmc_dtype)(i % LMC_DTYPE_COUNT);
        const size_t nbytes = 1 + random_below(i % 5 == 0 ? 40000 : 9000);
        const lmc_params params =
            frame_params(dtype, (lmc_level)random_below(3), 10 + (unsigned)random_below(4));
        const gpu_run run = any_run();
        data_fill(content, nbytes, dtype, (data_kind)(i / LMC_DTYPE_COUNT));
        test_frame frame = check_content(&params, nbytes, &run);
        frame_free(&frame);
    }
}

/* Contents of all small sizes, and of sizes about those at which the hash changes its way. */
LMC_TEST(test_sizes)
{
    static const size_t sizes[] = {240,  241,  255,  256,  511,  1023, 1024, 1025,
                                   1088, 1089, 2047, 2048, 2049, 4096, 5000};
    data_fill(content, 6000, LMC_DTYPE_BF16, DATA_WEIGHTS);
    for (size_t i = 0; i < 160 + sizeof sizes / sizeof sizes[0]; i += LMC_TEST_STEP) {
        const size_t nbytes = i < 160 ? i : sizes[i - 160];
        for (unsigned dtype = 0; dtype < 2; dtype++) {
            const lmc_params params =
                frame_params(dtype == 0 ? LMC_DTYPE_BF16 : LMC_DTYPE_U8, LMC_LEVEL_DEFAULT, 10);
            const gpu_run run = {1, 1, i};
            test_frame frame = check_content(&params, nbytes, &run);
            frame_free(&frame);
        }
    }
}

/* Blocks of the sizes that the library chooses, with thread blocks as on a device. */
LMC_TEST(test_usual_blocks)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_BF16, LMC_DTYPE_F16, LMC_DTYPE_F32, LMC_DTYPE_F8_E4M3,
                                       LMC_DTYPE_F8_E5M2};
    for (unsigned i = 0; i < 15; i += LMC_TEST_STEP) {
        const unsigned level = i / 5;
        const lmc_params params = frame_params(dtypes[i % 5], (lmc_level)level, 0);
        const gpu_run run = {2, 0, level};
        data_fill(content, NBYTES_MAX - 3, dtypes[i % 5], level == 2 ? DATA_WILD : DATA_WEIGHTS);
        test_frame frame = check_content(&params, NBYTES_MAX - 3, &run);
        frame_free(&frame);
    }
}

LMC_TEST(test_matrices)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_BF16, LMC_DTYPE_F16, LMC_DTYPE_F32};
    unsigned with_offsets = 0;
    for (unsigned i = 0; i < 24; i += LMC_TEST_STEP) {
        const size_t nbytes = 20000 + random_below(20000);
        const lmc_params params =
            frame_matrix(dtypes[i % 4], 10 + i % 4, 32 + i * 37 % 3000, content, nbytes);
        const gpu_run run = any_run();
        test_frame frame = check_content(&params, nbytes, &run);
        with_offsets += (unsigned)frame_has_offsets(&frame);
        frame_free(&frame);
    }
    CU_ASSERT(with_offsets > 8 / LMC_TEST_STEP);
}

/* The mode of the mask of a frame's first block; 255: it is not masked. */
static unsigned mask_mode(const test_frame *frame)
{
    lmc_info info = LMC_INIT(lmc_info);
    if (lmc_frame_read_info(frame->bytes, frame->nbytes, &info, NULL) != LMC_OK ||
        info.mode != LMC_FRAME_CODED || frame->bytes[info.head_nbytes] != LMC_FMT_BLOCK_MASKED)
        return 255;
    return frame->bytes[info.head_nbytes + 1];
}

/* Zeros among weights, alone and in runs, so that masks are written in all modes. */
LMC_TEST(test_masks)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_F8_E4M3, LMC_DTYPE_F64};
    unsigned count[256] = {0};
    for (unsigned i = 0; i < 96; i++) {
        const lmc_dtype dtype = dtypes[i % 4];
        const unsigned element_nbytes = data_element_nbytes(dtype);
        const size_t run_length = i / 4 % 3 == 0 ? 1 : 1 + random_below(40), share = 1 + random_below(60);
        const size_t nbytes = 8 * (1000 + random_below(3000));
        int is_zero = 0;
        data_fill(content, nbytes, dtype, DATA_WEIGHTS);
        for (size_t k = 0; k < nbytes / element_nbytes; k++) {
            if (k % run_length == 0)
                is_zero = random_below(64) < (i % 2 == 0 ? share : 64 - share / 8);
            if (is_zero)
                memset(content + k * element_nbytes, 0, element_nbytes);
        }
        const lmc_params params = frame_params(dtype, LMC_LEVEL_DEFAULT, 13);
        const gpu_run run = any_run();
        test_frame frame = check_content(&params, nbytes, &run);
        count[mask_mode(&frame)]++;
        frame_free(&frame);
    }
    CU_ASSERT(count[LMC_FMT_BITSET_BITMAP] > 0);
    CU_ASSERT(count[LMC_FMT_BITSET_GAPS_OF_ONES] > 0);
    CU_ASSERT(count[LMC_FMT_BITSET_GAPS_OF_ZEROS] > 0);
    CU_ASSERT(count[LMC_FMT_BITSET_HIERARCHY_OF_ONES] > 0);
    CU_ASSERT(count[LMC_FMT_BITSET_HIERARCHY_OF_ZEROS] > 0);
}

/* Many tensors of different dtypes in one batch. */
LMC_TEST(test_small_tensors)
{
    static gpu_tensor tensors[SMALL_COUNT];
    static uint8_t *contents[SMALL_COUNT];
    lmc_cuda_batch *batch;
    lmc_cuda_info info = LMC_INIT(lmc_cuda_info);
    const gpu_run run = {7, 1, 5};
    CU_ASSERT_EQUAL_FATAL(lmc_cuda_batch_create(NULL, &batch), LMC_OK);
    for (size_t i = 0; i < SMALL_COUNT; i++) {
        const lmc_dtype dtype = (lmc_dtype)(i % LMC_DTYPE_COUNT);
        const size_t nbytes = random_below(i % 50 == 0 ? 9000 : 900);
        const lmc_params params = frame_params(dtype, (lmc_level)(i % 3), 0);
        contents[i] = must_malloc(nbytes + 1);
        data_fill(contents[i], nbytes, dtype, (data_kind)random_below(DATA_KIND_COUNT));
        const test_frame frame = frame_encode(ctx, &params, contents[i], nbytes);
        tensors[i] = (gpu_tensor){.frame = frame.bytes, .frame_nbytes = frame.nbytes};
        gpu_prepare(batch, &tensors[i], random_below(16));
        CU_ASSERT_EQUAL(tensors[i].prepared, LMC_OK);
    }
    CU_ASSERT_EQUAL(lmc_cuda_batch_info(batch, &info), LMC_OK);
    CU_ASSERT_EQUAL(info.frame_count, SMALL_COUNT);
    const gpu_outcome outcome = gpu_decode(batch, &run);
    CU_ASSERT_EQUAL(outcome.status, LMC_OK);
    CU_ASSERT_EQUAL(outcome.report.device_block_count + outcome.report.reason_count[LMC_CUDA_REASON_FORM],
                    info.block_count);
    CU_ASSERT(outcome.report.device_block_count > info.block_count / 2);
    for (size_t i = 0; i < SMALL_COUNT; i++) {
        CU_ASSERT(memcmp(tensors[i].content, contents[i], tensors[i].content_nbytes) == 0);
        free((void *)(uintptr_t)tensors[i].frame);
        free(contents[i]);
        gpu_free(&tensors[i]);
    }
    lmc_cuda_batch_free(batch);
}

/* Normal weights in bf16, whose whole blocks are done by the kernels for their codes. */
LMC_TEST(test_kernels_of_codes)
{
    uint64_t count[LMC_CUDA_KERNEL_COUNT] = {0};
    for (unsigned i = 0; i < 24; i += LMC_TEST_STEP) {
        const gpu_run run = {1 + i % 2, i % 4 != 0, i};
        const unsigned block_log2 = run.has_small_blocks ? 11 + i % 5 : 14 + i % 3;
        const lmc_params params = frame_params(LMC_DTYPE_BF16, (lmc_level)(i % 3), block_log2);
        const size_t nbytes = 140000 + 1000 * i;
        gpu_fill_normal(content, nbytes, 0.01f * (float)(1 + i % 7));
        test_frame frame = check_content(&params, nbytes, &run);
        for (unsigned k = 0; k < LMC_CUDA_KERNEL_COUNT; k++)
            count[k] += done_count[k];
        frame_free(&frame);
    }
    for (unsigned k = 0; k < LMC_CUDA_KERNEL_COUNT; k++)
        CU_ASSERT(count[k] > 0 || cuda_is_used());
}

/* The order in which threads run changes nothing. */
LMC_TEST(test_orders)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_F8_E4M3};
    for (unsigned i = 0; i < 30; i += LMC_TEST_STEP) {
        const lmc_params params = frame_params(dtypes[i % 3], LMC_LEVEL_DEFAULT, 11);
        const gpu_run run = {1 + i % 4, 1, i};
        data_fill(content, 12345, dtypes[i % 3], i % 2 == 0 ? DATA_WILD : DATA_RARE);
        test_frame frame = check_content(&params, 12345, &run);
        frame_free(&frame);
    }
}

LMC_TEST_MAIN_WITH("gpu_blocks", (ctx = must_create_ctx(), content = must_malloc(NBYTES_MAX)),
                   (free(content), lmc_ctx_free(ctx)))
