/* diag.c - formats diagnostics; snprintf is the only stdio in the codec and prints nowhere. */
#include "codec/common/diag.h"

#include <stdarg.h>
#include <stdio.h>

lmc_status lmc_fail(lmc_diag *diag, lmc_status status, uint64_t offset, const char *format, ...)
{
    if (diag) {
        va_list arguments;
        diag->status = status;
        diag->offset = offset;
        va_start(arguments, format);
        vsnprintf(diag->text, sizeof diag->text, format, arguments);
        va_end(arguments);
    }
    return status;
}

lmc_status lmc_check_apart(const char *what, const void *src, size_t src_nbytes, const void *dst,
                           size_t dst_nbytes, lmc_diag *diag)
{
    const uintptr_t read = (uintptr_t)src, written = (uintptr_t)dst;
    if (src_nbytes == 0 || dst_nbytes == 0 ||
        (read < written ? written - read >= src_nbytes : read - written >= dst_nbytes))
        return LMC_OK;
    return lmc_fail(diag, LMC_ERR_ARG, 0, "the destination overlaps %s", what);
}
