/* test_gpu_vectors.c - the frozen frames of tests/format/vectors, decoded by the emulated kernels: the valid ones to
 * their contents, the corrupt ones to the statuses of lmc_decode(). */
#include "lmc_test_gpu.h"

#include <dirent.h>

#include "input_table.h"

#define VECTORS LMC_TESTS_DIR "/format/vectors"
#define FILE_MAX (1 << 20)

typedef struct file {
    uint8_t *bytes; /* NULL: there is none */
    size_t nbytes;
} file;

static lmc_ctx *ctx;

static file read_file(const char *name, const char *suffix)
{
    char path[1024];
    file found = {NULL, 0};
    snprintf(path, sizeof path, VECTORS "/%s%s", name, suffix);
    FILE *const stream = fopen(path, "rb");
    if (!stream)
        return found;
    found.bytes = must_malloc(FILE_MAX);
    found.nbytes = fread(found.bytes, 1, FILE_MAX, stream);
    fclose(stream);
    return found;
}

/* ---- valid frames ---- */

static uint64_t device_blocks, host_blocks, dense_host_blocks;

static void check_valid(const char *name, const file *frame)
{
    file content = read_file(name, ".bin"), base = read_file(name, ".base");
    for (unsigned i = 0; i < 2; i++) {
        gpu_tensor tensor = {frame->bytes, frame->nbytes, base.bytes, base.nbytes, NULL, NULL, 0, LMC_OK};
        const gpu_run run = {.cta_count = 1 + i, .has_small_blocks = i == 1, .seed = 2 - i};
        const gpu_outcome outcome = gpu_decode_one(&tensor, 3 + 5 * i, &run);
        const int is_right = outcome.status == LMC_OK && tensor.content_nbytes == content.nbytes &&
                             memcmp(tensor.content, content.bytes, content.nbytes) == 0;
        if (!is_right)
            printf("\n%s: %s\n", name, lmc_status_text(outcome.status));
        CU_ASSERT(is_right);
        device_blocks += outcome.report.device_block_count;
        host_blocks += outcome.report.host_block_count;
        if (!base.bytes &&
            outcome.report.host_block_count > outcome.report.reason_count[LMC_CUDA_REASON_FORM]) {
            dense_host_blocks += outcome.report.host_block_count;
            printf("\n%s: %llu of %llu blocks are the host's\n", name,
                   (unsigned long long)outcome.report.host_block_count,
                   (unsigned long long)outcome.report.block_count);
        }
        gpu_free(&tensor);
    }
    free(content.bytes);
    free(base.bytes);
}

LMC_TEST(test_valid_frames)
{
    DIR *const entries = opendir(VECTORS);
    const struct dirent *entry;
    size_t count = 0;
    while (entries && (entry = readdir(entries)) != NULL) {
        char name[256];
        const int length = (int)strlen(entry->d_name) - 4;
        if (length < 1 || strcmp(entry->d_name + length, ".lmc") != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", length, entry->d_name);
        if (count++ % LMC_TEST_STEP == 0) {
            file frame = read_file(name, ".lmc");
            check_valid(name, &frame);
            free(frame.bytes);
        }
    }
    if (entries)
        closedir(entries);
    CU_ASSERT(count > 100);
    printf("\n%llu blocks by the kernels, %llu by the host, %llu of them dense\n",
           (unsigned long long)device_blocks, (unsigned long long)host_blocks,
           (unsigned long long)dense_host_blocks);
    CU_ASSERT(device_blocks > 0 && dense_host_blocks == 0);
}

/* ---- corrupt frames ---- */

static void check_corrupt(const input_line *line)
{
    file frame = {NULL, 0}, base = {NULL, 0};
    frame.bytes = input_bytes(line->input, &frame.nbytes);
    if (line->base)
        base.bytes = input_bytes(line->base, &base.nbytes);
    for (unsigned i = 0; i < 2; i++) {
        gpu_tensor tensor = {frame.bytes, frame.nbytes, base.bytes, base.nbytes, NULL, NULL, 0, LMC_OK};
        const gpu_run run = {.cta_count = 1, .has_small_blocks = i == 1, .seed = 2 - i};
        const gpu_outcome outcome = gpu_decode_one(&tensor, 1 + i, &run);
        size_t nbytes;
        uint8_t *const content = must_malloc(tensor.content_nbytes + 1);
        const lmc_status expected = lmc_decode_delta(ctx, frame.bytes, frame.nbytes, base.bytes, base.nbytes,
                                                     content, tensor.content_nbytes, &nbytes);
        if (outcome.status != expected || expected == LMC_OK)
            printf("\n%s: %s, but %s\n", line->name, lmc_status_text(outcome.status),
                   lmc_status_text(expected));
        CU_ASSERT(outcome.status == expected && expected != LMC_OK);
        gpu_free(&tensor);
        free(content);
    }
    free(frame.bytes);
    free(base.bytes);
}

LMC_TEST(test_corrupt_frames)
{
    size_t count;
    input_line *const lines = input_table_read(VECTORS "/corrupt/EXPECT.tsv", &count);
    for (size_t i = 0; i < count; i += LMC_TEST_STEP)
        check_corrupt(&lines[i]);
    input_table_free(lines);
    CU_ASSERT(count > 400);
}

LMC_TEST_MAIN_WITH("gpu_vectors", ctx = must_create_ctx(), lmc_ctx_free(ctx))
