/* diag.c - formats diagnostics, and names statuses and the version that runs. Of stdio only vsnprintf is
 * used; nothing is printed. */
#include "codec/common/diag.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/bytes.h"

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
    if (!lmc_bytes_overlap(src, src_nbytes, dst, dst_nbytes))
        return LMC_OK;
    return lmc_fail(diag, LMC_ERR_ARG, 0, "the destination overlaps %s", what);
}

const char *lmc_status_text(lmc_status status)
{
    switch (status) {
    case LMC_OK: return "success";
    case LMC_ERR_ARG: return "invalid argument";
    case LMC_ERR_NOMEM: return "out of memory";
    case LMC_ERR_DST_SMALL: return "destination too small";
    case LMC_ERR_TRUNCATED: return "input ends early";
    case LMC_ERR_CORRUPT: return "corrupt input";
    case LMC_ERR_UNSUPPORTED: return "not supported by this version";
    case LMC_ERR_CHECKSUM: return "checksum mismatch";
    case LMC_ERR_BASE: return "base missing or wrong";
    case LMC_ERR_LIMIT: return "limit exceeded";
    case LMC_ERR_IO: return "input/output error";
    case LMC_ERR_HEADER: return "malformed header";
    case LMC_ERR_CANCELLED: return "cancelled";
    }
    return "unknown status";
}

const char *lmc_version_text(void)
{
    return LMC_TEXT_OF(LMC_VERSION_MAJOR) "." LMC_TEXT_OF(LMC_VERSION_MINOR) "." LMC_TEXT_OF(
        LMC_VERSION_PATCH);
}

unsigned lmc_version_number(void)
{
    return LMC_VERSION_NUMBER;
}
