/*
 * windows_run.c - runs this program once more. The child gets the standard streams and the end of a pipe, and no other
 * handle that may happen to be inheritable at that moment.
 */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CRASH_CODES 0xC0000000U /* codes from here on are exceptions */

char *os_program_path(void)
{
    WCHAR *found = NULL;
    DWORD capacity = 256;
    DWORD length = capacity;
    while (length >= capacity) {
        capacity *= 2;
        free(found);
        found = malloc(capacity * sizeof *found);
        length = found ? GetModuleFileNameW(NULL, found, capacity) : 0;
    }
    char *const path = length == 0 ? NULL : win_utf8(found);
    free(found);
    for (char *at = path; at && *at != '\0'; at++)
        *at = *at == '\\' ? '/' : *at;
    return path;
}

/* ---- the command line ---- */

/* Writes the argument so that CommandLineToArgvW() finds it again: backslashes before a quote are doubled. Returns
 * where the text ends. */
static char *quote_argument(char *at, const char *argument)
{
    size_t slash_count = 0;
    *at++ = '"';
    for (; *argument != '\0'; argument++) {
        if (*argument == '"') {
            memset(at, '\\', slash_count + 1);
            at += slash_count + 1;
        }
        slash_count = *argument == '\\' ? slash_count + 1 : 0;
        *at++ = *argument;
    }
    memset(at, '\\', slash_count);
    at += slash_count;
    *at++ = '"';
    return at;
}

/* To be freed with free(); NULL with errno set. */
static WCHAR *command_line(char *const argv[])
{
    size_t capacity = 1;
    for (size_t i = 0; argv[i]; i++)
        capacity += 2 * strlen(argv[i]) + 4;
    char *const line = malloc(capacity);
    if (!line) {
        errno = ENOMEM;
        return NULL;
    }
    char *at = line;
    for (size_t i = 0; argv[i]; i++) {
        if (i > 0)
            *at++ = ' ';
        at = quote_argument(at, argv[i]);
    }
    *at = '\0';
    WCHAR *const wide = win_wide(line);
    free(line);
    return wide;
}

/* ---- the environment ---- */

/* A copy of the environment with NAME=VALUE; to be freed with free(). NULL with errno set. */
static WCHAR *environment_with(const char *name, const char *value)
{
    const size_t nbytes = strlen(name) + strlen(value) + 2;
    char *const text = malloc(nbytes);
    if (text)
        (void)snprintf(text, nbytes, "%s=%s", name, value);
    WCHAR *const added = text ? win_wide(text) : NULL;
    WCHAR *const old = GetEnvironmentStringsW();
    const size_t name_length = added ? (size_t)(wcschr(added, L'=') - added) + 1 : 0;
    size_t length = added ? wcslen(added) + 2 : 2;
    for (const WCHAR *at = old; at && *at != 0; at += wcslen(at) + 1)
        length += wcslen(at) + 1;
    WCHAR *const all = added && old ? malloc(length * sizeof *all) : NULL;
    if (all) {
        WCHAR *to = all;
        for (const WCHAR *at = old; *at != 0; at += wcslen(at) + 1) {
            if (_wcsnicmp(at, added, name_length) == 0)
                continue;
            wcscpy(to, at);
            to += wcslen(to) + 1;
        }
        wcscpy(to, added);
        to[wcslen(to) + 1] = 0;
    }
    if (old)
        (void)FreeEnvironmentStringsW(old);
    free(added);
    free(text);
    if (!all)
        errno = ENOMEM;
    return all;
}

/* ---- the child ---- */

/* A handle of the same that a child can inherit; NULL if there is none. */
static HANDLE for_child(HANDLE handle)
{
    HANDLE copy = NULL;
    if (!handle || handle == INVALID_HANDLE_VALUE ||
        !DuplicateHandle(GetCurrentProcess(), handle, GetCurrentProcess(), &copy, 0, TRUE,
                         DUPLICATE_SAME_ACCESS))
        return NULL;
    return copy;
}

