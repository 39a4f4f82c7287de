/*
 * cli_restore.c - lmc-st restore.
 */
#include "cli.h"
#include "cli_progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Writes the safetensors file that ARCHIVE was made from, byte for byte, under ARCHIVE's name without\n"
    ".lmc. Everything is verified before the file gets its name.\n"
    "\n"
    "  -o, --output OUT    name of the file\n"
    "  -j, --threads N     number of threads; 0, the default, is one per core\n"
    "  -f, --force         replace an existing output\n"
    "  -q, --quiet         no progress bar on a terminal\n"
    "  -v, --verbose       a closing line even if there is no terminal\n"
    "  -h, --help\n";

/* The name without .lmc; NULL if it does not end so or nothing would be left. *is_memory: why NULL. */
static char *default_output(const char *in_path, int *is_memory)
{
    const size_t length = strlen(in_path);
    *is_memory = 0;
    if (length <= 4 || strcmp(in_path + length - 4, ".lmc") != 0 || in_path[length - 5] == '/') {
        return NULL;
    }
    char *const path = malloc(length);
    *is_memory = path == NULL;
    if (path != NULL) {
        snprintf(path, length, "%.*s", (int)(length - 4), in_path);
    }
    return path;
}

static int restore_to(const cli_args *args, const char *out_path)
{
    lmc_st_options options;
    lmc_st_result result;
    lmc_st_diag diag;
    cli_progress progress;
    cli_set_options(args, &options);
    cli_progress_start(&progress, args, args->operands[0]);
    options.progress = cli_progress_update;
    options.user = &progress;
    const lmc_status status = lmc_st_restore(args->operands[0], out_path, &options, &result, &diag);
    cli_progress_clear(&progress);
    if (status != LMC_OK) {
        return cli_report(&diag);
    }
    const double seconds = cli_progress_seconds(&progress);
    if (progress.is_told) {
        fprintf(stderr, "%s: %llu bytes -> %llu, %.2f GiB/s\n", progress.label,
                (unsigned long long)result.stored_nbytes, (unsigned long long)result.file_nbytes,
                (double)result.file_nbytes / (1 << 30) / (seconds > 0 ? seconds : 1));
    }
    return CLI_OK;
}

static int run(const cli_args *args)
{
    int is_memory = 0;
    if (args->operand_count != 1) {
        return cli_usage_error("restore", "restore takes one archive");
    }
    if (args->output != NULL) {
        return restore_to(args, args->output);
    }
    char *const out_path = default_output(args->operands[0], &is_memory);
    if (is_memory) {
        fprintf(stderr, "lmc-st: out of memory\n");
        return CLI_SYSTEM;
    }
    if (out_path == NULL) {
        return cli_usage_error("restore", "the archive's name does not end in .lmc: name the output with -o");
    }
    const int exit_status = restore_to(args, out_path);
    free(out_path);
    return exit_status;
}

const cli_command cli_restore = {
    "restore", CLI_OPT_OUTPUT | CLI_OPT_THREADS | CLI_OPT_FORCE | CLI_OPT_QUIET | CLI_OPT_VERBOSE,
    "restore ARCHIVE [-o OUT] [-j N] [-f] [-q]", help, run};
