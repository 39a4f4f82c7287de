/* tensor.c - LMC on whole tensors in memory, one thread, with checksums and bare, beside memcpy of the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "bench/codec/bench.h"

typedef struct lmc_run {
    const bench_data *data, *base;
    const bench_shape *shape;
    const char *set;
    lmc_ctx *ctx;
    lmc_params params;
    uint8_t *frames, *back;
    size_t frame_capacity; /* of each tensor's place in `frames` */
    size_t *frame_nbytes;  /* of each tensor */
} lmc_run;

double bench_faster(double best, double nbytes, double seconds)
{
    const double speed = nbytes / seconds / (double)BENCH_GIB;
    return speed > best ? speed : best;
}

/* ---- one pass over all tensors ---- */

static const uint8_t *base_of(const lmc_run *run, size_t i)
{
    return run->base ? run->base->bytes + i * run->shape->tensor_nbytes : NULL;
}

static int copy_pass(lmc_run *run)
{
    const size_t nbytes = run->shape->tensor_nbytes;
    for (size_t i = 0; i < run->shape->tensor_count; i++)
        for (unsigned r = 0; r < run->shape->rounds; r++)
            memcpy(run->back + i * nbytes, run->data->bytes + i * nbytes, nbytes);
    return 0;
}

static int encode_pass(lmc_run *run)
{
    const size_t nbytes = run->shape->tensor_nbytes;
    for (size_t i = 0; i < run->shape->tensor_count; i++)
        for (unsigned r = 0; r < run->shape->rounds; r++)
            if (lmc_encode_delta(run->ctx, &run->params, run->data->bytes + i * nbytes, nbytes,
                                 base_of(run, i), nbytes, run->frames + i * run->frame_capacity,
                                 run->frame_capacity, &run->frame_nbytes[i]) != LMC_OK)
                return -1;
    return 0;
}

static int decode_pass(lmc_run *run)
{
    const size_t nbytes = run->shape->tensor_nbytes;
    size_t back_nbytes;
    for (size_t i = 0; i < run->shape->tensor_count; i++)
        for (unsigned r = 0; r < run->shape->rounds; r++)
            if (lmc_decode_delta(run->ctx, run->frames + i * run->frame_capacity, run->frame_nbytes[i],
                                 base_of(run, i), nbytes, run->back + i * nbytes, nbytes,
                                 &back_nbytes) != LMC_OK ||
                back_nbytes != nbytes)
                return -1;
    return 0;
}

static int time_pass(lmc_run *run, int (*pass)(lmc_run *), double *best)
{
    const bench_shape *const shape = run->shape;
    const double start = bench_now();
    if (pass(run) != 0)
        return -1;
    *best = bench_faster(*best, (double)shape->tensor_nbytes * (double)shape->tensor_count * shape->rounds,
                         bench_now() - start);
    return 0;
}

/* ---- the passes that make a row ---- */

static double ratio_of(const lmc_run *run)
{
    double stored = 0;
    for (size_t i = 0; i < run->shape->tensor_count; i++)
        stored += (double)run->frame_nbytes[i];
    return stored / (double)(run->shape->tensor_nbytes * run->shape->tensor_count);
}

static int measure_passes(lmc_run *run, bench_row *row)
{
    if (time_pass(run, copy_pass, &row->copy) != 0 || bench_use_set(run->set, 0) != 0 ||
        time_pass(run, encode_pass, &row->encode) != 0)
        return -1;
    row->ratio = ratio_of(run);
    return time_pass(run, decode_pass, &row->decode) != 0 || bench_use_set(run->set, 1) != 0 ||
                   time_pass(run, encode_pass, &row->encode_bare) != 0 ||
                   time_pass(run, decode_pass, &row->decode_bare) != 0
               ? -1
               : 0;
}

/* Codes and decodes everything once, with checksums and bare. This also touches every page before the clock runs. */
static int check_round_trip(lmc_run *run)
{
    const size_t nbytes = run->shape->tensor_nbytes * run->shape->tensor_count;
    for (int is_bare = 0; is_bare < 2; is_bare++) {
        memset(run->back, 1, nbytes);
        if (bench_use_set(run->set, is_bare) != 0 || encode_pass(run) != 0 || decode_pass(run) != 0 ||
            memcmp(run->back, run->data->bytes, nbytes) != 0)
            return -1;
    }
    return 0;
}

/* ---- a run: the memory of the passes ---- */

static int open_run(lmc_run *run, lmc_level level)
{
    const bench_shape *const shape = run->shape;
    lmc_params_init(&run->params);
    run->params.dtype = run->data->dtype;
    run->params.level = level;
    run->params.row_nbytes = run->data->row_nbytes;
    if (shape->tensor_nbytes * shape->tensor_count > run->data->nbytes ||
        lmc_ctx_create(NULL, &run->ctx) != LMC_OK ||
        lmc_encode_bound(&run->params, shape->tensor_nbytes, &run->frame_capacity) != LMC_OK)
        return -1;
    run->frames = malloc(run->frame_capacity * shape->tensor_count);
    run->back = malloc(shape->tensor_nbytes * shape->tensor_count);
    run->frame_nbytes = calloc(shape->tensor_count, sizeof *run->frame_nbytes);
    return run->frames && run->back && run->frame_nbytes ? 0 : -1;
}

static void close_run(lmc_run *run)
{
    free(run->frames);
    free(run->back);
    free(run->frame_nbytes);
    lmc_ctx_free(run->ctx);
}

const char *bench_codec_name(lmc_level level)
{
    static const char *const names[] = {"lmc default", "lmc fast", "lmc max"};
    return names[level];
}

int bench_lmc(const bench_data *data, const bench_data *base, lmc_level level, const char *set,
              const bench_shape *shape, bench_row *row)
{
    lmc_run run = {.data = data, .base = base, .shape = shape, .set = set};
    *row =
        (bench_row){.codec = bench_codec_name(level), .kernels = set, .tensor_nbytes = shape->tensor_nbytes};
    row->pass_nbytes = shape->tensor_nbytes * shape->tensor_count * shape->rounds;
    row->is_cached = shape->rounds > 1;
    if (bench_use_set(set, 0) != 0)
        return 1;
    int failed = open_run(&run, level) != 0 || check_round_trip(&run) != 0;
    for (unsigned i = 0; i < shape->repeats && !failed; i++)
        failed = measure_passes(&run, row) != 0;
    close_run(&run);
    return failed ? -1 : 0;
}

int bench_lmc_loop(const bench_data *data, const bench_data *base, lmc_level level, const char *set,
                   const bench_shape *shape, int is_decode, int is_bare, double *gib, double *seconds,
                   double *cpu_seconds)
{
    lmc_run run = {.data = data, .base = base, .shape = shape, .set = set};
    const size_t pass_nbytes = shape->tensor_nbytes * shape->tensor_count * shape->rounds;
    if (bench_use_set(set, is_bare) != 0)
        return 1;
    int failed =
        open_run(&run, level) != 0 || encode_pass(&run) != 0 || (is_decode && decode_pass(&run) != 0);
    const double start = bench_now(), cpu_start = bench_cpu_now();
    for (unsigned i = 0; i < shape->repeats && !failed; i++)
        failed = (is_decode ? decode_pass(&run) : encode_pass(&run)) != 0;
    *seconds = bench_now() - start;
    *cpu_seconds = bench_cpu_now() - cpu_start;
    *gib = (double)pass_nbytes * shape->repeats / (double)BENCH_GIB;
    close_run(&run);
    return failed ? -1 : 0;
}
