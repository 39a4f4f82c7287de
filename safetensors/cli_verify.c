/*
 * cli_verify.c - lmc-st verify.
 */
#include "cli_base.h"
#include "cli_files.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "Reads archives whole and verifies every checksum: what \"lmc-st restore\" does,\n"
    "without writing. Names every damaged tensor and its blocks, and goes on with the\n"
    "next file after a bad one. Of a plain safetensors file, only the header is\n"
    "checked. FILE may also be a directory that \"lmc-st convert\" wrote, or \"-\" for\n"
    "standard input. \"lmc-st -t FILE...\" does the same. Without its base, of an\n"
    "archive only that is verified which needs none; the exit status is then 1.\n"
    "\n"
    "      --sha256 HEX   the file that FILE restores to (a plain file: FILE itself)\n"
    "                     must have this SHA-256, which hubs show for their files;\n"
    "                     for one FILE, no directory\n"
    "      --base BASE    the snapshot that FILE is based on, or its archive\n"
    "      --base-dir DIR where bases are looked for, before an archive's directory\n"
    "  -j, --threads N    number of threads; 0, the default, is one per core\n"
    "  -q, --quiet        neither progress bar nor summary on a terminal\n"
    "  -v, --verbose      summary of each file, even without a terminal\n"
    "  -h, --help         show this text\n";

/* Both in lower case. */
static int is_expected(const unsigned char *digest, const char *expected, char *shown)
{
    int is_equal = 1;
    for (size_t i = 0; i < 32; i++) {
        snprintf(shown + 2 * i, 3, "%02x", digest[i]);
    }
    for (size_t i = 0; i < 64; i++) {
        const char digit = expected[i];
        is_equal &= shown[i] == (digit >= 'A' && digit <= 'F' ? digit - 'A' + 'a' : digit);
    }
    return is_equal;
}

static int check_sha256(cli_job *job)
{
    char shown[65];
    if (is_expected(job->result.sha256, job->args->sha256, shown)) {
        return CLI_OK;
    }
    job->diag.status = LMC_ERR_CHECKSUM;
    snprintf(job->diag.text, sizeof(job->diag.text), "its SHA-256 is %s, not the expected one", shown);
    return cli_report(&job->diag);
}

static int verify_one(const cli_args *args, const char *path)
{
    cli_job job;
    const int base_status = cli_base_check(args, path);
    if (base_status != CLI_OK) {
        return base_status;
    }
    cli_job_start(&job, args, path);
    const char *const label = job.options.in_fd < 0 ? path : "standard input";
    const lmc_status status = lmc_st_verify(label, &job.options, &job.result, &job.diag);
    int exit_status = cli_job_end(&job, status);
    if (exit_status == CLI_OK && args->sha256 != NULL) {
        exit_status = check_sha256(&job);
    }
    if (exit_status == CLI_OK && job.progress.is_told) {
        fprintf(stderr, "%s: %s, %llu tensors%s\n", job.progress.label,
                job.result.is_archive ? "verified" : "plain safetensors, the header is sound",
                (unsigned long long)job.result.tensor_count,
                args->sha256 != NULL ? ", SHA-256 as expected" : "");
    }
    return exit_status;
}

static int run(const cli_args *args)
{
    int worst = CLI_OK;
    if (args->operand_count == 0) {
        return cli_usage_error("verify", "verify takes one or more files");
    }
    if (args->sha256 != NULL && args->operand_count != 1) {
        return cli_usage_error("verify", "--sha256 belongs to one file");
    }
    for (int i = 0; i < args->operand_count && worst < 128; i++) {
        const int exit_status = verify_one(args, args->operands[i]);
        worst = exit_status > worst ? exit_status : worst;
    }
    return worst;
}

const cli_command cli_verify = {"verify",
                                CLI_OPT_THREADS | CLI_OPT_QUIET | CLI_OPT_VERBOSE | CLI_OPT_SHA256 |
                                    CLI_OPT_BASE | CLI_OPT_BASE_DIR,
                                "verify FILE... [OPTION...]", help, run};
