/*
 * windows_open.c - handles behind descriptors, and files that are opened, created and closed. A descriptor is opened
 * to share everything, so that nothing that is held open keeps others from it.
 */
#include "os/windows/windows.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

#define TEMPORARY_TRIES 100

/* ---- handles behind descriptors ---- */

#ifdef _UCRT
/* The C library ends the process for a descriptor that is not open, but where a thread has a handler of its own. */
_invalid_parameter_handler __cdecl _set_thread_local_invalid_parameter_handler(
    _invalid_parameter_handler handler);

static void go_on(const wchar_t *expression, const wchar_t *function, const wchar_t *file, unsigned line,
                  uintptr_t reserved)
{
    (void)expression;
    (void)function;
    (void)file;
    (void)line;
    (void)reserved;
}
#endif

HANDLE win_handle(int fd)
{
    intptr_t found = -1;
#ifdef _UCRT
    const _invalid_parameter_handler old = _set_thread_local_invalid_parameter_handler(go_on);
#endif
    if (fd >= 0)
        found = _get_osfhandle(fd);
#ifdef _UCRT
    (void)_set_thread_local_invalid_parameter_handler(old);
#endif
    if (found == -1 || found == -2) { /* -2: a standard stream without a file */
        errno = EBADF;
        return INVALID_HANDLE_VALUE;
    }
    return (HANDLE)found;
}

int win_descriptor(HANDLE handle, int flags)
{
    const int fd = _open_osfhandle((intptr_t)handle, flags | _O_BINARY | _O_NOINHERIT);
    if (fd >= 0)
        return fd;
    CloseHandle(handle);
    return win_fail(EMFILE);
}

int os_close(int fd)
{
    if (win_handle(fd) == INVALID_HANDLE_VALUE)
        return EBADF;
    os_unlock(fd);
    return _close(fd) == 0 ? 0 : errno;
}

/* ---- opening ---- */

static int open_name(const win_name *name, const win_opening *opening, HANDLE *handle)
{
    OBJECT_ATTRIBUTES object;
    IO_STATUS_BLOCK result;
    InitializeObjectAttributes(&object, (UNICODE_STRING *)&name->text, OBJ_CASE_INSENSITIVE, name->root,
                               NULL);
    const NTSTATUS status =
        NtCreateFile(handle, opening->rights | SYNCHRONIZE, &object, &result, NULL,
                     opening->attributes != 0 ? opening->attributes : FILE_ATTRIBUTE_NORMAL,
                     opening->is_exclusive ? 0 : SHARE_ALL, opening->disposition,
                     opening->options | FILE_SYNCHRONOUS_IO_NONALERT | FILE_OPEN_FOR_BACKUP_INTENT, NULL, 0);
    const int os_errno = win_nt_errno(status);
    /* the name of a file that is on its way out is still taken */
    return os_errno == ENOENT && opening->disposition == FILE_CREATE &&
                   RtlNtStatusToDosError(status) == ERROR_ACCESS_DENIED
               ? EEXIST
               : os_errno;
}

int win_open(int folder_fd, const char *path, const win_opening *opening, HANDLE *handle)
{
    win_name name;
    int os_errno = win_name_set(&name, folder_fd, path, opening->disposition != FILE_OPEN);
    if (os_errno == 0) {
        os_errno = open_name(&name, opening, handle);
        win_name_free(&name);
    }
    return os_errno;
}

int win_open_again(HANDLE handle, ACCESS_MASK rights, ULONG options, HANDLE *again)
{
    const win_opening opening = {.rights = rights, .disposition = FILE_OPEN, .options = options};
    win_name name = {.root = handle};
    name.text.Buffer = name.small;
    return open_name(&name, &opening, again);
}

/* The tag of a reparse point; 0: it is none, or one of Wine's, which stands for nothing. */
static DWORD reparse_tag(HANDLE handle)
{
    FILE_ATTRIBUTE_TAG_INFO info;
    const int is_found = GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &info, sizeof info) != 0;
    return is_found && (info.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 ? info.ReparseTag : 0;
}

int win_is_link(HANDLE handle)
{
    return IsReparseTagNameSurrogate(reparse_tag(handle)) != 0;
}

/* Opens what has the name itself: a link is refused with `link_errno`. What has another reparse point, as a file that
 * is kept elsewhere, is opened by way of it. */
static int open_own(int folder_fd, const char *name, win_opening opening, int link_errno, HANDLE *handle)
{
    HANDLE itself = NULL;
    const ULONG options = opening.options;
    opening.options = options | FILE_OPEN_REPARSE_POINT;
    int os_errno = win_open(folder_fd, name, &opening, &itself);
    *handle = itself;
    if (os_errno != 0 || reparse_tag(itself) == 0)
        return os_errno;
    os_errno = win_is_link(itself) ? link_errno : win_open_again(itself, opening.rights, options, handle);
    CloseHandle(itself);
    return os_errno;
}

int os_open(int folder_fd, const char *name)
{
    const win_opening opening = {.rights = GENERIC_READ, .disposition = FILE_OPEN};
    HANDLE handle = NULL;
    const int os_errno = win_open(folder_fd, name, &opening, &handle);
    return os_errno != 0 ? win_fail(os_errno) : win_descriptor(handle, _O_RDONLY);
}

int os_open_own(int folder_fd, const char *name)
{
    const win_opening opening = {.rights = GENERIC_READ, .disposition = FILE_OPEN};
    HANDLE handle = NULL;
    const int os_errno = open_own(folder_fd, name, opening, ELOOP, &handle);
    return os_errno != 0 ? win_fail(os_errno) : win_descriptor(handle, _O_RDONLY);
}

