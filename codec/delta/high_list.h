/*
 * high_list.h - the high parts of one class: format.md "High parts of a class".
 */
#ifndef LMC_CODEC_DELTA_HIGH_LIST_H
#define LMC_CODEC_DELTA_HIGH_LIST_H

#include "codec/delta/delta.h"
#include "codec/plain/escape.h"

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
