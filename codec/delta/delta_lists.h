/*
 * delta_lists.h - the first step of coding a delta block in both directions. The base is hashed and becomes values,
 * strip by strip while it is in the L1 cache. The values give the class of each element, and each class has a list of
 * high parts.
 */
#ifndef LMC_CODEC_DELTA_DELTA_LISTS_H
#define LMC_CODEC_DELTA_DELTA_LISTS_H

#include "codec/delta/delta.h"

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

#endif
