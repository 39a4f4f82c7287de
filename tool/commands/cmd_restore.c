/*
 * cmd_restore.c - lmc-st restore and lmc-st cat: names of outputs, the summary.
 */
#include "lmc_st_experimental.h"
#include "tool/files.h"
#include "tool/tool_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char restore_about[] =
    "Writes the file that ARCHIVE was made from, byte for byte; its name\n"
    "is ARCHIVE's without .lmc. ARCHIVE is a file, \"-\" for standard input, or a\n"
    "directory that \"lmc-st convert\" wrote. Everything is verified before the output\n"
    "gets its name; do not use what went to standard output unless the exit\n"
    "status is 0.\n";

static const char cat_about[] =
    "Writes the original file of the archive FILE to standard output; a plain\n"
    "file unchanged. \"-\" is standard input. Do not use the output unless the exit\n"
    "status is 0.\n";

/* The name without .lmc. What is saved of a damaged archive is a safetensors file, whatever the original was; of an
 * archive that was cut short, only the suffix tells that it was another. */
static char *output_name(const cli_args *args, const char *in_path, const char **fault)
{
    lmc_st_file *file = NULL;
    char *const name = cli_copy(in_path, lmc_path_length(in_path));
    if (!name)
        return NULL;
    if (!lmc_is_archive_name(name)) {
        *fault = "its name does not end in .lmc: name the output with -o";
        free(name);
        return NULL;
    }
    name[strlen(name) - strlen(LMC_ARCHIVE_SUFFIX)] = '\0';
    if ((args->seen & CLI_OPT_SALVAGE) == 0)
        return name;
    const int is_other = lmc_st_open(in_path, NULL, &file, NULL) == LMC_OK
                             ? lmc_st_container_of(file) != LMC_ST_CONTAINER_SAFETENSORS
                             : strchr(lmc_last_component(name), '.') && !lmc_is_plain_name(name);
    lmc_st_close(file);
    if (!is_other)
        return name;
    char *const path = lmc_path_join(&lmc_memory_default, name, "", ".safetensors");
    free(name);
    return path;
}

static lmc_status restore_one(cli_job *job, const char *in_path, const char *out_path)
{
    const lmc_st_restore_options options = cli_job_restore_options(job);
    return lmc_st_restore(in_path, out_path, &options, &job->result, &job->diag);
}

static void print_summary(const cli_job *job)
{
    const lmc_st_result *const result = &job->result;
    fprintf(stderr, "%s: %llu bytes -> %llu, %.2f GiB/s", job->progress.label,
            (unsigned long long)result->stored_nbytes, (unsigned long long)result->original_nbytes,
            cli_job_speed(job));
    if (result->damaged_count > 0) {
        fprintf(stderr, ", %llu tensors saved, %llu lost", (unsigned long long)result->tensor_count,
                (unsigned long long)result->damaged_count);
    }
    if (result->file_count > 0)
        fprintf(stderr, ", %llu files", (unsigned long long)result->file_count);
    fprintf(stderr, "\n");
}

static int run_restore(const cli_args *args)
{
    static const cli_work work = {"restore", output_name, restore_one, print_summary, 0};
    if ((args->seen & CLI_OPT_SALVAGE) != 0 && (args->seen & CLI_OPT_RM) != 0)
        return cli_usage_error("restore", "--salvage and --rm exclude each other");
    return cli_run_files(&work, args);
}

const cli_command cli_restore = {"restore",     CLI_RESTORE,   "write the files that archives were made from",
                                 "ARCHIVE... ", restore_about, NULL,
                                 run_restore};

/* ---- cat ---- */

static lmc_status cat_one(cli_job *job, const char *in_path, const char *out_path)
{
    const lmc_st_restore_options options = cli_job_restore_options(job);
    char *const inner = cli_archive_of_step(in_path);
    (void)out_path;
    const lmc_status status = lmc_st_cat(inner ? inner : in_path, &options, &job->result, &job->diag);
    free(inner);
    return status;
}

static int run_cat(const cli_args *args)
{
    static const cli_work work = {"cat", output_name, cat_one, print_summary, 0};
    cli_args to_stdout = *args;
    to_stdout.seen |= CLI_OPT_STDOUT;
    return cli_run_files(&work, &to_stdout);
}

const cli_command cli_cat = {"cat", CLI_CAT, "write the restored file to standard output", "FILE ", cat_about,
                             NULL,  run_cat};
