/* test_gpu_damage.c - damaged frames through the emulated kernels: each ends in the status that lmc_decode() gives, and
 * nothing is read or written outside the buffers (a build with sanitizers sees that). */
#include "lmc_test_gpu.h"

#include "input_table.h"

#define FRAME_COUNT 36
#define DAMAGE_COUNT 2000u
#define CONTENT_MAX 24000
#define FRAME_MAX 131072

/* Blocks of 2^14 elements of bf16 are whole for thread blocks of 512 threads; 2 of them are a frame here. The emulation
 * takes its time for these. */
#define WHOLE_BLOCK_LOG2 14
#define WHOLE_NBYTES (2u << (WHOLE_BLOCK_LOG2 + 1))
#define WHOLE_DAMAGE_COUNT (cuda_is_used() ? DAMAGE_COUNT : 30u)

static lmc_ctx *ctx;
static test_frame frames[FRAME_COUNT];
static size_t refused_count;

/* A test, since encoding is asserted. */
LMC_TEST(test_make_frames)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_F8_E4M3,
                                       LMC_DTYPE_F16,  LMC_DTYPE_U8,  LMC_DTYPE_F64};
    static const data_kind kinds[] = {DATA_WEIGHTS,    DATA_WILD,  DATA_RARE,
                                      DATA_HALF_ZEROS, DATA_SHORT, DATA_STEPS};
    uint8_t *const content = must_malloc(CONTENT_MAX);
    for (size_t i = 0; i < FRAME_COUNT; i++) {
        lmc_params params = frame_params(dtypes[i % 6], (lmc_level)(i % 3), 10 + (unsigned)(i % 3));
        const size_t nbytes = 500 + random_below(CONTENT_MAX - 500);
        if (i < 12)
            params = frame_params(LMC_DTYPE_BF16, (lmc_level)(i % 3), 12);
        if (i % 6 == 5 && i > 6)
            params = frame_matrix(dtypes[i / 6 % 4], 11, 32 + i * 7 % 80, content, nbytes);
        else if (i < 12)
            gpu_fill_normal(content, nbytes, 0.02f);
        else
            data_fill(content, nbytes, dtypes[i % 6], kinds[i / 6]);
        frames[i] = frame_encode(ctx, &params, content, nbytes);
    }
    free(content);
}

/* Decodes bytes with and without the kernels. */
static void check_run(const uint8_t *bytes, size_t nbytes, const char *name, const gpu_run *run)
{
    gpu_tensor tensor = {.frame = bytes, .frame_nbytes = nbytes};
    const gpu_outcome outcome = gpu_decode_one(&tensor, random_below(16), run);
    uint8_t *const content = must_malloc(tensor.content_nbytes + 1);
    size_t content_nbytes;
    const lmc_status expected =
        lmc_decode(ctx, bytes, nbytes, content, tensor.content_nbytes, &content_nbytes);
    const int is_right = outcome.status == expected && (expected != LMC_OK || content_nbytes == 0 ||
                                                        memcmp(content, tensor.content, content_nbytes) == 0);
    if (!is_right)
        printf("\n%s: %s, but %s\n", name, lmc_status_text(outcome.status), lmc_status_text(expected));
    CU_ASSERT(is_right);
    refused_count += expected != LMC_OK;
    free(content);
    gpu_free(&tensor);
}

static void check_bytes(const uint8_t *bytes, size_t nbytes, const char *name)
{
    const gpu_run run = {1 + (uint32_t)random_below(2), random_below(16) != 0, random_u64()};
    check_run(bytes, nbytes, name, &run);
}

/* A byte of a block: where its modes and counts stand, at its end where escapes are, or anywhere. */
static uint8_t *pick_byte(uint8_t *block, size_t nbytes)
{
    const size_t near_nbytes = nbytes < 60 ? nbytes : 60;
    switch (random_below(3)) {
    case 0: return block + random_below(near_nbytes);
    case 1: return block + nbytes - 1 - random_below(near_nbytes) / 4;
    default: return block + random_below(nbytes);
    }
}

/* Changes bytes of a block, which no check covers but the hash of its content. */
static void damage_block(uint8_t *block, size_t nbytes)
{
    for (size_t k = 1 + random_below(3); k > 0; k--) {
        uint8_t *const byte = pick_byte(block, nbytes);
        switch (random_below(4)) {
        case 0: *byte = (uint8_t)random_u64(); break;
        case 1: *byte = random_below(2) == 0 ? 0 : 255; break;
        case 2: *byte = (uint8_t)random_below(8); break;
        default: *byte ^= (uint8_t)(1u << random_below(8)); break;
        }
    }
}

