/*
 * names.c - see common/names.h.
 */
#include "safetensors/common/names.h"

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
    return ends_with(path, PLAIN_SUFFIX ST_ARCHIVE_SUFFIX);
}
