/*
 * lmc_test_os.h - what the tests of os/os.h share: a directory that is removed after them, files in it, links and
 * pipes. Tests may ask which system they run on.
 */
#ifndef LMC_TEST_OS_H
#define LMC_TEST_OS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00
#endif
#include <fcntl.h>
#include <io.h>
#include <windows.h>
#include <winioctl.h>
#define IS_WINDOWS 1
#else
#include <unistd.h>
#define IS_WINDOWS 0
#endif

#include "lmc_test.h"
#include "os/os.h"

#define UNUSED __attribute__((unused))

/* The directory's path and descriptor, and a path in it that is valid until the next but three call. */
static char test_root[1024];
static int test_fd = -1;

static UNUSED const char *in_root(const char *name)
{
    static char paths[4][2048];
    static unsigned turn;
    char *const path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_root, name);
    return path;
}

/* ---- removal ---- */

static int remove_below(void *user, const char *name)
{
    const int folder_fd = *(const int *)user;
    os_state state;
    if (os_lstat(folder_fd, name, &state) != 0)
        return -1;
    if (state.kind != OS_FOLDER)
        return os_unlink(folder_fd, name);
    int fd = os_open_writable_folder(folder_fd, name);
    if (fd < 0)
        return -1;
    const int result = os_visit_folder(fd, remove_below, &fd);
    os_close(fd);
    return result != 0 ? result : os_remove_folder(folder_fd, name);
}

/* Removes what is there with the name, and all below it. Returns 0 if nothing is left. */
static UNUSED int remove_name(const char *name)
{
    return remove_below(&test_fd, name);
}

/* ---- set-up ---- */

/* To be called first by main(). */
static UNUSED void make_root(int *argc, char ***argv)
{
    static volatile int signal_number;
    if (os_start_program(argc, argv) != 0)
        exit(3);
    os_catch_signals(&signal_number, 1);
    snprintf(test_root, sizeof test_root, "%s/lmc test \xC3\xA9 %08x", os_temporary_directory(0),
             (unsigned)os_unforeseen_u64());
    if (os_make_folder(OS_HERE, test_root, 0700) != 0)
        exit(3);
    test_fd = os_open_folder(test_root);
    if (test_fd < 0)
        exit(3);
}

static UNUSED void remove_root(void)
{
    if (os_visit_folder(test_fd, remove_below, &test_fd) != 0)
        fprintf(stderr, "%s cannot be emptied\n", test_root);
    os_close(test_fd);
    (void)os_remove_folder(OS_HERE, test_root);
}

/* ---- files ---- */

/* Creates or overwrites a file with a text. Returns 1 if that went well. */
static UNUSED int put_file(const char *name, const char *text)
{
    size_t written = 0;
    const int fd = os_open_or_create(test_fd, name);
    if (fd < 0)
        return 0;
    int is_done = os_truncate(fd, 0) == 0 && os_write_at(fd, 0, text, strlen(text), &written) == 0;
    is_done &= written == strlen(text);
    return os_close(fd) == 0 && is_done;
}

/* 1 if the open file holds the text and no more. */
static UNUSED int fd_holds(int fd, const char *text)
{
    char found[256];
    const int64_t got = os_read_at(fd, 0, found, sizeof found);
    return got == (int64_t)strlen(text) && memcmp(found, text, strlen(text)) == 0;
}

static UNUSED int file_holds(const char *name, const char *text)
{
    const int fd = os_open(test_fd, name);
    const int holds = fd >= 0 && fd_holds(fd, text);
    if (fd >= 0)
        os_close(fd);
    return holds;
}

static UNUSED int is_there(const char *name)
{
    os_state state;
    return os_lstat(test_fd, name, &state) == 0;
}

/* ---- what os.h does not make ---- */

/* 1 on Wine, whose version 8 has no links, and cannot remove or replace a file that is open. */
static UNUSED int is_wine(void)
{
#ifdef _WIN32
    return GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "wine_get_version") != NULL;
#else
    return 0;
#endif
}

/* Makes a pipe. Returns 1 if that went well. */
static UNUSED int make_pipe(int ends[2])
{
#ifdef _WIN32
    return _pipe(ends, 65536, _O_BINARY | _O_NOINHERIT) == 0;
#else
    return pipe(ends) == 0;
#endif
}

#ifdef _WIN32
static void widen(const char *text, WCHAR wide[2048], int is_native)
{
    if (MultiByteToWideChar(CP_UTF8, 0, text, -1, wide, 2048) == 0)
        wide[0] = 0;
    for (WCHAR *at = wide; is_native && *at != 0; at++)
        *at = *at == L'/' ? L'\\' : *at;
}

/* Makes a junction, which takes no privilege. */
static UNUSED int make_junction(const char *folder, const char *path)
{
    struct {
        DWORD tag;
        WORD nbytes, reserved;
        WORD name_offset, name_nbytes, shown_offset, shown_nbytes;
        WCHAR text[4096];
    } junction;
    WCHAR wide[2048];
    WCHAR target[2060] = L"\\??\\";
    DWORD nbytes = 0;
    widen(folder, wide, 1);
    wcscat(target, wide);
    memset(&junction, 0, sizeof junction);
    wcscpy(junction.text, target);
    wcscpy(junction.text + wcslen(target) + 1, wide);
    junction.tag = IO_REPARSE_TAG_MOUNT_POINT;
    junction.name_nbytes = (WORD)(2 * wcslen(target));
    junction.shown_offset = (WORD)(junction.name_nbytes + 2);
    junction.shown_nbytes = (WORD)(2 * wcslen(wide));
    junction.nbytes = (WORD)(8 + junction.shown_offset + junction.shown_nbytes + 2);
    widen(path, wide, 1);
    if (!CreateDirectoryW(wide, NULL))
        return 0;
    const HANDLE handle = CreateFileW(wide, GENERIC_WRITE, 0, NULL, OPEN_EXISTING,
                                      FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    const int is_made = DeviceIoControl(handle, FSCTL_SET_REPARSE_POINT, &junction, junction.nbytes + 8U,
                                        NULL, 0, &nbytes, NULL) != 0;
    CloseHandle(handle);
    if (!is_made)
        RemoveDirectoryW(wide);
    return is_made;
}
#endif

/* Makes a symbolic link to a path. Returns 1 if this system and this user can. */
static UNUSED int make_link(const char *target, const char *path, int is_folder)
{
#ifdef _WIN32
    WCHAR wide_target[2048];
    WCHAR wide_path[2048];
    widen(target, wide_target, 1);
    widen(path, wide_path, 1);
    return !is_wine() && CreateSymbolicLinkW(wide_path, wide_target, 2U | (is_folder ? 1U : 0U)) != 0;
#else
    (void)is_folder;
    return symlink(target, path) == 0;
#endif
}

#endif
