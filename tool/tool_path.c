/*
 * tool_path.c - paths: their text, and what they lead to.
 */
#define _FILE_OFFSET_BITS 64
#define _XOPEN_SOURCE 700 /* realpath() */

#include "tool/tool_path.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int cli_is_own_directory(const char *path)
{
    struct stat found;
    char *const text = strndup(path, lmc_path_length(path)); /* a slash at the end would follow a link */
    if (!text)
        return 0;
    const char *const name = lmc_last_component(text);
    const int is_own = strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && lstat(text, &found) == 0 &&
                       S_ISDIR(found.st_mode);
    free(text);
    return is_own;
}

char *cli_own_name(const char *path)
{
    char *text = strndup(path, lmc_path_length(path));
    const char *name = text ? lmc_last_component(text) : "";
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        char *const real = realpath(path, NULL);
        if (real) {
            free(text);
            text = real;
            name = lmc_last_component(text);
        }
    }
    char *const copy = text ? strdup(name) : NULL;
    free(text);
    return copy;
}

char *cli_archive_of_step(const char *folder)
{
    char *const list = lmc_path_join(&lmc_memory_default, folder, "../run.json", "");
    char *const text = strndup(folder, lmc_path_length(folder));
    char *found = NULL;
    DIR *stream = NULL;
    size_t count = 0;
    if (list && text) { /* "RUN/STEP" where RUN has a list of steps */
        const char *const name = lmc_last_component(text);
        if (name[0] != '\0' && name[strspn(name, "0123456789")] == '\0' && os_is_file(list))
            stream = opendir(folder);
    }
    free(text);
    free(list);
    if (!stream)
        return NULL;
    for (const struct dirent *next = readdir(stream); next && count < 2; next = readdir(stream)) {
        char *const path = lmc_is_archive_name(next->d_name)
                               ? lmc_path_join(&lmc_memory_default, folder, next->d_name, "")
                               : NULL;
        if (path && os_is_file(path) && count++ == 0)
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
