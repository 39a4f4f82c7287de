/*
 * run.c - lmc-st run: its commands, and what they share.
 */
#include "tool/commands/run.h"

#include "tool/path.h"
#include "tool/text.h"

#include <stdio.h>
#include <stdlib.h>

static const char about[] =
    "Keeps the snapshots of a training run in a directory: RUN_DIR/STEP has the\n"
    "archives of a step. Most steps hold what has changed since the step before; a\n"
    "key frame needs no other. \"lmc-st restore RUN_DIR/STEP\" and the other commands\n"
    "find the bases inside a run by themselves.\n"
    "\n"
    "  lmc-st run add      add snapshots: files, or checkpoint directories\n"
    "  lmc-st run ls       list the steps\n"
    "  lmc-st run info     describe the run as a whole\n"
    "  lmc-st run restore  write the snapshot of a step\n"
    "  lmc-st run get      write the bytes of a tensor of a step\n"
    "  lmc-st run verify   check steps, write nothing\n"
    "  lmc-st run drop     remove steps\n"
    "  lmc-st run keep     remove all steps but the newest and every Mth\n"
    "  lmc-st run diff     compare the tensors of two steps\n"
    "  lmc-st run repair   write the list of steps anew\n"
    "  lmc-st run watch    add what a trainer completes\n"
    "\n"
    "  lmc-st run COMMAND --help   what a command does, and its options\n";

const cli_command *const cli_run_commands[] = {
    &cli_run_add,  &cli_run_ls,   &cli_run_info, &cli_run_restore, &cli_run_get,   &cli_run_verify,
    &cli_run_drop, &cli_run_keep, &cli_run_diff, &cli_run_repair,  &cli_run_watch, NULL};

static int run_without_command(const cli_args *args)
{
    char shown[80];
    if (args->operand_count == 0)
        return cli_usage_error("run", "run needs a command: add, ls, info, restore, get, ...");
    return cli_usage_error("run", "there is no command \"run %s\"",
                           cli_shown(shown, sizeof shown, args->operands[0]));
}

const cli_command cli_run = {"run",
                             CLI_RUN,
                             "keep the snapshots of a training run",
                             "COMMAND RUN_DIR ",
                             about,
                             NULL,
                             run_without_command};

/* ---- operands ---- */

int cli_run_read_step(const cli_args *args, int operand, uint64_t *step)
{
    char shown[80];
    if (cli_read_step(args->operands[operand], step))
        return CLI_OK;
    return cli_usage_error(args->command, "a step is a number of at most 2^63, not %s",
                           cli_shown(shown, sizeof shown, args->operands[operand]));
}

int cli_run_read_steps(const cli_args *args, int first, uint64_t **steps, size_t *step_count)
{
    int exit_status = CLI_OK;
    *step_count = 0;
    *steps = calloc((size_t)args->operand_count + 1, sizeof **steps);
    if (!*steps)
        return cli_fail_nomem();
    for (int i = first; i < args->operand_count && exit_status == CLI_OK; i++)
        exit_status = cli_run_read_step(args, i, &(*steps)[(*step_count)++]);
    return exit_status;
}

char *cli_run_step_path(const char *run_dir, uint64_t step, const char *suffix)
{
    char name[24];
    snprintf(name, sizeof name, "%llu", (unsigned long long)step);
    return cli_path_join(run_dir, name, suffix);
}

/* ---- what was done ---- */

static void print_base(const lmc_st_run_step *step)
{
    if (step->has_base)
        printf(", based on %llu", (unsigned long long)step->base);
    else
        printf(", key frame");
}

/* A line that stands on standard output is a promise: it is written at once. */
static void show_step(void *user, lmc_st_run_event event, const lmc_st_run_step *step)
{
    cli_job *const job = user;
    const int is_dry = (job->args->seen & CLI_OPT_DRY_RUN) != 0;
    const int is_wanted = event == LMC_ST_RUN_VERIFIED ? (job->args->seen & CLI_OPT_VERBOSE) != 0
                                                       : (job->args->seen & CLI_OPT_QUIET) == 0;
    if (!is_wanted)
        return;
    cli_progress_clear(&job->progress);
    printf("step %llu: %s%s", (unsigned long long)step->step,
           is_dry && event != LMC_ST_RUN_PRESENT ? "would be " : "", lmc_st_run_event_name(event));
    if (event == LMC_ST_RUN_ADDED && !is_dry) {
        printf(", %llu bytes -> %llu, ratio %.4f", (unsigned long long)step->file_nbytes,
               (unsigned long long)step->stored_nbytes,
               step->file_nbytes > 0 ? (double)step->stored_nbytes / (double)step->file_nbytes : 1);
    }
    if (event == LMC_ST_RUN_ADDED || event == LMC_ST_RUN_REBASED)
        print_base(step);
    printf("\n");
    fflush(stdout);
}

void cli_run_set_options(const cli_args *args, lmc_st_run_options *options)
{
    lmc_st_run_options_init(options);
    options->has_step = (args->seen & CLI_OPT_STEP) != 0;
    options->step = args->step;
    options->key_every = args->key_every;
    options->dry_run = (args->seen & CLI_OPT_DRY_RUN) != 0;
    options->step_done = show_step;
}
