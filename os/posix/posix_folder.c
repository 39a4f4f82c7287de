/*
 * posix_folder.c - folders that are held open, and names in them. O_PATH, flock(), renameat2() (macOS: renameatx_np())
 * and realpath() are beyond POSIX 2008.
 */
#include "os/posix/posix.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- folders ---- */

int os_open_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
#ifdef O_PATH
    if (fd < 0 && errno == EACCES)
        fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
#endif
    return fd;
}

int os_open_own_folder(int folder_fd, const char *name)
{
    return openat(posix_folder(folder_fd), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int os_open_writable_folder(int folder_fd, const char *name)
{
    int fd = os_open_own_folder(folder_fd, name);
    if (fd < 0 && errno == EACCES && fchmodat(posix_folder(folder_fd), name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
        fd = os_open_own_folder(folder_fd, name);
    if (fd >= 0)
        (void)fchmod(fd, 0700);
    return fd;
}

int os_make_folder(int folder_fd, const char *name, unsigned permissions)
{
    return mkdirat(posix_folder(folder_fd), name, (mode_t)permissions) == 0 ? 0 : errno;
}

int os_visit_folder(int folder_fd, int (*visit)(void *user, const char *name), void *user)
{
    const int own_fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const stream = own_fd < 0 ? NULL : fdopendir(own_fd);
    int result = !stream ? errno : 0;
    if (!stream && own_fd >= 0)
        close(own_fd);
    while (stream && result == 0) {
        errno = 0;
        const struct dirent *const entry = readdir(stream);
        if (!entry) {
            result = errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            result = visit(user, entry->d_name);
    }
    if (stream)
        closedir(stream);
    return result;
}

int os_may_remove_from(int folder_fd, const char *folder)
{
    return faccessat(folder_fd, folder, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

/* ---- names ---- */

int os_rename(int folder_fd, const char *from, const char *to)
{
    const int folder = posix_folder(folder_fd);
    return renameat(folder, from, folder, to) == 0 ? 0 : errno;
}

int os_rename_new(int folder_fd, const char *from, const char *to)
{
    struct stat found;
    const int folder = posix_folder(folder_fd);
#if defined RENAME_NOREPLACE || defined RENAME_EXCL
#ifdef RENAME_NOREPLACE
    const int failed = renameat2(folder, from, folder, to, RENAME_NOREPLACE);
#else
    const int failed = renameatx_np(folder, from, folder, to, RENAME_EXCL);
#endif
    if (!failed)
        return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
        return errno;
#endif
    /* linkat() never replaces, and renameat() replaces no file by a directory */
    if (linkat(folder, from, folder, to, 0) == 0) {
        if (unlinkat(folder, from, 0) == 0)
            return 0;
        const int os_errno = errno;
        (void)unlinkat(folder, to, 0);
        return os_errno;
    }
    if (errno == EEXIST || fstatat(folder, to, &found, AT_SYMLINK_NOFOLLOW) == 0)
        return EEXIST;
    return renameat(folder, from, folder, to) == 0 ? 0 : errno;
}

int os_exchange(int folder_fd, const char *one, const char *other)
{
    const int folder = posix_folder(folder_fd);
#if defined RENAME_EXCHANGE
    return renameat2(folder, one, folder, other, RENAME_EXCHANGE) == 0 ? 0 : errno;
#elif defined RENAME_SWAP
    if (renameatx_np(folder, one, folder, other, RENAME_SWAP) == 0)
        return 0;
    return errno == ENOTSUP ? ENOSYS : errno;
#else
    (void)folder;
    (void)one;
    (void)other;
    return ENOSYS;
#endif
}

int os_link(int from_fd, const char *from, int folder_fd, const char *name)
{
    return linkat(posix_folder(from_fd), from, posix_folder(folder_fd), name, 0) == 0 ? 0 : errno;
}

int os_unlink(int folder_fd, const char *name)
{
    return unlinkat(posix_folder(folder_fd), name, 0) == 0 ? 0 : errno;
}

int os_remove_folder(int folder_fd, const char *name)
{
    return unlinkat(posix_folder(folder_fd), name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

const char *os_name_fault(const char *path)
{
    (void)path;
    return NULL;
}

const char *os_components_fault(const char *path)
{
    return os_name_fault(path);
}

/* ---- paths ---- */

char *os_real_path(const char *path)
{
    return realpath(path, NULL);
}

const char os_separators[] = "/";
const char os_list_separator[] = ":";

size_t os_root_nbytes(const char *path)
{
    return path[0] == '/';
}

size_t os_name_nbytes_max(const char *folder)
{
    const long most = pathconf(folder, _PC_NAME_MAX);
    return most > 0 ? (size_t)most : SIZE_MAX;
}

size_t os_path_nbytes_max(void)
{
    return PATH_MAX - 1;
}

int os_matches(const char *pattern, const char *path)
{
    return fnmatch(pattern, path, FNM_PATHNAME) == 0;
}

/* ---- locks ---- */

int os_try_lock(int fd, os_lock lock)
{
    while (flock(fd, (lock == OS_LOCK_SHARED ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

void os_unlock(int fd)
{
    (void)flock(fd, LOCK_UN);
}
