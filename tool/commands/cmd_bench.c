/*
 * cmd_bench.c - lmc-st bench: the tensors of a file in memory, encoded, decoded and copied under a clock. Tensors are
 * taken in groups that are larger than the caches: all tensors of a group are encoded, then all are decoded. So no
 * input lies in a cache because it was just written.
 */
#include "lmc_st_experimental.h"
#include "os/os.h"
#include "tool/inputs.h"

#include "lmc_experimental.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_NBYTES_MAX ((uint64_t)512 << 20)
#define GROUP_NBYTES ((uint64_t)64 << 20)
#define WORK_NBYTES ((uint64_t)128 << 20) /* small samples are repeated up to here */
#define ROW_SECONDS 2.0                   /* unless this much time has passed */
#define GIB (1024.0 * 1024.0 * 1024.0)
#define MIB (1024.0 * 1024.0)

static const char about[] = "Measures ratio (frames / tensors) and speed on the tensors of an archive or a\n"
                            "plain file, in memory: each level, and memcpy. LMC_KERNELS in the\n"
                            "environment chooses the kernel set. It samples whole tensors, up to 512 MiB; a\n"
                            "small sample is repeated to 128 MiB. All decoded content is compared. No\n"
                            "file is written; memory is up to three times the sample, plus the base.\n";

/* One tensor of the sample, and its places in the buffers. */
typedef struct part {
    uint64_t index; /* in the file */
    lmc_dtype dtype;
    unsigned char *content, *frame, *decoded;
    size_t nbytes, frame_capacity, frame_nbytes;
    unsigned char *base; /* NULL: the base has no tensor that belongs to this one */
    size_t base_nbytes;
    lmc_base_form base_form;
    int begins_group;
} part;

typedef struct bench {
    const lmc_st_file *file, *base; /* base: NULL without --base */
    lmc_ctx *ctx;
    part *parts; /* in the order of their data; their contents lie one behind the other */
    size_t count;
    uint64_t nbytes;
    int is_cut, is_json; /* is_cut: the only tensor is too large, its beginning is taken */
    unsigned thread_count, row_count;
    unsigned char *content, *base_content; /* of all parts */
    unsigned char *frames, *decoded;       /* of one group */
} bench;

/* One line of the result. */
typedef struct row {
    lmc_level level;
    int has_base;    /* coded against the base */
    uint64_t passes; /* over the sample */
    uint64_t content_nbytes, frame_nbytes;
    double encode_seconds, decode_seconds, memcpy_seconds;
} row;

static double now_seconds(void)
{
    return (double)os_clock_ns() * 1e-9;
}

/* ---- the sample ---- */

/* Takes whole tensors as long as they fit, or the beginning of the first one if none fits. */
static int choose_parts(bench *bench)
{
    const uint64_t count = lmc_st_tensor_count(bench->file);
    part first = {.nbytes = 0}; /* with any bytes */
    bench->parts = calloc((size_t)count + 1, sizeof(part));
    if (!bench->parts)
        return cli_fail_nomem();
    for (uint64_t i = 0; i < count; i++) {
        const lmc_st_tensor tensor = cli_tensor(bench->file, i);
        const int fits = tensor.nbytes <= SAMPLE_NBYTES_MAX - bench->nbytes;
        const size_t nbytes = (size_t)(tensor.nbytes < SAMPLE_NBYTES_MAX ? tensor.nbytes : SAMPLE_NBYTES_MAX);
        const part part = {.index = i, .dtype = tensor.dtype, .nbytes = nbytes};
        first = first.nbytes == 0 ? part : first;
        if (nbytes > 0 && fits) {
            bench->parts[bench->count++] = part;
            bench->nbytes += nbytes;
        }
    }
    if (first.nbytes == 0)
        return cli_usage_error("bench", "the file's tensors are empty: there is nothing to measure");
    if (bench->count == 0) {
        bench->parts[bench->count++] = first;
        bench->nbytes = first.nbytes;
        bench->is_cut = 1;
    }
    return CLI_OK;
}

