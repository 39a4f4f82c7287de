/*
 * child.h - work in a process of its own, whose findings come back as records through a pipe: for what may be
 * done once per process only, and for libraries of others, which may crash.
 */
#ifndef LMC_TOOL_CHILD_H
#define LMC_TOOL_CHILD_H

#include <stddef.h>

#define CLI_RECORD_NBYTES_MAX 1024

typedef struct cli_child {
    /* In the child: does the work, sends what it has to say with cli_send(), returns the exit status. */
    int (*work)(void *user, int pipe_fd);
    /* In this process: takes each record that was sent, of record_nbytes bytes. */
    void (*take)(void *user, const void *record);
    size_t record_nbytes;
    void *user;
} cli_child;

/* Runs child->work. Returns CLI_OK with *status as waitpid() gives it, CLI_SYSTEM after a message, or 128 + N
 * when signal N told this process to end (cli_cancel): then the child was told, too. */
int cli_run_child(const cli_child *child, int *status);

/* Writes a record to the pipe; returns 0 if nobody reads any more. */
int cli_send(int pipe_fd, const void *record, size_t nbytes);

/* ---- in a child that calls a library of others ---- */

/* From here on a crash leaves no core file, the library says nothing on stdout and stderr, a signal ends the process at
 * once, and it gets at most 4 GiB beyond what it has. */
void cli_child_confine(void);

/* The process is ended by SIGXCPU unless it says so again within CLI_CHILD_SECONDS of processor time. */
void cli_child_goes_on(void);
#define CLI_CHILD_SECONDS 60

#endif
