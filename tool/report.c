/*
 * report.c - messages on standard error, exit statuses, and the end of standard output.
 */
#include "os/os.h"
#include "tool/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int output_errno; /* why printing failed first */
static int reader_has_left;

int cli_usage_error(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "lmc-st: ");
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, " (see lmc-st %s%s--help)\n", command ? command : "", command ? " " : "");
    return CLI_USAGE;
}

int cli_exit_status(lmc_status status)
{
    switch (status) {
    case LMC_OK: return CLI_OK;
    case LMC_ERR_ARG: return CLI_USAGE;
    case LMC_ERR_IO:
    case LMC_ERR_NOMEM: return CLI_SYSTEM;
    case LMC_ERR_CANCELLED: return 128 + (cli_cancel != 0 ? cli_cancel : OS_SIGNAL_INTERRUPT);
    default: return CLI_BAD_DATA;
    }
}

const char *cli_line(const lmc_st_diag *diag, char *line, size_t capacity)
{
    char tensor[sizeof diag->tensor + 16] = "";
    char offset[40] = "";
    const int is_url = diag->os_errno == ENOENT && strstr(diag->file, "://") != NULL;
    if (diag->has_tensor)
        snprintf(tensor, sizeof tensor, "tensor \"%s\": ", diag->tensor);
    if (diag->offset != LMC_ST_NO_OFFSET)
        snprintf(offset, sizeof offset, "offset %llu: ", (unsigned long long)diag->offset);
    snprintf(line, capacity, "%s: %s%s%s%s", diag->file, tensor, offset, diag->text,
             is_url ? " (lmc-st reads local files; lmcodec.remote in Python reads URLs)" : "");
    return line;
}

int cli_report(const lmc_st_diag *diag)
{
    if (diag->os_errno == EPIPE && os_broken_pipe_ends()) { /* `lmc-st ls X | head`: nobody is to be told */
        reader_has_left = 1;
        return 128 + OS_SIGNAL_BROKEN_PIPE;
    }
    char line[CLI_LINE_NBYTES];
    fprintf(stderr, "lmc-st: %s\n", cli_line(diag, line, sizeof line));
    const int is_interrupted = diag->os_errno == EINTR && cli_cancel != 0;
    return cli_exit_status(is_interrupted ? LMC_ERR_CANCELLED : diag->status);
}

void cli_set_diag(lmc_st_diag *diag, const char *path, lmc_status status, const char *format, ...)
{
    va_list arguments;
    *diag = (lmc_st_diag){.struct_size = sizeof *diag, .status = status, .offset = LMC_ST_NO_OFFSET};
    cli_shown(diag->file, sizeof diag->file, path);
    va_start(arguments, format);
    vsnprintf(diag->text, sizeof diag->text, format, arguments);
    va_end(arguments);
}

void cli_add_to_diag(lmc_st_diag *diag, const char *format, ...)
{
    va_list arguments;
    const size_t used = strlen(diag->text);
    va_start(arguments, format);
    vsnprintf(diag->text + used, sizeof diag->text - used, format, arguments);
    va_end(arguments);
}

void cli_set_os_diag(lmc_st_diag *diag, const char *path, int os_errno, const char *what)
{
    char cause[128];
    os_error_text(os_errno, cause, sizeof cause);
    cli_set_diag(diag, path, os_errno == ENOMEM ? LMC_ERR_NOMEM : LMC_ERR_IO, "%s: %s", what, cause);
    diag->os_errno = os_errno;
}

int cli_fail_os(const char *path, int os_errno, const char *what)
{
    lmc_st_diag diag;
    cli_set_os_diag(&diag, path, os_errno, what);
    return cli_report(&diag);
}

int cli_fail_nomem(void)
{
    fprintf(stderr, "lmc-st: out of memory\n");
    return CLI_SYSTEM;
}

/* ---- standard output ---- */

int cli_output_works(void)
{
    if (!ferror(stdout))
        return 1;
    output_errno = output_errno != 0 ? output_errno : os_stdio_errno();
    return 0;
}

void cli_flush_output(void)
{
    (void)fflush(stdout);
    (void)cli_output_works();
}

int cli_finish_output(void)
{
    static int is_told;
    if (is_told)
        return CLI_SYSTEM;
    if (cli_output_works() && fflush(stdout) == 0)
        return CLI_OK;
    is_told = 1;
    const int os_errno = output_errno != 0 ? output_errno : os_stdio_errno();
    /* what could not be written would be tried again at the end of the program, and could block it */
    os_drop_output();
    return cli_fail_os("standard output", os_errno, "cannot write");
}

int cli_close_output(void)
{
    const int exit_status = cli_finish_output();
    const int os_errno = exit_status == CLI_OK ? os_close(OS_STDOUT) : 0;
    return os_errno == 0 || os_errno == EBADF ? exit_status
                                              : cli_fail_os("standard output", os_errno, "cannot write");
}

void cli_follow_reader(void)
{
    if (reader_has_left)
        os_end_by_broken_pipe();
}
