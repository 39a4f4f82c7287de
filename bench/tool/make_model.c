/*
 * make_model.c - lmc-bench-model: writes a large safetensors file for measurements, with the writer of liblmc_st:
 *
 *     lmc-bench-model PATH NBYTES COUNT [zeros]
 *
 * The file has COUNT bf16 tensors, NBYTES together. Values are normally distributed, or zeros. No two tensors are
 * equal, unless they are zeros.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/codec/bench.h"
#include "lmc_st_experimental.h"

/* Tensors read one circle of values, each from another place on. */
#define CIRCLE_NBYTES ((size_t)32 << 20)
#define STEP_NBYTES 4098

typedef struct tensor_source {
    const bench_data *circle; /* NULL: zeros */
    size_t begin;
} tensor_source;

static lmc_status supply(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const tensor_source *const source = user;
    uint8_t *out = dst;
    if (!source->circle) {
        memset(out, 0, nbytes);
        return LMC_OK;
    }
    while (nbytes > 0) {
        const size_t at = (size_t)((source->begin + offset) % source->circle->nbytes);
        const size_t left = source->circle->nbytes - at;
        const size_t piece = nbytes < left ? nbytes : left;
        memcpy(out, source->circle->bytes + at, piece);
        out += piece;
        offset += piece;
        nbytes -= piece;
    }
    return LMC_OK;
}

static lmc_status add_tensors(lmc_st_writer *writer, const bench_data *circle, tensor_source *sources,
                              uint64_t nbytes, uint64_t count)
{
    const uint64_t shape[1] = {nbytes / count / 2};
    lmc_status status = lmc_st_writer_set_metadata(writer, "format", 6, "pt", 2);
    for (uint64_t i = 0; i < count && status == LMC_OK; i++) {
        char name[64];
        const int length = snprintf(name, sizeof name, "model.layers.%06llu.weight", (unsigned long long)i);
        sources[i].circle = circle;
        sources[i].begin = (size_t)(i * STEP_NBYTES % CIRCLE_NBYTES);
        status = lmc_st_writer_add_from(writer, name, (size_t)length, LMC_DTYPE_BF16, shape, 1, supply,
                                        &sources[i]);
    }
    return status;
}

static int write_model(const char *path, uint64_t nbytes, uint64_t count, const bench_data *circle)
{
    lmc_st_writer *writer = NULL;
    lmc_st_diag diag = {.struct_size = sizeof diag, .text = "out of memory"};
    lmc_st_output_options options = LMC_INIT(lmc_st_output_options);
    tensor_source *const sources = calloc(count, sizeof *sources);
    options.force = 1;
    options.no_fsync = 1;
    lmc_status status = sources ? lmc_st_writer_create(NULL, &writer) : LMC_ERR_NOMEM;
    if (status == LMC_OK)
        status = add_tensors(writer, circle, sources, nbytes, count);
    if (status == LMC_OK)
        status = lmc_st_writer_write_plain(writer, path, &options, NULL, &diag);
    if (status != LMC_OK)
        fprintf(stderr, "lmc-bench-model: %s: %s\n", path, diag.text);
    lmc_st_writer_free(writer);
    free(sources);
    return status == LMC_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    bench_data circle = {.bytes = NULL};
    if (argc < 4 || strtoull(argv[3], NULL, 10) == 0) {
        fprintf(stderr, "usage: lmc-bench-model PATH NBYTES COUNT [zeros]\n");
        return 2;
    }
    const int is_zero = argc > 4 && strcmp(argv[4], "zeros") == 0;
    if (!is_zero && bench_data_make(&circle, "bf16", CIRCLE_NBYTES) != 0)
        return 1;
    const int exit_status = write_model(argv[1], strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10),
                                        is_zero ? NULL : &circle);
    free(circle.bytes);
    return exit_status;
}
