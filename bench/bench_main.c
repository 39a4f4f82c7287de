/*
 * bench_main.c - LMC's levels and kernel sets beside memcpy and other codecs, on the same bytes in one run:
 *
 *   lmc-bench [--mib N] [--repeats N] [--set NAME] [--level NAME] [--dtype bf16|f32] [--peer-mib N] [--json FILE]
 *             [SAFETENSORS...]
 *
 * Without files: normal bf16 and f32 numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const char *const kernel_sets[] = {"scalar", "neon", "avx2", "avx512"};
static const struct {
    const char *name;
    lmc_level level;
} levels[] = {{"fast", LMC_LEVEL_FAST}, {"default", LMC_LEVEL_DEFAULT}, {"max", LMC_LEVEL_MAX}};

typedef struct bench_options {
    size_t mib, peer_mib;
    unsigned repeats;
    const char *set, *level, *dtype; /* NULL: all */
    FILE *json;                      /* NULL: none */
    unsigned json_rows;
} bench_options;

static double share(double verified, double bare)
{
    return bare > 0 ? 1 - verified / bare : 0;
}

static void print_row(const bench_data *data, const bench_row *row, bench_options *options)
{
    printf("%-24.24s %-22s %-7s %7.1f %7.4f |%7.3f %7.3f |%7.3f %7.3f |%4.0f%% %4.0f%% |%6.2f |%5.2f %5.2f "
           "|%5.2f %5.2f\n",
           data->name, row->codec, row->kernels, (double)row->tensor_nbytes / (1 << 20), row->ratio,
           row->encode, row->decode, row->encode_bare, row->decode_bare,
           100 * share(row->encode, row->encode_bare), 100 * share(row->decode, row->decode_bare), row->copy,
           row->encode / row->copy, row->decode / row->copy, row->encode_bare / row->copy,
           row->decode_bare / row->copy);
    fflush(stdout);
    if (!options->json)
        return;
    fprintf(
        options->json,
        "%s\n  {\"data\": \"%s\", \"dtype\": \"%s\", \"codec\": \"%s\", \"kernels\": \"%s\", \"nbytes\": "
        "%zu, \"ratio\": %.6f, \"encode_GiB_s\": %.4f, \"decode_GiB_s\": %.4f, \"encode_bare_GiB_s\": %.4f, "
        "\"decode_bare_GiB_s\": %.4f, \"memcpy_GiB_s\": %.4f}",
        options->json_rows++ ? "," : "", data->name, lmc_dtype_name(data->dtype), row->codec, row->kernels,
        row->tensor_nbytes, row->ratio, row->encode, row->decode, row->encode_bare, row->decode_bare,
        row->copy);
}

static int is_wanted(const char *wanted, const char *name)
{
    return !wanted || strcmp(wanted, name) == 0;
}

static int measure_set(const bench_data *data, const char *set, bench_options *options)
{
    const bench_shape shape = {data->nbytes, 1, 1, options->repeats};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        bench_row row;
        if (options->level ? strcmp(options->level, levels[i].name) != 0 : levels[i].level == LMC_LEVEL_MAX)
            continue;
        const int result = bench_lmc(data, NULL, levels[i].level, set, &shape, &row);
        if (result > 0)
            return 0;
        if (result < 0) {
            fprintf(stderr, "bench: %s: a round trip failed with the %s kernels\n", data->name, set);
            return -1;
        }
        print_row(data, &row, options);
    }
    return 0;
}

static int measure_data(const bench_data *data, bench_options *options)
{
    bench_row rows[BENCH_PEER_COUNT];
    for (size_t i = 0; i < sizeof kernel_sets / sizeof kernel_sets[0]; i++)
        if (is_wanted(options->set, kernel_sets[i]) && measure_set(data, kernel_sets[i], options) != 0)
            return -1;
    if (options->peer_mib == 0 || options->set || options->level)
        return 0;
    if (bench_peers(data, options->peer_mib << 20, options->repeats, rows) != 0) {
        fprintf(stderr, "bench: %s: a peer failed\n", data->name);
        return -1;
    }
    for (unsigned i = 0; i < BENCH_PEER_COUNT; i++)
        print_row(data, &rows[i], options);
    return 0;
}

static int parse_option(bench_options *options, const char *name, const char *value)
{
    const unsigned long number = strtoul(value, NULL, 10);
    if (strcmp(name, "--mib") == 0)
        return (options->mib = number) != 0 ? 0 : -1;
    if (strcmp(name, "--repeats") == 0)
        return (options->repeats = (unsigned)number) != 0 ? 0 : -1;
    if (strcmp(name, "--peer-mib") == 0)
        options->peer_mib = number;
    else if (strcmp(name, "--set") == 0)
        options->set = value;
    else if (strcmp(name, "--level") == 0)
        options->level = value;
    else if (strcmp(name, "--dtype") == 0)
        options->dtype = value;
    else if (strcmp(name, "--json") == 0)
        return (options->json = fopen(value, "w")) ? 0 : -1;
    else
        return -1;
    return 0;
}

static int measure_synthetic(bench_options *options)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_BF16, LMC_DTYPE_F32};
    static const char *const names[] = {"bf16", "f32"};
    int failed = 0;
    for (int i = 0; i < 2 && !failed; i++) {
        bench_data data = {0};
        if (!is_wanted(options->dtype, names[i]))
            continue;
        failed =
            bench_data_gauss(&data, dtypes[i], options->mib << 20) != 0 || measure_data(&data, options) != 0;
        free(data.bytes);
    }
    return failed;
}

int main(int argc, char **argv)
{
    bench_options options = {.mib = 128, .peer_mib = 16, .repeats = 5};
    int i = 1, failed = 0;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0 && !failed; i += 2)
        failed = parse_option(&options, argv[i], argv[i + 1]);
    if (failed || (i < argc && argv[i][0] == '-')) {
        fprintf(stderr,
                "usage: lmc-bench [--mib N] [--repeats N] [--set NAME] [--level NAME] [--dtype bf16|f32] "
                "[--peer-mib N] [--json FILE] [FILE...]\n");
        return 2;
    }
    printf("LMC %s, one thread; speeds in GiB/s, fastest of %u; verified: checksums made and checked; bare: "
           "without them\n",
           lmc_version_text(), options.repeats);
    printf("%-24s %-22s %-7s %7s %7s |%15s |%15s |%10s |%6s |%11s |%11s\n", "data", "codec", "kernels", "MiB",
           "ratio", "encode  decode", "bare enc    dec", "hash share", "memcpy", "of memcpy", "bare of mc");
    if (options.json)
        fprintf(options.json, "[");
    if (i == argc)
        failed = measure_synthetic(&options);
    for (; i < argc && !failed; i++) {
        bench_data data = {0};
        failed =
            bench_data_load(&data, argv[i], options.mib << 20) != 0 || measure_data(&data, &options) != 0;
        free(data.bytes);
    }
    if (options.json)
        failed |= fprintf(options.json, "\n]\n") < 0 || fclose(options.json) != 0;
    return failed ? 1 : 0;
}
