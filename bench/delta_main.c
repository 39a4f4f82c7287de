/*
 * delta_main.c - deltas in memory, one thread: every method of delta_methods.c on one pair of snapshots.
 *
 *   lmc-bench-delta [--mib N] [--rounds N] [--clock wall|cpu] [--only SET|peers] BASE NEW
 *   lmc-bench-delta [...] --synthetic bf16|f32
 *
 * All units of the content are encoded one after another, then all decoded to memory that was overwritten before,
 * and what comes back is compared; a memcpy of the whole content stands beside. The fastest round of each counts.
 * On a machine that has other work to do, `--clock cpu` counts the time that the process had a core.
 *
 * --only: LMC with a kernel set (scalar, avx2, avx512, neon; nothing is measured if the processor lacks it), or the
 * other methods; all of them without, with the best set.
 *
 * The report is for delta.py: lines of JSON, of the pair and then of each method.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zstd.h>

#include "delta.h"

typedef struct options {
    size_t mib;
    unsigned rounds;
    clockid_t clock;
    const char *only, *synthetic;
    const char *base, *content;
} options;

/* Where results go, and the sizes of what was stored. */
typedef struct room {
    delta_work work;
    uint8_t *stored, *back;
    size_t stored_capacity;
    size_t *sizes;
    clockid_t clock;
} room;

/* Fastest round, seconds; stored bytes of the first copy. */
typedef struct result {
    size_t copies, stored_nbytes;
    double copy, encode, decode;
} result;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int make_room(room *room, const delta_pair *pair)
{
    size_t scratch = 0;
    for (size_t i = 0; i < pair->dtype_count; i++) {
        const size_t wanted = delta_scratch_nbytes(&pair->dtypes[i]);
        scratch = wanted > scratch ? wanted : scratch;
        room->stored_capacity += delta_capacity(&pair->dtypes[i]);
    }
    room->stored_capacity = (room->stored_capacity + 64 * pair->tensor_count) * pair->copies;
    room->stored = malloc(room->stored_capacity);
    room->back = malloc(pair->nbytes * pair->copies);
    room->sizes = calloc(pair->tensor_count * pair->copies, sizeof *room->sizes);
    room->work.scratch = malloc(scratch);
    room->work.scratch_nbytes = scratch;
    room->work.zstd_out = ZSTD_createCCtx();
    room->work.zstd_in = ZSTD_createDCtx();
    if (!room->stored || !room->back || !room->sizes || !room->work.scratch || !room->work.zstd_out ||
        !room->work.zstd_in || lmc_ctx_create(NULL, &room->work.lmc) != LMC_OK)
        return -1;
    memset(room->stored, 1, room->stored_capacity); /* as the pages of the pair */
    memset(room->work.scratch, 1, scratch);
    return 0;
}

static void free_room(room *room)
{
    free(room->stored);
    free(room->back);
    free(room->sizes);
    free(room->work.scratch);
    ZSTD_freeCCtx(room->work.zstd_out);
    ZSTD_freeDCtx(room->work.zstd_in);
    lmc_ctx_free(room->work.lmc);
}

static int encode_all(const delta_pair *pair, const delta_method *method, room *room, result *result)
{
    const delta_unit *const units = method->is_lmc ? pair->tensors : pair->dtypes;
    const size_t count = method->is_lmc ? pair->tensor_count : pair->dtype_count;
    size_t at = 0;
    for (size_t c = 0; c < result->copies; c++) {
        for (size_t i = 0; i < count; i++) {
            const size_t offset = c * pair->nbytes + units[i].offset;
            const size_t size =
                method->encode(method, &room->work, &units[i], pair->content + offset, pair->base + offset,
                               room->stored + at, room->stored_capacity - at);
            if (size == 0)
                return -1;
            room->sizes[c * count + i] = size;
            at += size;
        }
        if (c == 0)
            result->stored_nbytes = at;
    }
    return 0;
}

