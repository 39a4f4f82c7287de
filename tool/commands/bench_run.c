/*
 * bench_run.c - a sample encoded, decoded and copied under a clock. Tensors are done in groups larger than the caches:
 * all of a group are encoded, then all decoded, so that neither finds its input in a cache because it was just written.
 */
#include "tool/commands/bench.h"

#include "tool/cli.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GROUP_NBYTES ((uint64_t)64 << 20)
#define WORK_NBYTES ((uint64_t)128 << 20) /* small samples are repeated up to here */
#define ROW_SECONDS 2.0                   /* unless this much time has passed */

typedef struct bench {
    const cli_sample *sample;
    unsigned thread_count;
    lmc_ctx *ctx;
    unsigned char *frames; /* of one group */
    size_t frames_capacity;
    unsigned char *out; /* the content of one group */
    size_t out_capacity;
} bench;

static double now_seconds(void)
{
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int fail_codec(const char *what, lmc_status status)
{
    fprintf(stderr, "lmc-st: %s: %s\n", what, lmc_status_text(status));
    return status == LMC_ERR_NOMEM ? CLI_SYSTEM : CLI_BAD_DATA;
}

/* ---- groups ---- */

/* The part behind the group that begins at `first`. */
static size_t group_end(const bench *bench, size_t first)
{
    uint64_t nbytes = bench->sample->parts[first].nbytes;
    size_t end = first + 1;
    while (end < bench->sample->count && nbytes + bench->sample->parts[end].nbytes <= GROUP_NBYTES)
        nbytes += bench->sample->parts[end++].nbytes;
    return end;
}

static void set_params(const bench *bench, const cli_part *part, lmc_level level, lmc_params *params)
{
    lmc_params_init(params);
    params->dtype = part->dtype;
    params->level = level;
    params->thread_count = bench->thread_count;
    params->base_form = part->base_form;
}

/* Sizes of the buffers that the largest group needs. */
static lmc_status measure_groups(bench *bench)
{
    for (size_t first = 0; first < bench->sample->count;) {
        const size_t end = group_end(bench, first);
        size_t frames = 0;
        size_t content = 0;
        for (; first < end; first++) {
            lmc_params params;
            size_t bound = 0;
            set_params(bench, &bench->sample->parts[first], LMC_LEVEL_MAX, &params);
            const lmc_status status = lmc_encode_bound(&params, bench->sample->parts[first].nbytes, &bound);
            if (status != LMC_OK)
                return status;
            frames += bound;
            content += bench->sample->parts[first].nbytes;
        }
        bench->frames_capacity = frames > bench->frames_capacity ? frames : bench->frames_capacity;
        bench->out_capacity = content > bench->out_capacity ? content : bench->out_capacity;
    }
    return LMC_OK;
}

static lmc_status encode_group(bench *bench, size_t first, size_t end, cli_bench_row *row)
{
    const double started = now_seconds();
    size_t at = 0;
    for (size_t i = first; i < end; i++) {
        cli_part *const part = &bench->sample->parts[i];
        lmc_params params;
        set_params(bench, part, row->level, &params);
        const lmc_status status =
            lmc_encode(bench->ctx, &params, part->content, part->nbytes, row->has_base ? part->base : NULL,
                       row->has_base ? part->base_nbytes : 0, bench->frames + at, bench->frames_capacity - at,
                       &part->frame_nbytes);
        if (status != LMC_OK)
            return status;
        at += part->frame_nbytes;
        row->content_nbytes += part->nbytes;
    }
    row->frame_nbytes += at;
    row->encode_seconds += now_seconds() - started;
    return LMC_OK;
}

static lmc_status decode_group(bench *bench, size_t first, size_t end, cli_bench_row *row)
{
    const double started = now_seconds();
    size_t frame_at = 0;
    size_t at = 0;
    for (size_t i = first; i < end; i++) {
        const cli_part *const part = &bench->sample->parts[i];
        size_t nbytes = 0;
        const lmc_status status = lmc_decode(
            bench->ctx, bench->frames + frame_at, part->frame_nbytes, row->has_base ? part->base : NULL,
            row->has_base ? part->base_nbytes : 0, bench->out + at, bench->out_capacity - at, &nbytes);
        if (status != LMC_OK)
            return status;
        frame_at += part->frame_nbytes;
        at += nbytes;
    }
    row->decode_seconds += now_seconds() - started;
    return LMC_OK;
}

/* ---- memcpy with as many threads ---- */

typedef struct copy {
    unsigned char *dst;
    const unsigned char *src;
    size_t nbytes;
    pthread_t thread;
    int has_thread;
} copy;

static void *copy_part(void *argument)
{
    const copy *const copy = argument;
    memcpy(copy->dst, copy->src, copy->nbytes);
    return NULL;
}

static void copy_group(bench *bench, const unsigned char *src, size_t nbytes, cli_bench_row *row)
{
    copy copies[LMC_THREAD_COUNT_MAX];
    const size_t count = bench->thread_count;
    const double started = now_seconds();
    for (size_t i = 0; i < count; i++) {
        const size_t begin = nbytes / count * i;
        const size_t end = i + 1 == count ? nbytes : nbytes / count * (i + 1);
        copies[i] = (copy){.dst = bench->out + begin, .src = src + begin, .nbytes = end - begin};
        copies[i].has_thread =
            i + 1 < count && pthread_create(&copies[i].thread, NULL, copy_part, &copies[i]) == 0;
        if (!copies[i].has_thread)
            copy_part(&copies[i]);
    }
    for (size_t i = 0; i < count; i++)
        if (copies[i].has_thread)
            pthread_join(copies[i].thread, NULL);
    row->memcpy_seconds += now_seconds() - started;
}

/* ---- rows ---- */

static int run_group(bench *bench, size_t first, size_t end, cli_bench_row *row)
{
    const unsigned char *const content = bench->sample->parts[first].content;
    const size_t nbytes =
        (size_t)(bench->sample->parts[end - 1].content + bench->sample->parts[end - 1].nbytes - content);
    copy_group(bench, content, nbytes, row);
    lmc_status status = encode_group(bench, first, end, row);
    if (status != LMC_OK)
        return fail_codec("encoding failed", status);
    memset(bench->out, 0x5a, nbytes);
    status = decode_group(bench, first, end, row);
    if (status != LMC_OK)
        return fail_codec("decoding failed", status);
    if (memcmp(content, bench->out, nbytes) != 0) {
        fprintf(stderr, "lmc-st: a decoded tensor differs from what was encoded\n");
        return CLI_BAD_DATA;
    }
    return cli_cancel == 0 ? CLI_OK : 128 + cli_cancel;
}

static int run_row(bench *bench, lmc_level level, int has_base, cli_bench_row *row)
{
    const double started = now_seconds();
    memset(row, 0, sizeof(*row));
    row->level = level;
    row->has_base = has_base;
    do {
        for (size_t first = 0; first < bench->sample->count;) {
            const size_t end = group_end(bench, first);
            const int status = run_group(bench, first, end, row);
            if (status != CLI_OK)
                return status;
            first = end;
        }
        row->passes++;
    } while (row->content_nbytes < WORK_NBYTES && now_seconds() - started < ROW_SECONDS);
    return CLI_OK;
}

/* ---- */

static int prepare(bench *bench)
{
    lmc_status status = lmc_ctx_create(NULL, &bench->ctx);
    if (status == LMC_OK)
        status = lmc_ctx_set_thread_count(bench->ctx, bench->thread_count);
    if (status != LMC_OK)
        return fail_codec("cannot set the number of threads", status);
    status = measure_groups(bench);
    bench->frames = status == LMC_OK ? malloc(bench->frames_capacity + 1) : NULL;
    bench->out = status == LMC_OK ? malloc(bench->out_capacity + 1) : NULL;
    if (!bench->frames || !bench->out)
        return fail_codec("cannot hold the frames in memory", LMC_ERR_NOMEM);
    memset(bench->frames, 0, bench->frames_capacity); /* so that no page is new under the clock */
    memset(bench->out, 0, bench->out_capacity);
    return CLI_OK;
}

int cli_bench_run(const cli_sample *sample, unsigned thread_count,
                  void (*take)(void *user, const cli_bench_row *row), void *user)
{
    static const lmc_level levels[] = {LMC_LEVEL_FAST, LMC_LEVEL_DEFAULT, LMC_LEVEL_MAX};
    bench bench = {.sample = sample, .thread_count = thread_count};
    int status = prepare(&bench);
    const size_t ways = sample->has_base ? 2 : 1;
    for (size_t i = 0; i < 3 * ways && status == CLI_OK; i++) {
        cli_bench_row row;
        status = run_row(&bench, levels[i / ways], i % ways != 0, &row);
        if (status == CLI_OK)
            take(user, &row);
    }
    lmc_ctx_free(bench.ctx);
    free(bench.frames);
    free(bench.out);
    return status;
}
