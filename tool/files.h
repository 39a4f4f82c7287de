/*
 * files.h - what convert, restore and cat have in common: inputs one after another, their outputs, standard
 * streams, and the removal of inputs that are no longer needed.
 */
#ifndef LMC_TOOL_FILES_H
#define LMC_TOOL_FILES_H

#include "tool/cli.h"
#include "tool/progress.h"

/* One input and where its output goes. */
typedef struct cli_job {
    const cli_args *args;
    const char *in_path; /* "-": standard input */
    char *out_path;      /* NULL: standard output */
    lmc_st_options options;
    lmc_st_result result;
    lmc_st_diag diag;
    cli_progress progress;
    int damaged_shown;                              /* lines that name damaged tensors */
    char base_file[sizeof((lmc_st_diag *)0)->file]; /* the archive whose base was told to be another file */
    uint64_t plain_count;                           /* files of a directory that are no archives */
    uint64_t base_more;                             /* tensors of it that were not named */
} cli_job;

typedef struct cli_work {
    const char *name; /* of the command */
    /* The default output for an input, to be freed. NULL with *fault: the input's name gives none; NULL
     * without: out of memory. */
    char *(*output_name)(const cli_args *args, const char *in_path, const char **fault);
    lmc_status (*do_one)(cli_job *job, const char *in_path, const char *out_path);
    void (*print_summary)(const cli_job *job); /* the closing line */
    int is_convert;
} cli_work;

/* Does the work for all operands; returns the worst exit status. */
int cli_run_files(const cli_work *work, const cli_args *args);

/* Options, progress and callbacks of a job. */
void cli_job_start(cli_job *job, const cli_args *args, const char *in_path);

/* Clears the progress bar and reports a failure, if it was one. Returns the exit status. */
int cli_job_end(cli_job *job, lmc_status status);

/* GiB/s, in bytes of the original, since the start of the job. */
double cli_job_speed(const cli_job *job);

#endif
