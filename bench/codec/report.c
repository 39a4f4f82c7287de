/*
 * report.c - the measured rows, as a table on stdout and as JSON. The JSON is one object; "rows" has an object for each
 * row of the table, on a line of its own. Keys name their units.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/codec/bench.h"

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

typedef enum row_kind { NO_ROW, TENSOR_ROW, DELTA_ROW, RANGE_ROW } row_kind;

struct bench_report {
    FILE *json; /* NULL: none */
    unsigned row_count;
    row_kind shown; /* whose heading stands above */
};

/* ---- head ---- */

static void machine_name(char *dst, size_t capacity)
{
    char line[256];
    FILE *const file = fopen("/proc/cpuinfo", "r");
    snprintf(dst, capacity, "unknown CPU");
    while (file && fgets(line, sizeof line, file)) {
        const char *const colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(dst, capacity, "%s", colon + 2);
        break;
    }
    if (file)
        fclose(file);
}

static void write_text(FILE *json, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', json);
        if ((unsigned char)*text >= ' ')
            fputc(*text, json);
    }
}

static void write_head(FILE *json, const char *machine, unsigned repeats, int argc, char **argv)
{
    char date[32];
    const time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    fprintf(json, "{\"lmc_version\": \"%s\", \"date\": \"%s\", \"machine\": \"", lmc_version_text(), date);
    write_text(json, machine);
    fprintf(json, "\", \"core_count\": %ld, \"compiler\": \"%s\", \"thread_count\": 1, \"repeat_count\": %u,",
            sysconf(_SC_NPROCESSORS_ONLN), COMPILER, repeats);
    fprintf(json, " \"command\": \"lmc-bench");
    for (int i = 1; i < argc; i++) {
        const char *const slash = strrchr(argv[i], '/'); /* file names only: folders belong to one machine */
        fputc(' ', json);
        write_text(json, slash ? slash + 1 : argv[i]);
    }
    fprintf(json, "\",\n \"rows\": [");
}

bench_report *bench_report_open(const char *json_path, unsigned repeats, int argc, char **argv)
{
    char machine[200];
    bench_report *const report = calloc(1, sizeof *report);
    if (!report || (json_path && !(report->json = fopen(json_path, "w")))) {
        free(report);
        return NULL;
    }
    machine_name(machine, sizeof machine);
    printf("machine: %s, %ld cores; compiler: %s\n", machine, sysconf(_SC_NPROCESSORS_ONLN), COMPILER);
    printf("LMC %s, one thread; fastest of %u passes, fewer of what is slow\n", lmc_version_text(), repeats);
    if (report->json)
        write_head(report->json, machine, repeats, argc, argv);
    return report;
}

int bench_report_close(bench_report *report)
{
    int failed = 0;
    if (report->json) {
        fprintf(report->json, "\n]}\n");
        failed = ferror(report->json) != 0;
        failed |= fclose(report->json) != 0;
    }
    free(report);
    return failed ? -1 : 0;
}

/* ---- rows ---- */

static const char *size_text(size_t nbytes, char *dst, size_t capacity)
{
    if (nbytes % BENCH_GIB == 0)
        snprintf(dst, capacity, "%zu GiB", nbytes / BENCH_GIB);
    else if (nbytes % BENCH_MIB == 0)
        snprintf(dst, capacity, "%zu MiB", nbytes / BENCH_MIB);
    else if (nbytes < BENCH_MIB)
        snprintf(dst, capacity, "%zu KiB", nbytes / BENCH_KIB);
    else
        snprintf(dst, capacity, "%.1f MiB", (double)nbytes / (double)BENCH_MIB);
    return dst;
}

static void show_heading(bench_report *report, row_kind kind)
{
    if (report->shown == kind)
        return;
    report->shown = kind;
    if (kind == RANGE_ROW) {
        printf("\nRandom ranges of a frame in memory; microseconds a range, with checksums / without:\n");
        printf("%-16s %-11s %-11s %8s %8s |%21s |%21s |%21s |%8s\n", "data", "codec", "kernels", "tensor",
               "range", "lmc_decode_range", "lmc_decode_block", "lmc_frame_create", "memcpy");
        return;
    }
    printf("\n%s, GiB/s; bare: without checksums, hash: their share of the time:\n",
           kind == DELTA_ROW ? "Against a base, 30 % of the values changed" : "Tensors");
    printf("%-16.16s %-22s %-11s %8s %-6s %7s |%15s |%15s |%10s |%7s |%13s |%13s\n", "data", "codec",
           "kernels", "size", "caches", "ratio", "encode  decode", "bare: enc    dec", "hash: e d", "memcpy",
           "enc,dec / mc", "bare / mc");
}

