/*
 * tool_path.c - paths: their text, and what they lead to.
 */
#define _FILE_OFFSET_BITS 64

#include "tool/tool_path.h"

#include <dirent.h>
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

char *cli_archive_of_step(const char *folder)
{
    char *const list = cli_path_join(folder, "../run.json", "");
    char *const text = strndup(folder, cli_path_length(folder));
    char *found = NULL;
    DIR *stream = NULL;
    size_t count = 0;
    if (list && text) { /* "RUN/STEP" where RUN has a list of steps */
        const char *const name = cli_last_component(text);
        if (name[0] != '\0' && name[strspn(name, "0123456789")] == '\0' && cli_is_file(list))
            stream = opendir(folder);
    }
    free(text);
    free(list);
    if (!stream)
        return NULL;
    for (const struct dirent *next = readdir(stream); next && count < 2; next = readdir(stream)) {
        char *const path = cli_is_archive_name(next->d_name) ? cli_path_join(folder, next->d_name, "") : NULL;
        if (path && cli_is_file(path) && count++ == 0)
            found = path;
        else
            free(path);
    }
    closedir(stream);
    if (count == 1)
        return found;
    free(found);
    return NULL;
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
