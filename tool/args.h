/*
 * args.h - the command line: one table of all options, from which it is parsed and the help texts are made.
 */
#ifndef LMC_TOOL_ARGS_H
#define LMC_TOOL_ARGS_H

#include "lmc_run.h"
#include "lmc_store.h"

/* Options, as bits of cli_args.seen. */
#define CLI_OPT_OUTPUT (UINT64_C(1) << 0)
#define CLI_OPT_LEVEL (UINT64_C(1) << 1)
#define CLI_OPT_THREADS (UINT64_C(1) << 2)
#define CLI_OPT_FORCE (UINT64_C(1) << 3)
#define CLI_OPT_QUIET (UINT64_C(1) << 4)
#define CLI_OPT_VERBOSE (UINT64_C(1) << 5)
#define CLI_OPT_JSON (UINT64_C(1) << 6)
#define CLI_OPT_HELP (UINT64_C(1) << 7)
#define CLI_OPT_VERSION (UINT64_C(1) << 8)
#define CLI_OPT_STDOUT (UINT64_C(1) << 9)
#define CLI_OPT_RM (UINT64_C(1) << 10)
#define CLI_OPT_KEEP (UINT64_C(1) << 11)
#define CLI_OPT_TEST (UINT64_C(1) << 12)
#define CLI_OPT_NO_FSYNC (UINT64_C(1) << 13)
#define CLI_OPT_SALVAGE (UINT64_C(1) << 14)
#define CLI_OPT_SHA256 (UINT64_C(1) << 15)
#define CLI_OPT_RANGE (UINT64_C(1) << 16)
#define CLI_OPT_BASE (UINT64_C(1) << 17)
#define CLI_OPT_BASE_DIR (UINT64_C(1) << 18)
#define CLI_OPT_EXCLUDE (UINT64_C(1) << 19)
#define CLI_OPT_RAW (UINT64_C(1) << 20)
#define CLI_OPT_STEP (UINT64_C(1) << 21)
#define CLI_OPT_KEY_EVERY (UINT64_C(1) << 22)
#define CLI_OPT_DRY_RUN (UINT64_C(1) << 23)
#define CLI_OPT_LAST (UINT64_C(1) << 24)
#define CLI_OPT_EVERY (UINT64_C(1) << 25)
#define CLI_OPT_SETTLE (UINT64_C(1) << 26)
#define CLI_OPT_AS (UINT64_C(1) << 27)
#define CLI_OPT_DEPTH (UINT64_C(1) << 28)
#define CLI_OPT_APPLY (UINT64_C(1) << 29)
#define CLI_OPT_FOREGROUND (UINT64_C(1) << 30)
#define CLI_OPT_IDLE (UINT64_C(1) << 31)
#define CLI_OPT_CACHE (UINT64_C(1) << 32)
#define CLI_OPT_ALLOW_OTHER (UINT64_C(1) << 33)
#define CLI_OPT_F (UINT64_C(1) << 34) /* the letter: the command has one of two options with it, or neither */

/* Commands, as bits of the table of options. */
#define CLI_CONVERT (UINT64_C(1) << 0)
#define CLI_RESTORE (UINT64_C(1) << 1)
#define CLI_VERIFY (UINT64_C(1) << 2)
#define CLI_CAT (UINT64_C(1) << 3)
#define CLI_LS (UINT64_C(1) << 4)
#define CLI_INFO (UINT64_C(1) << 5)
#define CLI_GET (UINT64_C(1) << 6)
#define CLI_DIFF (UINT64_C(1) << 7)
#define CLI_BENCH (UINT64_C(1) << 8)
#define CLI_DOCTOR (UINT64_C(1) << 9)
#define CLI_RUN (UINT64_C(1) << 10)
#define CLI_RUN_ADD (UINT64_C(1) << 11)
#define CLI_RUN_LS (UINT64_C(1) << 12)
#define CLI_RUN_INFO (UINT64_C(1) << 13)
#define CLI_RUN_RESTORE (UINT64_C(1) << 14)
#define CLI_RUN_GET (UINT64_C(1) << 15)
#define CLI_RUN_VERIFY (UINT64_C(1) << 16)
#define CLI_RUN_DROP (UINT64_C(1) << 17)
#define CLI_RUN_KEEP (UINT64_C(1) << 18)
#define CLI_RUN_DIFF (UINT64_C(1) << 19)
#define CLI_RUN_REPAIR (UINT64_C(1) << 20)
#define CLI_RUN_WATCH (UINT64_C(1) << 21)
#define CLI_ANALYZE (UINT64_C(1) << 22)
#define CLI_STORE (UINT64_C(1) << 23)
#define CLI_STORE_ADD (UINT64_C(1) << 24)
#define CLI_STORE_LS (UINT64_C(1) << 25)
#define CLI_STORE_INFO (UINT64_C(1) << 26)
#define CLI_STORE_GET (UINT64_C(1) << 27)
#define CLI_STORE_RESTORE (UINT64_C(1) << 28)
#define CLI_STORE_VERIFY (UINT64_C(1) << 29)
#define CLI_STORE_DROP (UINT64_C(1) << 30)
#define CLI_STORE_REPAIR (UINT64_C(1) << 31)
#define CLI_STORE_PLAN (UINT64_C(1) << 32)
#define CLI_MOUNT (UINT64_C(1) << 33)
#define CLI_UNMOUNT (UINT64_C(1) << 34)

/* Options that need no command. */
#define CLI_OPT_GENERAL (CLI_OPT_TEST | CLI_OPT_VERSION | CLI_OPT_HELP)

/* One option of some commands. An option whose help text differs from command to command has several rows. */
typedef struct cli_option {
    uint64_t bit;
    char letter; /* 0: none; two options have -f, of which no command has both */
    const char *name;
    const char *value; /* NULL: it takes none; else what it is, in capitals */
    uint64_t commands;
    const char *help; /* lines of at most 59 columns */
} cli_option;

/* All options; a row without a name ends them. The parser, the help texts and the completions are made from this table.
 * The manual page has the options, too: tests/checks/check_help.py compares it with the help texts. */
extern const cli_option cli_options[];

#define CLI_BASE_DIRS_MAX 16
#define CLI_EXCLUDES_MAX 64

typedef struct cli_args {
    uint64_t seen;       /* CLI_OPT_* that were given */
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
    const char *name;     /* the value of --as, or NULL */
    unsigned depth;       /* 0: not given */
    unsigned idle_s;      /* likewise */
    uint64_t cache_mib;   /* likewise */
} cli_args;

/* Reads a step: decimal, at most LMC_RUN_STEP_MAX. Returns 0 if the text is none. */
int cli_read_step(const char *text, uint64_t *step);

/* Options and operands may come in any order; "--" ends the options. Returns 1, or 0 with *fault and *subject (the
 * argument at fault) set; then args has the command if it stands before that. */
int cli_args_parse(int argc, char **argv, cli_args *args, const char **fault, const char **subject);

/* The options that a command has. */
uint64_t cli_options_of(uint64_t command);

/* The long name of an option, for messages. */
const char *cli_option_name(uint64_t option);

/* Prints a line or more for each option of a command. */
void cli_print_options(uint64_t command);

#endif
