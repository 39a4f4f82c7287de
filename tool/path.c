/*
 * path.c - paths: their text, and what they lead to.
 */
#define _FILE_OFFSET_BITS 64

#include "tool/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int cli_is_directory(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

int cli_is_file(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode);
}

int cli_is_own_directory(const char *path)
{
    struct stat found;
    char *const text = strndup(path, cli_path_length(path)); /* a slash at the end would follow a link */
    if (!text)
        return 0;
    const char *const name = cli_last_component(text);
    const int is_own = strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && lstat(text, &found) == 0 &&
                       S_ISDIR(found.st_mode);
    free(text);
    return is_own;
}

int cli_is_archive_name(const char *path)
{
    static const char suffix[] = CLI_ARCHIVE_SUFFIX;
    const char *const name = cli_last_component(path);
    const size_t length = strlen(name);
    return length >= sizeof suffix && strcmp(name + length - (sizeof suffix - 1), suffix) == 0;
}

size_t cli_path_length(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    return length;
}

const char *cli_last_component(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *cli_path_join(const char *directory, const char *name, const char *suffix)
{
    const size_t end = strlen(directory);
    const size_t capacity = end + strlen(name) + strlen(suffix) + 2;
    const int needs_slash = end > 0 && directory[end - 1] != '/' && name[0] != '\0';
    char *const path = malloc(capacity);
    if (path)
        snprintf(path, capacity, "%s%s%s%s", directory, needs_slash ? "/" : "", name, suffix);
    return path;
}
