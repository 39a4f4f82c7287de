/*
 * cmd_convert.c - lmc-st convert: names of archives, the warning of an archive that is larger, the summary.
 */

#include "lmc_st_experimental.h"
#include "os/os.h"
#include "tool/files.h"
#include "tool/tool_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about[] = "Writes IN.lmc, from which \"lmc-st restore\" restores IN, byte for byte. IN is\n"
                            "a file with tensors (safetensors, .pt, .pth, .bin, .ckpt, .distcp, .npz, .npy,\n"
                            "GGUF), \"-\" for standard input, or a directory: its other files are copied.\n";

/* IN.lmc. "." and ".." have no usable last component: the directory's own name serves. */
static char *output_name(const cli_args *args, const char *in_path, const char **fault)
{
    (void)args;
    char *const trimmed = cli_copy(in_path, lmc_path_length(in_path));
    if (!trimmed)
        return NULL;
    const char *const name = lmc_last_component(trimmed);
    char *found = NULL;
    if (strcmp(name, "") == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        found = os_real_path(trimmed);
        if (found && strcmp(found, "/") == 0)
            *fault = "does not give the archive a name: name the output with -o";
    }
    char *const path =
        *fault ? NULL : lmc_path_join(&lmc_memory_default, found ? found : trimmed, "", LMC_ARCHIVE_SUFFIX);
    free(found);
    free(trimmed);
    return path;
}

/* Growth by less is not worth a line: files take whole blocks of a disk. */
#define GROWTH_TOLD_NBYTES 4096

/* Mean content of tensors below which their frames and entries are what an archive consists of. */
#define TINY_NBYTES 256

/* Warns of an archive that is larger than its source, and says why if it is for its many small tensors. */
static lmc_status convert_one(cli_job *job, const char *in_path, const char *out_path)
{
    char shown[160];
    char cause[160] = "";
    lmc_st_file *file = NULL;
    const lmc_st_result *const result = &job->result;
    const lmc_st_convert_options options = cli_job_convert_options(job);
    os_state in, base;
    /* alone it may be meant so; an archive that refers to its own input is no copy of it */
    if (job->args->operand_count > 1 && options.base && os_stat(OS_HERE, in_path, &in) == 0 &&
        os_stat(OS_HERE, options.base, &base) == 0 && os_is_same_file(&in, &base)) {
        cli_set_diag(&job->diag, in_path, LMC_ERR_ARG, "is the base itself, and is left out");
        return LMC_ERR_ARG;
    }
    const lmc_status status = lmc_st_convert(in_path, out_path, &options, &job->result, &job->diag);
    const int is_directory = result->file_count > 0;
    const uint64_t count = is_directory ? 0 : result->tensor_count;
    if (status != LMC_OK && !options.raw && !lmc_is_plain_name(in_path) &&
        strstr(job->diag.text, "this is not a safetensors file"))
        cli_add_to_diag(&job->diag, " (--raw takes a file of any kind)");
    if (status != LMC_OK || (job->args->seen & CLI_OPT_QUIET) != 0 ||
        result->stored_nbytes < result->original_nbytes + GROWTH_TOLD_NBYTES)
        return status;
    if (count > 0 && job->out_path && lmc_st_open(job->out_path, NULL, &file, NULL) == LMC_OK) {
        const uint64_t mean_nbytes = (lmc_st_original_nbytes(file) - lmc_st_skeleton_nbytes(file)) / count;
        char mean[24] = "less than 1";
        if (mean_nbytes > 0)
            snprintf(mean, sizeof mean, "%llu", (unsigned long long)mean_nbytes);
        if (mean_nbytes < TINY_NBYTES)
            snprintf(cause, sizeof cause,
                     ": it has %llu tensors of %s byte%s on average; such files are better copied",
                     (unsigned long long)count, mean, mean_nbytes > 1 ? "s" : "");
        lmc_st_close(file);
    }
    cli_progress_clear(&job->progress);
    fprintf(stderr, "lmc-st: %s: the %s larger than its source (%llu instead of %llu bytes)%s\n",
            cli_shown(shown, sizeof shown, in_path), is_directory ? "directory of archives is" : "archive is",
            (unsigned long long)result->stored_nbytes, (unsigned long long)result->original_nbytes, cause);
    return status;
}

static void print_summary(const cli_job *job)
{
    const lmc_st_result *const result = &job->result;
    lmc_st_file *file = NULL;
    lmc_st_base base = LMC_INIT(lmc_st_base);
    fprintf(stderr, "%s: %llu bytes -> %llu", job->progress.label,
            (unsigned long long)result->original_nbytes, (unsigned long long)result->stored_nbytes);
    if (result->original_nbytes > 0)
        fprintf(stderr, ", ratio %.4f", (double)result->stored_nbytes / (double)result->original_nbytes);
    fprintf(stderr, ", %.2f GiB/s", cli_job_speed(job));
    if (result->file_count > 0) {
        fprintf(stderr, ", %llu files (%llu archives kept)", (unsigned long long)result->file_count,
                (unsigned long long)result->kept_count);
    }
    /* how much was coded against --base: nothing, if that was the wrong file */
    if (job->args->base && job->out_path && result->file_count == 0 &&
        lmc_st_open(job->out_path, NULL, &file, NULL) == LMC_OK &&
        lmc_st_base_info(file, 0, &base) == LMC_OK) {
        fprintf(stderr, ", %llu of %llu tensors against the base", (unsigned long long)base.tensor_count,
                (unsigned long long)result->tensor_count);
    }
    lmc_st_close(file);
    fprintf(stderr, "\n");
}

static int run_convert(const cli_args *args)
{
    static const cli_work work = {"convert", output_name, convert_one, print_summary, 1};
    if (!args->base && args->base_dir_count > 0)
        return cli_usage_error("convert", "--base-dir is for the base of an archive given by --base");
    for (int i = 0; i < args->operand_count && args->exclude_count > 0; i++) {
        const char *const path = args->operands[i];
        char shown[160];
        if (strcmp(path, "-") == 0 || os_is_file(path))
            return cli_usage_error("convert", "--exclude is for the files of a directory, but %s is not one",
                                   cli_shown(shown, sizeof shown, path));
    }
    return cli_run_files(&work, args);
}

const cli_command cli_convert = {
    "convert", CLI_CONVERT, "write archives of files with tensors, or directories", "IN... ", about,
    NULL,      run_convert};
