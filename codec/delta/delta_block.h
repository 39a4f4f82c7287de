/*
 * delta_block.h - what all forms of a delta block share, in both directions: the base (format.md "Base"), whose bytes
 * become values like the content's; the class of each element; a list of high parts for each class (format.md "High
 * parts of a class"); and exceptions (format.md "Delta blocks"), the elements whose difference is too wide for high
 * part and lower bytes.
 */
#ifndef LMC_CODEC_DELTA_DELTA_BLOCK_H
#define LMC_CODEC_DELTA_DELTA_BLOCK_H

#include "codec/bitset/buckets.h"
#include "codec/common/input.h"
#include "codec/delta/rounding.h"
#include "codec/plain/plane.h"

/* Everything that coding a delta block takes. scratch serves blocks of this size, with deltas. */
typedef struct lmc_delta_job {
    const lmc_kernels *kernels;
    const lmc_delta *delta;
    const lmc_bucket_code *bucket_code;
    lmc_scratch *scratch;
    unsigned element_nbytes;
    lmc_base_form base_form;
    uint8_t *base_values; /* unless LMC_BASE_PLAIN: room for the values of the base, as long as the content */
    int past_cache;       /* decode: dst is part of an output too large for the caches */
    lmc_changes *changes; /* decode, not NULL: they are listed, and dst is not written */
} lmc_delta_job;

/* ---- the base ---- */

/* The base must be as long as the content asks for. This is checked before a byte of the base is read. Error: BASE. */
LMC_NODISCARD lmc_status lmc_base_check_nbytes(lmc_base_form form, uint64_t content_nbytes,
                                               size_t base_nbytes, lmc_diag *diag);

/* As lmc_base_check_nbytes(); also, the base must not lie where dst_nbytes bytes may be written. Errors: BASE, ARG. */
LMC_NODISCARD lmc_status lmc_base_check(lmc_base_form form, uint64_t content_nbytes, const uint8_t *base,
                                        size_t base_nbytes, const uint8_t *dst, size_t dst_nbytes,
                                        lmc_diag *diag);

/* The values of the part of the base that belongs to a block: content_nbytes bytes. With LMC_BASE_PLAIN they are the
 * bytes themselves. Other forms write them to `room`, of content_nbytes bytes. */
const uint8_t *lmc_base_values(lmc_base_form form, const uint8_t *base, size_t content_nbytes, uint8_t *room);

/* ---- classes: the base is hashed and becomes values, strip by strip while it is in the L1 cache ---- */

/* Where each list of high parts begins, how long it is, and how far it was written or read. */
typedef struct lmc_class_lists {
    size_t count[LMC_FMT_CLASS_COUNT_MAX];
    uint8_t *begin[LMC_FMT_CLASS_COUNT_MAX];
    lmc_high_lists high;
    lmc_class_order order;
} lmc_class_lists;

/* Lays out the lists of a block of n elements one behind the other, by their counts. A list has one byte a high part
 * if high parts may fit one. */
void lmc_lists_open(const lmc_delta_job *job, size_t n, lmc_class_lists *lists);

LMC_INLINE size_t lmc_delta_strip_nbytes(const lmc_delta_job *job)
{
    return LMC_STRIP_VALUES * (size_t)job->element_nbytes;
}

/* Hashes the part of the base that gives nbytes of values from byte `at` of the values on. Returns these values. */
const uint8_t *lmc_base_take(const lmc_delta_job *job, const uint8_t *base, size_t at, size_t nbytes);

/* Goes through all of the base, nbytes of values. Its hash was begun, and covers `from` bytes of values already; the
 * caller ends it. Finds the class of each element, the class_ends of each strip, and lists->count. Returns the
 * values. */
const uint8_t *lmc_base_classify(const lmc_delta_job *job, const uint8_t *base, size_t nbytes, size_t from,
                                 lmc_class_lists *lists);

/* ---- what becomes of the content when it is decoded ---- */

/* Where n elements from number `first` of the block on are to be made: in dst, or in scratch that lmc_strip_deliver()
 * empties. */
LMC_INLINE uint8_t *lmc_strip_place(const lmc_delta_job *job, uint8_t *dst, size_t first)
{
    return job->past_cache || job->changes ? job->scratch->strip_values : dst + first * job->element_nbytes;
}

/* Brings them to dst, or lists those that differ from `values`, the base's. changed: a bit for each element, set if it
 * does; NULL: not known. */
void lmc_strip_deliver(const lmc_delta_job *job, const uint8_t *strip, const uint8_t *values, size_t first,
                       size_t n, const uint64_t *changed, uint8_t *dst);

/* ---- high parts of one class ---- */

/* A list of n >= 1 high parts. It may have bytes where no high part is wide: then `wide` is NULL. */
typedef struct lmc_high_list {
    uint8_t *bytes;
    uint16_t *wide; /* loses its sign changes when it is written */
    size_t n;
} lmc_high_list;

/* Writes the list of a class. Returns 0 when there is no room. */
int lmc_high_list_write(const lmc_delta_job *job, unsigned class, const lmc_high_list *list,
                        lmc_writer *writer);

/* Reads list->n high parts to `bytes`, which has room for two bytes each and LMC_HIGH_SLACK elements. list->wide is set
 * if they have two; without may_have_bytes they always have. Errors: CORRUPT, UNSUPPORTED. */
LMC_NODISCARD lmc_status lmc_high_list_read(const lmc_delta_job *job, lmc_source *source, unsigned class,
                                            int may_have_bytes, lmc_high_list *list, lmc_diag *diag);

/* ---- exceptions; elements of 1 and 2 bytes have none ---- */

/* Places of the exceptions, rising; `places` has room for each element of the block. */
typedef struct lmc_exception_writer {
    uint32_t *places;
    size_t count;
} lmc_exception_writer;

/* Finds the exceptions among n elements of the block at src, from number `first` on, and makes their high parts 0. */
void lmc_exceptions_find(const lmc_delta_job *job, const uint8_t *src, const uint8_t *base, size_t first,
                         size_t n, uint16_t *high, lmc_exception_writer *exceptions);

/* Writes number, places and values of the exceptions of a block of n elements at src. Returns 0 when there is no
 * room. */
int lmc_exceptions_write(const lmc_delta_job *job, const uint8_t *src, size_t n,
                         const lmc_exception_writer *exceptions, lmc_writer *writer);

/* The exceptions that were not applied yet. */
typedef struct lmc_exception_reader {
    const uint8_t *places, *values;
    size_t count;
    uint64_t least; /* least place that the next one may have */
    unsigned place_nbytes;
} lmc_exception_reader;

/* Reads the exceptions of a block of n elements. Error: CORRUPT. */
LMC_NODISCARD lmc_status lmc_exceptions_read(const lmc_delta_job *job, lmc_reader *reader, size_t n,
                                             lmc_exception_reader *exceptions, lmc_diag *diag);

/* Puts the exceptions below element `end` in their places; strip holds the elements from `first` on. Error: CORRUPT. */
LMC_NODISCARD lmc_status lmc_exceptions_apply(const lmc_delta_job *job, lmc_exception_reader *exceptions,
                                              size_t first, size_t end, uint8_t *strip, lmc_diag *diag);

/* Error, CORRUPT: some exceptions were not applied in the whole block. */
LMC_NODISCARD lmc_status lmc_exceptions_end(const lmc_exception_reader *exceptions, lmc_diag *diag);

#endif
