/*
 * main.c - lmc-bench-delta: every method of methods.c on one pair of snapshots, in memory, on one thread.
 *
 *   lmc-bench-delta [--mib N] [--rounds N] [--clock wall|cpu] [--only SET|peers] BASE NEW
 *   lmc-bench-delta [...] --synthetic bf16|f32 [--changed SHARE]
 *
 * A round encodes all units of the content, overwrites the memory for results, decodes all units, and compares. A
 * memcpy of the whole content stands beside. The fastest round of each method counts. `--clock cpu` counts the time
 * that the process had a core, for a machine with other work.
 *
 * --only: LMC with a kernel set (scalar, avx2, avx512, neon), or the other methods. Nothing is measured if the CPU
 * lacks the set. Without --only: all methods, LMC with the best set.
 *
 * delta.py reads the report: a line of JSON for the pair, then a line for each method.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "bench/codec/bench.h"
#include "bench/delta/delta.h"

typedef struct options {
    size_t mib;
    unsigned rounds;
    int is_cpu_clock;
    const char *only, *synthetic;
    double changed_share; /* of a synthetic pair */
    const char *base, *content;
} options;

/* Memory for results, and the stored size of each unit. */
typedef struct buffers {
    delta_work work;
    uint8_t *stored, *back;
    size_t stored_capacity;
    size_t *sizes;
    double (*clock)(void);
} buffers;

/* Fastest round, seconds; stored bytes of the first copy. */
typedef struct result {
    size_t copies, stored_nbytes;
    double copy, encode, decode;
} result;

static int allocate_buffers(buffers *buffers, const delta_pair *pair)
{
    size_t scratch = 0;
    for (size_t i = 0; i < pair->dtype_count; i++) {
        const size_t wanted = delta_scratch_nbytes(&pair->dtypes[i]);
        scratch = wanted > scratch ? wanted : scratch;
        buffers->stored_capacity += delta_capacity(&pair->dtypes[i]);
    }
    buffers->stored_capacity = (buffers->stored_capacity + 64 * pair->tensor_count) * pair->copies;
    buffers->stored = malloc(buffers->stored_capacity);
    buffers->back = malloc(pair->nbytes * pair->copies);
    buffers->sizes = calloc(pair->tensor_count * pair->copies, sizeof *buffers->sizes);
    buffers->work.scratch = malloc(scratch);
    buffers->work.scratch_nbytes = scratch;
    buffers->work.zstd_out = ZSTD_createCCtx();
    buffers->work.zstd_in = ZSTD_createDCtx();
    if (!buffers->stored || !buffers->back || !buffers->sizes || !buffers->work.scratch ||
        !buffers->work.zstd_out || !buffers->work.zstd_in ||
        lmc_ctx_create(NULL, &buffers->work.lmc) != LMC_OK)
        return -1;
    memset(buffers->stored, 1, buffers->stored_capacity); /* touch every page before the clock runs */
    memset(buffers->work.scratch, 1, scratch);
    return 0;
}

static void free_buffers(buffers *buffers)
{
    free(buffers->stored);
    free(buffers->back);
    free(buffers->sizes);
    free(buffers->work.scratch);
    ZSTD_freeCCtx(buffers->work.zstd_out);
    ZSTD_freeDCtx(buffers->work.zstd_in);
    lmc_ctx_free(buffers->work.lmc);
}

static int encode_all(const delta_pair *pair, const delta_method *method, buffers *buffers, result *result)
{
    const delta_unit *const units = method->is_lmc ? pair->tensors : pair->dtypes;
    const size_t count = method->is_lmc ? pair->tensor_count : pair->dtype_count;
    size_t at = 0;
    for (size_t c = 0; c < result->copies; c++) {
        for (size_t i = 0; i < count; i++) {
            const size_t offset = c * pair->nbytes + units[i].offset;
            const size_t size =
                method->encode(method, &buffers->work, &units[i], pair->content + offset, pair->base + offset,
                               buffers->stored + at, buffers->stored_capacity - at);
            if (size == 0)
                return -1;
            buffers->sizes[c * count + i] = size;
            at += size;
        }
        if (c == 0)
            result->stored_nbytes = at;
    }
    return 0;
}

static int decode_all(const delta_pair *pair, const delta_method *method, buffers *buffers,
                      const result *result)
{
    const delta_unit *const units = method->is_lmc ? pair->tensors : pair->dtypes;
    const size_t count = method->is_lmc ? pair->tensor_count : pair->dtype_count;
    size_t at = 0;
    for (size_t c = 0; c < result->copies; c++) {
        for (size_t i = 0; i < count; i++) {
            const size_t offset = c * pair->nbytes + units[i].offset, size = buffers->sizes[c * count + i];
            if (method->decode(method, &buffers->work, &units[i], buffers->stored + at, size,
                               pair->base + offset, buffers->back + offset) != 0)
                return -1;
            at += size;
        }
    }
    return 0;
}

static void keep_faster(double *best, double seconds)
{
    if (*best == 0 || seconds < *best)
        *best = seconds;
}

