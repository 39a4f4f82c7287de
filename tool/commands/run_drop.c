/*
 * run_drop.c - lmc-st run drop, run keep and run repair: what becomes of the steps of a run.
 */
#include "tool/commands/run.h"

#include <stdio.h>
#include <stdlib.h>

static const char about_drop[] =
    "Removes steps of a run. What is based on them is stored anew on another step\n"
    "first: it is restored, converted, and compared, which takes the room of one\n"
    "snapshot in RUN_DIR.\n";

static const char about_keep[] =
    "Removes all steps of a run but those that are to be kept: the newest N, and\n"
    "those that M divides. One of the two must be given. The newest step always\n"
    "stays. What is based on a step that goes is stored anew first.\n";

static const char about_repair[] =
    "Removes what was left half done, and writes the list of steps, run.json, anew\n"
    "from the names of folders, their archives and their times. The other commands\n"
    "that change a run do the first by themselves, and add what the list lacks.\n";

static int run_drop(const cli_args *args)
{
    cli_job job;
    uint64_t *steps = NULL;
    size_t count = 0;
    lmc_st_run_options run_options;
    if (args->operand_count < 2)
        return cli_usage_error(args->command, "run drop takes a run and one step or more");
    int exit_status = cli_run_read_steps(args, 1, &steps, &count);
    if (exit_status == CLI_OK) {
        cli_job_start(&job, args, args->operands[0]);
        cli_run_set_options(args, &run_options);
        exit_status = cli_job_end(
            &job, lmc_st_run_drop(args->operands[0], steps, count, &run_options, &job.options, &job.diag));
    }
    free(steps);
    const int output_status = cli_finish_output();
    return exit_status == CLI_OK ? output_status : exit_status;
}

static int run_keep(const cli_args *args)
{
    cli_job job;
    lmc_st_run_options run_options;
    if (args->operand_count != 1)
        return cli_usage_error(args->command, "run keep takes one run");
    if (args->last == 0 && args->every == 0)
        return cli_usage_error(args->command, "run keep needs --last, --every, or both");
    cli_job_start(&job, args, args->operands[0]);
    cli_run_set_options(args, &run_options);
    const int exit_status = cli_job_end(&job, lmc_st_run_keep(args->operands[0], args->last, args->every,
                                                              &run_options, &job.options, &job.diag));
    const int output_status = cli_finish_output();
    return exit_status == CLI_OK ? output_status : exit_status;
}

static int run_repair(const cli_args *args)
{
    cli_job job;
    lmc_st_run *run = NULL;
    if (args->operand_count != 1)
        return cli_usage_error(args->command, "run repair takes one run");
    cli_job_start(&job, args, args->operands[0]);
    lmc_status status = lmc_st_run_repair(args->operands[0], &job.options, &job.diag);
    if (status == LMC_OK)
        status = lmc_st_run_open(args->operands[0], NULL, &run, &job.diag);
    if (status == LMC_OK)
        printf("%llu steps\n", (unsigned long long)lmc_st_run_step_count(run));
    lmc_st_run_close(run);
    const int exit_status = cli_job_end(&job, status);
    const int output_status = cli_finish_output();
    return exit_status == CLI_OK ? output_status : exit_status;
}

const cli_command cli_run_drop = {"run drop", CLI_RUN_DROP, "remove steps", "RUN_DIR STEP... ",
                                  about_drop, NULL,         run_drop};
const cli_command cli_run_keep = {"run keep", CLI_RUN_KEEP, "remove all steps but the newest and every Mth",
                                  "RUN_DIR ", about_keep,   NULL,
                                  run_keep};
const cli_command cli_run_repair = {
    "run repair", CLI_RUN_REPAIR, "write the list of steps anew", "RUN_DIR ", about_repair, NULL, run_repair};
