/*
 * args.h - the command line: one table of all options, from which it is parsed and the help texts are made.
 */
#ifndef LMC_TOOL_ARGS_H
#define LMC_TOOL_ARGS_H

#include "lmc_run.h"

/* Options, as bits of cli_args.seen. */
#define CLI_OPT_OUTPUT (1u << 0)
#define CLI_OPT_LEVEL (1u << 1)
#define CLI_OPT_THREADS (1u << 2)
#define CLI_OPT_FORCE (1u << 3)
#define CLI_OPT_QUIET (1u << 4)
#define CLI_OPT_VERBOSE (1u << 5)
#define CLI_OPT_JSON (1u << 6)
#define CLI_OPT_HELP (1u << 7)
#define CLI_OPT_VERSION (1u << 8)
#define CLI_OPT_STDOUT (1u << 9)
#define CLI_OPT_RM (1u << 10)
#define CLI_OPT_KEEP (1u << 11)
#define CLI_OPT_TEST (1u << 12)
#define CLI_OPT_NO_FSYNC (1u << 13)
#define CLI_OPT_SALVAGE (1u << 14)
#define CLI_OPT_SHA256 (1u << 15)
#define CLI_OPT_RANGE (1u << 16)
#define CLI_OPT_BASE (1u << 17)
#define CLI_OPT_BASE_DIR (1u << 18)
#define CLI_OPT_EXCLUDE (1u << 19)
#define CLI_OPT_RAW (1u << 20)
#define CLI_OPT_STEP (1u << 21)
#define CLI_OPT_KEY_EVERY (1u << 22)
#define CLI_OPT_DRY_RUN (1u << 23)
#define CLI_OPT_LAST (1u << 24)
#define CLI_OPT_EVERY (1u << 25)
#define CLI_OPT_SETTLE (1u << 26)

/* Commands, as bits of the table of options. */
#define CLI_CONVERT (1u << 0)
#define CLI_RESTORE (1u << 1)
#define CLI_VERIFY (1u << 2)
#define CLI_CAT (1u << 3)
#define CLI_LS (1u << 4)
#define CLI_INFO (1u << 5)
#define CLI_GET (1u << 6)
#define CLI_DIFF (1u << 7)
#define CLI_BENCH (1u << 8)
#define CLI_DOCTOR (1u << 9)
#define CLI_RUN (1u << 10)
#define CLI_RUN_ADD (1u << 11)
#define CLI_RUN_LS (1u << 12)
#define CLI_RUN_INFO (1u << 13)
#define CLI_RUN_RESTORE (1u << 14)
#define CLI_RUN_GET (1u << 15)
#define CLI_RUN_VERIFY (1u << 16)
#define CLI_RUN_DROP (1u << 17)
#define CLI_RUN_KEEP (1u << 18)
#define CLI_RUN_DIFF (1u << 19)
#define CLI_RUN_REPAIR (1u << 20)
#define CLI_RUN_WATCH (1u << 21)
#define CLI_ANALYZE (1u << 22)

/* Options that need no command. */
#define CLI_OPT_GENERAL (CLI_OPT_TEST | CLI_OPT_VERSION | CLI_OPT_HELP)

/* One option of some commands. An option whose help text differs from command to command has several rows. */
typedef struct cli_option {
    unsigned bit;
    char letter; /* 0: none */
    const char *name;
    const char *value; /* NULL: it takes none; else what it is, in capitals */
    unsigned commands;
    const char *help; /* lines of at most 59 columns */
} cli_option;

/* All options; a row without a name ends them. The parser, the help texts and the completions are made from this table.
 * The manual page has the options, too: tests/checks/check_help.py compares it with the help texts. */
extern const cli_option cli_options[];

#define CLI_BASE_DIRS_MAX 16
#define CLI_EXCLUDES_MAX 64

typedef struct cli_args {
    unsigned seen;       /* CLI_OPT_* that were given */
    const char *command; /* the first operand; NULL if there is none */
    char **operands;     /* the others, in argv, which is reordered */
    int operand_count;
    const char *output;
    lmc_level level;
    unsigned thread_count;
    const char *sha256;                       /* 64 hexadecimal digits, or NULL */
    const char *range;                        /* the value of --range, or NULL */
    const char *base;                         /* likewise */
    const char *base_dirs[CLI_BASE_DIRS_MAX]; /* in the order of the options */
    size_t base_dir_count;
    const char *excludes[CLI_EXCLUDES_MAX]; /* likewise */
    size_t exclude_count;
    uint64_t step;
    unsigned key_every;   /* 0: not given */
    uint64_t last, every; /* likewise */
    uint64_t settle_ms;   /* milliseconds */
} cli_args;

/* Reads a step: decimal, at most LMC_RUN_STEP_MAX. Returns 0 if the text is none. */
int cli_read_step(const char *text, uint64_t *step);

/* Options and operands may come in any order; "--" ends the options. Returns 1, or 0 with *fault and *subject (the
 * argument at fault) set. */
int cli_args_parse(int argc, char **argv, cli_args *args, const char **fault, const char **subject);

/* The options that a command has. */
unsigned cli_options_of(unsigned command);

/* The long name of an option, for messages. */
const char *cli_option_name(unsigned option);

/* Prints a line or more for each option of a command. */
void cli_print_options(unsigned command);

#endif
