/*
 * diag.h - how a stage reports a fault: a status, an offset and one line of text.
 */
#ifndef LMC_CODEC_COMMON_DIAG_H
#define LMC_CODEC_COMMON_DIAG_H

#include "common/compiler.h"
#include "common/try.h"

/* Fills *diag, unless it is NULL, and returns status. offset: in the input of the public call, as far as the stage
 * knows it. A caller that knows more adds its own part with lmc_diag_shift(). */
lmc_status lmc_fail(lmc_diag *diag, lmc_status status, uint64_t offset, const char *format, ...)
    LMC_PRINTF(4, 5);

/* As lmc_fail() with LMC_ERR_CORRUPT. */
lmc_status lmc_corrupt(lmc_diag *diag, uint64_t offset, const char *format, ...) LMC_PRINTF(3, 4);

/* Forwards a status. The offset of a failure counts from `start`. */
LMC_INLINE lmc_status lmc_diag_shift(lmc_diag *diag, lmc_status status, uint64_t start)
{
    if (status != LMC_OK && diag)
        diag->offset += start;
    return status;
}

/* A call must not write where it reads. dst_nbytes: the most that it may write. Error: ARG; the text names `what` as
 * overlapping. */
LMC_NODISCARD lmc_status lmc_check_apart(const char *what, const void *src, size_t src_nbytes,
                                         const void *dst, size_t dst_nbytes, lmc_diag *diag);

#endif
