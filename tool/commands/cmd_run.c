/*
 * cmd_run.c - lmc-st run: its commands, what they share, and those that work on whole steps: add, restore, verify,
 * drop, keep, repair.
 */
#include "tool/commands/cmd_run.h"
#include "os/os.h"

#include "tool/commands/kept.h"
#include "tool/inputs.h"
#include "tool/removal.h"
#include "tool/tool_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about[] =
    "Stores the snapshots of a training run in a directory: RUN_DIR/STEP has the\n"
    "archives of a step. Most steps store the changes since the step before; a\n"
    "key frame needs no other. \"lmc-st restore RUN_DIR/STEP\" and the other commands\n"
    "find the bases inside a run automatically.\n"
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
    "  lmc-st run repair   rebuild the list of steps\n"
    "  lmc-st run watch    add what a trainer completes\n"
    "\n"
    "  lmc-st run COMMAND --help   what a command does, and its options\n";

static const char about_add[] =
    "Adds snapshots to a run, which is created if needed. SNAPSHOT is a\n"
    "file with tensors or a checkpoint directory. Its step is the number after step,\n"
    "checkpoint, iter or epoch in its name, else the last number of the name.\n"
    "Adding an existing step with equal content succeeds. A step counts as added\n"
    "when its line is on standard output, or when the exit status is 0.\n";

static const char about_restore[] =
    "Writes the snapshot of a step, byte for byte: a file if the snapshot was one,\n"
    "else a directory. Everything is verified before OUT gets its name.\n";

static const char about_verify[] =
    "Checks every archive of the steps, or of all steps. Each archive is read\n"
    "down to its key frame. Nothing is written; files that were copied have no\n"
    "checksums. Damaged tensors are named; the exit status is then 1.\n";

static const char about_drop[] =
    "Removes steps of a run. Steps based on them are first re-encoded with another\n"
    "base: restored, converted, and compared, which needs the space of one\n"
    "snapshot in RUN_DIR.\n";

static const char about_keep[] = "Removes all steps of a run except those to be kept: the newest N, and\n"
                                 "multiples of M. One of the two must be given. The newest step always\n"
                                 "stays. Steps based on removed ones are first re-encoded.\n";

static const char about_repair[] =
    "Removes unfinished work, and rebuilds the list of steps, run.json,\n"
    "from the names of folders, their archives and their times. The other commands\n"
    "that change a run also remove unfinished work, and add steps that the list\n"
    "lacks.\n";

const cli_command *const cli_run_commands[] = {
    &cli_run_add,  &cli_run_ls,   &cli_run_info, &cli_run_restore, &cli_run_get,   &cli_run_verify,
    &cli_run_drop, &cli_run_keep, &cli_run_diff, &cli_run_repair,  &cli_run_watch, NULL};

const cli_command cli_run = {
    "run", CLI_RUN,         "keep the snapshots of a training run", "COMMAND RUN_DIR ", about,
    NULL,  cli_need_command};

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
    return lmc_path_join(&lmc_memory_default, run_dir, name, suffix);
}

/* ---- what was done ---- */

static void show_step(void *user, lmc_run_event event, const lmc_run_step *step)
{
    cli_job *const job = user;
    const int is_dry = (job->args->seen & CLI_OPT_DRY_RUN) != 0;
    if (!cli_kept_begin_line(job, event == LMC_RUN_VERIFIED))
        return;
    printf("step %llu: %s%s", (unsigned long long)step->step,
           is_dry && event != LMC_RUN_PRESENT ? "would be " : "", lmc_run_event_name(event));
    if (event == LMC_RUN_ADDED && !is_dry)
        cli_kept_print_gain(step->original_nbytes, step->stored_nbytes);
    if (event == LMC_RUN_ADDED || event == LMC_RUN_REBASED) {
        char base[24];
        if (step->has_base)
            printf(", based on %s", cli_kept_count(step->base, "?", base));
        else
            printf(", key frame");
    }
    cli_kept_end_line();
}

lmc_run_add_options cli_run_add_options(const cli_job *job)
{
    lmc_run_add_options options = LMC_INIT(lmc_run_add_options);
    const cli_args *const args = job->args;
    options.common = job->common;
    options.has_step = (args->seen & CLI_OPT_STEP) != 0;
    options.step = args->step;
    options.key_every = args->key_every;
    options.dry_run = (args->seen & CLI_OPT_DRY_RUN) != 0;
    options.level = args->level;
    options.force = (args->seen & CLI_OPT_FORCE) != 0;
    options.no_fsync = (args->seen & CLI_OPT_NO_FSYNC) != 0;
    options.excludes = args->excludes;
    options.exclude_count = args->exclude_count;
    options.step_done = show_step;
    options.file_done = cli_job_show_file;
    options.warning = (args->seen & CLI_OPT_QUIET) != 0 ? NULL : cli_job_show_warning;
    return options;
}

