/*
 * windows_bytes.c - reads and writes: at a place of a file, and along a stream.
 */
#include "os/windows/windows.h"

#include <errno.h>

#define IO_NBYTES_MAX ((size_t)1 << 30)
#define PIPE_NBYTES 4096 /* so much fits in the smallest pipe */
#define SPIN_NS 4000000U /* a program that writes fast fills the pipe again in less */
#define POLL_MS 10
#define HOLE_NBYTES_MIN ((uint64_t)1 << 20) /* a smaller hole is not worth a sparse file */

#define LOCK_COUNT 64

/* ---- at a place ---- */

/* The system moves a descriptor's position when it reads or writes at a place; it is put back before another call on
 * the descriptor goes on. The system lets the calls on one descriptor wait for each other, too. */
static SRWLOCK position_locks[LOCK_COUNT];

/* Reads or writes once. Returns 0 or an errno; at the end of the file, *done is 0. */
static int transfer_at(int fd, uint64_t offset, void *bytes, size_t nbytes, int is_write, size_t *done)
{
    const HANDLE handle = win_handle(fd);
    const DWORD wanted = (DWORD)(nbytes < IO_NBYTES_MAX ? nbytes : IO_NBYTES_MAX);
    LARGE_INTEGER position = {.QuadPart = 0};
    OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
    DWORD count = 0;
    *done = 0;
    if (handle == INVALID_HANDLE_VALUE)
        return EBADF;
    if (offset > INT64_MAX)
        return EINVAL;
    SRWLOCK *const lock = &position_locks[(unsigned)fd % LOCK_COUNT];
    AcquireSRWLockExclusive(lock);
    const BOOL has_position = SetFilePointerEx(handle, position, &position, FILE_CURRENT);
    const BOOL is_done = is_write ? WriteFile(handle, bytes, wanted, &count, &at)
                                  : ReadFile(handle, bytes, wanted, &count, &at);
    const DWORD error = is_done ? 0 : GetLastError();
    if (has_position)
        (void)SetFilePointerEx(handle, position, NULL, FILE_BEGIN);
    ReleaseSRWLockExclusive(lock);
    *done = count;
    return error == 0 || (!is_write && error == ERROR_HANDLE_EOF) ? 0 : win_errno(error);
}

int64_t os_read_at(int fd, uint64_t offset, void *dst, size_t nbytes)
{
    size_t done = 0;
    for (size_t got = 1; done < nbytes && got > 0; done += got) {
        const int os_errno = transfer_at(fd, offset + done, (char *)dst + done, nbytes - done, 0, &got);
        if (os_errno != 0)
            return win_fail(os_errno);
    }
    return (int64_t)done;
}

/* Before bytes are written far behind the end, or the end is moved there: what lies between becomes a hole, if the
 * file system has such. */
static void allow_hole(HANDLE handle, uint64_t offset)
{
    FILE_STANDARD_INFO info;
    DWORD nbytes = 0;
    if (!GetFileInformationByHandleEx(handle, FileStandardInfo, &info, sizeof info))
        return;
    const uint64_t end = (uint64_t)info.EndOfFile.QuadPart;
    const uint64_t reserved = (uint64_t)info.AllocationSize.QuadPart;
    const uint64_t from = end > reserved ? end : reserved;
    if (offset > from && offset - from >= HOLE_NBYTES_MIN)
        (void)DeviceIoControl(handle, FSCTL_SET_SPARSE, NULL, 0, NULL, 0, &nbytes, NULL);
}

int os_write_at(int fd, uint64_t offset, const void *src, size_t nbytes, size_t *written)
{
    const HANDLE handle = win_handle(fd);
    *written = 0;
    if (handle == INVALID_HANDLE_VALUE)
        return EBADF;
    if (offset >= HOLE_NBYTES_MIN)
        allow_hole(handle, offset);
    while (*written < nbytes) {
        size_t put = 0;
        const int os_errno =
            transfer_at(fd, offset + *written, (char *)src + *written, nbytes - *written, 1, &put);
        *written += put;
        if (os_errno != 0 || put == 0)
            return os_errno != 0 ? os_errno : EIO;
    }
    return 0;
}

/* ---- along a stream ---- */

int64_t os_read(int fd, void *dst, size_t nbytes)
{
    const HANDLE handle = win_handle(fd);
    DWORD count = 0;
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    if (ReadFile(handle, dst, (DWORD)(nbytes < IO_NBYTES_MAX ? nbytes : IO_NBYTES_MAX), &count, NULL))
        return (int64_t)count;
    const DWORD error = GetLastError();
    const int is_end =
        error == ERROR_BROKEN_PIPE || error == ERROR_HANDLE_EOF || error == ERROR_PIPE_NOT_CONNECTED;
    return is_end ? 0 : win_fail(win_errno(error));
}

int64_t os_write(int fd, const void *src, size_t nbytes)
{
    const HANDLE handle = win_handle(fd);
    DWORD count = 0;
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    if (!WriteFile(handle, src, (DWORD)(nbytes < IO_NBYTES_MAX ? nbytes : IO_NBYTES_MAX), &count, NULL))
        return win_fail(win_last_errno());
    return (int64_t)count;
}

size_t os_write_nbytes_max(int fd)
{
    const HANDLE handle = win_handle(fd);
    return handle != INVALID_HANDLE_VALUE && GetFileType(handle) == FILE_TYPE_DISK ? IO_NBYTES_MAX
                                                                                   : PIPE_NBYTES;
}

