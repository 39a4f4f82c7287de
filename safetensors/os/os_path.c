/*
 * os_path.c - os/dir.h: paths, and what they lead to. realpath is beyond POSIX 2008 as far as the C library is
 * concerned.
 */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include "safetensors/os/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int os_path_matches(const char *pattern, const char *path)
{
    return fnmatch(pattern, path, FNM_PATHNAME) == 0;
}

size_t os_name_max(const lmc_allocator *memory, const char *path)
{
    char *const folder = os_true_path(memory, path);
    char *const slash = !folder ? NULL : strrchr(folder, '/');
    long most = -1;
    if (slash) {
        slash[slash == folder] = '\0';
        most = pathconf(folder, _PC_NAME_MAX);
    }
    st_release(memory, folder);
    return most > 0 ? (size_t)most : SIZE_MAX;
}

int os_open_writable_folder(int folder_fd, const char *name)
{
    int fd = lmc_open_own_folder(folder_fd, name);
    if (fd < 0 && errno == EACCES && fchmodat(folder_fd, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
        fd = lmc_open_own_folder(folder_fd, name);
    if (fd >= 0)
        (void)fchmod(fd, 0700);
    return fd;
}

/* ---- paths without links ---- */

/* Allocators need not set errno. */
static char *or_no_memory(char *text)
{
    if (!text)
        errno = ENOMEM;
    return text;
}

char *os_true_path(const lmc_allocator *memory, const char *path)
{
    char *const found = realpath(path, NULL);
    if (!found && errno != ENOENT)
        return NULL;
    const int is_there = found != NULL;
    char *const text = st_duplicate(memory, is_there ? found : path);
    free(found);
    if (is_there || !text)
        return or_no_memory(text);
    /* the last component is not there */
    size_t length = strlen(text);
    while (length > 1 && text[length - 1] == '/')
        text[--length] = '\0';
    char *const slash = strrchr(text, '/');
    const char *const name = !slash ? text : slash + 1;
    if (slash)
        *slash = '\0';
    char *joined = NULL;
    char *const parent = realpath(!slash ? "." : slash == text ? "/" : text, NULL);
    const int os_errno = errno;
    if (parent)
        joined = lmc_path_join(memory, parent, name, "");
    free(parent);
    st_release(memory, text);
    errno = os_errno;
    return !parent ? NULL : or_no_memory(joined);
}

int os_true_is_within(const char *inner, const char *outer)
{
    const size_t length = strlen(outer);
    return strncmp(inner, outer, length) == 0 &&
           (inner[length] == '\0' || inner[length] == '/' || (length > 0 && outer[length - 1] == '/'));
}

int os_is_within(const lmc_allocator *memory, const char *path, const char *outer)
{
    char *const inner_path = os_true_path(memory, path);
    const int is_short = !inner_path && errno == ENOMEM;
    char *const outer_path = is_short ? NULL : os_true_path(memory, outer);
    int answer = is_short || (!outer_path && errno == ENOMEM) ? -1 : 0;
    if (inner_path && outer_path)
        answer = os_true_is_within(inner_path, outer_path);
    st_release(memory, inner_path);
    st_release(memory, outer_path);
    return answer;
}
