/*
 * cmd_run_ls.c - lmc-st run ls and run info: the steps of a run, and the run as a whole. Both read run.json alone.
 */
#include "tool/commands/cmd_run.h"
#include "tool/commands/kept.h"

#include <stdio.h>

static const char about_ls[] =
    "Lists the steps of a run. A step is based on an earlier one, or is a key frame\n"
    "(\"-\"); chain says how many steps it needs. Time is when the snapshot was last\n"
    "modified, in UTC.\n";

static const char about_info[] = "Describes a run as a whole.\n";

/* ---- the list ---- */

/* A row of the table, or an object. */
static void print_step(const lmc_run_step *step, int is_json)
{
    char base[24];
    char chain[24];
    char when[32];
    (void)cli_kept_count(step->base, is_json ? "\"unknown\"" : "?", base);
    (void)cli_kept_count(step->chain, is_json ? "null" : "?", chain);
    if (!step->has_base)
        snprintf(base, sizeof base, is_json ? "null" : "-");
    if (is_json) {
        printf("{\"step\":%llu,", (unsigned long long)step->step);
        cli_kept_json_sizes(step->file_count, step->original_nbytes, step->stored_nbytes);
        printf(",\"base\":%s,\"chain\":%s,\"time\":%lld}", base, chain, (long long)step->time_s);
        return;
    }
    printf("%12llu  ", (unsigned long long)step->step);
    cli_kept_print_columns(step->file_count, step->original_nbytes, step->stored_nbytes);
    printf("  %12s  %5s  %s\n", base, chain, cli_kept_time(step->time_s, when));
}

/* ---- the whole ---- */

typedef struct totals {
    uint64_t steps, key_frames, files, nbytes, stored_nbytes, chain;
    lmc_run_step first, last; /* if there are steps */
} totals;

static lmc_run_step step_at(const lmc_run *run, uint64_t index)
{
    lmc_run_step step = LMC_INIT(lmc_run_step);
    const lmc_status status = lmc_run_step_info(run, index, &step);
    (void)status; /* the index is right */
    return step;
}

static totals add_up(const lmc_run *run)
{
    totals totals = {.steps = lmc_run_step_count(run)};
    for (uint64_t i = 0; i < totals.steps; i++) {
        const lmc_run_step step = step_at(run, i);
        totals.key_frames += !step.has_base;
        totals.files += step.file_count;
        totals.nbytes += step.original_nbytes;
        totals.stored_nbytes += step.stored_nbytes;
        if (step.chain != LMC_RUN_UNKNOWN && step.chain > totals.chain)
            totals.chain = step.chain;
        totals.first = i == 0 ? step : totals.first;
        totals.last = step;
    }
    return totals;
}

static void print_totals(const totals *totals)
{
    printf("%llu steps, %llu key frames, ", (unsigned long long)totals->steps,
           (unsigned long long)totals->key_frames);
    cli_kept_print_totals(totals->nbytes, totals->stored_nbytes);
}

/* ---- */

/* Opens the run that is the only operand. Returns the exit status, after a message if it is not CLI_OK. */
static int open_run(const cli_args *args, lmc_run **run)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    if (args->operand_count != 1)
        return cli_usage_error(args->command, "%s takes one run", args->command);
    return lmc_run_open(args->operands[0], NULL, run, &diag) == LMC_OK ? CLI_OK : cli_report(&diag);
}

static int run_ls(const cli_args *args)
{
    lmc_run *run = NULL;
    const int is_json = (args->seen & CLI_OPT_JSON) != 0;
    const int exit_status = open_run(args, &run);
    if (exit_status != CLI_OK)
        return exit_status;
    const totals totals = add_up(run);
    if (!is_json) {
        printf("%12s  ", "step");
        cli_kept_print_titles();
        printf("  %12s  %5s  %s\n", "base", "chain", "time");
    }
    for (uint64_t i = 0; i < totals.steps && cli_output_works(); i++) {
        const lmc_run_step step = step_at(run, i);
        if (is_json)
            printf(i == 0 ? "[" : ",\n ");
        print_step(&step, is_json);
    }
    if (is_json)
        printf(totals.steps == 0 ? "[]\n" : "]\n");
    else
        print_totals(&totals);
    lmc_run_close(run);
    return cli_finish_output();
}

static int run_info(const cli_args *args)
{
    char when[32];
    lmc_run *run = NULL;
    const int exit_status = open_run(args, &run);
    if (exit_status != CLI_OK)
        return exit_status;
    const totals totals = add_up(run);
    const unsigned key_every = lmc_run_key_every(run);
    lmc_run_close(run);
    if ((args->seen & CLI_OPT_JSON) != 0) {
        printf("{\"format\":\"lmc-run\",\"version\":%d,\"key_every\":%u,\"steps\":%llu,\"key_frames\":%llu,",
               LMC_RUN_VERSION, key_every, (unsigned long long)totals.steps,
               (unsigned long long)totals.key_frames);
        if (totals.steps > 0)
            printf("\"first\":%llu,\"last\":%llu,", (unsigned long long)totals.first.step,
                   (unsigned long long)totals.last.step);
        else
            printf("\"first\":null,\"last\":null,");
        cli_kept_json_sizes(totals.files, totals.nbytes, totals.stored_nbytes);
        printf(",\"chain\":%llu}\n", (unsigned long long)totals.chain);
    } else {
        print_totals(&totals);
        printf("key frame:     at least every %u steps; longest chain %llu\n", key_every,
               (unsigned long long)totals.chain);
        if (totals.steps > 0) {
            printf("first step:    %llu, %s\n", (unsigned long long)totals.first.step,
                   cli_kept_time(totals.first.time_s, when));
            printf("last step:     %llu, %s\n", (unsigned long long)totals.last.step,
                   cli_kept_time(totals.last.time_s, when));
        }
    }
    return cli_finish_output();
}

const cli_command cli_run_ls = {"run ls", CLI_RUN_LS, "list the steps", "RUN_DIR ", about_ls, NULL, run_ls};
const cli_command cli_run_info = {
    "run info", CLI_RUN_INFO, "describe the run as a whole", "RUN_DIR ", about_info, NULL, run_info};
