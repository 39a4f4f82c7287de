/*
 * folder.c - os/folder.h, and removal (os/dir.h): what is in a folder is reached from its descriptor, and no link is
 * followed. flock and renameat2 are beyond POSIX 2008 as far as the C library is concerned.
 */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include "safetensors/os/folder.h"
#include "safetensors/os/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* renameat2, RENAME_EXCHANGE */
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How often a lock that another process has is tried again. */
#define LOCK_WAIT_NS 10000000L

/* ---- names ---- */

int os_folder_create(const char *path)
{
    return mkdir(path, 0777) == 0 ? 0 : errno;
}

int os_folder_create_in(int folder_fd, const char *name)
{
    return mkdirat(folder_fd, name, 0777) == 0 ? 0 : errno;
}

int os_folder_remove_empty(const char *path)
{
    return rmdir(path) == 0 ? 0 : errno;
}

int os_folder_has(int folder_fd, const char *name)
{
    struct stat found;
    return fstatat(folder_fd, name, &found, AT_SYMLINK_NOFOLLOW) == 0;
}

int os_folder_is_folder(int folder_fd, const char *name)
{
    struct stat found;
    return fstatat(folder_fd, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(found.st_mode);
}

int os_folder_file_nbytes(int folder_fd, const char *path, uint64_t *nbytes)
{
    struct stat found;
    if (fstatat(folder_fd, path, &found, 0) != 0 || !S_ISREG(found.st_mode))
        return 0;
    *nbytes = (uint64_t)found.st_size;
    return 1;
}

int os_folder_rename(int folder_fd, const char *from, const char *to)
{
    return renameat(folder_fd, from, folder_fd, to) == 0 ? 0 : errno;
}

int os_folder_exchange(int folder_fd, const char *one, const char *other)
{
#ifdef RENAME_EXCHANGE
    return renameat2(folder_fd, one, folder_fd, other, RENAME_EXCHANGE) == 0 ? 0 : errno;
#else
    (void)folder_fd;
    (void)one;
    (void)other;
    return ENOSYS;
#endif
}

void os_folder_sync(int folder_fd)
{
    (void)fsync(folder_fd);
}

int os_folder_remove_file(int folder_fd, const char *name)
{
    return unlinkat(folder_fd, name, 0) == 0 ? 0 : errno;
}

int os_folder_create_file(int folder_fd, const char *name)
{
    const int fd = openat(folder_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

/* ---- locks ---- */

/* A lock is tried again and again: the caller's *cancel may be set by another thread, which interrupts nothing. */
static int wait_for_lock(int fd, int operation, const volatile int *cancel)
{
    const struct timespec pause = {0, LOCK_WAIT_NS};
    while (flock(fd, operation | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return errno;
        if (st_is_cancelled(cancel))
            return ECANCELED;
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

int os_lock_file(int folder_fd, const char *name, const volatile int *cancel, int *lock_fd)
{
    for (;;) {
        struct stat by_fd;
        struct stat by_name;
        const int fd = openat(folder_fd, name, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0666);
        *lock_fd = fd;
        if (fd < 0)
            return errno;
        const int os_errno = wait_for_lock(fd, LOCK_EX, cancel);
        const int has_name = os_errno == 0 && fstat(fd, &by_fd) == 0 &&
                             fstatat(folder_fd, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 &&
                             lmc_is_same_file(&by_fd, &by_name);
        if (has_name)
            return 0;
        close(fd); /* whoever had the lock has removed the file */
        *lock_fd = -1;
        if (os_errno != 0)
            return os_errno;
    }
}

int os_lock_folder(int folder_fd, int is_shared, const volatile int *cancel)
{
    const int os_errno = wait_for_lock(folder_fd, is_shared ? LOCK_SH : LOCK_EX, cancel);
    return os_errno == ECANCELED ? os_errno : 0;
}

void os_unlock_folder(int folder_fd)
{
    (void)flock(folder_fd, LOCK_UN);
}

/* ---- removing ---- */

typedef struct removal {
    int fd;
    int os_errno; /* the first: a removal goes on after what cannot be removed */
} removal;

static int remove_one(void *user, const char *name)
{
    removal *const removal = user;
    const int os_errno = os_remove_name(removal->fd, name);
    removal->os_errno = removal->os_errno != 0 ? removal->os_errno : os_errno;
    return 0;
}

int os_remove_contents(int fd)
{
    removal removal = {.fd = fd};
    const int os_errno = lmc_visit_folder(fd, remove_one, &removal);
    return removal.os_errno != 0 ? removal.os_errno : os_errno;
}

int os_remove_name(int folder_fd, const char *name)
{
    struct stat found;
    if (fstatat(folder_fd, name, &found, AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    if (!S_ISDIR(found.st_mode))
        return unlinkat(folder_fd, name, 0) == 0 ? 0 : errno;
    const int fd = os_open_writable_folder(folder_fd, name); /* a copied one may be read-only by now */
    if (fd < 0)
        return errno;
    const int os_errno = os_remove_contents(fd);
    close(fd);
    return os_errno == 0 && unlinkat(folder_fd, name, AT_REMOVEDIR) != 0 ? errno : os_errno;
}
