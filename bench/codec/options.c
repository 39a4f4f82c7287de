/* options.c - the command line of lmc-bench: names, values, usage. */
#include "bench/codec/options.h"

#include <stdlib.h>
#include <string.h>

#include "bench/codec/bench.h"

const char bench_usage[] =
    "usage: lmc-bench [OPTION VALUE]... [FILE.safetensors...]\n"
    "  --matrix quick|all      sizes from 64 KiB, dtypes, cold and in cache, ranges, deltas; quick: without "
    "1 GiB\n"
    "                          and max, and of most dtypes two sizes (default: one size, without ranges and "
    "deltas)\n"
    "  --mib N, --kib N        the one size (default: 256 MiB)\n"
    "  --max-mib N             leaves out larger sizes of the matrix\n"
    "  --set NAME              scalar, neon, avx2-nopext, avx2, avx512 (default: all that this CPU has)\n"
    "  --level NAME            fast, default, max (default: fast and default)\n"
    "  --dtype NAME            bf16, f32, f16, f8_e4m3, adam_m, adam_v, matrix (default: bf16 and f32; "
    "--matrix: all)\n"
    "  --regime cold|cached    default: cold; matrix: both\n"
    "  --only NAME             tensor, peer, range, delta\n"
    "  --repeats N             passes, of which the fastest counts (default: 5)\n"
    "  --pass-mib N            content of a pass when cold (default: 256; a quarter of it for what is slow)\n"
    "  --peer-mib N            content that zstd and bzip2 get (default: 16; 0: none)\n"
    "  --profile NAME          encode, decode, encode-bare, decode-bare: --repeats passes of that alone, for "
    "profilers\n"
    "  --json FILE             the same numbers\n";

const char *const bench_set_names[] = {"scalar", "neon", "avx2-nopext", "avx2", "avx512", NULL};

int bench_is_wanted(const char *wanted, const char *name)
{
    return !wanted || strcmp(wanted, name) == 0;
}

/* Finds `value` in a list that ends with NULL. */
static int parse_name(const char *value, const char *const *list, const char **name)
{
    while (*list && strcmp(value, *list) != 0)
        list++;
    *name = *list;
    return *list ? 0 : -1;
}

static int parse_size(const char *value, size_t unit, size_t *nbytes)
{
    char *end;
    *nbytes = strtoull(value, &end, 10) * unit;
    return *end == 0 && *nbytes != 0 ? 0 : -1;
}

static int parse_names(const char *name, const char *value, bench_options *options)
{
    static const char *const matrices[] = {"quick", "all", NULL};
    static const char *const levels[] = {"fast", "default", "max", NULL};
    static const char *const regimes[] = {"cold", "cached", NULL};
    static const char *const profiles[] = {"encode", "decode", "encode-bare", "decode-bare", NULL};
    static const char *const parts[] = {"tensor", "peer", "range", "delta", NULL};
    const char *matrix = NULL;
    if (strcmp(name, "--matrix") == 0) {
        const int failed = parse_name(value, matrices, &matrix);
        options->matrix = matrix == matrices[0] ? BENCH_QUICK : BENCH_ALL;
        return failed;
    }
    if (strcmp(name, "--set") == 0)
        return parse_name(value, bench_set_names, &options->set);
    if (strcmp(name, "--level") == 0)
        return parse_name(value, levels, &options->level);
    if (strcmp(name, "--dtype") == 0)
        return parse_name(value, bench_kinds, &options->kind);
    if (strcmp(name, "--regime") == 0)
        return parse_name(value, regimes, &options->regime);
    if (strcmp(name, "--profile") == 0)
        return parse_name(value, profiles, &options->profile);
    return strcmp(name, "--only") == 0 ? parse_name(value, parts, &options->only) : -1;
}

static int parse_option(const char *name, const char *value, bench_options *options)
{
    size_t number;
    if (strcmp(name, "--mib") == 0)
        return parse_size(value, BENCH_MIB, &options->tensor_nbytes);
    if (strcmp(name, "--kib") == 0)
        return parse_size(value, BENCH_KIB, &options->tensor_nbytes);
    if (strcmp(name, "--max-mib") == 0)
        return parse_size(value, BENCH_MIB, &options->largest_nbytes);
    if (strcmp(name, "--pass-mib") == 0)
        return parse_size(value, BENCH_MIB, &options->pass_nbytes);
    if (strcmp(name, "--repeats") == 0) {
        const int failed = parse_size(value, 1, &number);
        options->repeats = (unsigned)number;
        return failed;
    }
    if (strcmp(name, "--peer-mib") == 0) {
        options->peer_nbytes = strtoull(value, NULL, 10) * BENCH_MIB;
        return 0;
    }
    if (strcmp(name, "--json") == 0) {
        options->json = value;
        return 0;
    }
    return parse_names(name, value, options);
}

int bench_parse_options(int argc, char **argv, bench_options *options)
{
    *options = (bench_options){.tensor_nbytes = 256 * BENCH_MIB,
                               .largest_nbytes = BENCH_GIB,
                               .pass_nbytes = 256 * BENCH_MIB,
                               .peer_nbytes = 16 * BENCH_MIB,
                               .repeats = 5};
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i += 2)
        if (i + 1 == argc || parse_option(argv[i], argv[i + 1], options) != 0)
            return -1;
    options->first_file = i;
    return 0;
}
