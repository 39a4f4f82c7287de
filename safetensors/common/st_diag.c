/*
 * st_diag.c - filling the caller's lmc_st_diag.
 */
#include "common/text.h"
#include "safetensors/common/st_common.h"

#include "os/os.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void st_diag_init(lmc_st_diag *diag, const char *path)
{
    *diag = (lmc_st_diag)LMC_INIT(lmc_st_diag);
    diag->offset = LMC_ST_NO_OFFSET;
    st_diag_set_file(diag, path);
}

void st_diag_set_file(lmc_st_diag *diag, const char *path)
{
    lmc_text_escape_but(diag->file, sizeof diag->file, path, strlen(path), os_separators);
}

void st_diag_set_tensor(lmc_st_diag *diag, const char *name, size_t name_nbytes)
{
    diag->has_tensor = 1;
    lmc_text_escape(diag->tensor, sizeof diag->tensor, name, name_nbytes);
}

lmc_status st_fail(lmc_st_diag *diag, lmc_status status, uint64_t offset, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(diag->text, sizeof diag->text, format, arguments);
    va_end(arguments);
    diag->status = status;
    diag->offset = offset;
    return status;
}

lmc_status st_fail_os(lmc_st_diag *diag, int os_errno, uint64_t offset, const char *what)
{
    char cause[128] = "";
    if (os_errno == ECANCELED)
        return st_fail(diag, LMC_ERR_CANCELLED, LMC_ST_NO_OFFSET, "cancelled");
    os_error_text(os_errno, cause, sizeof cause);
    diag->os_errno = os_errno;
    return st_fail(diag, os_errno == ENOMEM ? LMC_ERR_NOMEM : LMC_ERR_IO, offset, "%s: %s", what, cause);
}

lmc_status st_fail_codec(lmc_st_diag *diag, const lmc_ctx *ctx, lmc_status status, uint64_t offset)
{
    const lmc_diag *cause = lmc_ctx_diag(ctx);
    if (cause->status != status || cause->text[0] == '\0')
        return st_fail(diag, status, offset, "%s", lmc_status_text(status));
    const uint64_t place = offset == LMC_ST_NO_OFFSET ? LMC_ST_NO_OFFSET : offset + cause->offset;
    return st_fail(diag, status, place, "%s: %s", lmc_status_text(status), cause->text);
}

lmc_status st_fail_nomem(lmc_st_diag *diag)
{
    diag->os_errno = ENOMEM;
    return st_fail(diag, LMC_ERR_NOMEM, LMC_ST_NO_OFFSET, "out of memory");
}

lmc_status st_fail_cancelled(lmc_st_diag *diag)
{
    return st_fail(diag, LMC_ERR_CANCELLED, LMC_ST_NO_OFFSET, "cancelled");
}
