/*
 * bench.h - what the parts of the benchmark share: a data set, how it is cut and passed over, a measured row.
 */
#ifndef LMC_BENCH_H
#define LMC_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "lmc.h"

#define BENCH_KIB ((size_t)1 << 10)
#define BENCH_MIB ((size_t)1 << 20)
#define BENCH_GIB ((size_t)1 << 30)

/* ---- data ---- */

/* Bytes to be coded, all of one element type. */
typedef struct bench_data {
    char name[64];
    lmc_dtype dtype;
    unsigned element_nbytes;
    uint8_t *bytes; /* malloc'ed */
    size_t nbytes;
} bench_data;

/* Fills *data with `nbytes` of bf16 or f32 numbers of a normal distribution, sigma 0.02. Returns 0, or -1. */
int bench_data_gauss(bench_data *data, lmc_dtype dtype, size_t nbytes);

/* Fills *data with the tensors of a safetensors file that have its commonest dtype, one after another, repeated
 * to at least `nbytes`. Returns 0, or -1 after a message on stderr. */
int bench_data_load(bench_data *data, const char *path, size_t nbytes);

/* The next of a series of normal numbers, sigma 1; *state is not 0. */
double bench_gauss(uint64_t *state);

/* Writes a number as F32, or rounded to BF16. */
void bench_store_value(uint8_t *dst, lmc_dtype dtype, float value);

/* Seconds on a clock that only runs forward. */
double bench_now(void);

/* ---- kernel sets ---- */

/* From here on the library of this program works with the set of that name; bare: with one whose hash functions
 * return a constant and look at nothing, so that what checksums cost can be told. Frames made bare are decoded
 * bare. Returns 0, or -1 if this CPU lacks the set. */
int bench_use_set(const char *name, int is_bare);

/* ---- measuring ---- */

/* How data is passed over: tensors of tensor_nbytes stand one behind the other, `tensor_count` of them; a pass
 * takes each of them `rounds` times. Cold: many tensors, or a large one, once; cached: one, again and again. */
typedef struct bench_shape {
    size_t tensor_nbytes, tensor_count;
    unsigned rounds;
    unsigned repeats; /* passes, of which the fastest counts */
} bench_shape;

/* One line of the report. Speeds are GiB/s of content, fastest of several passes; 0: not measured. */
typedef struct bench_row {
    char codec[32];
    char kernels[16];     /* "-" for peers */
    size_t tensor_nbytes; /* of content: slow peers get the first part of the data */
    size_t pass_nbytes;
    double ratio; /* stored / original */
    double encode, decode;
    double encode_bare, decode_bare; /* without checksums */
    double copy;                     /* memcpy of the same bytes in the same passes */
} bench_row;

/* Measures LMC at a level with a kernel set, against `base` (as data) unless it is NULL. Returns 0, 1 if this CPU
 * lacks the set, -1 if the round trip fails. */
int bench_lmc(const bench_data *data, const bench_data *base, lmc_level level, const char *set,
              const bench_shape *shape, bench_row *row);

/* Measures the peers on the first `limit` bytes; rows has room for BENCH_PEER_COUNT. Returns 0, or -1. */
#define BENCH_PEER_COUNT 4
int bench_peers(const bench_data *data, size_t limit, unsigned repeats, bench_row *rows);

/* The higher of `best` and nbytes / seconds in GiB/s. */
double bench_faster(double best, double nbytes, double seconds);

#endif
