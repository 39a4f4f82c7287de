/*
 * remove.c - os/dir.h: removing a directory that this library has written. Its contents are reached from the open
 * directory, and no link is followed.
 */
#define _FILE_OFFSET_BITS 64

#include "safetensors/os/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_self_or_parent(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* The next name in the directory; NULL at its end, or with *os_errno set. */
static const char *next_name(DIR *stream, int *os_errno)
{
    const struct dirent *entry = NULL;
    do {
        errno = 0;
        entry = readdir(stream);
    } while (entry && is_self_or_parent(entry->d_name));
    *os_errno = !entry ? errno : 0;
    return !entry ? NULL : entry->d_name;
}

/* Goes on after what cannot be removed; returns the first errno. Closes `fd`. */
static int remove_all_in(int fd)
{
    DIR *const stream = fdopendir(fd);
    int os_errno = 0;
    int first_errno = !stream ? errno : 0;
    if (!stream) {
        close(fd);
        return first_errno;
    }
    for (const char *name = NULL; (name = next_name(stream, &os_errno)) != NULL;) {
        os_errno = os_remove_name(dirfd(stream), name);
        first_errno = first_errno != 0 ? first_errno : os_errno;
    }
    closedir(stream);
    return first_errno != 0 ? first_errno : os_errno;
}

int os_remove_contents(int fd)
{
    const int own_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return own_fd < 0 ? errno : remove_all_in(own_fd);
}

static int remove_folder(int folder_fd, const char *name)
{
    const int fd = os_open_writable_folder(folder_fd, name); /* a copied one may be read-only by now */
    const int os_errno = fd < 0 ? errno : remove_all_in(fd);
    return os_errno == 0 && unlinkat(folder_fd, name, AT_REMOVEDIR) != 0 ? errno : os_errno;
}

int os_remove_name(int folder_fd, const char *name)
{
    struct stat found;
    if (fstatat(folder_fd, name, &found, AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    if (S_ISDIR(found.st_mode))
        return remove_folder(folder_fd, name);
    return unlinkat(folder_fd, name, 0) == 0 ? 0 : errno;
}
