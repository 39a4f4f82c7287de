/*
 * windows.h - what the files of os/windows/ share: handles behind descriptors, names for the kernel, and errors. Names
 * go to the kernel itself (NtCreateFile), which looks them up in an open folder and changes nothing in them.
 */
#ifndef LMC_OS_WINDOWS_WINDOWS_H
#define LMC_OS_WINDOWS_WINDOWS_H

#if !defined _WIN32_WINNT || _WIN32_WINNT < 0x0A00
#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00
#endif
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
#include <winioctl.h>
#include <winternl.h>

#include <stddef.h>
#include <stdint.h>

#include "os/os.h"

/* ---- errors ---- */

/* The error number of <errno.h> for one of GetLastError(), for the last one, and for one of the kernel. */
int win_errno(DWORD error);
int win_last_errno(void);
int win_nt_errno(NTSTATUS status);

/* Sets errno and returns -1. */
int win_fail(int os_errno);

/* ---- text ---- */

/* To be freed with free(). NULL with errno set: EILSEQ, ENOMEM. */
WCHAR *win_wide(const char *text);
char *win_utf8(const WCHAR *text);

/* ---- names ---- */

#define WIN_NAME_SMALL 520

/* A name as the kernel takes it; root: the open folder, or NULL. It must not be moved. */
typedef struct win_name {
    HANDLE root;
    UNICODE_STRING text;
    WCHAR *memory; /* NULL: `small` has the text, and nothing was allocated */
    WCHAR small[WIN_NAME_SMALL];
} win_name;

/* is_new: its last component is going to be created. Returns 0 or an errno: EINVAL for a name that cannot be created,
 * ENOENT for one that cannot be there. */
int win_name_set(win_name *name, int folder_fd, const char *path, int is_new);
void win_name_free(win_name *name);

/* ---- handles ---- */

/* The handle behind a descriptor; INVALID_HANDLE_VALUE with errno set. */
HANDLE win_handle(int fd);

/* A descriptor for a handle, which it takes over, also when it fails. */
int win_descriptor(HANDLE handle, int flags);

/* How a file is opened; 0 stands for: to share all, no attributes. */
typedef struct win_opening {
    ACCESS_MASK rights; /* SYNCHRONIZE is added */
    ULONG disposition, options, attributes, is_exclusive;
} win_opening;

/* Opens or creates what has the name. Returns 0 or an errno. */
int win_open(int folder_fd, const char *path, const win_opening *opening, HANDLE *handle);

/* Opens the same file again, with other rights. Returns 0 or an errno. */
int win_open_again(HANDLE handle, ACCESS_MASK rights, ULONG options, HANDLE *again);

/* What the handle is of. Returns 0 or an errno. */
int win_state(HANDLE handle, os_state *state);

/* 1 if it is a symbolic link, a junction, or another name for something else. */
int win_is_link(HANDLE handle);

#endif
