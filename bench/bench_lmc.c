/* bench_lmc.c - LMC in memory: one thread, checksums made and verified, the round trip compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

typedef struct lmc_run {
    lmc_ctx *ctx;
    lmc_params params;
    uint8_t *frame, *back;
    size_t frame_capacity, frame_nbytes;
} lmc_run;

static double faster(double best, double nbytes, double seconds)
{
    const double speed = nbytes / seconds / (1 << 30);
    return speed > best ? speed : best;
}

static int measure_once(const bench_data *data, lmc_run *run, bench_row *row)
{
    size_t back_nbytes;
    const double copy = bench_copy(data, data->nbytes, run->back);
    const double start = bench_now();
    if (lmc_encode(run->ctx, &run->params, data->bytes, data->nbytes, NULL, run->frame, run->frame_capacity,
                   &run->frame_nbytes) != LMC_OK)
        return -1;
    const double encoded = bench_now();
    if (lmc_decode(run->ctx, run->frame, run->frame_nbytes, NULL, run->back, data->nbytes, &back_nbytes) !=
        LMC_OK)
        return -1;
    const double decoded = bench_now();
    row->copy = copy > row->copy ? copy : row->copy;
    row->encode = faster(row->encode, (double)data->nbytes, encoded - start);
    row->decode = faster(row->decode, (double)data->nbytes, decoded - encoded);
    return back_nbytes == data->nbytes && memcmp(run->back, data->bytes, data->nbytes) == 0 ? 0 : -1;
}

int bench_lmc(const bench_data *data, lmc_level level, unsigned repeats, bench_row *row)
{
    static const char *const names[] = {"lmc default", "lmc fast", "lmc max"};
    lmc_run run = {0};
    memset(row, 0, sizeof *row);
    snprintf(row->codec, sizeof row->codec, "%s", names[level]);
    snprintf(row->kernels, sizeof row->kernels, "%s", lmc_kernels_name());
    row->nbytes = data->nbytes;
    lmc_params_init(&run.params);
    run.params.dtype = data->dtype;
    run.params.level = level;
    int failed = lmc_ctx_create(NULL, &run.ctx) != LMC_OK ||
                 lmc_encode_bound(&run.params, data->nbytes, &run.frame_capacity) != LMC_OK;
    if (!failed) {
        run.frame = malloc(run.frame_capacity);
        run.back = malloc(data->nbytes);
        failed = !run.frame || !run.back;
    }
    if (!failed) { /* pages that were never touched are not memory yet */
        memset(run.frame, 1, run.frame_capacity);
        memset(run.back, 1, data->nbytes);
    }
    for (unsigned i = 0; i < repeats && !failed; i++)
        failed = measure_once(data, &run, row) != 0;
    row->ratio = (double)run.frame_nbytes / (double)data->nbytes;
    free(run.frame);
    free(run.back);
    lmc_ctx_free(run.ctx);
    return failed ? -1 : 0;
}
