/*
 * bench.c - lmc-st bench: ratio and speed on the tensors of a file, in memory.
 */
#include "tool/commands/bench.h"

#include "safetensors/os/file.h"
#include "tool/base.h"
#include "tool/kernels.h"

#include <stdio.h>
#include <string.h>

#define SAMPLE_NBYTES_MAX ((uint64_t)512 << 20)
#define GIB (1024.0 * 1024.0 * 1024.0)
#define MIB (1024.0 * 1024.0)

static const char help[] = "Measures ratio (frames / tensors) and speed on the tensors of an archive or a\n"
                           "safetensors file, in memory: each level with each kernel set of this machine,\n"
                           "and memcpy. At most 512 MiB are taken, whole tensors; a small sample is\n"
                           "repeated to 128 MiB. Everything that was decoded is compared. No file is\n"
                           "written; memory is up to three times the sample, and the base.\n"
                           "\n"
                           "      --json         an array of {level, kernels, threads, base, ratio,\n"
                           "                     encode_GiB_s, decode_GiB_s, memcpy_GiB_s}\n"
                           "      --base OLD     an earlier snapshot of FILE, or its archive: each level\n"
                           "                     without and with it\n"
                           "      --base-dir DIR where bases are looked for, before an archive's directory\n"
                           "  -j, --threads N    number of threads; default 1, 0 is one per core\n"
                           "  -h, --help         show this text\n";

typedef struct report {
    const cli_sample *sample;
    unsigned thread_count;
    int is_json;
    const char *kernels;
    unsigned row_count;
} report;

static const char *level_name(lmc_level level)
{
    return level == LMC_LEVEL_FAST ? "fast" : level == LMC_LEVEL_MAX ? "max" : "default";
}

static double speed(const cli_bench_row *row, double seconds)
{
    return (double)row->content_nbytes / GIB / (seconds > 1e-9 ? seconds : 1e-9);
}

static void print_head(const report *report, const cli_bench_row *row)
{
    const cli_sample *const sample = report->sample;
    printf("%zu of %llu tensors, %.1f MiB%s, %s%llu pass%s; %u thread%s; every result was compared\n\n",
           sample->count, (unsigned long long)lmc_st_tensor_count(sample->file), (double)sample->nbytes / MIB,
           sample->cut_nbytes > 0 ? " (the beginning of one: none is small enough)" : "",
           row->passes > 1 ? "up to " : "", (unsigned long long)row->passes, row->passes > 1 ? "es" : "",
           report->thread_count, report->thread_count == 1 ? "" : "s");
    printf("%-8s  %-7s  %s%6s  %12s  %12s  %12s\n", "level", "kernels", sample->base != NULL ? "base  " : "",
           "ratio", "encode GiB/s", "decode GiB/s", "memcpy GiB/s");
}

/* cli_child.take */
static void print_row(void *user, const void *record)
{
    report *const report = user;
    cli_bench_row row;
    memcpy(&row, record, sizeof(row));
    const double ratio = (double)row.frame_nbytes / (double)row.content_nbytes;
    if (report->is_json) {
        printf("%s{\"level\":\"%s\",\"kernels\":\"%s\",\"threads\":%u,\"base\":%s,\"ratio\":%.6f,\"encode_"
               "GiB_s\":%.4f,"
               "\"decode_GiB_s\":%.4f,\"memcpy_GiB_s\":%.4f}",
               report->row_count == 0 ? "[" : ",\n ", level_name(row.level), report->kernels,
               report->thread_count, row.has_base ? "true" : "false", ratio, speed(&row, row.encode_seconds),
               speed(&row, row.decode_seconds), speed(&row, row.memcpy_seconds));
    } else {
        if (report->row_count == 0)
            print_head(report, &row);
        const char *const base = report->sample->base == NULL ? "" : row.has_base ? "yes   " : "no    ";
        printf("%-8s  %-7s  %s%6.4f  %12.3f  %12.3f  %12.2f\n", level_name(row.level), report->kernels, base,
               ratio, speed(&row, row.encode_seconds), speed(&row, row.decode_seconds),
               speed(&row, row.memcpy_seconds));
    }
    fflush(stdout);
    report->row_count++;
}

static int send_row(void *user, const cli_bench_row *row)
{
    return cli_send(*(const int *)user, row, sizeof(*row));
}

/* cli_child.work */
static int measure(void *user, int pipe_fd)
{
    const report *const report = user;
    return cli_bench_run(report->sample, report->thread_count, send_row, &pipe_fd);
}

static int bench_sample(const cli_sample *sample, const cli_args *args)
{
    const int is_given = (args->seen & CLI_OPT_THREADS) != 0;
    report report = {.sample = sample,
                     .thread_count = is_given ? args->thread_count : 1,
                     .is_json = (args->seen & CLI_OPT_JSON) != 0};
    if (report.thread_count == 0)
        report.thread_count = lmc_core_count();
    for (size_t i = 0; i < CLI_KERNEL_SETS; i++) {
        const cli_child child = {
            .work = measure, .take = print_row, .record_nbytes = sizeof(cli_bench_row), .user = &report};
        int is_there = 0;
        report.kernels = cli_kernel_sets[i];
        const int status = cli_with_kernels(report.kernels, &child, &is_there);
        if (status != CLI_OK)
            return status;
    }
    if (report.is_json)
        printf(report.row_count == 0 ? "[]\n" : "]\n");
    return cli_finish_output();
}

static int bench_file(const lmc_st_file *file, const lmc_st_file *base, const cli_args *args)
{
    cli_sample sample;
    int status = CLI_SYSTEM;
    if (cli_sample_choose(file, SAMPLE_NBYTES_MAX, &sample) != LMC_OK) {
        fprintf(stderr, "lmc-st: out of memory\n");
    } else if (sample.count == 0) {
        status = cli_usage_error("bench", "the file's tensors are empty: there is nothing to measure");
    } else {
        sample.base = base;
        status = bench_sample(&sample, args);
    }
    cli_sample_free(&sample);
    return status;
}

static int run(const cli_args *args)
{
    lmc_st_file *file = NULL;
    lmc_st_file *base = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    cli_args of_base = *args;
    int status = CLI_OK;
    of_base.base = NULL;
    if (args->operand_count != 1)
        return cli_usage_error("bench", "bench takes one file");
    status = cli_base_check(args, args->operands[0]);
    if (status != CLI_OK)
        return status;
    if (cli_open(args, args->operands[0], &file, &diag) != LMC_OK ||
        (args->base != NULL && cli_open(&of_base, args->base, &base, &diag) != LMC_OK))
        status = cli_report(&diag);
    else
        status = bench_file(file, base, args);
    lmc_st_close(base);
    lmc_st_close(file);
    return status;
}

const cli_command cli_bench = {"bench", CLI_OPT_JSON | CLI_OPT_THREADS | CLI_OPT_BASE | CLI_OPT_BASE_DIR,
                               "bench FILE [OPTION...]", help, run};
