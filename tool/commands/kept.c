/*
 * kept.c - what `run` and `store` have in common.
 */
#include "tool/commands/kept.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- operands ---- */

int cli_kept_are_paths(const cli_args *args, int first)
{
    for (int i = first; i < args->operand_count; i++) {
        if (strcmp(args->operands[i], "-") == 0) {
            (void)cli_usage_error(args->command, "%s takes files and directories, not standard input",
                                  args->command);
            return 0;
        }
    }
    return 1;
}

int cli_kept_has_output(const cli_args *args)
{
    if (args->output && strcmp(args->output, "-") != 0)
        return 1;
    (void)cli_usage_error(args->command,
                          args->output
                              ? "%s does not write to standard output: -o OUT names a file or directory"
                              : "%s needs the name of its output: -o OUT",
                          args->command);
    return 0;
}

/* ---- what was done ---- */

int cli_kept_begin_line(cli_job *job, int is_verified)
{
    const uint64_t seen = job->args->seen;
    if (is_verified ? (seen & CLI_OPT_VERBOSE) == 0 : (seen & CLI_OPT_QUIET) != 0)
        return 0;
    cli_progress_clear(&job->progress);
    return 1;
}

void cli_kept_end_line(void)
{
    printf("\n");
    cli_flush_output();
}

static double ratio_of(uint64_t nbytes, uint64_t stored_nbytes)
{
    return nbytes > 0 ? (double)stored_nbytes / (double)nbytes : 1;
}

void cli_kept_print_gain(uint64_t nbytes, uint64_t stored_nbytes)
{
    printf(", %llu bytes -> %llu, ratio %.4f", (unsigned long long)nbytes, (unsigned long long)stored_nbytes,
           ratio_of(nbytes, stored_nbytes));
}

int cli_kept_end(cli_job *job, lmc_status status)
{
    const int exit_status = cli_job_end(job, status);
    const int output_status = cli_finish_output();
    return exit_status == CLI_OK ? output_status : exit_status;
}

/* ---- lists ---- */

void cli_kept_print_titles(void)
{
    printf("%6s  %14s  %14s  %8s", "files", "bytes", "stored", "ratio");
}

void cli_kept_print_columns(uint64_t file_count, uint64_t nbytes, uint64_t stored_nbytes)
{
    char ratio[24];
    printf("%6llu  %14llu  %14llu  %8s", (unsigned long long)file_count, (unsigned long long)nbytes,
           (unsigned long long)stored_nbytes, cli_show_ratio(stored_nbytes, nbytes, ratio));
}

void cli_kept_json_sizes(uint64_t file_count, uint64_t nbytes, uint64_t stored_nbytes)
{
    printf("\"files\":%llu,\"nbytes\":%llu,\"stored_nbytes\":%llu,\"ratio\":", (unsigned long long)file_count,
           (unsigned long long)nbytes, (unsigned long long)stored_nbytes);
    cli_json_ratio(stored_nbytes, nbytes);
}

void cli_kept_print_totals(uint64_t nbytes, uint64_t stored_nbytes)
{
    printf("%llu bytes, stored %llu", (unsigned long long)nbytes, (unsigned long long)stored_nbytes);
    if (nbytes > 0)
        printf(", ratio %.4f", ratio_of(nbytes, stored_nbytes));
    printf("\n");
}

const char *cli_kept_count(uint64_t count, const char *unknown, char shown[24])
{
    if (count == UINT64_MAX)
        snprintf(shown, 24, "%s", unknown);
    else
        snprintf(shown, 24, "%llu", (unsigned long long)count);
    return shown;
}

const char *cli_kept_time(int64_t time_s, char shown[32])
{
    struct tm parts;
    const time_t seconds = (time_t)time_s;
    if (!gmtime_r(&seconds, &parts) || strftime(shown, 32, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        memcpy(shown, "-", 2);
    return shown;
}
