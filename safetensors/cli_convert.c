/*
 * cli_convert.c - lmc-st convert.
 */
#include "cli.h"
#include "cli_progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Writes IN.safetensors.lmc: an archive from which \"lmc-st restore\" gives the identical file back.\n"
    "It is itself a safetensors file that holds each tensor, compressed, under its own name.\n"
    "\n"
    "  -o, --output OUT    name of the archive\n"
    "      --level LEVEL   default; fast: faster, a little larger; max: a little smaller, slower\n"
    "  -j, --threads N     number of threads; 0, the default, is one per core\n"
    "  -f, --force         replace an existing output\n"
    "  -q, --quiet         no progress bar on a terminal\n"
    "  -v, --verbose       a closing line even if there is no terminal\n"
    "  -h, --help\n";

static char *default_output(const char *in_path)
{
    const size_t nbytes = strlen(in_path) + sizeof(".lmc");
    char *const path = malloc(nbytes);
    if (path != NULL) {
        snprintf(path, nbytes, "%s.lmc", in_path);
    }
    return path;
}

static void tell(const cli_progress *progress, const lmc_st_result *result)
{
    const double seconds = cli_progress_seconds(progress);
    if (progress->is_told) {
        fprintf(stderr, "%s: %llu bytes -> %llu, ratio %.4f, %.2f GiB/s\n", progress->label,
                (unsigned long long)result->file_nbytes, (unsigned long long)result->stored_nbytes,
                (double)result->stored_nbytes / (double)result->file_nbytes,
                (double)result->file_nbytes / (1 << 30) / (seconds > 0 ? seconds : 1));
    }
}

static int convert_to(const cli_args *args, const char *out_path)
{
    lmc_st_options options;
    lmc_st_result result;
    lmc_st_diag diag;
    cli_progress progress;
    cli_set_options(args, &options);
    cli_progress_start(&progress, args, args->operands[0]);
    options.progress = cli_progress_update;
    options.user = &progress;
    const lmc_status status = lmc_st_convert(args->operands[0], out_path, &options, &result, &diag);
    cli_progress_clear(&progress);
    if (status != LMC_OK) {
        return cli_report(&diag);
    }
    tell(&progress, &result);
    return CLI_OK;
}

static int run(const cli_args *args)
{
    if (args->operand_count != 1) {
        return cli_usage_error("convert", "convert takes one safetensors file");
    }
    if (args->output != NULL) {
        return convert_to(args, args->output);
    }
    char *const out_path = default_output(args->operands[0]);
    if (out_path == NULL) {
        fprintf(stderr, "lmc-st: out of memory\n");
        return CLI_SYSTEM;
    }
    const int exit_status = convert_to(args, out_path);
    free(out_path);
    return exit_status;
}

const cli_command cli_convert = {
    "convert",
    CLI_OPT_OUTPUT | CLI_OPT_LEVEL | CLI_OPT_THREADS | CLI_OPT_FORCE | CLI_OPT_QUIET | CLI_OPT_VERBOSE,
    "convert IN.safetensors [-o OUT] [--level fast|default|max] [-j N] [-f] [-q]", help, run};
