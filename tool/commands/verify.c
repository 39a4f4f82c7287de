/*
 * verify.c - lmc-st verify: the comparison with --sha256, the warning of files without checksums, the summary.
 */
#include "tool/base.h"
#include "tool/files.h"
#include "tool/path.h"
#include "tool/text.h"

#include <stdio.h>
#include <strings.h>

static const char about[] =
    "Reads archives whole and verifies every checksum: what \"lmc-st restore\" does,\n"
    "without writing. Names every damaged tensor and its blocks, and goes on with the\n"
    "next file after a bad one. Of a plain file, only the header or directory is\n"
    "checked, and a line says so. FILE may also be a directory that \"lmc-st convert\"\n"
    "wrote, or \"-\" for standard input. \"lmc-st -t FILE...\" does the same. Without\n"
    "its base, of an archive only that is verified which needs none; the exit status\n"
    "is then 1.\n";

static int check_sha256(cli_job *job)
{
    char found[65];
    for (size_t i = 0; i < 32; i++)
        snprintf(found + 2 * i, 3, "%02x", job->result.sha256[i]);
    if (strcasecmp(found, job->args->sha256) == 0)
        return CLI_OK;
    job->diag.status = LMC_ERR_CHECKSUM;
    snprintf(job->diag.text, sizeof job->diag.text, "its SHA-256 is %s, not the expected one", found);
    return cli_report(&job->diag);
}

/* Without checksums content cannot be verified: who reads exit status 0 must be told that it was not. Of
 * one file, the summary says so too. */
static void warn_of_plain(const cli_job *job, const char *label)
{
    char shown[160];
    const int is_directory = job->result.file_count > 0;
    if ((job->args->seen & CLI_OPT_QUIET) != 0 || job->args->sha256)
        return;
    cli_shown(shown, sizeof shown, label);
    if (is_directory && job->plain_count > 0) {
        fprintf(stderr, "lmc-st: %s: %llu of its files %s\n", shown, (unsigned long long)job->plain_count,
                job->plain_count == 1
                    ? "is no archive: its header was checked; its content has no checksums"
                    : "are no archives: their headers were checked; their contents have no checksums");
    }
    if (!is_directory && !job->result.is_archive && !job->progress.has_summary) {
        fprintf(stderr, "lmc-st: %s: is no archive: its header was checked; its content has no checksums\n",
                shown);
    }
}

static void print_summary(const cli_job *job)
{
    const char *content = "";
    char plain[64];
    snprintf(plain, sizeof plain, "plain %s, the header is sound",
             lmc_st_container_name(job->result.container));
    if (job->args->sha256)
        content = ", SHA-256 as expected";
    else if (job->result.file_count == 0 && !job->result.is_archive)
        content = ", content without checksums";
    if (job->progress.has_summary) {
        fprintf(stderr, "%s: %s, %llu tensors%s\n", job->progress.label,
                job->result.is_archive ? "verified" : plain, (unsigned long long)job->result.tensor_count,
                content);
    }
}

static int verify_one(const cli_args *args, const char *path)
{
    cli_job job;
    const int base_status = cli_base_check(args, path);
    if (base_status != CLI_OK)
        return base_status;
    cli_job_start(&job, args, path);
    const char *const label = job.options.in_fd < 0 ? path : "standard input";
    const lmc_status status = lmc_st_verify(label, &job.options, &job.result, &job.diag);
    int exit_status = cli_job_end(&job, status);
    if (exit_status == CLI_OK && args->sha256)
        exit_status = check_sha256(&job);
    if (exit_status == CLI_OK) {
        warn_of_plain(&job, label);
        print_summary(&job);
    }
    return exit_status;
}

static int run_verify(const cli_args *args)
{
    int worst = CLI_OK;
    if (args->operand_count == 0)
        return cli_usage_error("verify", "verify takes one or more files");
    if (args->sha256 && args->operand_count != 1)
        return cli_usage_error("verify", "--sha256 belongs to one file");
    for (int i = 0; i < args->operand_count && worst < 128; i++) {
        const int exit_status = verify_one(args, args->operands[i]);
        worst = exit_status > worst ? exit_status : worst;
    }
    return worst;
}

const cli_command cli_verify = {"verify", CLI_VERIFY, "check archives, write nothing", "FILE... ", about,
                                NULL,     run_verify};
