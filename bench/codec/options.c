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

static const char *const levels[] = {"fast", "default", "max", NULL};
static const char *const regimes[] = {"cold", "cached", NULL};
static const char *const profiles[] = {"encode", "decode", "encode-bare", "decode-bare", NULL};
static const char *const parts[] = {"tensor", "peer", "range", "delta", NULL};
static const char *const matrices[] = {"quick", "all", NULL};

#define PLACE(field) offsetof(bench_options, field)

/* A value is one of a list of names, or a number of units. */
static const struct {
    const char *name;
    size_t place; /* of the value in bench_options: a const char *, or a size_t */
    const char *const *names;
    size_t unit; /* 0: any text */
} rows[] = {{"--matrix", PLACE(matrix_name), matrices, 0},
            {"--set", PLACE(set), bench_set_names, 0},
            {"--level", PLACE(level), levels, 0},
            {"--dtype", PLACE(kind), bench_kinds, 0},
            {"--regime", PLACE(regime), regimes, 0},
            {"--profile", PLACE(profile), profiles, 0},
            {"--only", PLACE(only), parts, 0},
            {"--json", PLACE(json), NULL, 0},
            {"--mib", PLACE(tensor_nbytes), NULL, BENCH_MIB},
            {"--kib", PLACE(tensor_nbytes), NULL, BENCH_KIB},
            {"--max-mib", PLACE(largest_nbytes), NULL, BENCH_MIB},
            {"--pass-mib", PLACE(pass_nbytes), NULL, BENCH_MIB},
            {"--peer-mib", PLACE(peer_nbytes), NULL, BENCH_MIB},
            {"--repeats", PLACE(repeats), NULL, 1}};

static int parse_option(const char *name, const char *value, bench_options *options)
{
    size_t i = 0;
    char *end = NULL;
    while (i < sizeof rows / sizeof rows[0] && strcmp(name, rows[i].name) != 0)
        i++;
    if (i == sizeof rows / sizeof rows[0])
        return -1;
    void *const place = (char *)options + rows[i].place;
    if (rows[i].unit == 0) {
        const char *const *known = rows[i].names;
        while (known && *known && strcmp(value, *known) != 0)
            known++;
        *(const char **)place = known ? *known : value;
        return known && !*known ? -1 : 0;
    }
    const size_t number = strtoull(value, &end, 10) * rows[i].unit;
    *(size_t *)place = number;
    return *end == 0 && (number != 0 || place == &options->peer_nbytes) ? 0 : -1;
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
    if (options->matrix_name)
        options->matrix = options->matrix_name == matrices[0] ? BENCH_QUICK : BENCH_ALL;
    options->first_file = i;
    return 0;
}
