/*
 * tool_path.h - paths: their text, and what they lead to.
 */
#ifndef LMC_TOOL_TOOL_PATH_H
#define LMC_TOOL_TOOL_PATH_H

#include <stddef.h>

#define CLI_ARCHIVE_SUFFIX ".lmc"

/* 1 if the path, with links followed, is a directory, or a regular file. */
int cli_is_directory(const char *path);
int cli_is_file(const char *path);

/* 1 if it is a directory whose last component is its own name: no link, "." or "..". */
int cli_is_own_directory(const char *path);

/* 1 if the last component is "NAME.lmc": NAME is not empty. */
int cli_is_archive_name(const char *path);

/* The path of the archive in the folder of a step of a run that has just one, not counting those further down; to be
 * freed. NULL: it is no such folder, or has none or several, or cannot be read. */
char *cli_archive_of_step(const char *folder);

/* Length of a path without the slashes at its end. */
size_t cli_path_length(const char *path);

/* What follows the last slash. */
const char *cli_last_component(const char *path);

/* "directory/name", only `directory` if the name is empty, and then `suffix`; to be freed. NULL: out of memory. */
char *cli_path_join(const char *directory, const char *name, const char *suffix);

#endif
