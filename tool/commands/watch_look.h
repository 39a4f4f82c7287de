/*
 * watch_look.h - what `run watch` sees of a file or directory: whether it changes, and whether it is complete.
 */
#ifndef LMC_TOOL_COMMANDS_WATCH_LOOK_H
#define LMC_TOOL_COMMANDS_WATCH_LOOK_H

#include "tool/cli.h"

#include <sys/stat.h>

/* A number that changes if a file or directory itself is another one, or has another size or time. */
uint64_t watch_own_print(const struct stat *found);

/* The same for a path and all that is below it. `run`: of the directory of the run, NULL if there is none yet.
 * Returns 0, or an errno: ENOENT (it is gone), EXDEV (it holds the run). What cannot be read is part of the print. */
int watch_print(const char *path, const struct stat *run, uint64_t *print);

/* Success if the file, or each file of the directory that is a container, reads to its end. *container_count: how many
 * there are; archives are none. Files that options->excludes names are passed over. */
lmc_status watch_check(const char *path, const lmc_st_options *options, uint64_t *container_count,
                       lmc_st_diag *diag);

#endif
