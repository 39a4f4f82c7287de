/* error.c - the latest failure of each thread, as one line of text, printed only for LMC_H5_DEBUG=1. */
#include "filter/chunk/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"

static _Thread_local char last_error[256];

lmc_status lmc_h5_fail(lmc_status status, const char *format, ...)
{
    const char *const debug = getenv("LMC_H5_DEBUG");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    if (debug && strcmp(debug, "1") == 0)
        fprintf(stderr, "lmc-h5: %s\n", last_error);
    return status;
}

lmc_status lmc_h5_fail_diag(const char *what, const lmc_diag *diag, uint64_t offset)
{
    return lmc_h5_fail(diag->status, "%s: %s at byte %llu: %s", what, lmc_status_text(diag->status),
                       (unsigned long long)(offset + diag->offset), diag->text);
}

lmc_status lmc_h5_fail_codec(const char *what, const lmc_ctx *ctx, lmc_status status, uint64_t offset)
{
    const lmc_diag *const diag = lmc_ctx_diag(ctx);
    if (diag->status == status)
        return lmc_h5_fail_diag(what, diag, offset);
    return lmc_h5_fail(status, "%s: %s: the context is in use", what, lmc_status_text(status));
}

lmc_status lmc_h5_check_apart(const void *src, size_t src_nbytes, const void *dst, size_t dst_nbytes)
{
    if (!lmc_bytes_overlap(src, src_nbytes, dst, dst_nbytes))
        return LMC_OK;
    return lmc_h5_fail(LMC_ERR_ARG, "lmc: the destination overlaps the chunk");
}

const char *lmc_h5_last_error(void)
{
    return last_error;
}
