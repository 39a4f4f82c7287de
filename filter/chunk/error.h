/*
 * error.h - the text of this thread's latest failure. Allocates nothing; prints only when LMC_H5_DEBUG is
 * set to 1.
 */
#ifndef LMC_FILTER_CHUNK_ERROR_H
#define LMC_FILTER_CHUNK_ERROR_H

#include <lmc_h5.h>

#include "common/compiler.h"
#include "common/try.h"

/* Keeps the text (cut to 255 bytes) and returns the status. */
lmc_status lmc_h5_fail(lmc_status status, const char *format, ...) LMC_PRINTF(2, 3);

/* The same with what the codec's diagnostic says, where its offset counts from `offset` on. */
lmc_status lmc_h5_fail_diag(const char *what, const lmc_diag *diag, uint64_t offset);

/* The same for a call of liblmc with ctx that failed with `status`. */
lmc_status lmc_h5_fail_codec(const char *what, const lmc_ctx *ctx, lmc_status status, uint64_t offset);

/* A call must not write where it reads. Error: ARG. */
lmc_status lmc_h5_check_apart(const void *src, size_t src_nbytes, const void *dst, size_t dst_nbytes);

#endif
