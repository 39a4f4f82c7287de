/*
 * cli.h - what the files of the command lmc-st share: commands, exit statuses, messages, standard output, names as
 * they are shown, completion.
 */
#ifndef LMC_TOOL_CLI_H
#define LMC_TOOL_CLI_H

#include "common/compiler.h"
#include "common/text.h"
#include "tool/args.h"

/* exit statuses */
#define CLI_OK 0
#define CLI_BAD_DATA 1
#define CLI_USAGE 2
#define CLI_SYSTEM 3

typedef struct cli_command {
    const char *name;
    uint64_t bit; /* CLI_CONVERT ... : its options have it in their table */
    const char *summary;
    const char *operands;       /* their kinds in capitals, which completion knows; a blank behind each */
    const char *before, *after; /* help text before and after the options; `after` may be NULL */
    int (*run)(const cli_args *args); /* returns the exit status */
} cli_command;

/* One for each file of commands/; restore.c has cat, too. */
extern const cli_command cli_convert, cli_restore, cli_verify, cli_cat, cli_ls, cli_info, cli_get, cli_diff,
    cli_analyze, cli_bench, cli_doctor, cli_run, cli_store, cli_mount, cli_unmount;

/* All commands, and those of `run` and `store`, whose names are of two words; NULL ends them. */
extern const cli_command *const cli_commands[];
extern const cli_command *const cli_run_commands[];
extern const cli_command *const cli_store_commands[];

/* The commands of a group: of `run` or `store`. NULL: the command is none. */
const cli_command *const *cli_commands_of(const cli_command *command);

/* Says that a group needs one of its commands, or that it has no such command. Returns CLI_USAGE. */
int cli_need_command(const cli_args *args);

/* Finds a command by its name, such as "convert" or "run add"; NULL: there is none. */
const cli_command *cli_find_command(const char *name);

/* Number of the signal that asked the program to end, or 0. */
extern volatile int cli_cancel;

/* ---- messages (report.c) ---- */

/* Prints "lmc-st: CAUSE" with a hint to the command's help. Returns CLI_USAGE. command may be NULL. */
int cli_usage_error(const char *command, const char *format, ...) LMC_PRINTF(2, 3);

/* The exit status for a status of the library. */
int cli_exit_status(lmc_status status);

/* The line that names file, tensor, offset and cause; it never is longer than CLI_LINE_NBYTES. Returns line. */
#define CLI_LINE_NBYTES 1400
const char *cli_line(const lmc_st_diag *diag, char *line, size_t capacity);

/* Prints the one line that names file, tensor, offset and cause. Returns the exit status. */
int cli_report(const lmc_st_diag *diag);

/* Make a diagnostic as the library does: of a fault, or of a system call that failed. */
void cli_set_diag(lmc_st_diag *diag, const char *path, lmc_status status, const char *format, ...)
    LMC_PRINTF(4, 5);
void cli_set_os_diag(lmc_st_diag *diag, const char *path, int os_errno, const char *what);

/* Goes on with the cause of a diagnostic. */
void cli_add_to_diag(lmc_st_diag *diag, const char *format, ...) LMC_PRINTF(2, 3);

/* Prints the line of a system call that failed. Returns the exit status. */
int cli_fail_os(const char *path, int os_errno, const char *what);

/* Prints that memory ran out. Returns CLI_SYSTEM. */
int cli_fail_nomem(void);

/* 1 while all that was printed could be written. Loops that print ask after each step: they end with their reader, and
 * the cause stays known. */
int cli_output_works(void);

/* Flushes stdout before a command is done. The cause of a failure stays known. */
void cli_flush_output(void);

/* Flushes stdout. Returns the exit status. */
int cli_finish_output(void);

/* Flushes and closes standard output at the end of the program: a file system may tell only then that it has not stored
 * what was written. Returns the exit status. */
int cli_close_output(void);

/* Ends the program as a broken pipe would have if the reader of standard output has left. To be called last. */
void cli_follow_reader(void);

/* ---- names, paths and shapes on a terminal and in JSON (shown.c) ----
 *
 * Names come from untrusted files: all of them are printed through these functions and lmc_text_escape(). */

/* lmc_text_escape() for a string with a NUL at its end. Returns dst. */
const char *cli_shown(char *dst, size_t capacity, const char *src);

/* Writes the shape as "[2,3]". What does not fit `capacity` (at least 8) ends in "...]", and so does a shape that is
 * NULL for want of memory. */
void cli_show_shape(const lmc_st_tensor *tensor, char *shown, size_t capacity);

/* Prints a JSON string with its quotes. Characters that lmc_text_escape() escapes become \u escapes; a byte that is no
 * UTF-8 (only paths have such) becomes U+FFFD. */
void cli_json_string(const char *text, size_t nbytes);

/* The same for a string with a NUL at its end; null for NULL. */
void cli_json_text(const char *text);

/* Writes stored / original, or "-" if the original is empty. Returns shown. */
const char *cli_show_ratio(uint64_t stored_nbytes, uint64_t nbytes, char shown[24]);

/* Prints stored / original, or null if the original is empty. */
void cli_json_ratio(uint64_t stored_nbytes, uint64_t nbytes);

/* ---- the kernel sets (commands/cmd_doctor.c) ---- */

/* The word after which this program tries the set that it chooses and prints "NAME IS_RIGHT FRAME_VERSION"; it is in no
 * help text. */
#define CLI_TRY_KERNELS "__try-kernels"
int cli_try_kernels(void);

/* ---- completion of command lines (complete.c) ---- */

/* The command's name; it is in no help text. */
#define CLI_COMPLETE "__complete"

/* Prints what fits the last of the words that follow `lmc-st`. The last one may be "". A first line says which files
 * the shell is to offer besides: "plain" (files with tensors), "archives", "either", "files", "directories", or
 * nothing. Then a line for each candidate: the word, a tab, a description. Returns the exit status. */
int cli_complete(int count, char **words);

#endif
