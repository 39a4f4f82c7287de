/*
 * st_path.c - directories.h: paths, and where they lead.
 */
#include "safetensors/files/directories.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t st_name_max(const lmc_allocator *memory, const char *path)
{
    char *const true_path = st_true_path(memory, path);
    char *const folder = true_path ? lmc_directory_of(memory, true_path) : NULL;
    const size_t most = folder ? os_name_nbytes_max(folder) : SIZE_MAX;
    st_release(memory, folder);
    st_release(memory, true_path);
    return most;
}

/* ---- paths without links ---- */

/* Allocators need not set errno. */
static char *or_no_memory(char *text)
{
    if (!text)
        errno = ENOMEM;
    return text;
}

char *st_true_path(const lmc_allocator *memory, const char *path)
{
    char *const found = os_real_path(path);
    if (!found)
        return errno == ENOENT ? st_true_name(memory, path) : NULL;
    char *const text = st_duplicate(memory, found);
    free(found);
    return or_no_memory(text);
}

char *st_true_name(const lmc_allocator *memory, const char *path)
{
    char *const text = st_duplicate(memory, path);
    if (!text)
        return or_no_memory(NULL);
    text[lmc_path_length(text)] = '\0';
    char *const folder = lmc_directory_of(memory, text);
    char *const parent = folder ? os_real_path(folder) : NULL;
    const int os_errno = folder ? errno : ENOMEM;
    char *const joined = parent ? lmc_path_join(memory, parent, lmc_last_component(text), "") : NULL;
    st_release(memory, folder);
    st_release(memory, text);
    free(parent);
    errno = os_errno;
    return !parent ? NULL : or_no_memory(joined);
}

int st_is_within(const lmc_allocator *memory, const char *path, const char *outer)
{
    char *const inner_path = st_true_path(memory, path);
    const int is_short = !inner_path && errno == ENOMEM;
    char *const outer_path = is_short ? NULL : st_true_path(memory, outer);
    int answer = is_short || (!outer_path && errno == ENOMEM) ? -1 : 0;
    if (inner_path && outer_path)
        answer = lmc_path_is_within(inner_path, outer_path);
    st_release(memory, inner_path);
    st_release(memory, outer_path);
    return answer;
}
