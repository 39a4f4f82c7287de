/*
 * names.c - the suffixes of names, and the directory of a path.
 */
#include "safetensors/common/names.h"

#include "safetensors/common/memory.h"

#include <string.h>

#define PLAIN_SUFFIX ".safetensors"

static int ends_with(const char *path, const char *suffix)
{
    const size_t length = strlen(path);
    const size_t end = strlen(suffix);
    return length > end && strcmp(path + length - end, suffix) == 0;
}

int st_is_plain_name(const char *path)
{
    return ends_with(path, PLAIN_SUFFIX);
}

int st_is_archive_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return ends_with(!slash ? path : slash + 1, ST_ARCHIVE_SUFFIX);
}

char *st_directory_of(const lmc_allocator *memory, const char *path)
{
    const char *const slash = strrchr(path, '/');
    char *const directory = st_duplicate(memory, slash ? path : ".");
    if (directory && slash)
        directory[slash == path ? 1 : slash - path] = '\0';
    return directory;
}
