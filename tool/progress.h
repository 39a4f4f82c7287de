/*
 * progress.h - the progress bar and the closing line of a command, both on stderr.
 */
#ifndef LMC_TOOL_PROGRESS_H
#define LMC_TOOL_PROGRESS_H

#include "tool/args.h"

typedef struct cli_progress {
    int is_shown;    /* a bar: stderr is a terminal and -q was not given */
    int has_summary; /* a closing line: with the bar, or with -v */
    int is_drawn;
    double started; /* seconds */
    double drawn;
    char label[40];
} cli_progress;

/* `path` names the file that is being worked on. */
void cli_progress_start(cli_progress *progress, const cli_args *args, const char *path);

/* lmc_st_common.progress; user is the cli_progress. Draws at most ten times a second. */
void cli_progress_update(void *user, uint64_t done_nbytes, uint64_t total_nbytes);

/* Clears the bar. Must be called before anything else is printed. */
void cli_progress_clear(cli_progress *progress);

/* Seconds since the start. */
double cli_progress_seconds(const cli_progress *progress);

#endif
