/*
 * delta_exceptions.h - exceptions of a delta block (format.md "Delta blocks"): elements whose difference is too wide
 * for high part and lower bytes. Elements of 1 and 2 bytes have none.
 */
#ifndef LMC_CODEC_DELTA_DELTA_EXCEPTIONS_H
#define LMC_CODEC_DELTA_DELTA_EXCEPTIONS_H

#include "codec/common/diag.h"
#include "codec/delta/delta.h"

/* ---- encode ---- */

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

/* ---- decode ---- */

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