int os_create(int folder_fd, const char *name, unsigned permissions)
{
    const win_opening opening = {.rights = GENERIC_READ | GENERIC_WRITE,
                                 .disposition = FILE_CREATE,
                                 .options = FILE_NON_DIRECTORY_FILE | FILE_OPEN_REPARSE_POINT,
                                 .attributes = (permissions & 0222) == 0 ? FILE_ATTRIBUTE_READONLY : 0};
    HANDLE handle = NULL;
    const int os_errno = win_open(folder_fd, name, &opening, &handle);
    return os_errno != 0 ? win_fail(os_errno) : win_descriptor(handle, _O_RDWR);
}

int os_open_or_create(int folder_fd, const char *name)
{
    const win_opening opening = {.rights = GENERIC_READ | GENERIC_WRITE,
                                 .disposition = FILE_OPEN_IF,
                                 .options = FILE_NON_DIRECTORY_FILE};
    HANDLE handle = NULL;
    const int os_errno = open_own(folder_fd, name, opening, ELOOP, &handle);
    return os_errno != 0 ? win_fail(os_errno) : win_descriptor(handle, _O_RDWR);
}

/* ---- files for a while ---- */

int os_create_unnamed(int folder_fd, const char *directory, unsigned permissions)
{
    (void)folder_fd;
    (void)directory;
    (void)permissions;
    return win_fail(ENOTSUP);
}

int os_link_unnamed(int fd, int folder_fd, const char *name)
{
    (void)fd;
    (void)folder_fd;
    (void)name;
    return ENOTSUP;
}

int os_create_temporary(const char *directory)
{
    const win_opening opening = {.rights = GENERIC_READ | GENERIC_WRITE | DELETE,
                                 .disposition = FILE_CREATE,
                                 .options = FILE_NON_DIRECTORY_FILE | FILE_DELETE_ON_CLOSE,
                                 .attributes = FILE_ATTRIBUTE_TEMPORARY,
                                 .is_exclusive = 1};
    HANDLE handle = NULL;
    int os_errno = EEXIST;
    const int folder_fd = os_open_folder(directory);
    if (folder_fd < 0)
        return -1;
    for (int i = 0; i < TEMPORARY_TRIES && os_errno == EEXIST; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, ".lmc-st-%016llx", (unsigned long long)os_unforeseen_u64());
        os_errno = win_open(folder_fd, name, &opening, &handle);
    }
    os_close(folder_fd);
    return os_errno != 0 ? win_fail(os_errno) : win_descriptor(handle, _O_RDWR);
}

const char *os_temporary_directory(unsigned index)
{
    static SRWLOCK lock = SRWLOCK_INIT;
    static char *of_system;
    const char *const named = os_environment("TMPDIR");
    WCHAR wide[MAX_PATH + 2];
    if (named && index == 0)
        return named;
    if (index > (named ? 1U : 0U))
        return NULL;
    AcquireSRWLockExclusive(&lock);
    const DWORD length = of_system ? 0 : GetTempPathW(MAX_PATH + 1, wide);
    if (length > 0 && length <= MAX_PATH)
        of_system = win_utf8(wide);
    const char *const found = of_system;
    ReleaseSRWLockExclusive(&lock);
    return found;
}

/* A second handle of one opening shares its position with the first, and a file that is opened again does not: what
 * reads the one leaves the other's position alone. */
int os_duplicate(int fd)
{
    const HANDLE handle = win_handle(fd);
    HANDLE copy = NULL;
    LARGE_INTEGER at = {.QuadPart = 0};
    PUBLIC_OBJECT_BASIC_INFORMATION own;
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    if (GetFileType(handle) == FILE_TYPE_DISK && SetFilePointerEx(handle, at, &at, FILE_CURRENT) &&
        NtQueryObject(handle, ObjectBasicInformation, &own, sizeof own, NULL) >= 0) {
        if (win_open_again(handle, own.GrantedAccess & ~(ACCESS_MASK)DELETE, 0, &copy) != 0)
            copy = NULL;
        else
            (void)SetFilePointerEx(copy, at, NULL, FILE_BEGIN);
    }
    if (!copy && !DuplicateHandle(GetCurrentProcess(), handle, GetCurrentProcess(), &copy, 0, FALSE,
                                  DUPLICATE_SAME_ACCESS))
        return win_fail(win_last_errno());
    return win_descriptor(copy, _O_RDWR);
}

/* ---- folders ---- */

#define FOLDER_RIGHTS (FILE_TRAVERSE | FILE_READ_ATTRIBUTES | READ_CONTROL)

int os_open_folder(const char *path)
{
    win_opening opening = {.rights = FOLDER_RIGHTS | FILE_LIST_DIRECTORY,
                           .disposition = FILE_OPEN,
                           .options = FILE_DIRECTORY_FILE};
    HANDLE handle = NULL;
    int os_errno = win_open(OS_HERE, path, &opening, &handle);
    if (os_errno == EACCES) {
        opening.rights = FILE_TRAVERSE | FILE_READ_ATTRIBUTES;
        os_errno = win_open(OS_HERE, path, &opening, &handle);
    }
    return os_errno != 0 ? win_fail(os_errno) : win_descriptor(handle, _O_RDONLY);
}

int os_open_own_folder(int folder_fd, const char *name)
{
    const win_opening opening = {.rights = FOLDER_RIGHTS | FILE_LIST_DIRECTORY,
                                 .disposition = FILE_OPEN,
                                 .options = FILE_DIRECTORY_FILE};
    HANDLE handle = NULL;
    const int os_errno = open_own(folder_fd, name, opening, ENOTDIR, &handle);
    return os_errno != 0 ? win_fail(os_errno) : win_descriptor(handle, _O_RDONLY);
}

int os_open_writable_folder(int folder_fd, const char *name)
{
    return os_open_own_folder(folder_fd, name);
}
