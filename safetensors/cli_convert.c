/*
 * cli_convert.c - lmc-st convert.
 */
#include "cli_files.h"

#include "os_dir.h"

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
    "  -q, --quiet        neither progress bar nor summary on a terminal\n"
    "  -v, --verbose      summary of each file, even without a terminal\n"
    "  -h, --help         show this text\n";

/* "DIR/" and "." have no usable last component. */
static char *output_name(const char *in_path, const char **fault)
{
    const size_t length = cli_path_length(in_path);
    char *const trimmed = st_duplicate(&st_memory_default, in_path);
    if (trimmed == NULL) {
        return NULL;
    }
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

static lmc_status call(cli_job *job, const char *in_path, const char *out_path)
{
    return lmc_st_convert(in_path, out_path, &job->options, &job->result, &job->diag);
}

/* How much of the archive was coded against --base: none of it, if that was the wrong file. */
static void tell_base(const cli_job *job)
{
    lmc_st_file *file = NULL;
    lmc_st_base base = {.tensor_count = 0};
    if (job->args->base == NULL || job->out_path == NULL || job->result.file_count > 0 ||
        lmc_st_open(job->out_path, &file, NULL) != LMC_OK) {
        return;
    }
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
    if (args->base == NULL && args->base_dir_count > 0) {
        return cli_usage_error("convert", "--base-dir is for the base of an archive that --base names");
    }
    return cli_run_files(&work, args);
}

const cli_command cli_convert = {"convert",
                                 CLI_OPT_OUTPUT | CLI_OPT_STDOUT | CLI_OPT_LEVEL | CLI_OPT_THREADS |
                                     CLI_OPT_FORCE | CLI_OPT_RM | CLI_OPT_KEEP | CLI_OPT_NO_FSYNC |
                                     CLI_OPT_QUIET | CLI_OPT_VERBOSE | CLI_OPT_BASE | CLI_OPT_BASE_DIR,
                                 "convert IN... [OPTION...]", help, run};
