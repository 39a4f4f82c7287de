/*
 * folder.c - folder.h, and removal (directories.h): what is in a folder is reached from its descriptor, and no link is
 * followed.
 */
#include "safetensors/files/folder.h"
#include "safetensors/files/directories.h"

#include <errno.h>

/* How often a lock that another process has is tried again. */
#define LOCK_WAIT_MS 10

/* ---- names ---- */

int st_folder_has(int folder_fd, const char *name, int *has)
{
    os_state found;
    const int os_errno = os_lstat(folder_fd, name, &found);
    *has = os_errno == 0;
    return os_errno == ENOENT ? 0 : os_errno;
}

int st_folder_has_folder(int folder_fd, const char *name, int *has)
{
    os_state found;
    const int os_errno = os_lstat(folder_fd, name, &found);
    *has = os_errno == 0 && found.kind == OS_FOLDER;
    return os_errno == ENOENT ? 0 : os_errno;
}

int st_folder_file_nbytes(int folder_fd, const char *path, uint64_t *nbytes)
{
    os_state found;
    if (os_stat(folder_fd, path, &found) != 0 || found.kind != OS_FILE)
        return 0;
    *nbytes = found.nbytes;
    return 1;
}

int st_folder_create_file(int folder_fd, const char *name)
{
    const int fd = os_open_or_create(folder_fd, name);
    return fd < 0 ? errno : os_close(fd);
}

/* ---- locks ---- */

/* A lock is tried again and again: the caller's *cancel may be set by another thread, which interrupts nothing. */
static int wait_for_lock(int fd, os_lock lock, const volatile int *cancel)
{
    for (;;) {
        const int os_errno = os_try_lock(fd, lock);
        if (os_errno != EWOULDBLOCK)
            return os_errno;
        if (st_is_cancelled(cancel))
            return ECANCELED;
        os_sleep_ms(LOCK_WAIT_MS);
    }
}

int st_lock_file(int folder_fd, const char *name, const volatile int *cancel, int *lock_fd)
{
    for (;;) {
        os_state by_fd;
        os_state by_name;
        const int fd = os_open_or_create(folder_fd, name);
        *lock_fd = fd;
        if (fd < 0)
            return errno;
        const int os_errno = wait_for_lock(fd, OS_LOCK_ALONE, cancel);
        if (os_errno == 0 && os_fstat(fd, &by_fd) == 0 && os_lstat(folder_fd, name, &by_name) == 0 &&
            os_is_same_file(&by_fd, &by_name))
            return 0;
        (void)os_close(fd); /* whoever had the lock has removed the file */
        *lock_fd = -1;
        if (os_errno != 0)
            return os_errno;
    }
}

int st_lock_folder(int folder_fd, os_lock lock, const volatile int *cancel)
{
    const int os_errno = wait_for_lock(folder_fd, lock, cancel);
    return os_errno == ECANCELED ? os_errno : 0;
}

/* ---- removing ---- */

typedef struct removal {
    int fd;
    int os_errno; /* the first: a removal goes on after what cannot be removed */
} removal;

static int remove_one(void *user, const char *name)
{
    removal *const removal = user;
    const int os_errno = st_remove_name(removal->fd, name);
    removal->os_errno = removal->os_errno != 0 ? removal->os_errno : os_errno;
    return 0;
}

int st_remove_contents(int fd)
{
    removal removal = {.fd = fd};
    const int os_errno = os_visit_folder(fd, remove_one, &removal);
    return removal.os_errno != 0 ? removal.os_errno : os_errno;
}

int st_remove_name(int folder_fd, const char *name)
{
    os_state found;
    int os_errno = os_lstat(folder_fd, name, &found);
    if (os_errno != 0 || found.kind != OS_FOLDER)
        return os_errno != 0 ? os_errno : os_unlink(folder_fd, name);
    const int fd = os_open_writable_folder(folder_fd, name); /* a copied one may be read-only by now */
    if (fd < 0)
        return errno;
    os_errno = st_remove_contents(fd);
    (void)os_close(fd);
    return os_errno != 0 ? os_errno : os_remove_folder(folder_fd, name);
}