static void damage(uint8_t *bytes, size_t nbytes)
{
    lmc_info info = LMC_INIT(lmc_info);
    lmc_frame *frame;
    uint64_t offset;
    size_t stored_nbytes, content_nbytes;
    if (lmc_frame_read_info(bytes, nbytes, &info, NULL) != LMC_OK ||
        lmc_frame_create(ctx, bytes, info.head_nbytes, bytes + nbytes - (size_t)info.tail_nbytes,
                         (size_t)info.tail_nbytes, nbytes, &frame) != LMC_OK)
        abort();
    if (lmc_frame_block(frame, random_below((size_t)info.block_count), &offset, &stored_nbytes,
                        &content_nbytes) != LMC_OK)
        abort();
    damage_block(bytes + offset, stored_nbytes);
    lmc_frame_free(frame);
}

LMC_TEST(test_random_damage)
{
    uint8_t *const bytes = must_malloc(FRAME_MAX);
    refused_count = 0;
    for (unsigned i = 0; i < DAMAGE_COUNT; i += LMC_TEST_STEP) {
        const test_frame *const frame = &frames[random_below(FRAME_COUNT)];
        memcpy(bytes, frame->bytes, frame->nbytes);
        damage(bytes, frame->nbytes);
        check_bytes(bytes, frame->nbytes, "damage");
    }
    CU_ASSERT(refused_count > DAMAGE_COUNT / LMC_TEST_STEP * 9 / 10);
    free(bytes);
}

/* Blocks that are whole for thread blocks as a device has them: the special kernels meet the damage first. */
LMC_TEST(test_damaged_whole_blocks)
{
    uint8_t *const content = must_malloc(WHOLE_NBYTES), *const bytes = must_malloc(FRAME_MAX);
    test_frame whole[2];
    refused_count = 0;
    gpu_fill_normal(content, WHOLE_NBYTES, 0.02f);
    for (unsigned i = 0; i < 2; i++) {
        const lmc_params params =
            frame_params(LMC_DTYPE_BF16, i == 0 ? LMC_LEVEL_DEFAULT : LMC_LEVEL_FAST, WHOLE_BLOCK_LOG2);
        whole[i] = frame_encode(ctx, &params, content, WHOLE_NBYTES);
        CU_ASSERT_FATAL(whole[i].nbytes <= FRAME_MAX);
    }
    for (unsigned i = 0; i < WHOLE_DAMAGE_COUNT; i += LMC_TEST_STEP) {
        const test_frame *const frame = &whole[i % 2];
        const gpu_run run = {2, 0, i};
        memcpy(bytes, frame->bytes, frame->nbytes);
        damage(bytes, frame->nbytes);
        check_run(bytes, frame->nbytes, "damage of a whole block", &run);
    }
    CU_ASSERT(refused_count > WHOLE_DAMAGE_COUNT / LMC_TEST_STEP * 9 / 10);
    free(whole[0].bytes);
    free(whole[1].bytes);
    free(content);
    free(bytes);
}

/* Cuts and changes of whole frames, which the host finds. */
LMC_TEST(test_cuts)
{
    uint8_t *const bytes = must_malloc(FRAME_MAX);
    for (unsigned i = 0; i < 300; i += LMC_TEST_STEP) {
        const test_frame *const frame = &frames[i % FRAME_COUNT];
        const size_t nbytes = i % 2 == 0 ? random_below(frame->nbytes + 1) : frame->nbytes;
        memcpy(bytes, frame->bytes, nbytes);
        if (i % 2 != 0)
            bytes[random_below(nbytes)] ^= (uint8_t)(1u << random_below(8));
        check_bytes(bytes, nbytes, "cut");
    }
    free(bytes);
}

/* What the fuzzer keeps. */
LMC_TEST(test_corpus)
{
    size_t count;
    input_line *const lines = input_table_read(LMC_TESTS_DIR "/fuzz/corpus/frame_decode.tsv", &count);
    for (size_t i = 0; i < count; i += LMC_TEST_STEP) {
        size_t nbytes;
        uint8_t *const bytes = input_bytes(lines[i].input, &nbytes);
        check_bytes(bytes, nbytes, lines[i].name);
        free(bytes);
    }
    input_table_free(lines);
    CU_ASSERT(count > 300);
}

int main(int argc, char **argv)
{
    ctx = must_create_ctx();
    const int status = lmc_test_main("gpu_damage", argc, argv);
    for (size_t i = 0; i < FRAME_COUNT; i++)
        frame_free(&frames[i]);
    lmc_ctx_free(ctx);
    return status;
}