static int decode_all(const delta_pair *pair, const delta_method *method, room *room, const result *result)
{
    const delta_unit *const units = method->is_lmc ? pair->tensors : pair->dtypes;
    const size_t count = method->is_lmc ? pair->tensor_count : pair->dtype_count;
    size_t at = 0;
    for (size_t c = 0; c < result->copies; c++) {
        for (size_t i = 0; i < count; i++) {
            const size_t offset = c * pair->nbytes + units[i].offset, size = room->sizes[c * count + i];
            if (method->decode(method, &room->work, &units[i], room->stored + at, size, pair->base + offset,
                               room->back + offset) != 0)
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

static int run_round(const delta_pair *pair, const delta_method *method, room *room, result *result)
{
    const size_t nbytes = pair->nbytes * pair->copies;
    memset(room->back, 0xa5, nbytes);
    double start = now(room->clock);
    memcpy(room->back, pair->content, nbytes);
    keep_faster(&result->copy, now(room->clock) - start);
    start = now(room->clock);
    if (encode_all(pair, method, room, result) != 0)
        return -1;
    keep_faster(&result->encode, now(room->clock) - start);
    memset(room->back, 0xa5, nbytes);
    start = now(room->clock);
    if (decode_all(pair, method, room, result) != 0)
        return -1;
    keep_faster(&result->decode, now(room->clock) - start);
    return memcmp(room->back, pair->content, pair->nbytes * result->copies) == 0 ? 0 : -1;
}

static int run_method(const delta_pair *pair, const delta_method *method, unsigned rounds, room *room)
{
    result result = {.copies = method->is_slow ? 1 : pair->copies};
    for (unsigned i = 0; i < (method->is_slow ? 1 : rounds); i++) {
        if (run_round(pair, method, room, &result) != 0) {
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

static int run_pair(const delta_pair *pair, const options *options)
{
    room room = {.clock = options->clock};
    int failed = make_room(&room, pair);
    printf("{\"pair\": \"%s\", \"nbytes\": %zu, \"copies\": %zu, \"tensors\": %zu, \"without_base\": %zu, "
           "\"changed\": %.6f}\n",
           pair->name, pair->nbytes, pair->copies, pair->tensor_count, pair->without_base,
           pair->value_count ? (double)pair->changed_count / (double)pair->value_count : 0);
    for (size_t i = 0; i < delta_method_count && !failed; i++) {
        const delta_method *const method = &delta_methods[i];
        if (!options->only || strcmp(options->only, method->is_lmc ? lmc_kernels_name() : "peers") == 0)
            failed = run_method(pair, method, options->rounds, &room);
    }
    free_room(&room);
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
            options->clock = CLOCK_PROCESS_CPUTIME_ID;
        else if (strcmp(argv[i], "--clock") == 0 && strcmp(value, "wall") == 0)
            options->clock = CLOCK_MONOTONIC;
        else if (strcmp(argv[i], "--only") == 0)
            options->only = value;
        else if (strcmp(argv[i], "--synthetic") == 0)
            options->synthetic = value;
        else
            return -1;
    }
    if (options->rounds == 0 || options->mib == 0)
        return -1;
    if (options->only && strcmp(options->only, "peers") != 0 && setenv("LMC_KERNELS", options->only, 1) != 0)
        return -1;
    if (options->synthetic)
        return i == argc &&
                       (strcmp(options->synthetic, "bf16") == 0 || strcmp(options->synthetic, "f32") == 0)
                   ? 0
                   : -1;
    if (argc - i != 2)
        return -1;
    options->base = argv[i];
    options->content = argv[i + 1];
    return 0;
}

int main(int argc, char **argv)
{
    options options = {.mib = 64, .rounds = 5, .clock = CLOCK_MONOTONIC};
    delta_pair pair;
    if (parse_options(argc, argv, &options) != 0) {
        fprintf(stderr, "usage: lmc-bench-delta [--mib N] [--rounds N] [--clock wall|cpu] [--only SET|peers] "
                        "BASE NEW | --synthetic bf16|f32\n");
        return 2;
    }
    int failed;
    if (options.synthetic)
        failed = delta_pair_make(
            &pair, strcmp(options.synthetic, "f32") == 0 ? LMC_DTYPE_F32 : LMC_DTYPE_BF16, options.mib << 20);
    else
        failed = delta_pair_load(&pair, options.base, options.content, options.mib << 20);
    if (!failed)
        failed = run_pair(&pair, &options);
    delta_pair_free(&pair);
    return failed ? 1 : 0;
}
