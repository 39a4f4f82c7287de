/*
 * cli.h - what the files of the command lmc-st share. Only files named cli_* print.
 */
#ifndef LMC_TOOL_CLI_H
#define LMC_TOOL_CLI_H

#include "lmc_st.h"

#include "tool/args.h"

/* exit statuses */
#define CLI_OK 0
#define CLI_BAD_DATA 1
#define CLI_USAGE 2
#define CLI_SYSTEM 3

typedef struct cli_command {
    const char *name;
    unsigned options; /* CLI_OPT_* that it knows, beside --help */
    const char *synopsis;
    const char *help;                 /* what follows the synopsis */
    int (*run)(const cli_args *args); /* returns the exit status */
} cli_command;

/* One per file cli_<name>.c. */
extern const cli_command cli_convert, cli_restore, cli_verify, cli_cat, cli_ls, cli_info, cli_get, cli_diff,
    cli_bench, cli_doctor;

/* Non-zero once a signal asked the program to end. */
extern volatile int cli_cancel;

/* Prints "lmc-st: CAUSE" with a hint to the command's help; returns CLI_USAGE. command may be NULL. */
int cli_usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the one line that names file, tensor, offset and cause; returns the exit status. */
int cli_report(const lmc_st_diag *diag);

/* 1 while what was printed could be written. Loops that print ask after each step, so that they end with
 * their reader, and so that the cause is known. */
int cli_output_works(void);

/* Flushes stdout; returns the exit status. */
int cli_finish_output(void);

/* The options of the calls on whole files, from the command line. */
void cli_set_options(const cli_args *args, lmc_st_options *options);

#endif
