/*
 * bench.h - what the parts of the benchmark share: a data set, a measured row, and the best of several runs.
 */
#ifndef LMC_BENCH_H
#define LMC_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "lmc.h"

/* Bytes to be coded, all of one element type. */
typedef struct bench_data {
    char name[64];
    lmc_dtype dtype;
    unsigned element_nbytes;
    uint8_t *bytes; /* malloc'ed */
    size_t nbytes;
} bench_data;

/* One line of the report. Speeds count content bytes; memcpy is of the same bytes in the same process. */
typedef struct bench_row {
    char codec[32];
    char kernels[16];            /* "-" for peers */
    size_t nbytes;               /* of content: slow peers get the first part of the data */
    double ratio;                /* stored / original */
    double encode, decode, copy; /* GiB/s, fastest of several runs; 0: not timed */
} bench_row;

/* Fills *data with `nbytes` of bf16 or f32 numbers of a normal distribution, sigma 0.02. Returns 0, or -1. */
int bench_data_gauss(bench_data *data, lmc_dtype dtype, size_t nbytes);

/* Fills *data with the tensors of a safetensors file that have its commonest dtype, one after another, repeated
 * to at least `nbytes`. Returns 0, or -1 after a message on stderr. */
int bench_data_load(bench_data *data, const char *path, size_t nbytes);

/* Measures LMC at a level with the kernel set in use. Returns 0, or -1 if the round trip fails. */
int bench_lmc(const bench_data *data, lmc_level level, unsigned repeats, bench_row *row);

/* Measures the peers on the first `limit` bytes; rows has room for BENCH_PEER_COUNT. Returns 0, or -1. */
#define BENCH_PEER_COUNT 4
int bench_peers(const bench_data *data, size_t limit, unsigned repeats, bench_row *rows);

/* The next of a series of normal numbers, sigma 1; *state is not 0. */
double bench_gauss(uint64_t *state);

/* Writes a number as F32, or rounded to BF16. */
void bench_store_value(uint8_t *dst, lmc_dtype dtype, float value);

/* Seconds on a clock that only runs forward. */
double bench_now(void);

/* GiB/s of copying the data to dst once. */
double bench_copy(const bench_data *data, size_t nbytes, uint8_t *dst);

#endif
