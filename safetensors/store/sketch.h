/*
 * sketch.h - sketches of tensors: the elements at fixed places, at most 256 bytes. Two sketches of one kind are pairs
 * of elements from the same places, so they predict the size of a delta without a look at the tensors.
 */
#ifndef LMC_SAFETENSORS_STORE_SKETCH_H
#define LMC_SAFETENSORS_STORE_SKETCH_H

#include "safetensors/archive/links.h"
#include "safetensors/common/st_common.h"

#define ST_SKETCH_PLACE_COUNT 32

/* A run of neighbouring elements that is read at each place. */
#define ST_SKETCH_RUN_NBYTES 8

/* A head sketch has its places in at most so many of the first bytes. */
#define ST_SKETCH_HEAD_NBYTES_MAX ((uint64_t)256 << 10)

/* First the first element of each place: the coarse part. Then the second of each, and so on. A tensor that is no
 * larger than a sketch is there as it is, and zeros follow. A head sketch has a coarse part only, and zeros. */
typedef struct st_sketch {
    _Alignas(8) unsigned char bytes[ST_SKETCH_PLACE_COUNT * ST_SKETCH_RUN_NBYTES];
} st_sketch;

/* Bytes of an element: 1, 2, 4 or 8. Packed elements count as bytes, and complex ones as two. */
unsigned st_sketch_element_nbytes(unsigned dtype);

/* Bytes of the coarse part. */
static inline size_t st_sketch_coarse_nbytes(unsigned dtype)
{
    return ST_SKETCH_PLACE_COUNT * (size_t)st_sketch_element_nbytes(dtype);
}

/* ---- where the elements are ---- */

/* Writes the offsets of the runs of a tensor to `offsets`, which has ST_SKETCH_PLACE_COUNT, in ascending order. They
 * depend only on the number of elements, apart from the element's bytes that they are multiplied with. Returns how many
 * there are, 0 if the tensor is no larger than a sketch. */
size_t st_sketch_places(unsigned dtype, uint64_t nbytes, uint64_t *offsets);

/* The first bytes that a head sketch looks at: a power of two, or 0 if the tensor is too small to have one. */
uint64_t st_sketch_head_nbytes(uint64_t nbytes);

/* Pairs that two sketches of tensors of this kind make. form: that of the base. */
unsigned st_sketch_pair_count(unsigned dtype, uint64_t nbytes, lmc_base_form form, int is_head);

/* ---- making one ---- */

typedef lmc_status (*st_sketch_read_fn)(void *user, uint64_t offset, void *dst, size_t nbytes);

/* Reads a tensor of nbytes bytes at its places. Error: what `read` returned. */
lmc_status st_sketch_make(unsigned dtype, uint64_t nbytes, st_sketch_read_fn read, void *user,
                          st_sketch *sketch);

/* The head sketch. Precondition: st_sketch_head_nbytes(nbytes) > 0. Error: what `read` returned. */
lmc_status st_sketch_make_head(unsigned dtype, uint64_t nbytes, st_sketch_read_fn read, void *user,
                               st_sketch *sketch);

/* 1 if the sketch of a base of nbytes bytes gives that of the tensor that is rounded so. form: not LMC_BASE_PLAIN. */
int st_sketch_can_round(lmc_base_form form, uint64_t nbytes);

/* That sketch. Of what is rounded from wider elements, the second half is not known and zero. */
void st_sketch_round(lmc_base_form form, const st_sketch *base, st_sketch *rounded);

/* The rounding by which a tensor of dtype `base_dtype` may be the base of another; LMC_BASE_PLAIN: there is none. */
lmc_base_form st_sketch_form(unsigned dtype, unsigned base_dtype);

/* ---- comparing two ---- */

/* Coarse distances of one sketch to `count` coarse parts that are stride_nbytes apart: the bits that it takes to say
 * how the elements differ. */
void st_sketch_distances(unsigned dtype, const st_sketch *one, const unsigned char *rows,
                         size_t stride_nbytes, size_t count, uint32_t *distances);

/* Distance between a sketch and itself, where each element meets that of another place. What is not much nearer has
 * nothing to do with the tensor. */
uint32_t st_sketch_spread(unsigned dtype, const st_sketch *one);

/* Bits that an element of the tensor takes: as a delta, predicted from pair_count pairs, and without a base. Never
 * below 0.01. */
double st_sketch_delta_nbits(unsigned dtype, const st_sketch *base, const st_sketch *one,
                             unsigned pair_count);
double st_sketch_plain_nbits(unsigned dtype, const st_sketch *one, unsigned count);

#endif