static int read_parts(bench *bench)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    bench->content = malloc((size_t)bench->nbytes);
    bench->base_content =
        bench->base ? malloc(2 * (size_t)bench->nbytes) : NULL; /* at most F32 for 16 bits */
    unsigned char *content = bench->content;
    unsigned char *base = bench->base_content;
    if (!content || (bench->base && !base))
        return cli_fail_nomem();
    for (size_t i = 0; i < bench->count; i++) {
        part *const part = &bench->parts[i];
        uint64_t base_index = 0;
        part->content = content;
        content += part->nbytes;
        if (lmc_st_read_range(bench->file, bench->ctx, part->index, 0, part->nbytes, part->content, &diag) !=
            LMC_OK)
            return cli_report(&diag);
        /* the tensor of the base of the same name and shape, which has the same dtype or is rounded to it */
        const lmc_st_tensor tensor = cli_tensor(bench->file, part->index);
        if (!bench->base ||
            !lmc_st_find_tensor_sized(bench->base, tensor.name, tensor.name_nbytes, &base_index))
            continue;
        const lmc_st_tensor old = cli_tensor(bench->base, base_index);
        int form = LMC_BASE_PLAIN;
        const lmc_rounding *rounding = NULL;
        for (; form < LMC_BASE_FORM_COUNT && old.dtype != tensor.dtype; form++) {
            rounding = lmc_base_rounding((lmc_base_form)form);
            if (rounding && rounding->dtype == tensor.dtype && rounding->base_dtype == old.dtype)
                break;
        }
        if (!cli_is_same_shape(&tensor, &old) || form == LMC_BASE_FORM_COUNT)
            continue;
        part->base_form = (lmc_base_form)form;
        part->base_nbytes = form == LMC_BASE_PLAIN ? part->nbytes : rounding->scale * part->nbytes;
        part->base = base;
        base += part->base_nbytes;
        if (lmc_st_read_range(bench->base, bench->ctx, base_index, 0, part->base_nbytes, part->base, &diag) !=
            LMC_OK)
            return cli_report(&diag);
    }
    return CLI_OK;
}

/* ---- coding ---- */

static int fail_codec(const char *what, lmc_status status)
{
    fprintf(stderr, "lmc-st: %s: %s\n", what, lmc_status_text(status));
    return cli_exit_status(status);
}

static void set_params(const bench *bench, const part *part, lmc_level level, lmc_params *params)
{
    lmc_params_init(params);
    params->dtype = part->dtype;
    params->level = level;
    params->row_nbytes = lmc_st_row_nbytes(bench->file, part->index);
    params->base_form = part->base_form;
}

/* Divides the sample into groups, which use the same buffers one after the other. */
static int place_groups(bench *bench)
{
    size_t frames_nbytes = 0;
    size_t decoded_nbytes = 0;
    for (int is_placing = 0; is_placing < 2; is_placing++) { /* first to learn how much memory that takes */
        size_t frame_at = 0;
        size_t decoded_at = 0;
        for (size_t i = 0; i < bench->count; i++) {
            lmc_params params;
            part *const part = &bench->parts[i];
            set_params(bench, part, LMC_LEVEL_MAX, &params);
            const lmc_status status = lmc_encode_bound(&params, part->nbytes, &part->frame_capacity);
            if (status != LMC_OK)
                return fail_codec("encoding failed", status);
            part->begins_group = i == 0 || decoded_at + part->nbytes > GROUP_NBYTES;
            frame_at = part->begins_group ? 0 : frame_at;
            decoded_at = part->begins_group ? 0 : decoded_at;
            part->frame = is_placing ? bench->frames + frame_at : NULL;
            part->decoded = is_placing ? bench->decoded + decoded_at : NULL;
            frame_at += part->frame_capacity;
            decoded_at += part->nbytes;
            frames_nbytes = frame_at > frames_nbytes ? frame_at : frames_nbytes;
            decoded_nbytes = decoded_at > decoded_nbytes ? decoded_at : decoded_nbytes;
        }
        if (is_placing)
            break;
        bench->frames = malloc(frames_nbytes);
        bench->decoded = malloc(decoded_nbytes);
        if (!bench->frames || !bench->decoded)
            return cli_fail_nomem();
        memset(bench->frames, 0, frames_nbytes); /* so that no page is new under the clock */
        memset(bench->decoded, 0, decoded_nbytes);
    }
    return CLI_OK;
}

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

