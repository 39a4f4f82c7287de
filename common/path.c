/*
 * path.c - paths: their text, the names of files, and what they lead to.
 */
#define _FILE_OFFSET_BITS 64

#include "common/path.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    return length;
}

const char *lmc_last_component(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *lmc_path_join(const lmc_allocator *memory, const char *directory, const char *name, const char *suffix)
{
    const size_t end = strlen(directory);
    const size_t capacity = end + strlen(name) + strlen(suffix) + 2;
    const int needs_slash = end > 0 && directory[end - 1] != '/' && name[0] != '\0';
    char *const path = memory->allocate(memory->user, capacity);
    if (path)
        snprintf(path, capacity, "%s%s%s%s", directory, needs_slash ? "/" : "", name, suffix);
    return path;
}

char *lmc_directory_of(const lmc_allocator *memory, const char *path)
{
    const size_t end = (size_t)(lmc_last_component(path) - path); /* behind the last slash */
    char *const directory = lmc_path_join(memory, end == 0 ? "." : path, "", "");
    if (directory && end > 0)
        directory[end == 1 ? 1 : end - 1] = '\0';
    return directory;
}

int lmc_is_directory(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

int lmc_is_file(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode);
}
