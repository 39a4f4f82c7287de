/*
 * windows_program.c - the program: its arguments, streams, console and end.
 */
#include "os/windows/windows.h"

#include <shellapi.h> /* CommandLineToArgvW */

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>

#ifndef ENABLE_VIRTUAL_TERMINAL_PROCESSING
#define ENABLE_VIRTUAL_TERMINAL_PROCESSING 0x0004
#endif

/* ---- start ---- */

/* argv from the command line of this process; it stays until the end. Returns 0 or an errno. */
static int take_arguments(int *argc, char ***argv)
{
    int count = 0;
    WCHAR **const wide = CommandLineToArgvW(GetCommandLineW(), &count);
    char **const arguments = wide ? calloc((size_t)count + 1, sizeof *arguments) : NULL;
    int os_errno = !wide ? win_last_errno() : !arguments ? ENOMEM : 0;
    for (int i = 0; i < count && os_errno == 0; i++) {
        arguments[i] = win_utf8(wide[i]);
        os_errno = arguments[i] ? 0 : errno;
    }
    LocalFree(wide);
    if (os_errno != 0) {
        for (int i = 0; arguments && i < count; i++)
            free(arguments[i]);
        free(arguments);
        return os_errno;
    }
    *argc = count;
    *argv = arguments;
    return 0;
}

/* Gives the descriptor of a standard stream nothing to read, and loses what is written to it. */
static int open_on_nothing(int fd)
{
    const int nothing = _open("NUL", (fd == 0 ? _O_RDONLY : _O_WRONLY) | _O_BINARY);
    if (nothing < 0)
        return errno;
    if (nothing == fd)
        return 0;
    const int result = _dup2(nothing, fd);
    const int os_errno = result == 0 ? 0 : errno;
    _close(nothing);
    return os_errno;
}

static UINT old_code_page;

static void restore_console(void)
{
    (void)SetConsoleOutputCP(old_code_page);
}

/* Texts for a console are UTF-8 and may have escape sequences. */
static void prepare_console(void)
{
    int has_console = 0;
    for (int fd = 1; fd <= 2; fd++) {
        const HANDLE handle = win_handle(fd);
        DWORD mode = 0;
        if (handle != INVALID_HANDLE_VALUE && GetConsoleMode(handle, &mode)) {
            has_console = 1;
            (void)SetConsoleMode(handle, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
        }
    }
    old_code_page = has_console ? GetConsoleOutputCP() : 0;
    if (old_code_page != 0 && old_code_page != CP_UTF8 && SetConsoleOutputCP(CP_UTF8))
        (void)atexit(restore_console);
}

int os_start_program(int *argc, char ***argv)
{
    for (int fd = 0; fd <= 2; fd++) {
        const int os_errno = win_handle(fd) == INVALID_HANDLE_VALUE ? open_on_nothing(fd) : 0;
        if (os_errno != 0)
            return os_errno;
        (void)_setmode(fd, _O_BINARY);
    }
    prepare_console();
    return take_arguments(argc, argv);
}

/* ---- signals ---- */

#define SIGNAL_TERMINATE 15
#define END_MS 4500 /* the system ends the process after five seconds */

static volatile int *caught_signal;
static int ends_at_second;

/* Runs in a thread of its own. TRUE: the signal has been dealt with. */
static BOOL WINAPI on_signal(DWORD control)
{
    const int number =
        control == CTRL_C_EVENT || control == CTRL_BREAK_EVENT ? OS_SIGNAL_INTERRUPT : SIGNAL_TERMINATE;
    if (ends_at_second && *caught_signal == number)
        return FALSE;
    *caught_signal = number;
    if (number == SIGNAL_TERMINATE)
        Sleep(END_MS); /* the process ends with this call: its work is to end before */
    return TRUE;
}

void os_catch_signals(volatile int *signal_number, int once)
{
    caught_signal = signal_number;
    ends_at_second = once;
    (void)SetConsoleCtrlHandler(on_signal, TRUE);
}

int os_stdio_errno(void)
{
    return win_errno(_doserrno) == EPIPE ? EPIPE : errno;
}

int os_broken_pipe_ends(void)
{
    return 1;
}

void os_end_by_broken_pipe(void)
{
    ExitProcess(128 + OS_SIGNAL_BROKEN_PIPE);
}

/* ---- streams ---- */

int os_is_terminal(int fd)
{
    const HANDLE handle = win_handle(fd);
    DWORD mode = 0;
    return handle != INVALID_HANDLE_VALUE && GetConsoleMode(handle, &mode) != 0;
}

void os_drop_output(void)
{
    (void)open_on_nothing(1);
}
