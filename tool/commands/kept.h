/*
 * kept.h - what `run` and `store` have in common: operands, lines on what was done with a step or a model, and the
 * columns and keys of their lists.
 */
#ifndef LMC_TOOL_COMMANDS_KEPT_H
#define LMC_TOOL_COMMANDS_KEPT_H

#include "tool/files.h"

/* ---- operands ---- */

/* 1 if the operands from number `first` on are paths. Else 0, after a message: one is standard input. */
int cli_kept_are_paths(const cli_args *args, int first);

/* 1 if -o names a file or directory. Else 0, after a message. */
int cli_kept_has_output(const cli_args *args);

/* ---- what was done ---- */

/* Returns 1 if the options want a line on a step or a model; then the progress bar is gone. is_verified: it was only
 * verified. A line that stands on standard output is a promise: it ends with cli_kept_end_line(), which writes it at
 * once. */
int cli_kept_begin_line(cli_job *job, int is_verified);
void cli_kept_end_line(void);

/* ", N bytes -> M, ratio R" */
void cli_kept_print_gain(uint64_t nbytes, uint64_t stored_nbytes);

/* cli_job_end() and cli_finish_output(). Returns the exit status. */
int cli_kept_end(cli_job *job, lmc_status status);

/* ---- lists ---- */

/* Titles of the columns, and the columns: files, bytes, stored bytes and ratio. */
void cli_kept_print_titles(void);
void cli_kept_print_columns(uint64_t file_count, uint64_t nbytes, uint64_t stored_nbytes);

/* The same as keys of an object; no comma stands before or behind them. */
void cli_kept_json_sizes(uint64_t file_count, uint64_t nbytes, uint64_t stored_nbytes);

/* "N bytes, stored M, ratio R", and the end of the line. */
void cli_kept_print_totals(uint64_t nbytes, uint64_t stored_nbytes);

/* A count; for UINT64_MAX, which stands for an unknown one, `unknown`. Returns shown. */
const char *cli_kept_count(uint64_t count, const char *unknown, char shown[24]);

/* A time in UTC. Returns shown. */
const char *cli_kept_time(int64_t time_s, char shown[32]);

#endif
