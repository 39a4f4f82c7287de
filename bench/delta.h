/*
 * delta.h - what the parts of lmc-bench-delta share: two snapshots in memory, and ways to store the later one
 * given the earlier.
 */
#ifndef LMC_BENCH_DELTA_H
#define LMC_BENCH_DELTA_H

#include <stddef.h>
#include <stdint.h>

#include "lmc.h"

/* A piece of the content that is coded by itself: a tensor, or all tensors of one dtype. */
typedef struct delta_unit {
    size_t offset, nbytes; /* in one copy of the content, and of the base */
    lmc_dtype dtype;
    unsigned width; /* bytes of an element; 1 for those of less */
    int has_base;   /* 0: of this tensor the base is all zeros */
} delta_unit;

/* Two snapshots. Tensors of one dtype stand one behind the other. The whole is there `copies` times, so that a
 * pass over it leaves nothing in the caches for the next one. */
typedef struct delta_pair {
    char name[160];
    uint8_t *content, *base; /* malloc'ed, copies * nbytes */
    size_t nbytes, copies;
    delta_unit *tensors; /* malloc'ed */
    size_t tensor_count, without_base;
    delta_unit dtypes[LMC_DTYPE_COUNT]; /* without tensors that have no base */
    size_t dtype_count;
    uint64_t value_count, changed_count; /* of tensors that have a base */
} delta_pair;

/* Reads the tensors of `path`, and from `base_path` those of the same name, dtype and size; as many copies as
 * `nbytes` asks for. Returns 0, or -1 after a message on stderr. Free with delta_pair_free() in either case. */
int delta_pair_load(delta_pair *pair, const char *base_path, const char *path, size_t nbytes);

/* Makes a pair of one tensor: normal numbers and a small step further, as f32 or rounded to bf16. The step is
 * such that 0.1 % of the bf16 values change, and all f32 values. As delta_pair_load() else. */
int delta_pair_make(delta_pair *pair, lmc_dtype dtype, size_t nbytes);

void delta_pair_free(delta_pair *pair);

/* Scratch of the methods; every encoder finds room for what it wants to do to a unit. */
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
    int is_lmc;  /* units are tensors; else all tensors of a dtype at once, which costs a peer least */
    int is_slow; /* one copy, one round */
    int option;  /* of the method: a level */
    int is_xor;  /* lists of values: XOR with the base, not as they are */
    /* Returns the bytes written to dst, 0 if it fails. */
    size_t (*encode)(const struct delta_method *, delta_work *, const delta_unit *, const uint8_t *content,
                     const uint8_t *base, uint8_t *dst, size_t capacity);
    /* Writes unit->nbytes bytes to dst; returns 0, or -1. Peers decode what they wrote: nothing is hardened. */
    int (*decode)(const struct delta_method *, delta_work *, const delta_unit *, const uint8_t *src,
                  size_t src_nbytes, const uint8_t *base, uint8_t *dst);
} delta_method;

extern const delta_method delta_methods[];
extern const size_t delta_method_count;

/* Capacity that is enough for every method and a unit. */
size_t delta_capacity(const delta_unit *unit);
size_t delta_scratch_nbytes(const delta_unit *unit);

/* The methods that are no library's: see the file of each. */
size_t delta_huffman_encode(const uint8_t *src, size_t nbytes, uint8_t *dst);
void delta_huffman_decode(const uint8_t *src, uint8_t *dst, size_t nbytes);
size_t delta_index_encode(const delta_method *, delta_work *, const delta_unit *, const uint8_t *content,
                          const uint8_t *base, uint8_t *dst, size_t capacity);
int delta_index_decode(const delta_method *, delta_work *, const delta_unit *, const uint8_t *src,
                       size_t src_nbytes, const uint8_t *base, uint8_t *dst);
size_t delta_gaps_encode(const delta_method *, delta_work *, const delta_unit *, const uint8_t *content,
                         const uint8_t *base, uint8_t *dst, size_t capacity);
int delta_gaps_decode(const delta_method *, delta_work *, const delta_unit *, const uint8_t *src,
                      size_t src_nbytes, const uint8_t *base, uint8_t *dst);

#endif
