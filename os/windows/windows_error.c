/*
 * windows_error.c - errors of Windows as those of <errno.h>, and their texts.
 */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Not all headers have these. */
#ifndef ERROR_STOPPED_ON_SYMLINK
#define ERROR_STOPPED_ON_SYMLINK 681
#endif
#ifndef ERROR_DISK_QUOTA_EXCEEDED
#define ERROR_DISK_QUOTA_EXCEEDED 1295
#endif

typedef struct error_pair {
    DWORD error;
    int os_errno;
} error_pair;

static const error_pair pairs[] = {
    {ERROR_FILE_NOT_FOUND, ENOENT},
    {ERROR_PATH_NOT_FOUND, ENOENT},
    {ERROR_INVALID_DRIVE, ENOENT},
    {ERROR_BAD_PATHNAME, ENOENT},
    {ERROR_BAD_NETPATH, ENOENT},
    {ERROR_BAD_NET_NAME, ENOENT},
    {ERROR_INVALID_NAME, EINVAL},
    {ERROR_INVALID_PARAMETER, EINVAL},
    {ERROR_NEGATIVE_SEEK, EINVAL},
    {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
    {ERROR_ACCESS_DENIED, EACCES},
    {ERROR_PRIVILEGE_NOT_HELD, EPERM},
    {ERROR_INVALID_OWNER, EPERM},
    {ERROR_INVALID_HANDLE, EBADF},
    {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
    {ERROR_OUTOFMEMORY, ENOMEM},
    {ERROR_NO_SYSTEM_RESOURCES, ENOMEM},
    {ERROR_COMMITMENT_LIMIT, ENOMEM},
    {ERROR_NOT_ENOUGH_QUOTA, ENOMEM},
    {ERROR_NOT_SAME_DEVICE, EXDEV},
    {ERROR_WRITE_PROTECT, EROFS},
    {ERROR_SHARING_VIOLATION, EBUSY},
    {ERROR_LOCK_VIOLATION, EBUSY},
    {ERROR_USER_MAPPED_FILE, EBUSY},
    {ERROR_BUSY, EBUSY},
    {ERROR_FILE_EXISTS, EEXIST},
    {ERROR_ALREADY_EXISTS, EEXIST},
    {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
    {ERROR_DIRECTORY, ENOTDIR},
    {ERROR_BUFFER_OVERFLOW, ENAMETOOLONG},
    {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
    {ERROR_BROKEN_PIPE, EPIPE},
    {ERROR_NO_DATA, EPIPE},
    {ERROR_PIPE_NOT_CONNECTED, EPIPE},
    {ERROR_DISK_FULL, ENOSPC},
    {ERROR_HANDLE_DISK_FULL, ENOSPC},
    {ERROR_DISK_QUOTA_EXCEEDED, ENOSPC},
    {ERROR_FILE_TOO_LARGE, EFBIG},
    {ERROR_TOO_MANY_LINKS, EMLINK},
    {ERROR_STOPPED_ON_SYMLINK, ELOOP},
    {ERROR_CANT_RESOLVE_FILENAME, ELOOP},
    {ERROR_INVALID_FUNCTION, ENOTSUP},
    {ERROR_NOT_SUPPORTED, ENOTSUP},
    {ERROR_CALL_NOT_IMPLEMENTED, ENOTSUP},
    {ERROR_NO_UNICODE_TRANSLATION, EILSEQ},
    {ERROR_OPERATION_ABORTED, ECANCELED},
    {ERROR_SEM_TIMEOUT, ETIMEDOUT},
    {ERROR_SEEK_ON_DEVICE, ESPIPE},
};

int win_errno(DWORD error)
{
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i].error == error)
            return pairs[i].os_errno;
    return EIO;
}

int win_last_errno(void)
{
    return win_errno(GetLastError());
}

/* Numbers of the kernel that lose their meaning on the way to GetLastError(). */
#define NT_DELETE_PENDING 0xC0000056U
#define NT_FILE_IS_A_DIRECTORY 0xC00000BAU
#define NT_NOT_A_DIRECTORY 0xC0000103U
#define NT_OBJECT_PATH_INVALID 0xC0000039U
#define NT_OBJECT_PATH_SYNTAX_BAD 0xC000003BU
#define NT_INVALID_INFO_CLASS 0xC0000003U
#define NT_NOT_IMPLEMENTED 0xC0000002U

int win_nt_errno(NTSTATUS status)
{
    switch ((ULONG)status) {
    case 0: return 0;
    case NT_FILE_IS_A_DIRECTORY: return EISDIR;
    case NT_NOT_A_DIRECTORY: return ENOTDIR;
    case NT_DELETE_PENDING: /* it has been removed, and somebody has it open */
    case NT_OBJECT_PATH_INVALID:
    case NT_OBJECT_PATH_SYNTAX_BAD: return ENOENT;
    case NT_INVALID_INFO_CLASS:
    case NT_NOT_IMPLEMENTED: return ENOTSUP;
    default: return status >= 0 ? 0 : win_errno(RtlNtStatusToDosError(status));
    }
}

int win_fail(int os_errno)
{
    errno = os_errno;
    return -1;
}

/* The C library's texts for these are wrong here, or missing. */
static const struct {
    int os_errno;
    const char *text;
} texts[] = {
    {EBUSY, "In use by another program"},
    {ELOOP, "A link that must not be followed, or too many links"},
    {ENOTSUP, "Operation not supported"},
    {EWOULDBLOCK, "Locked by another program"},
    {ECANCELED, "Operation canceled"},
    {EILSEQ, "Not valid UTF-8"},
    {ETIMEDOUT, "Timed out"},
};

void os_error_text(int os_errno, char *text, size_t capacity)
{
    if (capacity == 0)
        return;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].os_errno == os_errno) {
            (void)snprintf(text, capacity, "%s", texts[i].text);
            return;
        }
    }
    if (strerror_s(text, capacity, os_errno) != 0)
        (void)snprintf(text, capacity, "Error %d", os_errno);
}