lmc_run_drop_options cli_run_drop_options(const cli_job *job)
{
    lmc_run_drop_options options = LMC_INIT(lmc_run_drop_options);
    options.common = job->common;
    options.dry_run = (job->args->seen & CLI_OPT_DRY_RUN) != 0;
    options.no_fsync = (job->args->seen & CLI_OPT_NO_FSYNC) != 0;
    options.step_done = show_step;
    return options;
}

/* ---- add ---- */

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

int cli_run_remove_snapshot(const cli_args *args, cli_job *job, const lmc_run_step *step)
{
    cli_removal *removal = NULL;
    lmc_st_options options = LMC_INIT(lmc_st_options);
    options.common = cli_common(args);
    int status = cli_removal_begin(&removal, job->in_path);
    if (status == CLI_OK &&
        lmc_run_compare(args->operands[0], step->step, job->in_path, &options, &job->diag) != LMC_OK)
        status = cli_report(&job->diag);
    if (status == CLI_OK)
        status = cli_removal_finish(removal);
    cli_removal_free(removal);
    return status;
}

static int run_add(const cli_args *args)
{
    int worst = CLI_OK;
    char shown[160];
    char other[160];
    const int is_removed = (args->seen & (CLI_OPT_RM | CLI_OPT_DRY_RUN)) == CLI_OPT_RM;
    if (args->operand_count < 2)
        return cli_usage_error(args->command, "run add takes a run and one snapshot or more");
    if ((args->seen & CLI_OPT_STEP) != 0 && args->operand_count > 2)
        return cli_usage_error(args->command, "--step is for one snapshot");
    if (!cli_kept_are_paths(args, 1))
        return CLI_USAGE;
    const int count = args->operand_count - 1;
    snapshot *const snapshots = calloc((size_t)count, sizeof *snapshots);
    if (!snapshots)
        return cli_fail_nomem();
    for (int i = 0; i < count; i++) {
        snapshots[i] = (snapshot){.path = args->operands[1 + i], .number = i};
        char *const name = cli_own_name(snapshots[i].path);
        snapshots[i].has_step = name && lmc_run_step_of_name(name, &snapshots[i].step);
        free(name);
    }
    qsort(snapshots, (size_t)count, sizeof *snapshots, compare_snapshots);
    /* the second would replace the first, whose file --rm has removed by then */
    const snapshot *same = NULL;
    for (int i = 1; i < count && !same && (args->seen & CLI_OPT_FORCE) != 0; i++)
        if (snapshots[i - 1].has_step && snapshots[i - 1].step == snapshots[i].step)
            same = &snapshots[i];
    if (same)
        worst = cli_usage_error(args->command, "%s and %s are of one step: -f would replace the first",
                                cli_shown(shown, sizeof shown, same[-1].path),
                                cli_shown(other, sizeof other, same->path));
    for (int i = 0; i < count && !same && worst < 128; i++) {
        cli_job job;
        lmc_run_step step = LMC_INIT(lmc_run_step);
        const char *const path = snapshots[i].path;
        int exit_status = CLI_OK;
        /* a link, "." and ".." lead to a directory under another name */
        if (is_removed && os_is_folder(path) && !cli_is_own_directory(path)) {
            exit_status =
                cli_usage_error(args->command, "--rm needs a directory's own name: no link, \".\" or \"..\"");
        } else {
            cli_job_start(&job, args, path);
            lmc_run_add_options options = cli_run_add_options(&job);
            if (!options.has_step && snapshots[i].has_step) {
                options.has_step = 1;
                options.step = snapshots[i].step;
            }
            exit_status =
                cli_kept_end(&job, lmc_run_add(args->operands[0], path, &options, &step, &job.diag));
            if (exit_status == CLI_OK && is_removed)
                exit_status = cli_run_remove_snapshot(args, &job, &step);
        }
        worst = exit_status > worst ? exit_status : worst;
    }
    free(snapshots);
    return worst;
}

const cli_command cli_run_add = {"run add",
                                 CLI_RUN_ADD,
                                 "add snapshots: files, or checkpoint directories",
                                 "RUN_DIR SNAPSHOT... ",
                                 about_add,
                                 NULL,
                                 run_add};