/* Starts the child with these streams and nothing else. Returns 0 or an errno. */
static int start_child(WCHAR *line, WCHAR *environment, HANDLE streams[3], HANDLE *process)
{
    STARTUPINFOEXW start = {.StartupInfo = {.cb = sizeof start, .dwFlags = STARTF_USESTDHANDLES}};
    PROCESS_INFORMATION started;
    HANDLE inherited[3];
    size_t count = 0;
    SIZE_T list_nbytes = 0;
    WCHAR *const program = malloc(65536);
    (void)InitializeProcThreadAttributeList(NULL, 1, 0, &list_nbytes);
    start.lpAttributeList = malloc(list_nbytes);
    int os_errno = ENOMEM;
    for (int i = 0; i < 3; i++)
        if (streams[i])
            inherited[count++] = streams[i];
    start.StartupInfo.hStdInput = streams[0];
    start.StartupInfo.hStdOutput = streams[1];
    start.StartupInfo.hStdError = streams[2];
    if (program && start.lpAttributeList &&
        InitializeProcThreadAttributeList(start.lpAttributeList, 1, 0, &list_nbytes)) {
        const DWORD length = GetModuleFileNameW(NULL, program, 32768);
        /* no window that tells of a crash, neither here nor there, which inherits it */
        const UINT old = SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
        const BOOL is_started =
            length > 0 && length < 32768 &&
            UpdateProcThreadAttribute(start.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, inherited,
                                      count * sizeof inherited[0], NULL, NULL) &&
            CreateProcessW(program, line, NULL, NULL, TRUE,
                           CREATE_UNICODE_ENVIRONMENT | EXTENDED_STARTUPINFO_PRESENT, environment, NULL,
                           &start.StartupInfo, &started);
        os_errno = is_started ? 0 : win_last_errno();
        (void)SetErrorMode(old);
        DeleteProcThreadAttributeList(start.lpAttributeList);
    }
    free(start.lpAttributeList);
    free(program);
    if (os_errno == 0) {
        CloseHandle(started.hThread);
        *process = started.hProcess;
    }
    return os_errno;
}

/* Takes what the child writes until it writes no more; what is beyond `capacity` is lost. */
static size_t take_output(HANDLE pipe, char *output, size_t capacity)
{
    char lost[512];
    size_t done = 0;
    DWORD got = 0;
    for (;;) {
        const size_t left = capacity - done;
        const BOOL is_read = ReadFile(pipe, left > 0 ? output + done : lost,
                                      (DWORD)(left > 0 && left < INT32_MAX ? left : sizeof lost), &got, NULL);
        if (!is_read || got == 0)
            return done;
        done += left > 0 ? got : 0;
    }
}

int os_run_program(char *const argv[], const char *name, const char *value, char *output, size_t capacity,
                   size_t *output_nbytes, int *exit_status)
{
    HANDLE ends[2];
    HANDLE process = NULL;
    DWORD code = 0;
    *output_nbytes = 0;
    *exit_status = -1;
    WCHAR *const line = command_line(argv);
    WCHAR *const environment = line ? environment_with(name, value) : NULL;
    int os_errno = environment ? 0 : errno;
    if (os_errno == 0 && !CreatePipe(&ends[0], &ends[1], NULL, 0))
        os_errno = win_last_errno();
    if (os_errno == 0) {
        HANDLE streams[3] = {for_child(GetStdHandle(STD_INPUT_HANDLE)), for_child(ends[1]),
                             for_child(GetStdHandle(STD_ERROR_HANDLE))};
        CloseHandle(ends[1]);
        os_errno = streams[1] ? start_child(line, environment, streams, &process) : EMFILE;
        for (int i = 0; i < 3; i++)
            if (streams[i])
                CloseHandle(streams[i]);
        if (os_errno == 0)
            *output_nbytes = take_output(ends[0], output, capacity);
        CloseHandle(ends[0]);
    }
    free(environment);
    free(line);
    if (os_errno != 0)
        return os_errno;
    (void)WaitForSingleObject(process, INFINITE);
    if (GetExitCodeProcess(process, &code) && code < CRASH_CODES)
        *exit_status = (int)code;
    CloseHandle(process);
    return 0;
}
