/*
 * run_ls.c - lmc-st run ls and run info: the steps of a run, and the run as a whole. Both read run.json alone.
 */
#include "tool/commands/run.h"
#include "tool/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char about_ls[] =
    "Lists the steps of a run. A step is based on an earlier one, or is a key frame\n"
    "(\"-\"); chain says how many steps it needs. Time is when the snapshot was last\n"
    "modified, in UTC.\n";

static const char about_info[] = "Describes a run as a whole.\n";

/* ---- the list ---- */

static void show_time(const lmc_st_run_step *step, char shown[32])
{
    struct tm parts;
    const time_t seconds = (time_t)step->time_s;
    if (!gmtime_r(&seconds, &parts) || strftime(shown, 32, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        memcpy(shown, "-", 2);
}

static void print_row(const lmc_st_run_step *step)
{
    char base[24] = "-";
    char chain[24] = "?";
    char ratio[24] = "-";
    char when[32];
    if (step->has_base)
        snprintf(base, sizeof base, "?");
    if (step->has_base && step->base != LMC_ST_RUN_UNKNOWN)
        snprintf(base, sizeof base, "%llu", (unsigned long long)step->base);
    if (step->chain != LMC_ST_RUN_UNKNOWN)
        snprintf(chain, sizeof chain, "%llu", (unsigned long long)step->chain);
    if (step->file_nbytes > 0)
        snprintf(ratio, sizeof ratio, "%.4f", (double)step->stored_nbytes / (double)step->file_nbytes);
    show_time(step, when);
    printf("%12llu  %6llu  %14llu  %14llu  %8s  %12s  %5s  %s\n", (unsigned long long)step->step,
           (unsigned long long)step->file_count, (unsigned long long)step->file_nbytes,
           (unsigned long long)step->stored_nbytes, ratio, base, chain, when);
}

static void print_json_step(const lmc_st_run_step *step)
{
    printf("{\"step\":%llu,\"files\":%llu,\"nbytes\":%llu,\"stored_nbytes\":%llu,\"ratio\":",
           (unsigned long long)step->step, (unsigned long long)step->file_count,
           (unsigned long long)step->file_nbytes, (unsigned long long)step->stored_nbytes);
    cli_json_ratio(step->stored_nbytes, step->file_nbytes);
    if (step->has_base && step->base != LMC_ST_RUN_UNKNOWN)
        printf(",\"base\":%llu", (unsigned long long)step->base);
    else
        printf(",\"base\":null");
    if (step->chain != LMC_ST_RUN_UNKNOWN)
        printf(",\"chain\":%llu", (unsigned long long)step->chain);
    else
        printf(",\"chain\":null");
    printf(",\"time\":%lld}", (long long)step->time_s);
}

/* ---- the whole ---- */

typedef struct totals {
    uint64_t steps, key_frames, files, nbytes, stored_nbytes, chain;
    lmc_st_run_step first, last; /* if there are steps */
} totals;

static lmc_st_run_step step_at(const lmc_st_run *run, uint64_t index)
{
    lmc_st_run_step step = LMC_INIT(lmc_st_run_step);
    const lmc_status status = lmc_st_run_step_info(run, index, &step);
    (void)status; /* the index is right */
    return step;
}

static totals add_up(const lmc_st_run *run)
{
    totals totals = {.steps = lmc_st_run_step_count(run)};
    for (uint64_t i = 0; i < totals.steps; i++) {
        const lmc_st_run_step step = step_at(run, i);
        totals.key_frames += !step.has_base;
        totals.files += step.file_count;
        totals.nbytes += step.file_nbytes;
        totals.stored_nbytes += step.stored_nbytes;
        if (step.chain != LMC_ST_RUN_UNKNOWN && step.chain > totals.chain)
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

static int list_steps(const cli_args *args, const lmc_st_run *run)
{
    const int is_json = (args->seen & CLI_OPT_JSON) != 0;
    const uint64_t count = lmc_st_run_step_count(run);
    if (!is_json)
        printf("%12s  %6s  %14s  %14s  %8s  %12s  %5s  %s\n", "step", "files", "bytes", "stored", "ratio",
               "base", "chain", "time");
    for (uint64_t i = 0; i < count && cli_output_works(); i++) {
        const lmc_st_run_step step = step_at(run, i);
        if (!is_json) {
            print_row(&step);
            continue;
        }
        printf(i == 0 ? "[" : ",\n ");
        print_json_step(&step);
    }
    if (is_json) {
        printf(count == 0 ? "[]\n" : "]\n");
    } else {
        const totals totals = add_up(run);
        print_totals(&totals);
    }
    return cli_finish_output();
}

static void print_info(const lmc_st_run *run, const totals *totals)
{
    char first[32];
    char last[32];
    print_totals(totals);
    printf("key frame:     at the latest every %u steps; longest chain %llu\n", lmc_st_run_key_every(run),
           (unsigned long long)totals->chain);
    if (totals->steps == 0)
        return;
    show_time(&totals->first, first);
    show_time(&totals->last, last);
    printf("first step:    %llu, %s\n", (unsigned long long)totals->first.step, first);
    printf("last step:     %llu, %s\n", (unsigned long long)totals->last.step, last);
}

static void print_json_info(const lmc_st_run *run, const totals *totals)
{
    printf("{\"format\":\"lmc-run\",\"version\":%d,\"key_every\":%u,\"steps\":%llu,\"key_frames\":%llu,",
           LMC_ST_RUN_VERSION, lmc_st_run_key_every(run), (unsigned long long)totals->steps,
           (unsigned long long)totals->key_frames);
    if (totals->steps > 0)
        printf("\"first\":%llu,\"last\":%llu,", (unsigned long long)totals->first.step,
               (unsigned long long)totals->last.step);
    else
        printf("\"first\":null,\"last\":null,");
    printf(
        "\"files\":%llu,\"nbytes\":%llu,\"stored_nbytes\":%llu,\"ratio\":", (unsigned long long)totals->files,
        (unsigned long long)totals->nbytes, (unsigned long long)totals->stored_nbytes);
    cli_json_ratio(totals->stored_nbytes, totals->nbytes);
    printf(",\"chain\":%llu}\n", (unsigned long long)totals->chain);
}

static int describe_run(const cli_args *args, const lmc_st_run *run)
{
    const totals totals = add_up(run);
    if ((args->seen & CLI_OPT_JSON) != 0)
        print_json_info(run, &totals);
    else
        print_info(run, &totals);
    return cli_finish_output();
}

/* ---- */

static int with_run(const cli_args *args, int (*work)(const cli_args *args, const lmc_st_run *run))
{
    lmc_st_run *run = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    if (args->operand_count != 1)
        return cli_usage_error(args->command, "%s takes one run", args->command);
    const lmc_status status = lmc_st_run_open(args->operands[0], NULL, &run, &diag);
    const int exit_status = status == LMC_OK ? work(args, run) : cli_report(&diag);
    lmc_st_run_close(run);
    return exit_status;
}

static int run_ls(const cli_args *args)
{
    return with_run(args, list_steps);
}

static int run_info(const cli_args *args)
{
    return with_run(args, describe_run);
}

const cli_command cli_run_ls = {"run ls", CLI_RUN_LS, "list the steps", "RUN_DIR ", about_ls, NULL, run_ls};
const cli_command cli_run_info = {
    "run info", CLI_RUN_INFO, "describe the run as a whole", "RUN_DIR ", about_info, NULL, run_info};
