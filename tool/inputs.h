/*
 * inputs.h - the files that a command reads: the options of library calls, what --base and --base-dir name, opening
 * with them, tensors, and the files that an archive cannot do without.
 */
#ifndef LMC_TOOL_INPUTS_H
#define LMC_TOOL_INPUTS_H

#include "tool/cli.h"

/* Options of library calls. Those that report something are in files.h. */
lmc_st_common cli_common(const cli_args *args);
lmc_st_compare_options cli_compare_options(const cli_args *args);

/* Looks at what --base names: a directory if `in_path` is one, else a regular file that can be opened. Returns the exit
 * status, after a message if it is not CLI_OK; CLI_OK without --base. */
int cli_base_check(const cli_args *args, const char *in_path);

/* lmc_st_open() with the base locations of --base and --base-dir. For RUN/STEP, a step with a single archive, it opens
 * that archive. */
lmc_status cli_open(const cli_args *args, const char *path, lmc_st_file **file, lmc_st_diag *diag);

/* Opens the first of `operand_count` operands. With more or fewer operands that is a usage error, which says `usage`.
 * Returns the exit status, after a message if it is not CLI_OK: then *file is NULL. */
int cli_open_operand(const cli_args *args, int operand_count, const char *usage, lmc_st_file **file);

/* Tensor `index`, which exists. A shape of very many dimensions is NULL if there is no memory for it. */
lmc_st_tensor cli_tensor(const lmc_st_file *file, uint64_t index);

int cli_has_shape(const lmc_st_tensor *tensor);
int cli_is_same_shape(const lmc_st_tensor *a, const lmc_st_tensor *b);

/* CLI_OK if the path is no run and no store, and in none: others may need what is in one, and nothing else has a place
 * there. Else the exit status, after a message that says `fault`. */
int cli_refuse_kept(const char *path, const char *fault);

/* CLI_OK if no archive at `archive_path`, a file or a directory of them, needs a file that is `in_path` or below it:
 * what must be so before that is removed. Else the exit status, after a message. */
int cli_base_allows_removal(const cli_args *args, const char *archive_path, const char *in_path);

#endif