/* The base of a part as a row uses it. */
static const void *base_of(const part *part, const row *row, size_t *base_nbytes)
{
    const int has_base = row->has_base && part->base;
    *base_nbytes = has_base ? part->base_nbytes : 0;
    return has_base ? part->base : NULL;
}

/* Measures the group of `count` parts that begins with `first`. */
static int measure_group(const bench *bench, part *first, size_t count, row *row)
{
    const size_t nbytes = (size_t)(first[count - 1].content + first[count - 1].nbytes - first->content);
    lmc_status status = LMC_OK;
    size_t base_nbytes = 0;
    const size_t thread_count = bench->thread_count;
    copy copies[LMC_THREAD_COUNT_MAX];
    double started = now_seconds();
    for (size_t i = 0; i < thread_count; i++) {
        const size_t begin = nbytes / thread_count * i;
        const size_t end = i + 1 == thread_count ? nbytes : nbytes / thread_count * (i + 1);
        copies[i] =
            (copy){.dst = first->decoded + begin, .src = first->content + begin, .nbytes = end - begin};
        copies[i].has_thread =
            i + 1 < thread_count && pthread_create(&copies[i].thread, NULL, copy_part, &copies[i]) == 0;
        if (!copies[i].has_thread)
            copy_part(&copies[i]);
    }
    for (size_t i = 0; i < thread_count; i++)
        if (copies[i].has_thread)
            pthread_join(copies[i].thread, NULL);
    row->memcpy_seconds += now_seconds() - started;
    started = now_seconds();
    for (part *part = first; part < first + count && status == LMC_OK; part++) {
        lmc_params params;
        const void *const base = base_of(part, row, &base_nbytes);
        set_params(bench, part, row->level, &params);
        status = lmc_encode_delta(bench->ctx, &params, part->content, part->nbytes, base, base_nbytes,
                                  part->frame, part->frame_capacity, &part->frame_nbytes);
        row->frame_nbytes += part->frame_nbytes;
    }
    row->encode_seconds += now_seconds() - started;
    if (status != LMC_OK)
        return fail_codec("encoding failed", status);
    memset(first->decoded, 0x5a, nbytes);
    started = now_seconds();
    for (const part *part = first; part < first + count && status == LMC_OK; part++) {
        size_t decoded_nbytes = 0;
        const void *const base = base_of(part, row, &base_nbytes);
        status = lmc_decode_delta(bench->ctx, part->frame, part->frame_nbytes, base, base_nbytes,
                                  part->decoded, part->nbytes, &decoded_nbytes);
    }
    row->decode_seconds += now_seconds() - started;
    if (status != LMC_OK)
        return fail_codec("decoding failed", status);
    row->content_nbytes += nbytes;
    if (memcmp(first->content, first->decoded, nbytes) == 0)
        return cli_cancel == 0 ? CLI_OK : 128 + cli_cancel;
    fprintf(stderr, "lmc-st: a decoded tensor differs from what was encoded\n");
    return CLI_BAD_DATA;
}

static int measure_row(bench *bench, row *row)
{
    const double started = now_seconds();
    do {
        for (size_t first = 0, end = 0; first < bench->count; first = end) {
            for (end = first + 1; end < bench->count && !bench->parts[end].begins_group;)
                end++;
            const int status = measure_group(bench, &bench->parts[first], end - first, row);
            if (status != CLI_OK)
                return status;
        }
        row->passes++;
    } while (row->content_nbytes < WORK_NBYTES && now_seconds() - started < ROW_SECONDS);
    return CLI_OK;
}

/* ---- the report ---- */

static double speed(const row *row, double seconds)
{
    return (double)row->content_nbytes / GIB / (seconds > 1e-9 ? seconds : 1e-9);
}

