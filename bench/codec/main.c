/*
 * main.c - lmc-bench: the matrix of dtypes, sizes, states of the caches, levels and kernel sets, and which of its cases
 * are measured. options.c lists the options.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/codec/bench.h"
#include "bench/codec/options.h"

#define CACHED_NBYTES_MAX (16 * BENCH_MIB) /* caches are smaller than larger tensors */

static const struct {
    const char *name;
    lmc_level level;
} levels[] = {{"fast", LMC_LEVEL_FAST}, {"default", LMC_LEVEL_DEFAULT}, {"max", LMC_LEVEL_MAX}};
#define LEVEL_COUNT (sizeof levels / sizeof levels[0])

static const size_t matrix_sizes[] = {64 * BENCH_KIB, BENCH_MIB, 16 * BENCH_MIB, 256 * BENCH_MIB, BENCH_GIB};
#define SIZE_COUNT (sizeof matrix_sizes / sizeof matrix_sizes[0])

/* One case of the matrix, apart from the data. */
typedef struct bench_case {
    const char *set;
    lmc_level level;
    size_t tensor_nbytes;
    int is_cached;
} bench_case;

typedef struct bench_state {
    const bench_options *options;
    bench_report *report;
    const bench_data *data, *base; /* base: NULL but for deltas */
    int is_main;                   /* bf16 or f32: a quick matrix measures all of their sizes */
} bench_state;

/* ---- what belongs to the matrix ---- */

static int is_slow(const bench_case *c)
{
    return strcmp(c->set, "scalar") == 0 || c->level == LMC_LEVEL_MAX;
}

static int wants_level(const bench_state *state, size_t i)
{
    const bench_options *const options = state->options;
    if (options->level)
        return strcmp(options->level, levels[i].name) == 0;
    if (state->base && options->matrix != BENCH_ALL)
        return levels[i].level == LMC_LEVEL_DEFAULT;
    return options->matrix == BENCH_ALL || levels[i].level != LMC_LEVEL_MAX;
}

static int wants_size(const bench_state *state, size_t nbytes)
{
    const bench_options *const options = state->options;
    if (options->matrix == BENCH_ONE_SIZE)
        return 1;
    if (nbytes > options->largest_nbytes)
        return 0;
    if (options->matrix == BENCH_QUICK && (!state->is_main || state->base))
        return nbytes == BENCH_MIB || nbytes == 256 * BENCH_MIB;
    return options->matrix == BENCH_ALL || nbytes < BENCH_GIB;
}

static int wants_regime(const bench_options *options, const bench_case *c)
{
    const char *const wanted =
        options->regime || options->matrix != BENCH_ONE_SIZE ? options->regime : "cold";
    return bench_is_wanted(wanted, c->is_cached ? "cached" : "cold") &&
           (!c->is_cached || c->tensor_nbytes <= CACHED_NBYTES_MAX);
}

static int wants_part(const bench_options *options, const char *part)
{
    const int is_default =
        options->matrix != BENCH_ONE_SIZE || strcmp(part, "tensor") == 0 || strcmp(part, "peer") == 0;
    if (options->profile && !options->only)
        return strcmp(part, "tensor") == 0;
    return options->only ? strcmp(options->only, part) == 0 : is_default;
}

/* ---- measuring ---- */

static bench_shape shape_of(const bench_state *state, const bench_case *c)
{
    const bench_options *const options = state->options;
    const int is_short = is_slow(c) || state->base; /* deltas are slow with every set */
    const size_t pass = is_short ? options->pass_nbytes / 4 : options->pass_nbytes;
    bench_shape shape = {c->tensor_nbytes, 1, 1, (unsigned)options->repeats};
    if (is_slow(c) && options->repeats > 2)
        shape.repeats = options->repeats / 2;
    if (c->is_cached) /* long enough for the clock, and for small tensors to enter the caches */
        shape.rounds = (unsigned)(pass / 8 / c->tensor_nbytes) + 2;
    else if (pass > c->tensor_nbytes)
        shape.tensor_count = pass / c->tensor_nbytes;
    return shape;
}

