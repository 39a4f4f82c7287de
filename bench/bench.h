/*
 * bench.h - what the parts of the benchmark share: a data set, how it is cut and passed over, the measured rows.
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

/* Made-up contents, by the names that --dtype takes. Weights are of a normal distribution, sigma 0.02, in fp8
 * scaled to its range; Adam's moments have a scale for each row of 1024, and the second are squares. */
extern const char *const bench_kinds[]; /* NULL behind the last */
#define BENCH_KIND_COUNT 6

/* Fills *data with `nbytes` of a kind; the first 16 Mi values repeat themselves behind. Returns 0, or -1. */
int bench_data_make(bench_data *data, const char *kind, size_t nbytes);

/* A later snapshot: 30 % of the values are a few steps away, up to 4 of BF16 and F16, 1 of F8 and 1024 of F32.
 * Returns 0, or -1. */
int bench_data_step(bench_data *data, const bench_data *base);

/* Fills *data with the tensors of a safetensors file that have its commonest dtype, one after another, repeated
 * to at least `nbytes`. Returns 0, or -1 after a message on stderr. */
int bench_data_load(bench_data *data, const char *path, size_t nbytes);

/* The next of a series of numbers, equally spread in 0..1, and normal with sigma 1; *state is not 0. */
double bench_uniform(uint64_t *state);
double bench_gauss(uint64_t *state);

/* Writes a number as F32, or rounded to BF16, F16 or F8_E4M3. */
void bench_store_value(uint8_t *dst, lmc_dtype dtype, float value);

/* Seconds on a clock that only runs forward, and seconds that this process had a core. */
double bench_now(void);
double bench_cpu_now(void);

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

/* How a tensor, or a change of it, is coded and decoded as a whole. Speeds are GiB/s of content, fastest of several
 * passes; 0: not measured. */
typedef struct bench_row {
    const char *codec, *kernels; /* kernels "-": a peer */
    size_t tensor_nbytes;        /* slow peers get the first part of the data */
    size_t pass_nbytes;
    int is_cached;
    double ratio; /* stored / original */
    double encode, decode;
    double encode_bare, decode_bare; /* without checksums */
    double copy;                     /* memcpy of the same bytes in the same passes */
} bench_row;

/* How a part of a tensor is read from a frame in memory. Microseconds a range, least of several passes; [1]: without
 * checksums. */
typedef struct bench_range_row {
    const char *codec, *kernels;
    size_t tensor_nbytes, range_nbytes;
    double range_us[2];  /* lmc_decode_range() */
    double blocks_us[2]; /* lmc_decode_block() of an open frame, for every block that the range touches */
    double open_us[2];   /* lmc_frame_open() */
    double copy_us;      /* memcpy of ranges of the content, at the same places */
} bench_range_row;

/* "lmc fast" etc. */
const char *bench_codec_name(lmc_level level);

/* Measures LMC at a level with a kernel set, against `base` (as data) unless it is NULL. Returns 0, 1 if this CPU
 * lacks the set, -1 if the round trip fails. */
int bench_lmc(const bench_data *data, const bench_data *base, lmc_level level, const char *set,
              const bench_shape *shape, bench_row *row);

/* One direction of that again and again, for profilers: the passes of `shape`, after one pass of each that is needed.
 * Sets the GiB of content, and the seconds and CPU seconds that the passes took. Returns as bench_lmc(). */
int bench_lmc_loop(const bench_data *data, const bench_data *base, lmc_level level, const char *set,
                   const bench_shape *shape, int is_decode, int is_bare, double *gib, double *seconds,
                   double *cpu_seconds);

/* Measures random ranges of 64 KiB (or of the tensor, if it is smaller). Returns as bench_lmc(). */
int bench_range(const bench_data *data, lmc_level level, const char *set, size_t tensor_nbytes,
                unsigned repeats, bench_range_row *row);

/* Measures the peers on the first `limit` bytes; rows has room for BENCH_PEER_COUNT. Returns 0, or -1. */
#define BENCH_PEER_COUNT 4
int bench_peers(const bench_data *data, size_t limit, unsigned repeats, bench_row *rows);

/* The higher of `best` and nbytes / seconds in GiB/s. */
double bench_faster(double best, double nbytes, double seconds);

/* ---- report: a table on stdout, and JSON ---- */

typedef struct bench_report bench_report;

/* json_path may be NULL. Returns NULL if it cannot be written. */
bench_report *bench_report_open(const char *json_path, unsigned repeats, int argc, char **argv);
void bench_report_row(bench_report *report, const bench_data *data, const bench_row *row, int is_delta);
void bench_report_range(bench_report *report, const bench_data *data, const bench_range_row *row);
/* Frees the report. Returns 0, or -1 if JSON could not be written. */
int bench_report_close(bench_report *report);

#endif
