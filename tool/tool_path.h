/*
 * tool_path.h - paths: their text, and what they lead to.
 */
#ifndef LMC_TOOL_TOOL_PATH_H
#define LMC_TOOL_TOOL_PATH_H

#include "common/allocator.h"
#include "os/os.h"
#include "os/path.h"

/* The first nbytes bytes of a text, with a NUL; to be freed. NULL: out of memory. */
char *cli_copy(const char *text, size_t nbytes);

/* 1 if the texts are equal, digits aside. */
int cli_is_similar(const char *a, const char *b);

/* 1 if they are of one file, which has the size and the times that it had. No program can set the time of change.
 * Another name, or one name less, moves it: then `is_renamed`. */
int cli_is_same_state(const os_state *a, const os_state *b, int is_renamed);

/* 1 if it is a directory whose last component is its own name: no link, "." or "..". */
int cli_is_own_directory(const char *path);

/* The last component of a path without slashes at its end; for "." and "..", what the directory is called, if it
 * exists. To be freed. NULL: out of memory. */
char *cli_own_name(const char *path);

/* The path of the archive in the folder of a step of a run that has just one, not counting those further down; to be
 * freed. NULL: it is no such folder, or has none or several, or cannot be read. */
char *cli_archive_of_step(const char *folder);

#endif