static int report_failure(const bench_state *state, const bench_case *c)
{
    fprintf(stderr, "lmc-bench: %s: a round trip failed with the %s kernels, level %s, %zu bytes\n",
            state->data->name, c->set, bench_codec_name(c->level), c->tensor_nbytes);
    return -1;
}

static int loop_tensor(const bench_state *state, const bench_case *c, const bench_shape *shape)
{
    const char *const profile = state->options->profile;
    double gib, seconds, cpu_seconds;
    const int result = bench_lmc_loop(state->data, state->base, c->level, c->set, shape, profile[0] == 'd',
                                      strstr(profile, "bare") != NULL, &gib, &seconds, &cpu_seconds);
    if (result == 0)
        printf("%s%s, %s, %s, %s: %.2f GiB in %.0f ms, CPU %.1f ms per GiB\n", state->data->name,
               state->base ? " against a base" : "", bench_codec_name(c->level), c->set, profile, gib,
               seconds * 1e3, cpu_seconds * 1e3 / gib);
    return result < 0 ? report_failure(state, c) : 0;
}

static int measure_tensor(const bench_state *state, const bench_case *c)
{
    bench_row row;
    const bench_shape shape = shape_of(state, c);
    if (!wants_regime(state->options, c))
        return 0;
    if (state->options->profile)
        return loop_tensor(state, c, &shape);
    const int result = bench_lmc(state->data, state->base, c->level, c->set, &shape, &row);
    if (result == 0)
        bench_report_row(state->report, state->data, &row, state->base != NULL);
    return result < 0 ? report_failure(state, c) : 0;
}

static int measure_range(const bench_state *state, const bench_case *c)
{
    bench_range_row row;
    if (c->is_cached || (state->options->matrix != BENCH_ONE_SIZE && c->tensor_nbytes < 256 * BENCH_MIB))
        return 0;
    const unsigned repeats = shape_of(state, c).repeats;
    const int result = bench_range(state->data, c->level, c->set, c->tensor_nbytes, repeats, &row);
    if (result == 0)
        bench_report_range(state->report, state->data, &row);
    return result < 0 ? report_failure(state, c) : 0;
}

/* Every level and kernel set for tensors of one size. */
static int measure_size(const bench_state *state, size_t nbytes,
                        int (*measure)(const bench_state *, const bench_case *))
{
    for (const char *const *set = bench_set_names; *set; set++)
        for (size_t i = 0; i < LEVEL_COUNT; i++)
            for (int is_cached = 0; is_cached < 2; is_cached++) {
                const bench_case c = {*set, levels[i].level, nbytes, is_cached};
                if (!bench_is_wanted(state->options->set, *set) || !wants_level(state, i))
                    continue;
                if (is_slow(&c) && nbytes >= BENCH_GIB && state->options->matrix != BENCH_ONE_SIZE)
                    continue; /* takes minutes, and 256 MiB show as much */
                if (measure(state, &c) != 0)
                    return -1;
            }
    return 0;
}

static int measure_sizes(const bench_state *state, int (*measure)(const bench_state *, const bench_case *))
{
    if (state->options->matrix == BENCH_ONE_SIZE)
        return measure_size(state, state->options->tensor_nbytes, measure);
    for (size_t i = 0; i < SIZE_COUNT; i++)
        if (wants_size(state, matrix_sizes[i]) && measure_size(state, matrix_sizes[i], measure) != 0)
            return -1;
    return 0;
}

static int measure_peers(const bench_state *state)
{
    bench_row rows[BENCH_PEER_COUNT];
    if (state->options->peer_nbytes == 0)
        return 0;
    if (bench_peers(state->data, state->options->peer_nbytes, (unsigned)state->options->repeats, rows) != 0) {
        fprintf(stderr, "lmc-bench: %s: a peer failed\n", state->data->name);
        return -1;
    }
    for (unsigned i = 0; i < BENCH_PEER_COUNT; i++)
        bench_report_row(state->report, state->data, &rows[i], 0);
    return 0;
}

