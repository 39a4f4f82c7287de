/*
 * bench.h - what the programs of bench/ share: clocks, data sets, a Huffman coder; and for lmc-bench the shape of a
 * pass, the measured rows, and the report.
 */
#ifndef LMC_BENCH_CODEC_BENCH_H
#define LMC_BENCH_CODEC_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "lmc.h"

#define BENCH_KIB ((size_t)1 << 10)
#define BENCH_MIB ((size_t)1 << 20)
#define BENCH_GIB ((size_t)1 << 30)

/* ---- clocks (clock.c) ---- */

/* Seconds on a clock that only runs forward, and seconds that this process had a core. */
double bench_now(void);
double bench_cpu_now(void);

/* ---- data (data.c, synth.c) ---- */

/* Bytes to be coded, all of one element type. */
typedef struct bench_data {
    char name[64];
    lmc_dtype dtype;
    unsigned element_nbytes;
    uint8_t *bytes; /* malloc'ed */
    size_t nbytes;
    uint32_t row_nbytes; /* as in lmc_params */
} bench_data;

/* Kinds of synthetic data, by the names that --dtype takes. Weights have a normal distribution with sigma 0.02;
 * those of fp8 are scaled to its range. Those of `matrix` have a scale for each row of 1024 and for each column. Adam's
 * moments have a scale for each row; second moments are squares. */
extern const char *const bench_kinds[]; /* NULL after the last */
#define BENCH_KIND_COUNT 7

/* Fills *data with `nbytes` of a kind. After 16 Mi values the values repeat. Returns 0, or -1. */
int bench_data_make(bench_data *data, const char *kind, size_t nbytes);

/* Fills *data with a later snapshot of *base. 30 % of the values move by a few units in the last place: up to 4 for
 * BF16 and F16, 1 for F8, 1024 for F32. Returns 0, or -1. */
int bench_data_step(bench_data *data, const bench_data *base);

/* Fills *data with the tensors of a safetensors file that have the file's commonest dtype, one after another. The
 * tensors repeat until there are `nbytes` at least. Returns 0, or -1 after a message on stderr. */
int bench_data_load(bench_data *data, const char *path, size_t nbytes);

/* The next random number of a series: uniform in 0..1, and normal with sigma 1. *state is not 0. */
double bench_uniform(uint64_t *state);
double bench_gauss(uint64_t *state);

/* Writes a number as F32, or rounded to BF16, F16 or F8_E4M3. */
void bench_store_value(uint8_t *dst, lmc_dtype dtype, float value);

/* ---- a Huffman coder of bytes (huffman.c) ---- */

/* Writes at most nbytes + nbytes / 64 + 1024 bytes, and returns how many. */
size_t bench_huffman_encode(const uint8_t *src, size_t nbytes, uint8_t *dst);

/* Decodes nbytes of content. Trusts src, and reads up to 8 bytes beyond its end. */
void bench_huffman_decode(const uint8_t *src, uint8_t *dst, size_t nbytes);

/* ---- kernel sets (select.c) ---- */

/* Makes the library of this program use the kernel set of that name from here on. Bare: hash functions return a
 * constant and read nothing, which shows the cost of checksums. Frames made bare are decoded bare. Returns 0, or -1
 * if this CPU lacks the set. */
int bench_use_set(const char *name, int is_bare);

/* ---- measuring (tensor.c, range.c, peers.c) ---- */

/* The shape of a pass: `tensor_count` tensors stand one behind the other, and a pass codes each `rounds` times. A
 * cold pass takes many tensors, or a large one, once; a cached pass takes one tensor again and again. */
typedef struct bench_shape {
    size_t tensor_nbytes, tensor_count;
    unsigned rounds;
    unsigned repeats; /* passes, of which the fastest counts */
} bench_shape;

/* Coding and decoding of whole tensors, with or without a base. Speeds are GiB/s of content, of the fastest pass;
 * 0: not measured. */
typedef struct bench_row {
    const char *codec, *kernels; /* kernels "-": a peer */
    size_t tensor_nbytes;        /* peers get the first part of the data */
    size_t pass_nbytes;
    int is_cached;
    double ratio; /* stored / original */
    double encode, decode;
    double encode_bare, decode_bare; /* without checksums */
    double copy;                     /* memcpy of the same bytes in the same passes */
} bench_row;

/* Reading of a part of a tensor from a frame in memory. Microseconds a range, of the fastest pass; [1]: without
 * checksums. */
typedef struct bench_range_row {
    const char *codec, *kernels;
    size_t tensor_nbytes, range_nbytes;
    double range_us[2];  /* lmc_decode_range() */
    double blocks_us[2]; /* lmc_decode_block() of an open frame, for every block that the range touches */
    double open_us[2];   /* lmc_frame_create() */
    double copy_us;      /* memcpy of ranges of the content, at the same places */
} bench_range_row;

/* "lmc fast" etc. */
const char *bench_codec_name(lmc_level level);

/* Measures LMC at a level with a kernel set, against `base` (as data) unless it is NULL. Returns 0, 1 if this CPU
 * lacks the set, -1 if the round trip fails. */
int bench_lmc(const bench_data *data, const bench_data *base, lmc_level level, const char *set,
              const bench_shape *shape, bench_row *row);

/* Repeats one direction, for profilers: the passes of `shape`, after one pass of each direction that is needed. Sets
 * the GiB of content, and the seconds and CPU seconds of the passes. Returns as bench_lmc(). */
int bench_lmc_loop(const bench_data *data, const bench_data *base, lmc_level level, const char *set,
                   const bench_shape *shape, int is_decode, int is_bare, double *gib, double *seconds,
                   double *cpu_seconds);

/* Measures random ranges of 64 KiB (or of the tensor, if it is smaller). Returns as bench_lmc(). */
int bench_range(const bench_data *data, lmc_level level, const char *set, size_t tensor_nbytes,
                unsigned repeats, bench_range_row *row);

/* Measures the peers on the first `limit` bytes; rows has room for BENCH_PEER_COUNT. Returns 0, or -1. */
#define BENCH_PEER_COUNT 5
int bench_peers(const bench_data *data, size_t limit, unsigned repeats, bench_row *rows);

/* The higher one of `best` and of nbytes / seconds in GiB/s. */
double bench_faster(double best, double nbytes, double seconds);

/* ---- report: a table on stdout, and JSON (report.c) ---- */

typedef struct bench_report bench_report;

/* json_path may be NULL. Returns NULL if it cannot be written. */
bench_report *bench_report_open(const char *json_path, unsigned repeats, int argc, char **argv);
void bench_report_row(bench_report *report, const bench_data *data, const bench_row *row, int is_delta);
void bench_report_range(bench_report *report, const bench_data *data, const bench_range_row *row);
/* Frees the report. Returns 0, or -1 if JSON could not be written. */
int bench_report_close(bench_report *report);

#endif
