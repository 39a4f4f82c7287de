/*
 * cmd_run_ls.c - lmc-st run ls and run info: the steps of a run, and the run as a whole. Both read run.json alone.
 */
#include "tool/commands/cmd_run.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char about_ls[] =
    "Lists the steps of a run. A step is based on an earlier one, or is a key frame\n"
    "(\"-\"); chain says how many steps it needs. Time is when the snapshot was last\n"
    "modified, in UTC.\n";

static const char about_info[] = "Describes a run as a whole.\n";

/* ---- the list ---- */

static void show_time(const lmc_run_step *step, char shown[32])
{
    struct tm parts;
    const time_t seconds = (time_t)step->time_s;
    if (!gmtime_r(&seconds, &parts) || strftime(shown, 32, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        memcpy(shown, "-", 2);
}

/* A row of the table, or an object. */
static void print_step(const lmc_run_step *step, int is_json)
{
    const int is_base_known = step->has_base && step->base != LMC_RUN_UNKNOWN;
    const int is_chain_known = step->chain != LMC_RUN_UNKNOWN;
    char base[24] = "null";
    char chain[24] = "null";
    char ratio[24] = "-";
    char when[32];
    if (!is_json)
        snprintf(base, sizeof base, step->has_base ? "?" : "-");
    if (is_base_known)
        snprintf(base, sizeof base, "%llu", (unsigned long long)step->base);
    if (!is_json)
        snprintf(chain, sizeof chain, "?");
    if (is_chain_known)
        snprintf(chain, sizeof chain, "%llu", (unsigned long long)step->chain);
    if (is_json) {
        printf("{\"step\":%llu,\"files\":%llu,\"nbytes\":%llu,\"stored_nbytes\":%llu,\"ratio\":",
               (unsigned long long)step->step, (unsigned long long)step->file_count,
               (unsigned long long)step->original_nbytes, (unsigned long long)step->stored_nbytes);
        cli_json_ratio(step->stored_nbytes, step->original_nbytes);
        printf(",\"base\":%s,\"chain\":%s,\"time\":%lld}", base, chain, (long long)step->time_s);
        return;
    }
    if (step->original_nbytes > 0)
        snprintf(ratio, sizeof ratio, "%.4f", (double)step->stored_nbytes / (double)step->original_nbytes);
    show_time(step, when);
    printf("%12llu  %6llu  %14llu  %14llu  %8s  %12s  %5s  %s\n", (unsigned long long)step->step,
           (unsigned long long)step->file_count, (unsigned long long)step->original_nbytes,
           (unsigned long long)step->stored_nbytes, ratio, base, chain, when);
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
    printf("%llu steps, %llu key frames, %llu bytes, stored %llu", (unsigned long long)totals->steps,
           (unsigned long long)totals->key_frames, (unsigned long long)totals->nbytes,
           (unsigned long long)totals->stored_nbytes);
    if (totals->nbytes > 0)
        printf(", ratio %.4f", (double)totals->stored_nbytes / (double)totals->nbytes);
    printf("\n");
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
    if (!is_json)
        printf("%12s  %6s  %14s  %14s  %8s  %12s  %5s  %s\n", "step", "files", "bytes", "stored", "ratio",
               "base", "chain", "time");
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
        printf("\"files\":%llu,\"nbytes\":%llu,\"stored_nbytes\":%llu,\"ratio\":",
               (unsigned long long)totals.files, (unsigned long long)totals.nbytes,
               (unsigned long long)totals.stored_nbytes);
        cli_json_ratio(totals.stored_nbytes, totals.nbytes);
        printf(",\"chain\":%llu}\n", (unsigned long long)totals.chain);
    } else {
        print_totals(&totals);
        printf("key frame:     at least every %u steps; longest chain %llu\n", key_every,
               (unsigned long long)totals.chain);
        if (totals.steps > 0) {
            show_time(&totals.first, when);
            printf("first step:    %llu, %s\n", (unsigned long long)totals.first.step, when);
            show_time(&totals.last, when);
            printf("last step:     %llu, %s\n", (unsigned long long)totals.last.step, when);
        }
    }
    return cli_finish_output();
}

const cli_command cli_run_ls = {"run ls", CLI_RUN_LS, "list the steps", "RUN_DIR ", about_ls, NULL, run_ls};
const cli_command cli_run_info = {
    "run info", CLI_RUN_INFO, "describe the run as a whole", "RUN_DIR ", about_info, NULL, run_info};
