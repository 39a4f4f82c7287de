/*
 * delta_lists.h - what both directions of a delta block begin with: the base is hashed, and made values of, strip
 * by strip while it is in the L1 cache; it gives the class of each element, and so a list of high parts for
 * each class.
 */
#ifndef LMC_CODEC_DELTA_DELTA_LISTS_H
#define LMC_CODEC_DELTA_DELTA_LISTS_H

#include "codec/delta/delta.h"
#include "codec/plain/plan_section.h"

/* Where the lists of high parts of a block begin and how long they are, and how far they have been written or read. */
typedef struct lmc_class_lists {
    size_t count[LMC_FMT_CLASS_COUNT_MAX];
    uint8_t *begin[LMC_FMT_CLASS_COUNT_MAX];
    lmc_high_lists high;
    lmc_class_order order;
} lmc_class_lists;

/* Lays the lists of a block of n elements out one behind the other, by their counts, each of bytes if high parts may fit. */
void lmc_lists_open(const lmc_delta_job *job, size_t n, lmc_class_lists *lists);

LMC_INLINE size_t lmc_delta_strip_nbytes(const lmc_delta_job *job)
{
    return LMC_STRIP_VALUES * (size_t)job->element_nbytes;
}

/* Hashes the next nbytes of values' bytes of the base, from byte `at` of the values on. Returns these values. */
const uint8_t *lmc_base_take(const lmc_delta_job *job, const uint8_t *base, size_t at, size_t nbytes);

/* All of the base: its hash is begun, and `from` bytes of values are done. Finds the class of each element, and
 * lists->count. Returns the values; the hash is left to be ended. */
const uint8_t *lmc_base_classify(const lmc_delta_job *job, const uint8_t *base, size_t nbytes, size_t from,
                                 lmc_class_lists *lists);

/* A class's high parts, of two bytes or of one where the list is of bytes, as elements: low bits, and the rest as
 * symbols. */
LMC_INLINE lmc_coding lmc_high_coding(const lmc_delta *delta, unsigned class, unsigned high_nbytes)
{
    return (lmc_coding){.element_nbytes = high_nbytes, .split = {.low_nbits = delta->class_low_nbits[class]}};
}

/* Can high parts that are not wide be cut as elements of one byte? With more low bits many are wide, too. */
LMC_INLINE int lmc_high_fits_byte(const lmc_delta *delta, unsigned class)
{
    return delta->class_low_nbits[class] <= LMC_FMT_LOW_NBITS_MAX_BYTE;
}

#endif