/* ---- restore and verify ---- */

static int run_restore(const cli_args *args)
{
    cli_job job;
    uint64_t step = 0;
    lmc_run_restore_options options = LMC_INIT(lmc_run_restore_options);
    if (args->operand_count != 2)
        return cli_usage_error(args->command, "run restore takes a run and a step");
    if (!cli_kept_has_output(args))
        return CLI_USAGE;
    const int status = cli_run_read_step(args, 1, &step);
    if (status != CLI_OK)
        return status;
    cli_job_start(&job, args, args->output);
    options.common = job.common;
    options.force = (args->seen & CLI_OPT_FORCE) != 0;
    options.no_fsync = (args->seen & CLI_OPT_NO_FSYNC) != 0;
    options.file_done = cli_job_show_file;
    return cli_job_end(
        &job, lmc_run_restore(args->operands[0], step, args->output, &options, &job.result, &job.diag));
}

/* Of run verify and run drop, which take steps. */
static int run_on_steps(const cli_args *args)
{
    cli_job job;
    uint64_t *steps = NULL;
    size_t count = 0;
    const int is_drop = strcmp(args->command, cli_run_drop.name) == 0;
    if (args->operand_count < (is_drop ? 2 : 1))
        return cli_usage_error(args->command, is_drop ? "run drop takes a run and one step or more"
                                                      : "run verify takes a run, and steps of it");
    int exit_status = cli_run_read_steps(args, 1, &steps, &count);
    if (exit_status == CLI_OK) {
        cli_job_start(&job, args, args->operands[0]);
        const lmc_run_drop_options drop_options = cli_run_drop_options(&job);
        lmc_run_verify_options verify_options = LMC_INIT(lmc_run_verify_options);
        verify_options.common = job.common;
        verify_options.step_done = show_step;
        verify_options.damage = cli_job_show_damage;
        verify_options.file_done = cli_job_show_file;
        const lmc_status status =
            is_drop
                ? lmc_run_drop(args->operands[0], steps, count, &drop_options, &job.diag)
                : lmc_run_verify(args->operands[0], steps, count, &verify_options, &job.result, &job.diag);
        exit_status = cli_kept_end(&job, status);
    }
    free(steps);
    return exit_status;
}

const cli_command cli_run_restore = {
    "run restore", CLI_RUN_RESTORE, "write the snapshot of a step", "RUN_DIR STEP -o OUT ", about_restore,
    NULL,          run_restore};
const cli_command cli_run_verify = {"run verify",         CLI_RUN_VERIFY, "check steps, write nothing",
                                    "RUN_DIR [STEP...] ", about_verify,   NULL,
                                    run_on_steps};

/* ---- drop, keep and repair ---- */

static int run_keep(const cli_args *args)
{
    cli_job job;
    if (args->operand_count != 1)
        return cli_usage_error(args->command, "run keep takes one run");
    if (args->last == 0 && args->every == 0)
        return cli_usage_error(args->command, "run keep needs --last, --every, or both");
    cli_job_start(&job, args, args->operands[0]);
    const lmc_run_drop_options options = cli_run_drop_options(&job);
    return cli_kept_end(&job, lmc_run_keep(args->operands[0], args->last, args->every, &options, &job.diag));
}

static int run_repair(const cli_args *args)
{
    cli_job job;
    lmc_run *run = NULL;
    lmc_st_options options = LMC_INIT(lmc_st_options);
    if (args->operand_count != 1)
        return cli_usage_error(args->command, "run repair takes one run");
    cli_job_start(&job, args, args->operands[0]);
    options.common = job.common;
    lmc_status status = lmc_run_repair(args->operands[0], &options, &job.diag);
    if (status == LMC_OK)
        status = lmc_run_open(args->operands[0], NULL, &run, &job.diag);
    if (status == LMC_OK)
        printf("%llu steps\n", (unsigned long long)lmc_run_step_count(run));
    lmc_run_close(run);
    return cli_kept_end(&job, status);
}

const cli_command cli_run_drop = {"run drop", CLI_RUN_DROP, "remove steps", "RUN_DIR STEP... ",
                                  about_drop, NULL,         run_on_steps};
const cli_command cli_run_keep = {"run keep", CLI_RUN_KEEP, "remove all steps but the newest and every Mth",
                                  "RUN_DIR ", about_keep,   NULL,
                                  run_keep};
const cli_command cli_run_repair = {
    "run repair", CLI_RUN_REPAIR, "rebuild the list of steps", "RUN_DIR ", about_repair, NULL, run_repair};
