/*
 * names.h - the names of safetensors files and of archives, and the directories that such a name stands in.
 */
#ifndef LMC_SAFETENSORS_COMMON_NAMES_H
#define LMC_SAFETENSORS_COMMON_NAMES_H

#include "lmc.h"

/* What an archive's name adds to that of its original. */
#define ST_ARCHIVE_SUFFIX ".lmc"

/* 1 if the last component of the path is "NAME.safetensors", or "NAME.lmc": NAME is not empty. */
int st_is_plain_name(const char *path);
int st_is_archive_name(const char *path);

/* The directory that a file of this path is in; "." for a name alone. To be released. NULL: out of memory. */
char *st_directory_of(const lmc_allocator *memory, const char *path);

#endif
