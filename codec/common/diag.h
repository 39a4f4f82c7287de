/* diag.h - how a stage says what went wrong. A fault is a status, an offset and one line of text. */
#ifndef LMC_CODEC_COMMON_DIAG_H
#define LMC_CODEC_COMMON_DIAG_H

#include "codec/common/common.h"
#include "lmc.h"

/* Fills *diag (NULL: nowhere) and returns status. offset: in the input of the public call, as far as the
 * stage knows it; callers that know more add their own base with lmc_diag_shift(). */
lmc_status lmc_fail(lmc_diag *diag, lmc_status status, uint64_t offset, const char *format, ...)
    LMC_PRINTF(4, 5);

/* Forwards a failure whose offset counts from `base`. */
LMC_INLINE lmc_status lmc_diag_shift(lmc_diag *diag, lmc_status status, uint64_t base)
{
    if (status != LMC_OK && diag)
        diag->offset += base;
    return status;
}

/* A call must not write where it reads. dst_nbytes: what it may write. Error: ARG, which says that `what` is in the
 * way. */
LMC_NODISCARD lmc_status lmc_check_apart(const char *what, const void *src, size_t src_nbytes,
                                         const void *dst, size_t dst_nbytes, lmc_diag *diag);

#endif