static int measure_round(const delta_pair *pair, const delta_method *method, buffers *buffers, result *result)
{
    const size_t nbytes = pair->nbytes * pair->copies;
    memset(buffers->back, 0xa5, nbytes);
    double start = buffers->clock();
    memcpy(buffers->back, pair->content, nbytes);
    keep_faster(&result->copy, buffers->clock() - start);
    start = buffers->clock();
    if (encode_all(pair, method, buffers, result) != 0)
        return -1;
    keep_faster(&result->encode, buffers->clock() - start);
    memset(buffers->back, 0xa5, nbytes);
    start = buffers->clock();
    if (decode_all(pair, method, buffers, result) != 0)
        return -1;
    keep_faster(&result->decode, buffers->clock() - start);
    return memcmp(buffers->back, pair->content, pair->nbytes * result->copies) == 0 ? 0 : -1;
}

static int measure_method(const delta_pair *pair, const delta_method *method, unsigned rounds,
                          buffers *buffers)
{
    result result = {.copies = method->is_slow ? 1 : pair->copies};
    for (unsigned i = 0; i < (method->is_slow ? 1 : rounds); i++) {
        if (measure_round(pair, method, buffers, &result) != 0) {
            fprintf(stderr, "lmc-bench-delta: %s: %s (%s kernels): the round trip failed\n", pair->name,
                    method->name, method->is_lmc ? lmc_kernels_name() : "no");
            return -1;
        }
    }
    const double gib = (double)pair->nbytes / (1 << 30), copies = (double)result.copies;
    printf("{\"method\": \"%s\", \"kernels\": \"%s\", \"stored_nbytes\": %zu, \"ratio\": %.6f, "
           "\"encode_GiB_s\": %.5f, \"decode_GiB_s\": %.5f, \"memcpy_GiB_s\": %.4f}\n",
           method->name, method->is_lmc ? lmc_kernels_name() : "-", result.stored_nbytes,
           (double)result.stored_nbytes / (double)pair->nbytes, gib * copies / result.encode,
           gib * copies / result.decode, gib * (double)pair->copies / result.copy);
    fflush(stdout);
    return 0;
}

static int measure_pair(const delta_pair *pair, const options *options)
{
    buffers buffers = {.clock = options->is_cpu_clock ? bench_cpu_now : bench_now};
    int failed = allocate_buffers(&buffers, pair);
    printf("{\"pair\": \"%s\", \"nbytes\": %zu, \"copies\": %zu, \"tensors\": %zu, \"without_base\": %zu, "
           "\"changed\": %.6f}\n",
           pair->name, pair->nbytes, pair->copies, pair->tensor_count, pair->without_base,
           pair->value_count ? (double)pair->changed_count / (double)pair->value_count : 0);
    for (size_t i = 0; i < delta_method_count && !failed; i++) {
        const delta_method *const method = &delta_methods[i];
        if (!options->only || strcmp(options->only, method->is_lmc ? lmc_kernels_name() : "peers") == 0)
            failed = measure_method(pair, method, options->rounds, &buffers);
    }
    free_buffers(&buffers);
    return failed;
}

static int parse_options(int argc, char **argv, options *options)
{
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        const char *const value = argv[i + 1];
        if (strcmp(argv[i], "--mib") == 0)
            options->mib = strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--rounds") == 0)
            options->rounds = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--clock") == 0 && strcmp(value, "cpu") == 0)
            options->is_cpu_clock = 1;
        else if (strcmp(argv[i], "--clock") == 0 && strcmp(value, "wall") == 0)
            options->is_cpu_clock = 0;
        else if (strcmp(argv[i], "--only") == 0)
            options->only = value;
        else if (strcmp(argv[i], "--synthetic") == 0)
            options->synthetic = value;
        else if (strcmp(argv[i], "--changed") == 0)
            options->changed_share = strtod(value, NULL);
        else
            return -1;
    }
    if (options->rounds == 0 || options->mib == 0)
        return -1;
    if (!(options->changed_share > 0 && options->changed_share < 1))
        return -1;
    if (options->only && strcmp(options->only, "peers") != 0 && setenv("LMC_KERNELS", options->only, 1) != 0)
        return -1;
    if (options->synthetic && strcmp(options->synthetic, "bf16") != 0 &&
        strcmp(options->synthetic, "f32") != 0)
        return -1;
    if (argc - i != (options->synthetic ? 0 : 2))
        return -1;
    options->base = argv[i];
    options->content = options->synthetic ? NULL : argv[i + 1];
    return 0;
}

int main(int argc, char **argv)
{
    options options = {.mib = 64, .rounds = 5, .changed_share = 0.003};
    delta_pair pair;
    if (parse_options(argc, argv, &options) != 0) {
        fprintf(stderr, "usage: lmc-bench-delta [--mib N] [--rounds N] [--clock wall|cpu] [--only SET|peers] "
                        "BASE NEW | --synthetic bf16|f32 [--changed SHARE]\n");
        return 2;
    }
    int failed;
    if (options.synthetic)
        failed = delta_pair_make(&pair, options.synthetic[0] == 'f' ? LMC_DTYPE_F32 : LMC_DTYPE_BF16,
                                 options.changed_share, options.mib << 20);
    else
        failed = delta_pair_load(&pair, options.base, options.content, options.mib << 20);
    if (!failed)
        failed = measure_pair(&pair, &options);
    delta_pair_free(&pair);
    return failed ? 1 : 0;
}
