/* large.c - a GiB of blocks through the kernels, in frames of 16 MiB. An argument picks a dtype and level, as
 * "bf16_default": the tests may run beside each other. It is no test of ctest: each takes up to a minute. */
#include "lmc_test_gpu.h"

#define FRAME_NBYTES (16u << 20)

/* Fills content with normally distributed floats of a dtype. */
static void fill(uint8_t *content, lmc_dtype dtype)
{
    const unsigned element_nbytes = data_element_nbytes(dtype);
    if (dtype != LMC_DTYPE_BF16 && dtype != LMC_DTYPE_F32) {
        data_fill(content, FRAME_NBYTES, dtype, DATA_WEIGHTS);
        return;
    }
    for (size_t i = 0; i < FRAME_NBYTES; i += element_nbytes) {
        int32_t sum = -6 * 65535; /* of twelve uniform numbers */
        for (unsigned k = 0; k < 3; k++)
            for (uint64_t x = random_u64(), n = 0; n < 4; n++)
                sum += (int32_t)(x >> 16 * n & 0xffff);
        const float value = 0.02f * (float)sum / 65536;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        bits = dtype == LMC_DTYPE_F32 ? bits ^ (uint32_t)random_below(1 << 8) : bits >> 16;
        memcpy(content + i, &bits, element_nbytes);
    }
}

/* Decodes so many MiB and compares each byte. kernel: one that must do nearly all blocks. */
static void check(lmc_dtype dtype, lmc_level level, unsigned mib, unsigned kernel)
{
    lmc_ctx *const ctx = must_create_ctx();
    uint8_t *const content = must_malloc(FRAME_NBYTES);
    const lmc_params params = frame_params(dtype, level, 0);
    uint64_t done_count = 0, block_count = 0;
    random_state = (uint64_t)dtype << 8 | level;
    for (unsigned i = 0; i < mib / (FRAME_NBYTES >> 20); i++) {
        fill(content, dtype);
        test_frame frame = frame_encode(ctx, &params, content, FRAME_NBYTES);
        gpu_tensor tensor = {.frame = frame.bytes, .frame_nbytes = frame.nbytes};
        const gpu_run run = {4, 0, i};
        const gpu_outcome outcome = gpu_decode_one(&tensor, i % 16, &run);
        CU_ASSERT_EQUAL(outcome.status, LMC_OK);
        CU_ASSERT_EQUAL(outcome.report.device_nbytes, FRAME_NBYTES);
        CU_ASSERT(memcmp(tensor.content, content, FRAME_NBYTES) == 0);
        done_count += outcome.done_count[kernel];
        block_count += outcome.report.block_count;
        gpu_free(&tensor);
        frame_free(&frame);
    }
    if (!cuda_is_used()) { /* a device does not say which kernel did how many */
        printf("%llu of %llu blocks by kernel %u\n", (unsigned long long)done_count,
               (unsigned long long)block_count, kernel);
        CU_ASSERT(done_count * 10 >= block_count * 9);
    }
    free(content);
    lmc_ctx_free(ctx);
}

LMC_TEST(test_bf16_default)
{
    check(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 256, LMC_CUDA_KERNEL_6_3_5);
}

LMC_TEST(test_bf16_fast)
{
    check(LMC_DTYPE_BF16, LMC_LEVEL_FAST, 256, LMC_CUDA_KERNEL_8_2_2);
}

LMC_TEST(test_f32_default)
{
    check(LMC_DTYPE_F32, LMC_LEVEL_DEFAULT, 256, LMC_CUDA_KERNEL_ANY);
}

LMC_TEST(test_f16_max)
{
    check(LMC_DTYPE_F16, LMC_LEVEL_MAX, 128, LMC_CUDA_KERNEL_ANY);
}

LMC_TEST(test_f8_default)
{
    check(LMC_DTYPE_F8_E4M3, LMC_LEVEL_DEFAULT, 128, LMC_CUDA_KERNEL_ANY);
}

LMC_TEST_MAIN("gpu_large")
