/*
 * base.h - the options --base and --base-dir: what they name, files opened with them, and the files that
 * an archive cannot do without.
 */
#ifndef LMC_TOOL_BASE_H
#define LMC_TOOL_BASE_H

#include "tool/cli.h"

/* Looks at what --base names: a directory if `in_path` is one, else a regular file that can be opened. Returns
 * the exit status, after a message if it is not CLI_OK; CLI_OK without --base. */
int cli_base_check(const cli_args *args, const char *in_path);

/* lmc_st_open() with the places where --base and --base-dir say that its base is. */
lmc_status cli_open(const cli_args *args, const char *path, lmc_st_file **file, lmc_st_diag *diag);

/* CLI_OK if no archive at `archive_path`, a file or a directory of them, needs a file that is `in_path` or
 * below it: what must be so before that is removed. Else the exit status, after a message. */
int cli_base_allows_removal(const cli_args *args, const char *archive_path, const char *in_path);

#endif
