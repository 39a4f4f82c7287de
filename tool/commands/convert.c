/*
 * convert.c - lmc-st convert.
 */
#include "tool/files.h"

#include "safetensors/common/text.h"
#include "safetensors/os/dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Writes IN.lmc: an archive from which \"lmc-st restore\" gives IN back, byte for\n"
    "byte. IN is a safetensors file; \"-\" for standard input; or a directory: then\n"
    "IN.lmc is a directory with an archive of each safetensors file and a copy of\n"
    "every other file.\n"
    "\n"
    "  -o, --output OUT   name of the output, \"-\" for standard output; with several\n"
    "                     inputs, an existing directory for the outputs\n"
    "  -c, --stdout       write to standard output; the default if IN is \"-\"\n"
    "      --level LEVEL  default, fast (a little larger) or max (slower, smaller)\n"
    "      --base OLD     store what has changed since OLD: an earlier snapshot of\n"
    "                     IN, or its archive; a directory if IN is one. OLD is then\n"
    "                     needed to restore IN\n"
    "      --base-dir DIR where the base of OLD is, if OLD is an archive with a base\n"
    "  -j, --threads N    number of threads; 0, the default, is one per core\n"
    "  -f, --force        replace an existing output (a directory as a whole); write\n"
    "                     even to a terminal\n"
    "      --rm           remove IN once OUT was read back and gave IN, byte for byte\n"
    "  -k, --keep         keep IN (the default)\n"
    "      --no-fsync     do not wait until OUT has reached the disk\n"
    "  -q, --quiet        no progress bar, summary, or warning that OUT is larger\n"
    "  -v, --verbose      summary of each file, even without a terminal\n"
    "  -h, --help         show this text\n";

/* "DIR/" and "." have no usable last component. */
static char *output_name(const char *in_path, const char **fault)
{
    const size_t length = cli_path_length(in_path);
    char *const trimmed = st_duplicate(&st_memory_default, in_path);
    if (trimmed == NULL)
        return NULL;
    trimmed[length] = '\0';
    const char *const slash = strrchr(trimmed, '/');
    const char *const name = slash == NULL ? trimmed : slash + 1;
    char *path = NULL;
    if (strcmp(name, "") != 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
        path = os_path_join(&st_memory_default, trimmed, "", ".lmc");
    } else {
        char *const found = os_true_path(&st_memory_default, trimmed);
        *fault = found == NULL || strcmp(found, "/") == 0
                     ? "gives the archive no name: name the output with -o"
                     : NULL;
        path = *fault == NULL ? os_path_join(&st_memory_default, found, "", ".lmc") : NULL;
        free(found);
    }
    free(trimmed);
    return path;
}

/* ---- archives that are larger than their sources ---- */

/* Growth by less is not worth a line: files take whole blocks of a disk. */
#define GROWTH_TOLD_NBYTES 4096

/* Mean content of tensors below which their frames and entries are what an archive consists of. */
#define TINY_NBYTES 256

/* Why an archive of one file is larger, if it is for its many small tensors. */
static void explain_growth(const cli_job *job, char *text, size_t capacity)
{
    size_t header_nbytes = 0;
    lmc_st_file *file = NULL;
    const uint64_t count = job->result.tensor_count;
    text[0] = '\0';
    if (count == 0 || job->out_path == NULL || lmc_st_open(job->out_path, &file, NULL) != LMC_OK)
        return;
    (void)lmc_st_header(file, &header_nbytes);
    const uint64_t mean_nbytes = (job->result.file_nbytes - 8 - header_nbytes) / count;
    if (mean_nbytes < TINY_NBYTES) {
        char mean[24] = "less than 1";
        if (mean_nbytes > 0)
            snprintf(mean, sizeof(mean), "%llu", (unsigned long long)mean_nbytes);
        snprintf(text, capacity,
                 ": it has %llu tensors of %s byte%s on average; such files are better copied",
                 (unsigned long long)count, mean, mean_nbytes > 1 ? "s" : "");
    }
    lmc_st_close(file);
}

static void warn_of_growth(cli_job *job, const char *in_path)
{
    char shown[160];
    char cause[160] = "";
    const lmc_st_result *const result = &job->result;
    const int is_directory = result->file_count > 0;
    if ((job->args->seen & CLI_OPT_QUIET) != 0 ||
        result->stored_nbytes < result->file_nbytes + GROWTH_TOLD_NBYTES)
        return;
    if (!is_directory)
        explain_growth(job, cause, sizeof(cause));
    cli_progress_clear(&job->progress);
    st_text_escape(shown, sizeof(shown), in_path, strlen(in_path));
    fprintf(stderr, "lmc-st: %s: the %s larger than its source (%llu instead of %llu bytes)%s\n", shown,
            is_directory ? "directory of archives is" : "archive is",
            (unsigned long long)result->stored_nbytes, (unsigned long long)result->file_nbytes, cause);
}

static lmc_status call(cli_job *job, const char *in_path, const char *out_path)
{
    const lmc_status status = lmc_st_convert(in_path, out_path, &job->options, &job->result, &job->diag);
    if (status == LMC_OK)
        warn_of_growth(job, in_path);
    return status;
}

/* ---- the closing line ---- */

/* How much of the archive was coded against --base: none of it, if that was the wrong file. */
static void tell_base(const cli_job *job)
{
    lmc_st_file *file = NULL;
    lmc_st_base base = LMC_INIT(lmc_st_base);
    if (job->args->base == NULL || job->out_path == NULL || job->result.file_count > 0 ||
        lmc_st_open(job->out_path, &file, NULL) != LMC_OK)
        return;
    (void)lmc_st_base_info(file, &base);
    fprintf(stderr, ", %llu of %llu tensors against the base", (unsigned long long)base.tensor_count,
            (unsigned long long)job->result.tensor_count);
    lmc_st_close(file);
}

static void tell(const cli_job *job)
{
    const lmc_st_result *const result = &job->result;
    fprintf(stderr, "%s: %llu bytes -> %llu, ratio %.4f, %.2f GiB/s", job->progress.label,
            (unsigned long long)result->file_nbytes, (unsigned long long)result->stored_nbytes,
            (double)result->stored_nbytes / (double)result->file_nbytes, cli_job_speed(job));
    if (result->file_count > 0) {
        fprintf(stderr, ", %llu files (%llu archives kept)", (unsigned long long)result->file_count,
                (unsigned long long)result->kept_count);
    }
    tell_base(job);
    fprintf(stderr, "\n");
}

static int run(const cli_args *args)
{
    static const cli_work work = {"convert", output_name, call, tell, 1};
    if (args->base == NULL && args->base_dir_count > 0)
        return cli_usage_error("convert", "--base-dir is for the base of an archive that --base names");
    return cli_run_files(&work, args);
}

const cli_command cli_convert = {"convert",
                                 CLI_OPT_OUTPUT | CLI_OPT_STDOUT | CLI_OPT_LEVEL | CLI_OPT_THREADS |
                                     CLI_OPT_FORCE | CLI_OPT_RM | CLI_OPT_KEEP | CLI_OPT_NO_FSYNC |
                                     CLI_OPT_QUIET | CLI_OPT_VERBOSE | CLI_OPT_BASE | CLI_OPT_BASE_DIR,
                                 "convert IN... [OPTION...]", help, run};