int os_wait_to_read(int fd, unsigned milliseconds)
{
    const HANDLE handle = win_handle(fd);
    if (handle == INVALID_HANDLE_VALUE || GetFileType(handle) != FILE_TYPE_PIPE)
        return 1;
    const uint64_t begin = os_clock_ns();
    for (;;) {
        DWORD there = 0;
        if (!PeekNamedPipe(handle, NULL, 0, NULL, &there, NULL) || there > 0)
            return 1; /* something, or an error, which the next call on it tells of */
        const uint64_t gone = os_clock_ns() - begin;
        if (gone / 1000000U >= milliseconds)
            return 0;
        if (gone < SPIN_NS)
            (void)SwitchToThread();
        else
            Sleep(milliseconds - gone / 1000000U < POLL_MS ? (DWORD)(milliseconds - gone / 1000000U)
                                                           : POLL_MS);
    }
}

int os_wait_to_write(int fd, unsigned milliseconds)
{
    (void)fd; /* nobody tells whether a pipe has room */
    (void)milliseconds;
    return 1;
}

int64_t os_position(int fd)
{
    const HANDLE handle = win_handle(fd);
    LARGE_INTEGER at = {.QuadPart = 0};
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    if (GetFileType(handle) != FILE_TYPE_DISK)
        return win_fail(ESPIPE);
    return SetFilePointerEx(handle, at, &at, FILE_CURRENT) ? at.QuadPart : win_fail(win_last_errno());
}

int os_rewind(int fd)
{
    const HANDLE handle = win_handle(fd);
    const LARGE_INTEGER at = {.QuadPart = 0};
    if (handle == INVALID_HANDLE_VALUE)
        return EBADF;
    if (GetFileType(handle) != FILE_TYPE_DISK)
        return ESPIPE;
    return SetFilePointerEx(handle, at, NULL, FILE_BEGIN) ? 0 : win_last_errno();
}

/* ---- space ---- */

int os_find_data(int fd, uint64_t offset, uint64_t *begin, uint64_t *end)
{
    const HANDLE handle = win_handle(fd);
    LARGE_INTEGER size;
    FILE_ALLOCATED_RANGE_BUFFER asked;
    FILE_ALLOCATED_RANGE_BUFFER found;
    DWORD nbytes = 0;
    if (handle == INVALID_HANDLE_VALUE)
        return EBADF;
    if (!GetFileSizeEx(handle, &size))
        return win_last_errno();
    const uint64_t file_nbytes = (uint64_t)size.QuadPart;
    if (offset >= file_nbytes)
        return ENXIO;
    asked.FileOffset.QuadPart = (LONGLONG)offset;
    asked.Length.QuadPart = (LONGLONG)(file_nbytes - offset);
    if (!DeviceIoControl(handle, FSCTL_QUERY_ALLOCATED_RANGES, &asked, sizeof asked, &found, sizeof found,
                         &nbytes, NULL) &&
        GetLastError() != ERROR_MORE_DATA)
        return ENOTSUP;
    if (nbytes < sizeof found)
        return ENXIO;
    const uint64_t first = (uint64_t)found.FileOffset.QuadPart;
    const uint64_t behind = first + (uint64_t)found.Length.QuadPart;
    *begin = first > offset ? first : offset;
    *end = behind < file_nbytes ? behind : file_nbytes;
    return 0;
}

int os_reserve(int fd, uint64_t offset, uint64_t nbytes)
{
    const HANDLE handle = win_handle(fd);
    FILE_STANDARD_INFO info;
    FILE_ALLOCATION_INFO wanted;
    if (handle == INVALID_HANDLE_VALUE)
        return EBADF;
    if (offset > INT64_MAX || nbytes > INT64_MAX - offset)
        return EFBIG;
    const int64_t end = (int64_t)(offset + nbytes);
    /* less than the file has would cut it off */
    if (!GetFileInformationByHandleEx(handle, FileStandardInfo, &info, sizeof info) ||
        end <= info.EndOfFile.QuadPart || end <= info.AllocationSize.QuadPart)
        return 0;
    wanted.AllocationSize.QuadPart = end;
    if (SetFileInformationByHandle(handle, FileAllocationInfo, &wanted, sizeof wanted))
        return 0;
    const int os_errno = win_last_errno();
    return os_errno == ENOSPC || os_errno == EFBIG ? os_errno : 0;
}

int os_truncate(int fd, uint64_t nbytes)
{
    const HANDLE handle = win_handle(fd);
    FILE_END_OF_FILE_INFO end;
    if (handle == INVALID_HANDLE_VALUE)
        return EBADF;
    if (nbytes > INT64_MAX)
        return EFBIG;
    allow_hole(handle, nbytes);
    end.EndOfFile.QuadPart = (LONGLONG)nbytes;
    return SetFileInformationByHandle(handle, FileEndOfFileInfo, &end, sizeof end) ? 0 : win_last_errno();
}

int os_sync(int fd)
{
    const HANDLE handle = win_handle(fd);
    HANDLE again = NULL;
    if (handle == INVALID_HANDLE_VALUE)
        return EBADF;
    if (FlushFileBuffers(handle))
        return 0;
    const int os_errno = win_last_errno();
    if (os_errno != EACCES)
        return os_errno;
    /* a descriptor that cannot write, as that of a folder: another one may have the right */
    if (win_open_again(handle, GENERIC_WRITE, 0, &again) == 0) {
        (void)FlushFileBuffers(again);
        CloseHandle(again);
    }
    return 0;
}
