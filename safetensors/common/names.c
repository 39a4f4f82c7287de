/*
 * names.c - the suffixes of names, and the directory of a path.
 */
#include "safetensors/common/names.h"

#include "safetensors/common/memory.h"

#include <string.h>

#define PLAIN_SUFFIX ".safetensors"

/* 1 if the last component of the path has this suffix and something before it. */
static int has_suffix(const char *path, const char *suffix)
{
    const char *const slash = strrchr(path, '/');
    const size_t length = strlen(!slash ? path : slash + 1);
    const size_t end = strlen(suffix);
    return length > end && strcmp(path + strlen(path) - end, suffix) == 0;
}

int st_is_plain_name(const char *path)
{
    return has_suffix(path, PLAIN_SUFFIX);
}

int st_is_archive_name(const char *path)
{
    return has_suffix(path, ST_ARCHIVE_SUFFIX);
}

char *st_directory_of(const lmc_allocator *memory, const char *path)
{
    const char *const slash = strrchr(path, '/');
    char *const directory = st_duplicate(memory, slash ? path : ".");
    if (directory && slash)
        directory[slash == path ? 1 : slash - path] = '\0';
    return directory;
}
