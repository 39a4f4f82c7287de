/*
 * posix_file.c - files that are opened, created, read and written. O_TMPFILE, fallocate() and SEEK_DATA are Linux's.
 */
#include "os/posix/posix.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One system call moves at most this much: some systems refuse or cut larger counts. */
#define IO_NBYTES_MAX ((size_t)1 << 30)

/* ---- opening ---- */

/* Without O_NONBLOCK, opening a pipe would wait for a writer. It does nothing to regular files. */
int os_open(int folder_fd, const char *name)
{
    return openat(posix_folder(folder_fd), name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

int os_open_own(int folder_fd, const char *name)
{
    return openat(posix_folder(folder_fd), name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
}

int os_create(int folder_fd, const char *name, unsigned permissions)
{
    return openat(posix_folder(folder_fd), name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, (mode_t)permissions);
}

int os_open_or_create(int folder_fd, const char *name)
{
    return openat(posix_folder(folder_fd), name, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0666);
}

/* ---- files without a name ---- */

#ifdef O_TMPFILE

/* The name under which a process reaches its own open file. */
#define FD_PATH "/proc/self/fd/%d"
#define FD_PATH_NBYTES 32

int os_create_unnamed(int folder_fd, const char *directory, unsigned permissions)
{
    const int fd =
        openat(posix_folder(folder_fd), directory, O_TMPFILE | O_RDWR | O_CLOEXEC, (mode_t)permissions);
    char fd_path[FD_PATH_NBYTES];
    struct stat found;
    if (fd < 0)
        return -1;
    snprintf(fd_path, sizeof fd_path, FD_PATH, fd);
    if (stat(fd_path, &found) == 0)
        return fd;
    close(fd); /* without /proc it would stay without a name */
    errno = ENOTSUP;
    return -1;
}

int os_link_unnamed(int fd, int folder_fd, const char *name)
{
    char fd_path[FD_PATH_NBYTES];
    snprintf(fd_path, sizeof fd_path, FD_PATH, fd);
    return linkat(AT_FDCWD, fd_path, posix_folder(folder_fd), name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

#else

int os_create_unnamed(int folder_fd, const char *directory, unsigned permissions)
{
    (void)folder_fd;
    (void)directory;
    (void)permissions;
    errno = ENOTSUP;
    return -1;
}

int os_link_unnamed(int fd, int folder_fd, const char *name)
{
    (void)fd;
    (void)folder_fd;
    (void)name;
    return ENOTSUP;
}

#endif

int os_create_temporary(const char *directory)
{
    char path[4096];
    int fd = os_create_unnamed(OS_HERE, directory, 0600);
    const int length = snprintf(path, sizeof path, "%s/.lmc-st-XXXXXX", directory);
    if (fd >= 0 || length >= (int)sizeof path)
        return fd;
    fd = mkstemp(path);
    if (fd >= 0) {
        (void)unlink(path);
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    return fd;
}

const char *os_temporary_directory(unsigned index)
{
    static const char *const directories[] = {"/var/tmp", "/tmp"};
    const char *const named = os_environment("TMPDIR");
    if (named && index == 0)
        return named;
    index -= named != NULL;
    return index < sizeof directories / sizeof directories[0] ? directories[index] : NULL;
}

int os_duplicate(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

int os_close(int fd)
{
    return close(fd) == 0 ? 0 : errno;
}

/* ---- reading and writing ---- */

int64_t os_read_at(int fd, uint64_t offset, void *dst, size_t nbytes)
{
    size_t done = 0;
    while (done < nbytes) {
        const size_t wanted = nbytes - done < IO_NBYTES_MAX ? nbytes - done : IO_NBYTES_MAX;
        const ssize_t got = pread(fd, (char *)dst + done, wanted, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

int os_write_at(int fd, uint64_t offset, const void *src, size_t nbytes, size_t *written)
{
    for (*written = 0; *written < nbytes;) {
        const size_t wanted = nbytes - *written < IO_NBYTES_MAX ? nbytes - *written : IO_NBYTES_MAX;
        const ssize_t put = pwrite(fd, (const char *)src + *written, wanted, (off_t)(offset + *written));
        if (put == 0 || (put < 0 && errno != EINTR))
            return put == 0 ? EIO : errno;
        *written += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

int64_t os_read(int fd, void *dst, size_t nbytes)
{
    ssize_t got = 0;
    do
        got = read(fd, dst, nbytes < IO_NBYTES_MAX ? nbytes : IO_NBYTES_MAX);
    while (got < 0 && errno == EINTR);
    return got;
}

int64_t os_write(int fd, const void *src, size_t nbytes)
{
    ssize_t put = 0;
    do
        put = write(fd, src, nbytes < IO_NBYTES_MAX ? nbytes : IO_NBYTES_MAX);
    while (put < 0 && errno == EINTR);
    return put;
}

size_t os_write_nbytes_max(int fd)
{
    struct stat found;
    return fstat(fd, &found) == 0 && S_ISREG(found.st_mode) ? IO_NBYTES_MAX : PIPE_BUF;
}

static int wait_for(int fd, short events, unsigned milliseconds)
{
    struct pollfd wanted = {fd, events, 0};
    const int count = poll(&wanted, 1, (int)milliseconds);
    return count > 0 || (count < 0 && errno != EINTR);
}

int os_wait_to_read(int fd, unsigned milliseconds)
{
    return wait_for(fd, POLLIN, milliseconds);
}

int os_wait_to_write(int fd, unsigned milliseconds)
{
    return wait_for(fd, POLLOUT, milliseconds);
}

/* ---- positions and sizes ---- */

int64_t os_position(int fd)
{
    return (int64_t)lseek(fd, 0, SEEK_CUR);
}

int os_rewind(int fd)
{
    return lseek(fd, 0, SEEK_SET) < 0 ? errno : 0;
}

int os_find_data(int fd, uint64_t offset, uint64_t *begin, uint64_t *end)
{
#ifdef SEEK_DATA
    const off_t data = lseek(fd, (off_t)offset, SEEK_DATA);
    const off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
    if (hole < 0)
        return errno == ENXIO ? ENXIO : ENOTSUP;
    *begin = (uint64_t)data;
    *end = (uint64_t)hole;
    return 0;
#else
    (void)fd;
    (void)offset;
    (void)begin;
    (void)end;
    return ENOTSUP;
#endif
}

int os_reserve(int fd, uint64_t offset, uint64_t nbytes)
{
#ifdef __linux__
    while (nbytes > 0 && fallocate(fd, 0, (off_t)offset, (off_t)nbytes) != 0) {
        if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)
            return errno;
        if (errno != EINTR)
            break;
    }
#else
    (void)fd;
    (void)offset;
    (void)nbytes;
#endif
    return 0;
}

int os_truncate(int fd, uint64_t nbytes)
{
    while (ftruncate(fd, (off_t)nbytes) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

/* On macOS fsync() leaves the bytes in the drive's own memory. */
int os_sync(int fd)
{
#ifdef F_FULLFSYNC
    if (fcntl(fd, F_FULLFSYNC) == 0)
        return 0;
#endif
    return fsync(fd) == 0 ? 0 : errno;
}
