/*
 * run_add.c - lmc-st run add: snapshots by rising step, and their removal.
 */
#include "tool/commands/run.h"
#include "tool/path.h"
#include "tool/remove.h"
#include "tool/text.h"

#include <stdlib.h>
#include <string.h>

static const char about[] =
    "Adds snapshots to a run, which is made if RUN_DIR is not there. SNAPSHOT is a\n"
    "file with tensors or a checkpoint directory. Its step is the digits after step,\n"
    "checkpoint, iter or epoch in its name, else the last number of the name.\n"
    "A step that is there with equal content is a success. A step counts as added\n"
    "when its line stands on standard output, or when the exit status is 0.\n";

/* One operand. */
typedef struct snapshot {
    char *path;
    uint64_t step;
    int has_step;
    int number; /* as it was given */
} snapshot;

/* By step; names that tell none come first, and are reported. */
static int compare_snapshots(const void *left, const void *right)
{
    const snapshot *const a = left;
    const snapshot *const b = right;
    if (a->has_step != b->has_step)
        return a->has_step - b->has_step;
    if (a->has_step && a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return a->number - b->number;
}

int cli_run_remove_snapshot(const cli_args *args, cli_job *job, const lmc_st_run_step *step)
{
    cli_removal *removal = NULL;
    lmc_st_options options = job->options;
    options.progress = NULL;
    options.force = 0;
    int status = cli_removal_begin(&removal, job->in_path);
    if (status == CLI_OK &&
        lmc_st_run_compare(args->operands[0], step->step, job->in_path, &options, &job->diag) != LMC_OK)
        status = cli_report(&job->diag);
    if (status == CLI_OK)
        status = cli_removal_finish(removal);
    cli_removal_free(removal);
    return status;
}

/* A link, "." and ".." lead to a directory under another name, which may be one without a step. */
static int add_snapshot(const cli_args *args, const char *path)
{
    cli_job job;
    lmc_st_run_options run_options;
    lmc_st_run_step step = LMC_INIT(lmc_st_run_step);
    const int is_removed = (args->seen & (CLI_OPT_RM | CLI_OPT_DRY_RUN)) == CLI_OPT_RM;
    if (is_removed && cli_is_directory(path) && !cli_is_own_directory(path))
        return cli_usage_error(args->command, "--rm needs a directory's own name: no link, \".\" or \"..\"");
    cli_job_start(&job, args, path);
    cli_run_set_options(args, &run_options);
    const lmc_status status =
        lmc_st_run_add(args->operands[0], path, &run_options, &job.options, &step, &job.diag);
    int exit_status = cli_job_end(&job, status);
    if (exit_status == CLI_OK)
        exit_status = cli_finish_output();
    return exit_status == CLI_OK && is_removed ? cli_run_remove_snapshot(args, &job, &step) : exit_status;
}

static int add_all(const cli_args *args)
{
    int worst = CLI_OK;
    const int count = args->operand_count - 1;
    snapshot *const snapshots = calloc((size_t)count, sizeof *snapshots);
    if (!snapshots)
        return cli_fail_nomem();
    for (int i = 0; i < count; i++) {
        snapshots[i] = (snapshot){.path = args->operands[1 + i], .number = i};
        snapshots[i].has_step = lmc_st_run_step_of_name(snapshots[i].path, &snapshots[i].step);
    }
    qsort(snapshots, (size_t)count, sizeof *snapshots, compare_snapshots);
    for (int i = 0; i < count && worst < 128; i++) {
        const int exit_status = add_snapshot(args, snapshots[i].path);
        worst = exit_status > worst ? exit_status : worst;
    }
    free(snapshots);
    return worst;
}

static int run_add(const cli_args *args)
{
    if (args->operand_count < 2)
        return cli_usage_error(args->command, "run add takes a run and one snapshot or more");
    if ((args->seen & CLI_OPT_STEP) != 0 && args->operand_count > 2)
        return cli_usage_error(args->command, "--step is for one snapshot");
    for (int i = 1; i < args->operand_count; i++)
        if (strcmp(args->operands[i], "-") == 0)
            return cli_usage_error(args->command, "a snapshot is a file or a directory, not standard input");
    return add_all(args);
}

const cli_command cli_run_add = {
    "run add", CLI_RUN_ADD, "add snapshots: files, or checkpoint directories", "RUN_DIR SNAPSHOT... ", about,
    NULL,      run_add};
