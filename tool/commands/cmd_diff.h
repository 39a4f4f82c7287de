/*
 * cmd_diff.h - which pairs of tensors hold the same content, and what differs between two files: for diff and run
 * diff.
 */
#ifndef LMC_TOOL_COMMANDS_CMD_DIFF_H
#define LMC_TOOL_COMMANDS_CMD_DIFF_H

#include "tool/args.h"

/* Two tensors of one name, dtype and shape. */
typedef struct cli_pair {
    uint64_t a, b; /* their numbers */
    uint64_t nbytes;
    int differs; /* set by cli_diff_contents() */
} cli_pair;

/* Decides for each pair whether the contents are equal: by the content hashes of archives where they can be compared,
 * by hashing the plain file, or byte by byte. Reads no more than that needs, in bounded memory. It uses the
 * options thread_count, progress and user; each thread takes one pair after another. Errors: IO, NOMEM, CANCELLED, and
 * for frames CORRUPT, CHECKSUM, UNSUPPORTED, TRUNCATED, BASE; the error of the first pair is returned. */
lmc_status cli_diff_contents(const lmc_st_file *a, const lmc_st_file *b, cli_pair *pairs, size_t pair_count,
                             const lmc_st_common *common, lmc_st_diag *diag);

/* Compares two open files and prints what differs. label: the file's name, which is printed with it; may be NULL.
 * *separator: what --json prints before the object; a call that prints one sets it to what separates the next object
 * of an array. Files that cannot be compared print nothing. separator may be NULL. Returns the exit status:
 * CLI_BAD_DATA if they differ. */
int cli_diff_files(const cli_args *args, const lmc_st_file *a, const lmc_st_file *b, const char *label,
                   const char **separator);

#endif
