/* diag.c - formats diagnostics. vsnprintf is the only use of stdio in the codec; nothing is printed. */
#include "codec/common/diag.h"

#include <stdarg.h>
#include <stdio.h>

static void fill_diag(lmc_diag *diag, lmc_status status, uint64_t offset, const char *format,
                      va_list arguments)
{
    if (!diag)
        return;
    diag->status = status;
    diag->offset = offset;
    vsnprintf(diag->text, sizeof diag->text, format, arguments);
}

lmc_status lmc_fail(lmc_diag *diag, lmc_status status, uint64_t offset, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill_diag(diag, status, offset, format, arguments);
    va_end(arguments);
    return status;
}

lmc_status lmc_corrupt(lmc_diag *diag, uint64_t offset, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill_diag(diag, LMC_ERR_CORRUPT, offset, format, arguments);
    va_end(arguments);
    return LMC_ERR_CORRUPT;
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