static void print_row(bench *bench, const row *row)
{
    static const char *const levels[] = {"default", "fast", "max"};
    const double ratio = (double)row->frame_nbytes / (double)row->content_nbytes;
    const char *format = "%-8s  %-7s  %s%6.4f  %12.3f  %12.3f  %12.2f\n";
    const char *base = !bench->base ? "" : row->has_base ? "yes   " : "no    ";
    if (bench->is_json) {
        printf("%s{\"level\":\"%s\",\"kernels\":\"%s\",\"threads\":%u,\"base\":%s,\"ratio\":%.6f,"
               "\"encode_GiB_s\":%.4f,\"decode_GiB_s\":%.4f,\"memcpy_GiB_s\":%.4f}",
               bench->row_count == 0 ? "[" : ",\n ", levels[row->level], lmc_kernels_name(),
               bench->thread_count, row->has_base ? "true" : "false", ratio, speed(row, row->encode_seconds),
               speed(row, row->decode_seconds), speed(row, row->memcpy_seconds));
    } else {
        if (bench->row_count == 0) {
            printf(
                "%zu of %llu tensors, %.1f MiB%s, %s%llu pass%s; %u thread%s; every result was compared\n\n",
                bench->count, (unsigned long long)lmc_st_tensor_count(bench->file),
                (double)bench->nbytes / MIB, bench->is_cut ? " (the start of one: none is small enough)" : "",
                row->passes > 1 ? "up to " : "", (unsigned long long)row->passes, row->passes > 1 ? "es" : "",
                bench->thread_count, bench->thread_count == 1 ? "" : "s");
            printf("%-8s  %-7s  %s%6s  %12s  %12s  %12s\n", "level", "kernels", bench->base ? "base  " : "",
                   "ratio", "encode GiB/s", "decode GiB/s", "memcpy GiB/s");
        }
        printf(format, levels[row->level], lmc_kernels_name(), base, ratio, speed(row, row->encode_seconds),
               speed(row, row->decode_seconds), speed(row, row->memcpy_seconds));
    }
    fflush(stdout);
    bench->row_count++;
}

/* Measures all levels, and if there is a base all levels against it. */
static int run_bench(const cli_args *args)
{
    static const lmc_level levels[] = {LMC_LEVEL_FAST, LMC_LEVEL_DEFAULT, LMC_LEVEL_MAX};
    const size_t ways = args->base ? 2 : 1;
    lmc_st_file *file = NULL;
    lmc_st_file *base = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    cli_args of_base = *args;
    of_base.base = NULL;
    int status = cli_open_operand(args, 1, "bench takes one file", &file);
    if (status == CLI_OK && args->base && cli_open(&of_base, args->base, &base, &diag) != LMC_OK)
        status = cli_report(&diag);
    bench bench = {.file = file,
                   .base = base,
                   .is_json = (args->seen & CLI_OPT_JSON) != 0,
                   .thread_count = (args->seen & CLI_OPT_THREADS) != 0 ? args->thread_count : 1};
    if (bench.thread_count == 0)
        bench.thread_count = lmc_core_count();
    if (status == CLI_OK && lmc_ctx_create(NULL, &bench.ctx) != LMC_OK)
        status = cli_fail_nomem();
    if (status == CLI_OK)
        status = choose_parts(&bench);
    if (status == CLI_OK)
        status = read_parts(&bench);
    if (status == CLI_OK)
        status = place_groups(&bench);
    if (status == CLI_OK && lmc_ctx_set_thread_count(bench.ctx, bench.thread_count) != LMC_OK)
        status = cli_fail_nomem();
    for (size_t i = 0; i < 3 * ways && status == CLI_OK; i++) {
        row row = {.level = levels[i / ways], .has_base = i % ways != 0};
        status = measure_row(&bench, &row);
        if (status == CLI_OK)
            print_row(&bench, &row);
    }
    if (bench.is_json && bench.row_count > 0)
        printf("]\n");
    lmc_ctx_free(bench.ctx);
    free(bench.parts);
    free(bench.content);
    free(bench.base_content);
    free(bench.frames);
    free(bench.decoded);
    lmc_st_close(base);
    lmc_st_close(file);
    const int output_status = cli_finish_output();
    return status == CLI_OK ? output_status : status;
}

const cli_command cli_bench = {
    "bench", CLI_BENCH, "measure ratio and speed on a file's tensors", "FILE ", about, NULL, run_bench};
