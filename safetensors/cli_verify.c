/*
 * cli_verify.c - lmc-st verify.
 */
#include "cli.h"
#include "cli_progress.h"

#include <stdio.h>

static const char help[] =
    "Reads archives whole and verifies every checksum: what restoring would do, without writing. Of a\n"
    "plain safetensors file, the header is checked. Goes on with the next file after a bad one.\n"
    "\n"
    "  -j, --threads N     number of threads; 0, the default, is one per core\n"
    "  -q, --quiet         no progress bar on a terminal\n"
    "  -v, --verbose       a line for each good file even if there is no terminal\n"
    "  -h, --help\n";

static int verify_one(const cli_args *args, const char *path)
{
    lmc_st_options options;
    lmc_st_result result;
    lmc_st_diag diag;
    cli_progress progress;
    cli_set_options(args, &options);
    cli_progress_start(&progress, args, path);
    options.progress = cli_progress_update;
    options.user = &progress;
    const lmc_status status = lmc_st_verify(path, &options, &result, &diag);
    cli_progress_clear(&progress);
    if (status != LMC_OK) {
        return cli_report(&diag);
    }
    if (progress.is_told) {
        fprintf(stderr, "%s: %s, %llu tensors\n", progress.label,
                result.is_archive ? "verified" : "plain safetensors, the header is sound",
                (unsigned long long)result.tensor_count);
    }
    return CLI_OK;
}

static int run(const cli_args *args)
{
    int worst = CLI_OK;
    if (args->operand_count == 0) {
        return cli_usage_error("verify", "verify takes one or more files");
    }
    for (int i = 0; i < args->operand_count && worst < 128; i++) {
        const int exit_status = verify_one(args, args->operands[i]);
        worst = exit_status > worst ? exit_status : worst;
    }
    return worst;
}

const cli_command cli_verify = {"verify", CLI_OPT_THREADS | CLI_OPT_QUIET | CLI_OPT_VERBOSE,
                                "verify FILE... [-j N] [-q]", help, run};
