/*
 * st_write.c - a small model as an archive: tensors in memory and one that is made while it is written, with
 * progress, and stopped by Ctrl-C without leaving anything.
 *
 *     cc st_write.c -o st_write $(pkg-config --cflags --libs lmc_st)
 *     ./st_write model.safetensors.lmc
 *
 * `lmc-st restore` turns the archive into the safetensors file, as lmc_st_writer_write_plain() would write it.
 */
#include <lmc_st.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ROW_COUNT 2000
#define COLUMN_COUNT 1000

static volatile sig_atomic_t is_interrupted;

static void interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
}

/* Called from the library's threads, one at a time. */
static void show_progress(void *user, uint64_t done_nbytes, uint64_t total_nbytes)
{
    (void)user;
    fprintf(stderr, "\r%3.0f%%",
            total_nbytes == 0 ? 100.0 : 100.0 * (double)done_nbytes / (double)total_nbytes);
}

/* Supplies bytes of "layer.weight", a BF16 matrix that is nowhere in memory. It must give the same bytes whenever
 * it is asked for them, and be ready for several threads at once. */
static lmc_status make_weights(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)user;
    for (size_t i = 0; i < nbytes; i++) {
        const uint64_t at = offset + i;
        uint64_t noise = (at / 2 + 1) * UINT64_C(0x9e3779b97f4a7c15);
        noise ^= noise >> 29;
        noise *= UINT64_C(0xbf58476d1ce4e5b9);
        const unsigned value = (unsigned)(0x3c00 | (noise >> 40 & 0x81ff)); /* small, of both signs */
        ((unsigned char *)dst)[i] = (unsigned char)(at % 2 == 0 ? value : value >> 8);
    }
    return LMC_OK;
}

/* The tensors of the model; `bias` must live until it is written. */
static lmc_status describe(lmc_st_writer *writer, const float *bias)
{
    static const uint64_t weight_shape[2] = {ROW_COUNT, COLUMN_COUNT};
    static const uint64_t bias_shape[1] = {ROW_COUNT};
    lmc_status status = lmc_st_writer_set_metadata(writer, "format", 6, "pt", 2);
    if (status == LMC_OK) {
        status = lmc_st_writer_add_from(writer, "layer.weight", strlen("layer.weight"), LMC_DTYPE_BF16,
                                        weight_shape, 2, make_weights, NULL);
    }
    if (status == LMC_OK) {
        status =
            lmc_st_writer_add(writer, "layer.bias", strlen("layer.bias"), LMC_DTYPE_F32, bias_shape, 1, bias);
    }
    return status;
}

static lmc_status write_model(const char *path, lmc_st_result *result, lmc_st_diag *diag)
{
    static float bias[ROW_COUNT]; /* zeros */
    lmc_st_writer *writer;
    lmc_st_write_options options = LMC_INIT(lmc_st_write_options);
    options.common.progress = show_progress;
    options.common.cancel = &is_interrupted;
    options.force = 1; /* replace what an earlier run has written */

    lmc_status status = lmc_st_writer_create(NULL, &writer);
    if (status == LMC_OK)
        status = describe(writer, bias);
    if (status == LMC_OK) {
        status = lmc_st_writer_write(writer, path, &options, result, diag);
    } else {
        /* these calls have no diagnostic */
        snprintf(diag->text, sizeof diag->text, "%s", lmc_status_text(status));
    }
    lmc_st_writer_free(writer);
    return status;
}

int main(int argc, char **argv)
{
    lmc_st_result result = LMC_INIT(lmc_st_result);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    if (argc != 2) {
        fprintf(stderr, "usage: st_write OUT.safetensors.lmc\n");
        return 2;
    }
    signal(SIGINT, interrupt);
    const lmc_status status = write_model(argv[1], &result, &diag);
    fprintf(stderr, "\n");
    if (status != LMC_OK) {
        fprintf(stderr, "%s: %s\n", argv[1], diag.text);
        return status == LMC_ERR_CANCELLED ? 130 : 1;
    }
    printf("%s: %llu tensors, %llu bytes became %llu\n", argv[1], (unsigned long long)result.tensor_count,
           (unsigned long long)result.original_nbytes, (unsigned long long)result.stored_nbytes);
    return 0;
}
