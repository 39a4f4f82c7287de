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
    const char *in_path;  /* "-": standard input */
    const char *out_path; /* NULL: standard output */
    lmc_st_common common;
    lmc_st_result result;
    lmc_st_diag diag;
    cli_progress progress;
    int damaged_shown;                              /* lines that name damaged tensors */
    char base_file[sizeof((lmc_st_diag *)0)->file]; /* the archive whose base was told to be another file */
    uint64_t base_more;                             /* tensors of that archive that were not named */
    uint64_t plain_count;                           /* files of a directory that are no archives */
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

/* Starts a job and its progress. */
void cli_job_start(cli_job *job, const cli_args *args, const char *in_path);

/* Options of a job's library call; their callbacks are those below. */
lmc_st_convert_options cli_job_convert_options(const cli_job *job);
lmc_st_restore_options cli_job_restore_options(const cli_job *job);
lmc_st_verify_options cli_job_verify_options(const cli_job *job);

/* Callbacks; user is the job. */
void cli_job_show_damage(void *user, const lmc_st_diag *diag);
void cli_job_show_warning(void *user, const lmc_st_diag *diag);
void cli_job_show_file(void *user, const char *path, lmc_st_event event, uint64_t in_nbytes,
                       uint64_t out_nbytes);

/* Clears the progress bar and reports a failure, if it was one. Returns the exit status. */
int cli_job_end(cli_job *job, lmc_status status);

/* GiB/s, in bytes of the original, since the start of the job. */
double cli_job_speed(const cli_job *job);

#endif
