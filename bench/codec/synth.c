/* synth.c - synthetic tensors: weights, Adam's moments, and later snapshots of both. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/codec/bench.h"

#define PERIOD_VALUES ((size_t)1 << 24) /* values before the first one repeats */
#define ROW_VALUES 1024

const char *const bench_kinds[] = {"bf16", "f32", "f16", "f8_e4m3", "adam_m", "adam_v", "matrix", NULL};

static const struct {
    const char *name;
    lmc_dtype dtype;
    double sigma;
    double row_sigma;  /* rows have scales with a log-normal distribution, ... */
    int has_columns;   /* ... and columns, too */
    int power;         /* of the normal number */
    unsigned step_max; /* of a change, in units of the last place */
} kinds[BENCH_KIND_COUNT] = {
    {"gauss.bf16", LMC_DTYPE_BF16, 0.02, 0, 0, 1, 4},
    {"gauss.f32", LMC_DTYPE_F32, 0.02, 0, 0, 1, 1024},
    {"gauss.f16", LMC_DTYPE_F16, 0.02, 0, 0, 1, 4},
    {"gauss.f8_e4m3", LMC_DTYPE_F8_E4M3, 448 / 5.5, 0, 0, 1, 1},
    {"adam_m.f32", LMC_DTYPE_F32, 1e-4, 1, 0, 1, 1024},
    {"adam_v.f32", LMC_DTYPE_F32, 1e-4, 1, 0, 2, 1024},
    {"matrix.bf16", LMC_DTYPE_BF16, 0.02, 0.3, 1, 1, 4},
};

/* ---- numbers ---- */

/* xorshift64* (Vigna 2016), and the Box-Muller transform on it. */
double bench_uniform(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return ((double)(*state * UINT64_C(2685821657736338717) >> 11) + 0.5) / 9007199254740992.0;
}

double bench_gauss(uint64_t *state)
{
    const double u = bench_uniform(state), v = bench_uniform(state);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* The bits of a narrow float: sign, exponent with that bias, mantissa. Larger values become `largest`. */
static unsigned narrow_float(double value, int mantissa_nbits, int bias, unsigned largest, unsigned sign)
{
    int exponent;
    frexp(value, &exponent);
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1; /* below are subnormals */
    const unsigned scaled = (unsigned)lrint(ldexp(fabs(value), mantissa_nbits - exponent));
    const unsigned bits = scaled + ((unsigned)(exponent + bias - 1) << mantissa_nbits);
    return (bits < largest ? bits : largest) | (value < 0 ? sign : 0);
}

void bench_store_value(uint8_t *dst, lmc_dtype dtype, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == LMC_DTYPE_F32) {
        memcpy(dst, &bits, sizeof bits);
        return;
    }
    if (dtype == LMC_DTYPE_F8_E4M3) {
        *dst = (uint8_t)narrow_float(value, 3, 7, 0x7e, 0x80);
        return;
    }
    const uint16_t rounded = dtype == LMC_DTYPE_F16 ? (uint16_t)narrow_float(value, 10, 15, 0x7bff, 0x8000)
                                                    : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    memcpy(dst, &rounded, sizeof rounded);
}

/* ---- tensors ---- */

static int find_kind(const char *kind)
{
    int i = 0;
    while (i < BENCH_KIND_COUNT && strcmp(bench_kinds[i], kind) != 0)
        i++;
    return i;
}

static int reserve(bench_data *data, const char *name, lmc_dtype dtype, size_t nbytes)
{
    snprintf(data->name, sizeof data->name, "%s", name);
    data->dtype = dtype;
    data->row_nbytes = 0;
    data->element_nbytes = lmc_dtype_nbits(dtype) / 8;
    data->nbytes = nbytes / data->element_nbytes * data->element_nbytes;
    data->bytes = malloc(data->nbytes);
    return data->bytes ? 0 : -1;
}

/* Bytes before the content repeats. */
static size_t period_nbytes(const bench_data *data)
{
    const size_t nbytes = PERIOD_VALUES * data->element_nbytes;
    return nbytes < data->nbytes ? nbytes : data->nbytes;
}

static void repeat_period(bench_data *data)
{
    const size_t period = period_nbytes(data);
    for (size_t at = period; at < data->nbytes; at += period)
        memcpy(data->bytes + at, data->bytes, data->nbytes - at < period ? data->nbytes - at : period);
}

int bench_data_make(bench_data *data, const char *kind, size_t nbytes)
{
    const int k = find_kind(kind);
    uint64_t state = 88172645463325252u, row_state = 1234567;
    if (k == BENCH_KIND_COUNT || reserve(data, kinds[k].name, kinds[k].dtype, nbytes) != 0)
        return -1;
    const size_t count = period_nbytes(data) / data->element_nbytes;
    double scale = kinds[k].sigma, columns[ROW_VALUES];
    for (size_t i = 0; i < ROW_VALUES; i++)
        columns[i] = kinds[k].has_columns ? exp(kinds[k].row_sigma * bench_gauss(&row_state)) : 1;
    data->row_nbytes = kinds[k].row_sigma > 0 ? (uint32_t)(ROW_VALUES * data->element_nbytes) : 0;
    for (size_t i = 0; i < count; i++) {
        if (kinds[k].row_sigma > 0 && i % ROW_VALUES == 0)
            scale = kinds[k].sigma * exp(kinds[k].row_sigma * bench_gauss(&row_state));
        const double value = scale * columns[i % ROW_VALUES] * bench_gauss(&state);
        bench_store_value(data->bytes + i * data->element_nbytes, data->dtype,
                          (float)(kinds[k].power == 2 ? value * value : value));
    }
    repeat_period(data);
    return 0;
}

int bench_data_step(bench_data *data, const bench_data *base)
{
    uint64_t state = 362436069;
    unsigned step_max = 1;
    for (int k = 0; k < BENCH_KIND_COUNT; k++)
        step_max = kinds[k].dtype == base->dtype ? kinds[k].step_max : step_max;
    if (reserve(data, base->name, base->dtype, base->nbytes) != 0)
        return -1;
    memcpy(data->bytes, base->bytes, period_nbytes(data));
    for (size_t at = 0; at < period_nbytes(data); at += data->element_nbytes) {
        const double chance = bench_uniform(&state);
        uint32_t bits = 0;
        if (chance >= 0.3)
            continue;
        memcpy(&bits, data->bytes + at, data->element_nbytes);
        const uint32_t step = 1 + (uint32_t)(bench_uniform(&state) * step_max);
        bits = chance < 0.15 ? bits + step : bits - step;
        memcpy(data->bytes + at, &bits, data->element_nbytes);
    }
    repeat_period(data);
    return 0;
}
