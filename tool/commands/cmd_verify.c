/*
 * cmd_verify.c - lmc-st verify: the comparison with --sha256, the warning of files without checksums, the summary.
 */
#include "lmc_st_experimental.h"
#include "tool/files.h"
#include "tool/inputs.h"
#include "tool/tool_path.h"

#include <stdio.h>
#include <strings.h>

static const char about[] =
    "Reads whole archives and verifies every checksum: what \"lmc-st restore\" does,\n"
    "without writing. Names every damaged tensor and block, and continues with the\n"
    "next file after a bad one. In a plain file, only the header or directory is\n"
    "checked, and a line says so. FILE may also be a directory that \"lmc-st convert\"\n"
    "wrote, or \"-\" for standard input: of its copies, only *.safetensors and their\n"
    "indexes are checked. If the base of an archive is missing, only the parts that\n"
    "do not need it are verified, and the exit status is 1. \"lmc-st -t FILE...\" does\n"
    "the same.\n";

/* The copies in a directory. */
typedef struct copies {
    uint64_t count;
    uint64_t lmc_count; /* those named .lmc */
} copies;

static int count_copy(void *user, const char *path, lmc_st_entry entry)
{
    copies *const copies = user;
    copies->count += entry == LMC_ST_ENTRY_COPY;
    copies->lmc_count += entry == LMC_ST_ENTRY_COPY && lmc_is_archive_name(path);
    return 0;
}

/* Prints the summary. Without checksums content cannot be verified: who reads exit status 0 must learn that it was
 * not. */
static void print_verified(const cli_job *job, const char *label)
{
    char shown[160];
    const lmc_st_result *const result = &job->result;
    const int is_plain_file = result->file_count == 0 && !result->is_archive;
    const int is_warned = (job->args->seen & CLI_OPT_QUIET) == 0 && !job->args->sha256;
    copies copies = {0};
    cli_shown(shown, sizeof shown, label);
    if (result->file_count > 0 && lmc_st_visit_entries(label, NULL, count_copy, &copies, NULL) != LMC_OK)
        copies = (struct copies){0};
    if (is_warned && result->file_count > 0 && job->plain_count > 0) {
        fprintf(stderr, "lmc-st: %s: %llu of its files %s\n", shown, (unsigned long long)job->plain_count,
                job->plain_count == 1
                    ? "is not an archive: its header was checked; its content has no checksums"
                    : "are not archives: their headers were checked; their contents have no checksums");
    }
    const uint64_t unknown_count = copies.count > job->plain_count ? copies.count - job->plain_count : 0;
    if (is_warned && unknown_count > 0 &&
        (job->plain_count > 0 || copies.lmc_count > 0 || job->progress.has_summary))
        fprintf(stderr, "lmc-st: %s: %llu of its files %s\n", shown, (unsigned long long)unknown_count,
                unknown_count == 1 ? "is a copy, which was not checked"
                                   : "are copies, which were not checked");
    if (job->progress.has_summary) {
        fprintf(stderr, "%s: %s%s%s, %llu tensors%s\n", job->progress.label,
                result->is_archive ? "verified" : "plain ",
                result->is_archive ? "" : lmc_st_container_name(result->container),
                result->is_archive ? "" : ", the header is valid", (unsigned long long)result->tensor_count,
                job->args->sha256 ? ", SHA-256 as expected"
                : is_plain_file   ? ", content without checksums"
                                  : "");
    } else if (is_warned && is_plain_file) {
        fprintf(stderr,
                "lmc-st: %s: is not an archive: its header was checked; its content has no checksums\n",
                shown);
    }
}

static int run_verify(const cli_args *args)
{
    int worst = CLI_OK;
    if (args->operand_count == 0)
        return cli_usage_error("verify", "verify takes one or more files");
    if (args->sha256 && args->operand_count != 1)
        return cli_usage_error("verify", "--sha256 is for one file");
    for (int i = 0; i < args->operand_count && worst < 128; i++) {
        cli_job job;
        const char *const path = args->operands[i];
        int exit_status = cli_base_check(args, path);
        cli_job_start(&job, args, path);
        const lmc_st_verify_options options = cli_job_verify_options(&job);
        const char *const label = options.has_in_fd ? "standard input" : path;
        if (exit_status == CLI_OK)
            exit_status = cli_job_end(&job, lmc_st_verify(label, &options, &job.result, &job.diag));
        if (exit_status == CLI_OK && args->sha256) {
            char found[65];
            for (size_t k = 0; k < 32; k++)
                snprintf(found + 2 * k, 3, "%02x", job.result.sha256[k]);
            if (strcasecmp(found, args->sha256) != 0) {
                cli_set_diag(&job.diag, label, LMC_ERR_CHECKSUM, "its SHA-256 is %s, not the expected one",
                             found);
                exit_status = cli_report(&job.diag);
            }
        }
        if (exit_status == CLI_OK)
            print_verified(&job, label);
        worst = exit_status > worst ? exit_status : worst;
    }
    return worst;
}

const cli_command cli_verify = {"verify", CLI_VERIFY, "check archives, write nothing", "FILE... ", about,
                                NULL,     run_verify};
