/*
 * bench.c - lmc-st bench: which tensors are measured, reading them and the tensors of a base that belong to them, and
 * the report.
 */
#include "tool/commands/bench.h"

#include "tool/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_NBYTES_MAX ((uint64_t)512 << 20)
#define GIB (1024.0 * 1024.0 * 1024.0)
#define MIB (1024.0 * 1024.0)

static const char about[] =
    "Measures ratio (frames / tensors) and speed on the tensors of an archive or a\n"
    "safetensors file, in memory: each level, and memcpy. LMC_KERNELS in the\n"
    "environment chooses the kernel set. At most 512 MiB are taken, whole tensors; a\n"
    "small sample is repeated to 128 MiB. Everything that was decoded is compared. No\n"
    "file is written; memory is up to three times the sample, and the base.\n";

/* ---- the sample ---- */

static void take_part(cli_sample *sample, const lmc_st_tensor *tensor, uint64_t index, uint64_t nbytes)
{
    sample->parts[sample->count++] =
        (cli_part){.index = index, .dtype = tensor->dtype, .nbytes = (size_t)nbytes};
    sample->nbytes += nbytes;
}

/* Takes whole tensors as long as they fit, or the beginning of the first one if none fits. */
static int choose_parts(const lmc_st_file *file, cli_sample *sample)
{
    const uint64_t count = lmc_st_tensor_count(file);
    uint64_t first = count; /* tensor with any bytes */
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    sample->parts = calloc((size_t)count + 1, sizeof(cli_part));
    if (!sample->parts)
        return cli_fail_nomem();
    for (uint64_t i = 0; i < count; i++) {
        cli_describe(file, i, &tensor);
        first = tensor.nbytes > 0 && first == count ? i : first;
        if (tensor.nbytes > 0 && tensor.nbytes <= SAMPLE_NBYTES_MAX - sample->nbytes)
            take_part(sample, &tensor, i, tensor.nbytes);
    }
    if (first == count)
        return cli_usage_error("bench", "the file's tensors are empty: there is nothing to measure");
    if (sample->count == 0) {
        cli_describe(file, first, &tensor);
        take_part(sample, &tensor, first, SAMPLE_NBYTES_MAX);
        sample->is_cut = 1;
    }
    return CLI_OK;
}

/* The tensor of the base that belongs to tensor `index`: of the same name and shape, and of its dtype, or F32 for
 * BF16. Returns 1 and sets *base_index and *form, or returns 0. */
static int find_base(const lmc_st_file *file, uint64_t index, const lmc_st_file *base, uint64_t *base_index,
                     lmc_base_form *form)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    lmc_st_tensor old = LMC_INIT(lmc_st_tensor);
    cli_describe(file, index, &tensor);
    if (!lmc_st_find(base, tensor.name, tensor.name_nbytes, base_index))
        return 0;
    cli_describe(base, *base_index, &old);
    *form = old.dtype == tensor.dtype ? LMC_BASE_PLAIN : LMC_BASE_BF16_OF_F32;
    return cli_is_same_shape(&tensor, &old) &&
           (*form == LMC_BASE_PLAIN || (tensor.dtype == LMC_DTYPE_BF16 && old.dtype == LMC_DTYPE_F32));
}

static int read_base(const lmc_st_file *file, const lmc_st_file *base, cli_sample *sample)
{
    uint64_t total_nbytes = 0;
    for (size_t i = 0; i < sample->count; i++) /* at most F32 for BF16 */
        total_nbytes += 2 * (uint64_t)sample->parts[i].nbytes;
    sample->has_base = 1;
    sample->base = malloc((size_t)total_nbytes + 1);
    if (!sample->base)
        return cli_fail_nomem();
    unsigned char *at = sample->base;
    for (size_t i = 0; i < sample->count; i++) {
        cli_part *const part = &sample->parts[i];
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        uint64_t base_index = 0;
        if (!find_base(file, part->index, base, &base_index, &part->base_form))
            continue;
        part->base = at;
        part->base_nbytes = part->base_form == LMC_BASE_BF16_OF_F32 ? 2 * part->nbytes : part->nbytes;
        if (lmc_st_read_range(base, NULL, base_index, 0, part->base_nbytes, at, &diag) != LMC_OK)
            return cli_report(&diag);
        at += part->base_nbytes;
    }
    return CLI_OK;
}

static int read_content(const lmc_st_file *file, cli_sample *sample)
{
    sample->content = malloc((size_t)sample->nbytes + 1);
    if (!sample->content)
        return cli_fail_nomem();
    unsigned char *at = sample->content;
    for (size_t i = 0; i < sample->count; i++) {
        cli_part *const part = &sample->parts[i];
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        part->content = at;
        if (lmc_st_read_range(file, NULL, part->index, 0, part->nbytes, at, &diag) != LMC_OK)
            return cli_report(&diag);
        at += part->nbytes;
    }
    return CLI_OK;
}

