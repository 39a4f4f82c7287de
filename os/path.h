/*
 * path.h - the text of paths, and the names of files.
 */
#ifndef LMC_OS_PATH_H
#define LMC_OS_PATH_H

#include <stddef.h>

#include "lmc.h"

/* What an archive's name adds to that of its original. */
#define LMC_ARCHIVE_SUFFIX ".lmc"

/* 1 if the last component of the path is "NAME.safetensors", or "NAME.lmc": NAME is not empty. */
int lmc_is_plain_name(const char *path);
int lmc_is_archive_name(const char *path);

/* Length of a path without the separators at its end. */
size_t lmc_path_length(const char *path);

/* What follows the directory in a path that begins with it, as one of lmc_path_join() does. */
const char *lmc_path_inside(const char *directory, const char *path);

/* For two paths of os_real_path(): 1 if `inner` is `outer` or below it. */
int lmc_path_is_within(const char *inner, const char *outer);

/* What follows the last separator. */
const char *lmc_last_component(const char *path);

/* The last component of the path without the separators at its end, with its length. */
const char *lmc_path_name(const char *path, size_t *nbytes);

/* "directory/name", only `directory` if the name is empty, and then `suffix`; to be released. NULL: out of memory. */
char *lmc_path_join(const lmc_allocator *memory, const char *directory, const char *name, const char *suffix);

/* The directory that a file of this path is in; "." for a name alone. To be released. NULL: out of memory. */
char *lmc_directory_of(const lmc_allocator *memory, const char *path);

#endif
