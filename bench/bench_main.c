/*
 * bench_main.c - LMC's levels and kernel sets beside memcpy and other codecs, on the same bytes in one run.
 *
 *   lmc-bench [--mib N] [--peer-mib N] [--repeats N] [--json FILE] [SAFETENSORS...]
 *
 * Without files: normal bf16 and f32 numbers. Each kernel set runs in a process of its own, since the library
 * chooses its set once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static const char *const kernel_sets[] = {"scalar", "avx2", "avx512"};
static const lmc_level levels[] = {LMC_LEVEL_FAST, LMC_LEVEL_DEFAULT};

typedef struct bench_options {
    size_t mib, peer_mib;
    unsigned repeats;
    FILE *json; /* NULL: none */
    unsigned json_rows;
} bench_options;

static void print_row(const bench_data *data, const bench_row *row, bench_options *options)
{
    printf("%-28.28s %-24s %-7s %6.1f %7.4f %8.3f %8.3f %8.2f %6.2f %6.2f\n", data->name, row->codec,
           row->kernels, (double)row->nbytes / (1 << 20), row->ratio, row->encode, row->decode, row->copy,
           row->encode / row->copy, row->decode / row->copy);
    fflush(stdout);
    if (!options->json)
        return;
    fprintf(options->json,
            "%s\n  {\"data\": \"%s\", \"dtype\": \"%s\", \"codec\": \"%s\", \"kernels\": \"%s\", \"nbytes\": "
            "%zu, "
            "\"ratio\": %.6f, \"encode_GiB_s\": %.4f, \"decode_GiB_s\": %.4f, \"memcpy_GiB_s\": %.4f}",
            options->json_rows++ ? "," : "", data->name, lmc_dtype_name(data->dtype), row->codec,
            row->kernels, row->nbytes, row->ratio, row->encode, row->decode, row->copy);
}

/* In the child: measures every level with one kernel set and writes the rows to the pipe. */
static void run_set(const bench_data *data, const char *set, unsigned repeats, int pipe_end)
{
    if (setenv("LMC_KERNELS", set, 1) != 0 || strcmp(lmc_kernels_name(), set) != 0)
        _exit(0); /* this CPU lacks the set */
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        bench_row row;
        if (bench_lmc(data, levels[i], repeats, &row) != 0)
            _exit(1);
        if (write(pipe_end, &row, sizeof row) != (ssize_t)sizeof row)
            _exit(1);
    }
    _exit(0);
}

static int measure_set(const bench_data *data, const char *set, bench_options *options)
{
    int ends[2], status;
    bench_row row;
    if (pipe(ends) != 0)
        return -1;
    const pid_t child = fork();
    if (child < 0)
        return -1;
    if (child == 0) {
        close(ends[0]);
        run_set(data, set, options->repeats, ends[1]);
    }
    close(ends[1]);
    while (read(ends[0], &row, sizeof row) == (ssize_t)sizeof row)
        print_row(data, &row, options);
    close(ends[0]);
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? -WEXITSTATUS(status) : -1;
}

static int measure_data(const bench_data *data, bench_options *options)
{
    bench_row rows[BENCH_PEER_COUNT];
    for (size_t i = 0; i < sizeof kernel_sets / sizeof kernel_sets[0]; i++) {
        if (measure_set(data, kernel_sets[i], options) != 0) {
            fprintf(stderr, "bench: %s: a round trip failed with the %s kernels\n", data->name,
                    kernel_sets[i]);
            return -1;
        }
    }
    if (options->peer_mib == 0)
        return 0;
    if (bench_peers(data, options->peer_mib << 20, options->repeats, rows) != 0) {
        fprintf(stderr, "bench: %s: a peer failed\n", data->name);
        return -1;
    }
    for (unsigned i = 0; i < BENCH_PEER_COUNT; i++)
        print_row(data, &rows[i], options);
    return 0;
}

static int parse_options(int argc, char **argv, bench_options *options, int *first_file)
{
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        const unsigned long number = strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--mib") == 0)
            options->mib = number;
        else if (strcmp(argv[i], "--peer-mib") == 0)
            options->peer_mib = number;
        else if (strcmp(argv[i], "--repeats") == 0)
            options->repeats = (unsigned)number;
        else if (strcmp(argv[i], "--json") == 0)
            options->json = fopen(argv[i + 1], "w");
        else
            return -1;
        if (strcmp(argv[i], "--json") == 0 ? !options->json
                                           : number == 0 && strcmp(argv[i], "--peer-mib") != 0)
            return -1;
    }
    *first_file = i;
    return i < argc && argv[i][0] == '-' ? -1 : 0;
}

int main(int argc, char **argv)
{
    bench_options options = {.mib = 128, .peer_mib = 16, .repeats = 5};
    int first_file, failed = 0;
    if (parse_options(argc, argv, &options, &first_file) != 0) {
        fprintf(stderr, "usage: lmc-bench [--mib N] [--peer-mib N] [--repeats N] [--json FILE] [FILE...]\n");
        return 2;
    }
    printf("LMC %s, one thread, checksums made and verified; speeds in GiB/s, fastest of %u\n",
           lmc_version_text(), options.repeats);
    printf("%-28s %-24s %-7s %6s %7s %8s %8s %8s %6s %6s\n", "data", "codec", "kernels", "MiB", "ratio",
           "encode", "decode", "memcpy", "enc/mc", "dec/mc");
    if (options.json)
        fprintf(options.json, "[");
    const int count = first_file < argc ? argc - first_file : 2;
    for (int i = 0; i < count && !failed; i++) {
        bench_data data = {0};
        if (first_file < argc)
            failed = bench_data_load(&data, argv[first_file + i], options.mib << 20);
        else
            failed = bench_data_gauss(&data, i == 0 ? LMC_DTYPE_BF16 : LMC_DTYPE_F32, options.mib << 20);
        if (!failed)
            failed = measure_data(&data, &options);
        free(data.bytes);
    }
    if (options.json)
        failed |= fprintf(options.json, "\n]\n") < 0 || fclose(options.json) != 0;
    return failed ? 1 : 0;
}
