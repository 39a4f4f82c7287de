/*
 * delta_lists.h - the first step of coding a delta block in both directions. The base is hashed and becomes values,
 * strip by strip while it is in the L1 cache. The values give the class of each element, and each class has a list of
 * high parts.
 */
#ifndef LMC_CODEC_DELTA_DELTA_LISTS_H
#define LMC_CODEC_DELTA_DELTA_LISTS_H

#include "codec/delta/delta.h"
#include "codec/plain/escape.h"

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
 * caller ends it. Finds the class of each element, and lists->count. Returns the values. */
const uint8_t *lmc_base_classify(const lmc_delta_job *job, const uint8_t *base, size_t nbytes, size_t from,
                                 lmc_class_lists *lists);

/* ---- the high parts of one class (format.md "High parts of a class") ---- */

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

/* The high parts of a class as elements of 2 bytes, or of 1 byte in a list of bytes: low bits, and symbols above
 * them. */
LMC_INLINE lmc_element_cut lmc_high_cut(const lmc_delta *delta, unsigned class, unsigned high_nbytes)
{
    return (lmc_element_cut){.element_nbytes = high_nbytes,
                             .split = {.low_nbits = delta->class_low_nbits[class]}};
}

/* Can high parts that are not wide be cut as elements of one byte? With more low bits many are wide, too. */
LMC_INLINE int lmc_high_fits_byte(const lmc_delta *delta, unsigned class)
{
    return delta->class_low_nbits[class] <= LMC_FMT_LOW_NBITS_MAX_BYTE;
}

#endif
