/*
 * cmd_run.h - what the commands of `run` share: operands, and the lines that say what was done with a step.
 */
#ifndef LMC_TOOL_COMMANDS_CMD_RUN_H
#define LMC_TOOL_COMMANDS_CMD_RUN_H

#include "tool/files.h"

extern const cli_command cli_run_add, cli_run_ls, cli_run_info, cli_run_restore, cli_run_get, cli_run_verify,
    cli_run_drop, cli_run_keep, cli_run_diff, cli_run_repair, cli_run_watch;

/* Reads the operands from number `first` on as steps. Returns the exit status, after a message if it is not CLI_OK. The
 * steps are to be freed in any case. */
int cli_run_read_steps(const cli_args *args, int first, uint64_t **steps, size_t *step_count);

/* One of them. */
int cli_run_read_step(const cli_args *args, int operand, uint64_t *step);

/* Options of a job's call on a run. */
lmc_run_add_options cli_run_add_options(const cli_job *job);
lmc_run_drop_options cli_run_drop_options(const cli_job *job);

/* Reads a step of the run operands[0] back, compares it with the snapshot job->in_path as that is now, and removes the
 * snapshot. Returns the exit status, after a message if it is not CLI_OK. */
int cli_run_remove_snapshot(const cli_args *args, cli_job *job, const lmc_run_step *step);

/* "RUN_DIR/STEP" and then `suffix`; to be freed. NULL: out of memory. */
char *cli_run_step_path(const char *run_dir, uint64_t step, const char *suffix);

#endif