/* ---- the report ---- */

typedef struct report {
    const cli_sample *sample;
    uint64_t tensor_count; /* of the file */
    unsigned thread_count, row_count;
    int is_json;
} report;

static double speed(const cli_bench_row *row, double seconds)
{
    return (double)row->content_nbytes / GIB / (seconds > 1e-9 ? seconds : 1e-9);
}

static void print_head(const report *report, const cli_bench_row *row)
{
    const cli_sample *const sample = report->sample;
    printf("%zu of %llu tensors, %.1f MiB%s, %s%llu pass%s; %u thread%s; every result was compared\n\n",
           sample->count, (unsigned long long)report->tensor_count, (double)sample->nbytes / MIB,
           sample->is_cut ? " (the beginning of one: none is small enough)" : "",
           row->passes > 1 ? "up to " : "", (unsigned long long)row->passes, row->passes > 1 ? "es" : "",
           report->thread_count, report->thread_count == 1 ? "" : "s");
    printf("%-8s  %-7s  %s%6s  %12s  %12s  %12s\n", "level", "kernels", sample->has_base ? "base  " : "",
           "ratio", "encode GiB/s", "decode GiB/s", "memcpy GiB/s");
}

static void print_row(void *user, const cli_bench_row *row)
{
    static const char *const levels[] = {"default", "fast", "max"};
    report *const report = user;
    const double ratio = (double)row->frame_nbytes / (double)row->content_nbytes;
    if (report->is_json) {
        printf("%s{\"level\":\"%s\",\"kernels\":\"%s\",\"threads\":%u,\"base\":%s,\"ratio\":%.6f,"
               "\"encode_GiB_s\":%.4f,\"decode_GiB_s\":%.4f,\"memcpy_GiB_s\":%.4f}",
               report->row_count == 0 ? "[" : ",\n ", levels[row->level], lmc_kernels_name(),
               report->thread_count, row->has_base ? "true" : "false", ratio, speed(row, row->encode_seconds),
               speed(row, row->decode_seconds), speed(row, row->memcpy_seconds));
    } else {
        if (report->row_count == 0)
            print_head(report, row);
        const char *const base = !report->sample->has_base ? "" : row->has_base ? "yes   " : "no    ";
        printf("%-8s  %-7s  %s%6.4f  %12.3f  %12.3f  %12.2f\n", levels[row->level], lmc_kernels_name(), base,
               ratio, speed(row, row->encode_seconds), speed(row, row->decode_seconds),
               speed(row, row->memcpy_seconds));
    }
    fflush(stdout);
    report->row_count++;
}

static int bench_file(const cli_args *args, const lmc_st_file *file, const lmc_st_file *base)
{
    cli_sample sample = {.count = 0};
    int status = choose_parts(file, &sample);
    if (status == CLI_OK)
        status = read_content(file, &sample);
    if (status == CLI_OK && base)
        status = read_base(file, base, &sample);
    if (status == CLI_OK) {
        report report = {.sample = &sample,
                         .tensor_count = lmc_st_tensor_count(file),
                         .thread_count = (args->seen & CLI_OPT_THREADS) != 0 ? args->thread_count : 1,
                         .is_json = (args->seen & CLI_OPT_JSON) != 0};
        if (report.thread_count == 0)
            report.thread_count = lmc_core_count();
        status = cli_bench_run(&sample, report.thread_count, print_row, &report);
        if (status == CLI_OK && report.is_json)
            printf("]\n");
    }
    free(sample.parts);
    free(sample.content);
    free(sample.base);
    return status == CLI_OK ? cli_finish_output() : status;
}

static int run_bench(const cli_args *args)
{
    lmc_st_file *file = NULL;
    lmc_st_file *base = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    cli_args of_base = *args;
    of_base.base = NULL;
    if (args->operand_count != 1)
        return cli_usage_error("bench", "bench takes one file");
    int status = cli_base_check(args, args->operands[0]);
    if (status != CLI_OK)
        return status;
    if (cli_open(args, args->operands[0], &file, &diag) != LMC_OK ||
        (args->base && cli_open(&of_base, args->base, &base, &diag) != LMC_OK))
        status = cli_report(&diag);
    else
        status = bench_file(args, file, base);
    lmc_st_close(base);
    lmc_st_close(file);
    return status;
}

const cli_command cli_bench = {
    .name = "bench",
    .bit = CLI_BENCH,
    .summary = "measure ratio and speed on a file's tensors",
    .operands = "FILE ",
    .before = about,
    .run = run_bench,
};
