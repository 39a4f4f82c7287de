/*
 * path.c - the text of paths, and the folders along one.
 */
#include "os/path.h"

#include "os/os.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int is_separator(char character)
{
    return character != '\0' && strchr(os_separators, character) != NULL;
}

/* 1 if the last component of the path has this suffix and something before it. */
static int has_suffix(const char *path, const char *suffix)
{
    const char *const name = lmc_last_component(path);
    const size_t length = strlen(name);
    const size_t end = strlen(suffix);
    return length > end && strcmp(name + length - end, suffix) == 0;
}

int lmc_is_plain_name(const char *path)
{
    return has_suffix(path, ".safetensors");
}

int lmc_is_archive_name(const char *path)
{
    return has_suffix(path, LMC_ARCHIVE_SUFFIX);
}

size_t lmc_path_length(const char *path)
{
    const size_t root = os_root_nbytes(path);
    size_t length = strlen(path);
    while (length > root && is_separator(path[length - 1]))
        length--;
    return length;
}

const char *lmc_path_inside(const char *directory, const char *path)
{
    const char *const inside = path + strlen(directory);
    return is_separator(*inside) ? inside + 1 : inside;
}

int lmc_path_is_within(const char *inner, const char *outer)
{
    const size_t length = strlen(outer);
    return strncmp(inner, outer, length) == 0 &&
           (inner[length] == '\0' || inner[length] == '/' || (length > 0 && outer[length - 1] == '/'));
}

const char *lmc_last_component(const char *path)
{
    const char *name = path;
    for (const char *at = path; *at != '\0'; at++)
        name = is_separator(*at) ? at + 1 : name;
    return name;
}

const char *lmc_path_name(const char *path, size_t *nbytes)
{
    const char *const end = path + lmc_path_length(path);
    const char *name = path;
    for (const char *at = path; at < end; at++)
        name = is_separator(*at) ? at + 1 : name;
    *nbytes = (size_t)(end - name);
    return name;
}

char *lmc_path_join(const lmc_allocator *memory, const char *directory, const char *name, const char *suffix)
{
    const size_t end = strlen(directory);
    const size_t capacity = end + strlen(name) + strlen(suffix) + 2;
    const int needs_slash = end > 0 && !is_separator(directory[end - 1]) && name[0] != '\0';
    char *const path = memory->allocate(memory->user, capacity);
    if (path)
        snprintf(path, capacity, "%s%s%s%s", directory, needs_slash ? "/" : "", name, suffix);
    return path;
}

char *lmc_directory_of(const lmc_allocator *memory, const char *path)
{
    const size_t root = os_root_nbytes(path);
    const size_t end = (size_t)(lmc_last_component(path) - path); /* behind the last separator */
    char *const directory = lmc_path_join(memory, end == 0 ? "." : path, "", "");
    if (directory && end > 0)
        directory[end <= root ? root : end - 1] = '\0';
    return directory;
}

int os_open_folder_of(int root_fd, char *path, const char **name)
{
    int fd = os_open_own_folder(root_fd, ".");
    char *at = path;
    char *end = NULL;
    for (; fd >= 0 && (end = strpbrk(at, os_separators)) != NULL; at = end + 1) {
        const char separator = *end;
        *end = '\0';
        const int next = os_open_own_folder(fd, at);
        const int os_errno = errno;
        *end = separator;
        (void)os_close(fd);
        fd = next;
        errno = os_errno;
    }
    *name = at;
    return fd;
}
