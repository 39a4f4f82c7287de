/*
 * delta.h - what the parts of lmc-bench-delta share: two snapshots in memory, and ways to store the later one
 * given the earlier.
 */
#ifndef LMC_BENCH_DELTA_DELTA_H
#define LMC_BENCH_DELTA_DELTA_H

#include <stddef.h>
#include <stdint.h>

#include "lmc.h"

/* A piece of the content that a method codes in one call: a tensor, or all tensors of one dtype. */
typedef struct delta_unit {
    size_t offset, nbytes; /* in one copy of the content, and of the base */
    lmc_dtype dtype;
    unsigned width; /* bytes of an element; 1 for dtypes of less than 8 bits */
    int has_base;   /* 0: the base of this tensor is all zeros */
} delta_unit;

/* Two snapshots. Tensors of one dtype stand one behind the other. Memory holds all of it `copies` times, more than
 * the caches do. */
typedef struct delta_pair {
    char name[160];
    uint8_t *content, *base; /* malloc'ed, copies * nbytes */
    size_t nbytes, copies;
    delta_unit *tensors; /* malloc'ed */
    size_t tensor_count, without_base;
    delta_unit dtypes[LMC_DTYPE_COUNT]; /* all tensors of a dtype as one unit */
    size_t dtype_count;
    uint64_t value_count, changed_count; /* of tensors that have a base */
} delta_pair;

/* Reads the tensors of `path`, and their bases: tensors of `base_path` with the same name, dtype and size. Makes so
 * many copies that there are `nbytes`. Returns 0, or -1 after a message on stderr. The caller calls
 * delta_pair_free() in either case. */
int delta_pair_load(delta_pair *pair, const char *base_path, const char *path, size_t nbytes);

/* Makes a pair of one synthetic tensor, f32 or bf16: normal numbers before and after a small step. The step changes
 * about the given share of the values. Else as delta_pair_load(). */
int delta_pair_make(delta_pair *pair, lmc_dtype dtype, double changed_share, size_t nbytes);

void delta_pair_free(delta_pair *pair);

/* Memory and contexts of the methods. */
typedef struct delta_work {
    lmc_ctx *lmc;
    struct ZSTD_CCtx_s *zstd_out;
    struct ZSTD_DCtx_s *zstd_in;
    uint8_t *scratch; /* delta_scratch_nbytes(the largest unit) */
    size_t scratch_nbytes;
} delta_work;

/* A way to store a unit of content, given its base. */
typedef struct delta_method {
    const char *name;
    int is_lmc; /* codes tensors; peers code all tensors of a dtype at once, which gives them the best ratio */
    int is_slow; /* one copy, one round */
    int option;  /* a level */
    int is_xor;  /* lists hold the XOR with the base, not the values */
    unsigned thread_count;
    /* Returns the bytes written to dst, 0 if it fails. */
    size_t (*encode)(const struct delta_method *, delta_work *, const delta_unit *, const uint8_t *content,
                     const uint8_t *base, uint8_t *dst, size_t capacity);
    /* Writes unit->nbytes bytes to dst. Returns 0, or -1. Peers trust src: it is what they encoded. */
    int (*decode)(const struct delta_method *, delta_work *, const delta_unit *, const uint8_t *src,
                  size_t src_nbytes, const uint8_t *base, uint8_t *dst);
} delta_method;

extern const delta_method delta_methods[];
extern const size_t delta_method_count;

/* Bytes that every method needs for the stored form of a unit, and for scratch. */
size_t delta_capacity(const delta_unit *unit);
size_t delta_scratch_nbytes(const delta_unit *unit);

/* Lists of changed values (lists.c), as encode and decode of a delta_method. */
size_t delta_index_encode(const delta_method *, delta_work *, const delta_unit *, const uint8_t *content,
                          const uint8_t *base, uint8_t *dst, size_t capacity);
int delta_index_decode(const delta_method *, delta_work *, const delta_unit *, const uint8_t *src,
                       size_t src_nbytes, const uint8_t *base, uint8_t *dst);
size_t delta_gaps_encode(const delta_method *, delta_work *, const delta_unit *, const uint8_t *content,
                         const uint8_t *base, uint8_t *dst, size_t capacity);
int delta_gaps_decode(const delta_method *, delta_work *, const delta_unit *, const uint8_t *src,
                      size_t src_nbytes, const uint8_t *base, uint8_t *dst);

#endif
