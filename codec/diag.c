/* diag.c - formats diagnostics; snprintf is the only stdio in the codec and prints nowhere. */
#include "diag.h"

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