static void begin_json(bench_report *report, const char *what, const bench_data *data, const char *codec,
                       const char *kernels)
{
    fprintf(report->json,
            "%s\n  {\"what\": \"%s\", \"data\": \"%s\", \"dtype\": \"%s\", \"codec\": \"%s\", \"kernels\": "
            "\"%s\"",
            report->row_count++ ? "," : "", what, data->name, lmc_dtype_name(data->dtype), codec, kernels);
}

static double share(double verified, double bare)
{
    return bare > 0 ? 1 - verified / bare : 0;
}

void bench_report_row(bench_report *report, const bench_data *data, const bench_row *row, int is_delta)
{
    char size[32];
    const char *const regime = row->is_cached ? "cached" : "cold";
    const int is_peer = strcmp(row->kernels, "-") == 0;
    show_heading(report, is_delta ? DELTA_ROW : TENSOR_ROW);
    printf("%-16.16s %-22s %-11s %8s %-6s %7.4f |%7.3f %7.3f ", data->name, row->codec, row->kernels,
           size_text(row->tensor_nbytes, size, sizeof size), regime, row->ratio, row->encode, row->decode);
    if (is_peer)
        printf("|%15s |%10s ", "", "");
    else
        printf("|%7.3f %7.3f |%4.0f%% %4.0f%% ", row->encode_bare, row->decode_bare,
               100 * share(row->encode, row->encode_bare), 100 * share(row->decode, row->decode_bare));
    printf("|%7.2f |%6.3f %6.3f ", row->copy, row->encode / row->copy, row->decode / row->copy);
    if (is_peer)
        printf("|\n");
    else
        printf("|%6.3f %6.3f\n", row->encode_bare / row->copy, row->decode_bare / row->copy);
    fflush(stdout);
    if (!report->json)
        return;
    begin_json(report, is_peer ? "peer" : is_delta ? "delta" : "tensor", data, row->codec, row->kernels);
    fprintf(report->json,
            ", \"tensor_nbytes\": %zu, \"pass_nbytes\": %zu, \"regime\": \"%s\", \"ratio\": %.6f, "
            "\"encode_GiB_s\": %.4f, \"decode_GiB_s\": %.4f, \"memcpy_GiB_s\": %.4f",
            row->tensor_nbytes, row->pass_nbytes, regime, row->ratio, row->encode, row->decode, row->copy);
    if (!is_peer)
        fprintf(report->json,
                ", \"encode_bare_GiB_s\": %.4f, \"decode_bare_GiB_s\": %.4f, \"encode_hash_share\": %.4f, "
                "\"decode_hash_share\": %.4f",
                row->encode_bare, row->decode_bare, share(row->encode, row->encode_bare),
                share(row->decode, row->decode_bare));
    fputc('}', report->json);
}

void bench_report_range(bench_report *report, const bench_data *data, const bench_range_row *row)
{
    char size[32], range[32];
    show_heading(report, RANGE_ROW);
    printf("%-16.16s %-11s %-11s %8s %8s |%10.1f %10.1f |%10.1f %10.1f |%10.1f %10.1f |%8.1f\n", data->name,
           row->codec, row->kernels, size_text(row->tensor_nbytes, size, sizeof size),
           size_text(row->range_nbytes, range, sizeof range), row->range_us[0], row->range_us[1],
           row->blocks_us[0], row->blocks_us[1], row->open_us[0], row->open_us[1], row->copy_us);
    fflush(stdout);
    if (!report->json)
        return;
    begin_json(report, "range", data, row->codec, row->kernels);
    fprintf(report->json,
            ", \"tensor_nbytes\": %zu, \"range_nbytes\": %zu, \"decode_range_us\": %.2f, "
            "\"decode_range_bare_us\": "
            "%.2f, \"decode_blocks_us\": %.2f, \"decode_blocks_bare_us\": %.2f, \"frame_open_us\": %.2f, "
            "\"frame_open_bare_us\": %.2f, \"memcpy_us\": %.2f}",
            row->tensor_nbytes, row->range_nbytes, row->range_us[0], row->range_us[1], row->blocks_us[0],
            row->blocks_us[1], row->open_us[0], row->open_us[1], row->copy_us);
}
