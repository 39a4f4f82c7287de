/*
 * restore.c - lmc-st restore and lmc-st cat.
 */
#include "tool/files.h"

#include "safetensors/archive/file.h"
#include "safetensors/os/dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char restore_help[] =
    "Writes the safetensors file that ARCHIVE was made from, byte for byte; its name\n"
    "is ARCHIVE's without .lmc. ARCHIVE is a file, \"-\" for standard input, or a\n"
    "directory that \"lmc-st convert\" wrote. Everything is verified before the output\n"
    "gets its name; of what went to standard output, use nothing unless the exit\n"
    "status is 0.\n"
    "\n"
    "  -o, --output OUT   name of the output, \"-\" for standard output; with several\n"
    "                     inputs, an existing directory for the outputs\n"
    "  -c, --stdout       write to standard output; the default if ARCHIVE is \"-\"\n"
    "      --base BASE    the snapshot that ARCHIVE is based on, or its archive\n"
    "      --base-dir DIR where bases are looked for, before an archive's directory\n"
    "  -j, --threads N    number of threads; 0, the default, is one per core\n"
    "  -f, --force        replace an existing output (a directory as a whole); write\n"
    "                     even to a terminal\n"
    "      --rm           remove ARCHIVE once OUT was read back and found equal\n"
    "  -k, --keep         keep ARCHIVE (the default)\n"
    "      --salvage      of a damaged archive file, write the tensors that are sound\n"
    "                     and name the others; the exit status is then 1\n"
    "      --no-fsync     do not wait until OUT has reached the disk\n"
    "  -q, --quiet        neither progress bar nor summary on a terminal\n"
    "  -v, --verbose      summary of each file, even without a terminal\n"
    "  -h, --help         show this text\n";

static const char cat_help[] =
    "Writes the safetensors file that FILE, an archive, was made from to standard\n"
    "output; a plain safetensors file as it is. \"-\" is standard input. Use nothing\n"
    "of the output unless the exit status is 0.\n"
    "\n"
    "      --base BASE    the snapshot that FILE is based on, or its archive\n"
    "      --base-dir DIR where bases are looked for, before an archive's directory\n"
    "  -j, --threads N    number of threads; 0, the default, is one per core\n"
    "  -f, --force        write even to a terminal\n"
    "  -h, --help         show this text\n";

/* The name without .lmc. */
static char *output_name(const char *in_path, const char **fault)
{
    const size_t length = cli_path_length(in_path);
    if (length <= 4 || memcmp(in_path + length - 4, ".lmc", 4) != 0 || in_path[length - 5] == '/') {
        *fault = "its name does not end in .lmc: name the output with -o";
        return NULL;
    }
    char *const path = st_duplicate(&st_memory_default, in_path);
    if (path != NULL)
        path[length - 4] = '\0';
    return path;
}

static lmc_status call(cli_job *job, const char *in_path, const char *out_path)
{
    return lmc_st_restore(in_path, out_path, &job->options, &job->result, &job->diag);
}

static void tell(const cli_job *job)
{
    const lmc_st_result *const result = &job->result;
    fprintf(stderr, "%s: %llu bytes -> %llu, %.2f GiB/s", job->progress.label,
            (unsigned long long)result->stored_nbytes, (unsigned long long)result->file_nbytes,
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
    static const cli_work work = {"restore", output_name, call, tell, 0};
    if ((args->seen & CLI_OPT_SALVAGE) != 0 && (args->seen & CLI_OPT_RM) != 0)
        return cli_usage_error("restore", "--salvage and --rm exclude each other");
    return cli_run_files(&work, args);
}

const cli_command cli_restore = {"restore",
                                 CLI_OPT_OUTPUT | CLI_OPT_STDOUT | CLI_OPT_THREADS | CLI_OPT_FORCE |
                                     CLI_OPT_RM | CLI_OPT_KEEP | CLI_OPT_SALVAGE | CLI_OPT_NO_FSYNC |
                                     CLI_OPT_QUIET | CLI_OPT_VERBOSE | CLI_OPT_BASE | CLI_OPT_BASE_DIR,
                                 "restore ARCHIVE... [OPTION...]", restore_help, run_restore};

/* ---- cat ---- */

/* The bytes of a plain file, whose header has been checked. */
static lmc_status copy_plain(const lmc_st_file *file, lmc_st_diag *diag)
{
    unsigned char piece[1 << 16];
    const os_input *const input = &file->input;
    lmc_status status = LMC_OK;
    for (uint64_t at = 0; at < input->nbytes && status == LMC_OK; at += sizeof(piece)) {
        const size_t nbytes =
            input->nbytes - at < sizeof(piece) ? (size_t)(input->nbytes - at) : sizeof(piece);
        status = os_input_read(input, at, piece, nbytes, diag);
        const int os_errno = status == LMC_OK ? os_write_all(STDOUT_FILENO, piece, nbytes, &cli_cancel) : 0;
        if (os_errno != 0) {
            st_diag_set_file(diag, "standard output");
            status = st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot write");
        }
    }
    return status == LMC_OK ? os_input_check_unchanged(input, diag) : status;
}

static lmc_status call_cat(cli_job *job, const char *in_path, const char *out_path)
{
    lmc_st_file *file = NULL;
    lmc_status status = st_file_open_input(in_path, &job->options, &file, &job->diag);
    if (status != LMC_OK)
        return status;
    const int is_archive = file->is_archive;
    if (!is_archive)
        status = copy_plain(file, &job->diag);
    /* a stream was collected in a temporary file, which is read again */
    job->options.in_fd = job->options.in_fd < 0 ? -1 : file->input.fd;
    if (is_archive)
        status = lmc_st_restore(in_path, out_path, &job->options, &job->result, &job->diag);
    lmc_st_close(file);
    return status;
}

static int run_cat(const cli_args *args)
{
    static const cli_work work = {"cat", output_name, call_cat, tell, 0};
    cli_args to_stdout = *args;
    to_stdout.seen |= CLI_OPT_STDOUT;
    return cli_run_files(&work, &to_stdout);
}

const cli_command cli_cat = {"cat", CLI_OPT_THREADS | CLI_OPT_FORCE | CLI_OPT_BASE | CLI_OPT_BASE_DIR,
                             "cat FILE [OPTION...]", cat_help, run_cat};