/* ---- data ---- */

static size_t data_nbytes(const bench_state *state)
{
    const bench_options *const options = state->options;
    size_t nbytes = options->matrix == BENCH_ONE_SIZE ? options->tensor_nbytes : 0;
    for (size_t i = 0; i < SIZE_COUNT && options->matrix != BENCH_ONE_SIZE; i++)
        nbytes = wants_size(state, matrix_sizes[i]) ? matrix_sizes[i] : nbytes;
    return nbytes > options->pass_nbytes ? nbytes : options->pass_nbytes;
}

static int measure_deltas(const bench_state *state)
{
    bench_data later = {0};
    bench_state deltas = *state;
    deltas.data = &later;
    deltas.base = state->data;
    const int failed =
        bench_data_step(&later, state->data) != 0 || measure_sizes(&deltas, measure_tensor) != 0;
    free(later.bytes);
    return failed ? -1 : 0;
}

static int measure_kind(bench_state *state, const char *kind)
{
    const bench_options *const options = state->options;
    bench_data data = {0};
    state->is_main = strcmp(kind, "bf16") == 0 || strcmp(kind, "f32") == 0;
    state->data = &data;
    int failed = bench_data_make(&data, kind, data_nbytes(state)) != 0;
    if (!failed && wants_part(options, "tensor"))
        failed = measure_sizes(state, measure_tensor) != 0;
    if (!failed && wants_part(options, "peer") && state->is_main)
        failed = measure_peers(state) != 0;
    if (!failed && wants_part(options, "range"))
        failed = measure_sizes(state, measure_range) != 0;
    if (!failed && wants_part(options, "delta") && (state->is_main || options->matrix != BENCH_QUICK))
        failed = measure_deltas(state) != 0;
    free(data.bytes);
    return failed ? -1 : 0;
}

static int measure_kinds(bench_state *state)
{
    const bench_options *const options = state->options;
    for (int i = 0; bench_kinds[i]; i++) {
        const int is_default = options->matrix != BENCH_ONE_SIZE || i < 2;
        if ((options->kind ? strcmp(options->kind, bench_kinds[i]) == 0 : is_default) &&
            measure_kind(state, bench_kinds[i]) != 0)
            return -1;
    }
    return 0;
}

/* All tensors of a file count as one, repeated to the size asked for. */
static int measure_file(bench_state *state, const char *path)
{
    bench_data data = {0};
    bench_options options = *state->options;
    bench_state file = {.options = &options, .report = state->report, .data = &data, .is_main = 1};
    int failed = bench_data_load(&data, path, options.tensor_nbytes) != 0;
    options.matrix = BENCH_ONE_SIZE;
    options.tensor_nbytes = options.pass_nbytes = data.nbytes;
    if (!failed && wants_part(&options, "tensor"))
        failed = measure_sizes(&file, measure_tensor) != 0;
    if (!failed && wants_part(&options, "peer"))
        failed = measure_peers(&file) != 0;
    free(data.bytes);
    return failed ? -1 : 0;
}

int main(int argc, char **argv)
{
    bench_options options;
    if (bench_parse_options(argc, argv, &options) != 0) {
        fputs(bench_usage, stderr);
        return 2;
    }
    bench_state state = {.options = &options};
    state.report = bench_report_open(options.json, (unsigned)options.repeats, argc, argv);
    if (!state.report) {
        fprintf(stderr, "lmc-bench: %s: cannot be written\n", options.json ? options.json : "memory");
        return 1;
    }
    int failed = options.first_file == argc && measure_kinds(&state) != 0;
    for (int i = options.first_file; i < argc && !failed; i++)
        failed = measure_file(&state, argv[i]) != 0;
    failed |= bench_report_close(state.report) != 0;
    return failed ? 1 : 0;
}
