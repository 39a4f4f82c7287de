/* range.c - LMC on random ranges of a tensor: a frame in memory, with checksums and bare. */
#include <stdlib.h>
#include <string.h>

#include "bench/codec/bench.h"

#define RANGE_NBYTES (64 * BENCH_KIB)
#define RANGE_COUNT 200 /* in a pass */

typedef struct range_run {
    const bench_data *data;
    size_t tensor_nbytes, range_nbytes;
    lmc_ctx *ctx;
    uint8_t *frame, *back, *block;
    size_t frame_capacity, frame_nbytes;
    lmc_frame *open;
    lmc_info info;
    uint64_t state; /* of the series of places */
} range_run;

static size_t next_place(range_run *run)
{
    const unsigned width = run->data->element_nbytes;
    const size_t count = (run->tensor_nbytes - run->range_nbytes) / width + 1;
    return (size_t)(bench_uniform(&run->state) * (double)count) * width;
}

/* ---- ways to read a range; each returns 0, or -1 ---- */

static int read_copy(range_run *run, size_t at)
{
    memcpy(run->back, run->data->bytes + at, run->range_nbytes);
    return 0;
}

static int read_range(range_run *run, size_t at)
{
    const lmc_status status =
        lmc_decode_range(run->ctx, run->frame, run->frame_nbytes, at, run->range_nbytes, run->back);
    return status == LMC_OK ? 0 : -1;
}

static int read_blocks(range_run *run, size_t at)
{
    const size_t end = at + run->range_nbytes, block_nbytes = run->info.block_nbytes;
    for (size_t i = at / block_nbytes; i * block_nbytes < end; i++) {
        uint64_t offset;
        size_t stored_nbytes, content_nbytes;
        lmc_block_entry entry;
        if (lmc_frame_block(run->open, i, &offset, &stored_nbytes, &content_nbytes) != LMC_OK ||
            lmc_decode_block(run->ctx, run->open, i, run->frame + offset, stored_nbytes, run->block,
                             block_nbytes, &entry) != LMC_OK)
            return -1;
        const size_t begin = i * block_nbytes, from = at > begin ? at - begin : 0;
        const size_t to = end - begin < content_nbytes ? end - begin : content_nbytes;
        memcpy(run->back + (begin + from - at), run->block + from, to - from);
    }
    return 0;
}

static int open_frame(range_run *run)
{
    const uint8_t *const tail = run->frame + run->frame_nbytes - run->info.tail_nbytes;
    lmc_frame_free(run->open);
    run->open = NULL;
    return lmc_frame_create(run->ctx, run->frame, run->info.head_nbytes, tail, (size_t)run->info.tail_nbytes,
                            run->frame_nbytes, &run->open) == LMC_OK
               ? 0
               : -1;
}

static int read_open(range_run *run, size_t at)
{
    (void)at;
    return open_frame(run);
}

/* ---- passes ---- */

static int time_ranges(range_run *run, int (*read)(range_run *, size_t), double *best_us)
{
    run->state = 88172645463325252u; /* the same places each time */
    const double start = bench_now();
    for (int i = 0; i < RANGE_COUNT; i++)
        if (read(run, next_place(run)) != 0)
            return -1;
    const double us = (bench_now() - start) / RANGE_COUNT * 1e6;
    *best_us = *best_us == 0 || us < *best_us ? us : *best_us;
    return 0;
}

static int is_right(range_run *run, int (*read)(range_run *, size_t))
{
    const size_t at = next_place(run);
    memset(run->back, 1, run->range_nbytes);
    return read(run, at) == 0 && memcmp(run->back, run->data->bytes + at, run->range_nbytes) == 0;
}

static int make_frame(range_run *run, lmc_level level)
{
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = run->data->dtype;
    params.level = level;
    if (!run->frame) {
        if (lmc_encode_bound(&params, run->tensor_nbytes, &run->frame_capacity) != LMC_OK ||
            !(run->frame = malloc(run->frame_capacity)))
            return -1;
    }
    run->info = (lmc_info)LMC_INIT(lmc_info);
    if (lmc_encode(run->ctx, &params, run->data->bytes, run->tensor_nbytes, run->frame, run->frame_capacity,
                   &run->frame_nbytes) != LMC_OK ||
        lmc_frame_read_info(run->frame, run->frame_nbytes, &run->info, NULL) != LMC_OK)
        return -1;
    free(run->block);
    run->block = malloc(run->info.block_nbytes);
    return run->block ? open_frame(run) : -1;
}

static int measure_ranges(range_run *run, int is_bare, unsigned repeats, bench_range_row *row)
{
    run->state = 1;
    if (!is_right(run, read_range) || !is_right(run, read_blocks))
        return -1;
    for (unsigned i = 0; i < repeats; i++)
        if (time_ranges(run, read_copy, &row->copy_us) != 0 ||
            time_ranges(run, read_range, &row->range_us[is_bare]) != 0 ||
            time_ranges(run, read_blocks, &row->blocks_us[is_bare]) != 0 ||
            time_ranges(run, read_open, &row->open_us[is_bare]) != 0)
            return -1;
    return 0;
}

int bench_range(const bench_data *data, lmc_level level, const char *set, size_t tensor_nbytes,
                unsigned repeats, bench_range_row *row)
{
    range_run run = {.data = data, .tensor_nbytes = tensor_nbytes};
    run.range_nbytes = tensor_nbytes < RANGE_NBYTES ? tensor_nbytes : RANGE_NBYTES;
    *row =
        (bench_range_row){.codec = bench_codec_name(level), .kernels = set, .tensor_nbytes = tensor_nbytes};
    row->range_nbytes = run.range_nbytes;
    if (bench_use_set(set, 0) != 0)
        return 1;
    run.back = malloc(run.range_nbytes);
    int failed = !run.back || tensor_nbytes > data->nbytes || lmc_ctx_create(NULL, &run.ctx) != LMC_OK;
    for (int is_bare = 0; is_bare < 2 && !failed; is_bare++)
        failed = bench_use_set(set, is_bare) != 0 || make_frame(&run, level) != 0 ||
                 measure_ranges(&run, is_bare, repeats, row) != 0;
    lmc_frame_free(run.open);
    lmc_ctx_free(run.ctx);
    free(run.frame);
    free(run.back);
    free(run.block);
    return failed ? -1 : 0;
}
