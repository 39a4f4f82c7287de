/*
 * open_folder.c - folders that are held open. O_PATH is beyond POSIX 2008 as far as the C library is concerned.
 */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include "common/open_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int lmc_open_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
#ifdef O_PATH
    if (fd < 0 && errno == EACCES)
        fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
#endif
    return fd;
}

int lmc_open_own_folder(int folder_fd, const char *name)
{
    return openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int lmc_open_folder_of(int root_fd, char *path, const char **name)
{
    int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char *at = path;
    char *slash = NULL;
    for (; fd >= 0 && (slash = strchr(at, '/')) != NULL; at = slash + 1) {
        *slash = '\0';
        const int next = lmc_open_own_folder(fd, at);
        const int os_errno = errno;
        *slash = '/';
        close(fd);
        fd = next;
        errno = os_errno;
    }
    *name = at;
    return fd;
}

int lmc_visit_folder(int folder_fd, int (*visit)(void *user, const char *name), void *user)
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

int lmc_is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}
