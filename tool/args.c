/*
 * args.c - the table of options, the parser and the help texts that are made from it.
 */
#include "tool/args.h"

#include "common/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL_COMMANDS ((CLI_UNMOUNT << 1) - 1)
#define RUN_ADDS (CLI_RUN_ADD | CLI_RUN_WATCH)
#define ADDS (RUN_ADDS | CLI_STORE_ADD)
#define RUN_WORK (RUN_ADDS | CLI_RUN_RESTORE | CLI_RUN_VERIFY | CLI_RUN_DROP | CLI_RUN_KEEP | CLI_RUN_DIFF)
#define STORE_WORK (CLI_STORE_ADD | CLI_STORE_RESTORE | CLI_STORE_VERIFY | CLI_STORE_DROP | CLI_STORE_PLAN)
#define WITH_BASE (CLI_RESTORE | CLI_VERIFY | CLI_CAT | CLI_INFO | CLI_GET | CLI_DIFF | CLI_MOUNT)

#define IDLE_S_MAX 100000000
#define CACHE_MIB_MAX ((uint64_t)1 << 24)

const cli_option cli_options[] = {
    {CLI_OPT_JSON, 0, "json", NULL,
     CLI_LS | CLI_ANALYZE | CLI_BENCH | CLI_RUN_LS | CLI_STORE_ADD | CLI_STORE_LS,
     "print an array of objects; lmc-st(1) has their keys"},
    {CLI_OPT_JSON, 0, "json", NULL,
     CLI_INFO | CLI_DIFF | CLI_DOCTOR | CLI_RUN_INFO | CLI_RUN_DIFF | CLI_STORE_INFO | CLI_STORE_PLAN,
     "print an object; lmc-st(1) has its keys"},
    {CLI_OPT_STEP, 0, "step", "N", CLI_RUN_ADD, "the step, instead of the one in the snapshot's name"},
    {CLI_OPT_AS, 0, "as", "NAME", CLI_STORE_ADD, "the model's name, instead of the last part of PATH"},
    {CLI_OPT_DEPTH, 0, "depth", "N", CLI_STORE_ADD | CLI_STORE_PLAN,
     "how many other models one may need in a row (its depth is\n"
     "then up to N + 1); 1 to " LMC_TEXT_OF(LMC_STORE_DEPTH_MAX) "; default 1"},
    {CLI_OPT_APPLY, 0, "apply", NULL, CLI_STORE_PLAN,
     "re-encode what changes; without it, no archive changes"},
    {CLI_OPT_SETTLE, 0, "settle", "S", CLI_RUN_WATCH, "seconds without a change before adding; default 5"},
    {CLI_OPT_KEY_EVERY, 0, "key-every", "K", RUN_ADDS,
     "a key frame after at most K steps; the run remembers it;\n"
     "1 to " LMC_TEXT_OF(LMC_RUN_KEY_EVERY_MAX) "; default 8"},
    {CLI_OPT_LAST, 0, "last", "N", CLI_RUN_KEEP, "keep the newest N steps"},
    {CLI_OPT_EVERY, 0, "every", "M", CLI_RUN_KEEP, "keep the steps that are multiples of M"},
    {CLI_OPT_LAST, 0, "last", "N", CLI_RUN_WATCH, "after each step, keep the newest N steps ..."},
    {CLI_OPT_EVERY, 0, "every", "M", CLI_RUN_WATCH, "... and the multiples of M; default: all steps"},
    {CLI_OPT_SHA256, 0, "sha256", "HEX", CLI_VERIFY,
     "the file that FILE restores to (a plain file: FILE itself)\n"
     "must have this SHA-256, which hubs show for their files;\n"
     "for one FILE, not a directory"},
    {CLI_OPT_RANGE, 0, "range", "A:B", CLI_GET, "bytes A to B - 1 of the tensor; A and B are optional"},
    {CLI_OPT_OUTPUT, 'o', "output", "OUT", CLI_CONVERT | CLI_RESTORE,
     "name of the output, \"-\" for standard output; with several\n"
     "inputs, or as \"DIR/\", an existing directory for the outputs"},
    {CLI_OPT_OUTPUT, 'o', "output", "OUT", CLI_GET | CLI_RUN_GET | CLI_STORE_GET,
     "name of the output, \"-\" for standard output"},
    {CLI_OPT_OUTPUT, 'o', "output", "OUT", CLI_RUN_RESTORE | CLI_STORE_RESTORE,
     "name of the file or directory that is written"},
    {CLI_OPT_STDOUT, 'c', "stdout", NULL, CLI_CONVERT | CLI_RESTORE,
     "write to standard output; the default if the input is \"-\""},
    {CLI_OPT_LEVEL, 0, "level", "LEVEL", CLI_CONVERT | ADDS,
     "default, fast (a little larger) or max (slower, smaller)"},
    {CLI_OPT_BASE, 0, "base", "OLD", CLI_CONVERT,
     "store what has changed since OLD, an earlier snapshot of IN\n"
     "or its archive, which is then needed to restore IN"},
    {CLI_OPT_BASE, 0, "base", "OLD", CLI_BENCH,
     "an earlier snapshot of FILE, or its archive: each level\n"
     "without and with it"},
    {CLI_OPT_BASE, 0, "base", "BASE", WITH_BASE, "the snapshot that the input is based on, or its archive"},
    {CLI_OPT_BASE_DIR, 0, "base-dir", "DIR", CLI_CONVERT,
     "where the base of OLD is, if OLD is an archive with a base"},
    {CLI_OPT_BASE_DIR, 0, "base-dir", "DIR", WITH_BASE | CLI_BENCH | CLI_ANALYZE,
     "where bases are looked for, before an archive's directory"},
    {CLI_OPT_EXCLUDE, 0, "exclude", "GLOB", CLI_CONVERT | ADDS,
     "in a directory, copy files whose path or name matches GLOB"},
    {CLI_OPT_RAW, 0, "raw", NULL,
     CLI_CONVERT | CLI_LS | CLI_INFO | CLI_GET | CLI_DIFF | CLI_BENCH | CLI_ANALYZE,
     "accept files of any kind; unknown ones are cut into pieces"},
    {CLI_OPT_THREADS, 'j', "threads", "N",
     CLI_CONVERT | CLI_RESTORE | CLI_VERIFY | CLI_CAT | CLI_DIFF | RUN_WORK | STORE_WORK,
     "number of threads; 0, the default, is one per core"},
    {CLI_OPT_THREADS, 'j', "threads", "N", CLI_MOUNT,
     "threads that answer, and threads that decode ahead; 0, the\ndefault, is one per core"},
    {CLI_OPT_THREADS, 'j', "threads", "N", CLI_BENCH, "number of threads; default 1, 0 is one per core"},
    {CLI_OPT_CACHE, 0, "cache", "MIB", CLI_MOUNT, "memory for decoded blocks; default 64 for each thread"},
    {CLI_OPT_FOREGROUND, 'f', "foreground", NULL, CLI_MOUNT, "do not go to the background"},
    {CLI_OPT_IDLE, 0, "idle", "SECONDS", CLI_MOUNT, "unmount after SECONDS without an open file"},
    {CLI_OPT_ALLOW_OTHER, 0, "allow-other", NULL, CLI_MOUNT, "let other users read the files, too"},
    {CLI_OPT_FORCE, 'f', "force", NULL, CLI_CONVERT | CLI_RESTORE,
     "replace an existing output (a directory as a whole); write\n"
     "even to a terminal"},
    {CLI_OPT_FORCE, 'f', "force", NULL, CLI_RUN_ADD, "replace an existing step that has other content"},
    {CLI_OPT_FORCE, 'f', "force", NULL, CLI_STORE_ADD, "replace an existing model that has other content"},
    {CLI_OPT_FORCE, 'f', "force", NULL, CLI_RUN_RESTORE | CLI_STORE_RESTORE,
     "replace an existing output, a directory as a whole"},
    {CLI_OPT_FORCE, 'f', "force", NULL, CLI_CAT, "write even to a terminal"},
    {CLI_OPT_FORCE, 'f', "force", NULL, CLI_GET | CLI_RUN_GET | CLI_STORE_GET,
     "replace an existing output; write even to a terminal"},
    {CLI_OPT_RM, 0, "rm", NULL, CLI_CONVERT, "remove IN after OUT was read back and restored to IN"},
    {CLI_OPT_RM, 0, "rm", NULL, RUN_ADDS, "remove a snapshot after its step was read and compared"},
    {CLI_OPT_RM, 0, "rm", NULL, CLI_RESTORE, "remove ARCHIVE after OUT was read back and found equal"},
    {CLI_OPT_KEEP, 'k', "keep", NULL, CLI_CONVERT | CLI_RESTORE, "keep the input (the default)"},
    {CLI_OPT_SALVAGE, 0, "salvage", NULL, CLI_RESTORE,
     "from a damaged archive file, write the undamaged tensors\n"
     "and name the others; the exit status is then 1"},
    {CLI_OPT_DRY_RUN, 0, "dry-run", NULL, CLI_RUN_ADD | CLI_RUN_DROP | CLI_RUN_KEEP,
     "change nothing, only say what would be done"},
    {CLI_OPT_NO_FSYNC, 0, "no-fsync", NULL, CLI_CONVERT | CLI_RESTORE | CLI_RUN_RESTORE | CLI_STORE_RESTORE,
     "do not wait until OUT has reached the disk"},
    {CLI_OPT_NO_FSYNC, 0, "no-fsync", NULL, RUN_ADDS, "do not wait until the step has reached the disk"},
    {CLI_OPT_NO_FSYNC, 0, "no-fsync", NULL, CLI_STORE_ADD,
     "do not wait until the model has reached the disk"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, CLI_CONVERT, "no progress bar, summary, or warning"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, CLI_RESTORE, "neither progress bar nor summary on a terminal"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, CLI_VERIFY, "no progress bar, summary, or line on plain files"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, CLI_DIFF | CLI_RUN_DIFF, "no output, only the exit status"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, RUN_ADDS, "no progress bar, no line for a step, no warning"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, CLI_RUN_DROP | CLI_RUN_KEEP, "no progress bar, no line for a step"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, CLI_STORE_ADD, "no progress bar, no line for a model, no warning"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, CLI_STORE_DROP, "no progress bar, no line for a model"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL,
     CLI_RUN_RESTORE | CLI_RUN_VERIFY | CLI_STORE_RESTORE | CLI_STORE_VERIFY,
     "no progress bar on a terminal"},
    {CLI_OPT_VERBOSE, 'v', "verbose", NULL, CLI_CONVERT | CLI_RESTORE | CLI_VERIFY,
     "summary of each file, even without a terminal"},
    {CLI_OPT_VERBOSE, 'v', "verbose", NULL, ADDS | CLI_RUN_RESTORE | CLI_STORE_RESTORE,
     "a line for each file"},
    {CLI_OPT_VERBOSE, 'v', "verbose", NULL, CLI_STORE_VERIFY, "a line for each model and each file"},
    {CLI_OPT_VERBOSE, 'v', "verbose", NULL, CLI_RUN_VERIFY, "a line for each step and each file"},
    {CLI_OPT_TEST, 't', "test", NULL, 0, "the same as verify"},
    {CLI_OPT_VERSION, 0, "version", NULL, 0, "print the version"},
    {CLI_OPT_HELP, 'h', "help", NULL, ALL_COMMANDS, "show this text"},
    {0, 0, NULL, NULL, 0, NULL},
};
#define OPTION_COUNT (sizeof cli_options / sizeof cli_options[0] - 1)

/* ---- what the table says ---- */

uint64_t cli_options_of(uint64_t command)
{
    uint64_t found = 0;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        found |= (cli_options[i].commands & command) != 0 ? cli_options[i].bit : 0;
    return found;
}

const char *cli_option_name(uint64_t bit)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (cli_options[i].bit == bit)
            return cli_options[i].name;
    return "";
}

void cli_print_options(uint64_t command)
{
    enum { HELP_COLUMN = 21 };
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const cli_option *const option = &cli_options[i];
        if ((option->commands & command) == 0)
            continue;
        int width = option->letter != 0 ? printf("  -%c, ", option->letter) : printf("      ");
        width +=
            printf("--%s%s%s ", option->name, option->value ? " " : "", option->value ? option->value : "");
        printf("%*s", width < HELP_COLUMN ? HELP_COLUMN - width : 0, "");
        for (const char *at = option->help; *at != '\0'; at++) {
            putchar(*at);
            if (*at == '\n')
                printf("%*s", HELP_COLUMN, "");
        }
        printf("\n");
    }
}

/* ---- the parser ---- */

typedef struct parser {
    int argc;
    char **argv;
    int next; /* argument */
    cli_args *args;
    const char **fault;
    const char **subject;
} parser;

static int fail_parse(parser *parser, const char *fault, const char *subject)
{
    *parser->fault = fault;
    *parser->subject = subject;
    return 0;
}

/* Plain digits. Returns 0 if the text is no number, or one above `most`. */
static int read_number(const char *text, uint64_t most, uint64_t *number)
{
    return lmc_read_number(&text, NULL, number) && *text == '\0' && *number <= most;
}

int cli_read_step(const char *text, uint64_t *step)
{
    return read_number(text, LMC_RUN_STEP_MAX, step);
}

/* Sets a name or a range. Returns what is wrong with it, and its subject, or NULL. */
static const char *set_name(cli_args *args, const cli_option *option, const char *value, const char **subject)
{
    const int is_empty = value[0] == '\0';
    switch (option->bit) {
    case CLI_OPT_RANGE: args->range = value; return NULL;
    case CLI_OPT_AS: args->name = value; return NULL;
    case CLI_OPT_OUTPUT: /* with -f, these names would be replaced by a file */
        args->output = strcmp(value, "/dev/stdout") == 0 || strcmp(value, "/dev/fd/1") == 0 ||
                               strcmp(value, "/proc/self/fd/1") == 0
                           ? "-"
                           : value;
        *subject = "-o";
        return is_empty ? "the name of the output is empty after" : NULL;
    case CLI_OPT_BASE:
        args->base = value;
        *subject = is_empty ? "--base" : "-";
        return is_empty ? "the name of the base is empty after"
               : strcmp(value, "-") == 0
                   ? "the base must be a file, not standard input; a file of this name is ./-, not"
                   : NULL;
    case CLI_OPT_BASE_DIR:
        *subject = is_empty ? "--base-dir" : value;
        if (is_empty || args->base_dir_count == CLI_BASE_DIRS_MAX)
            return is_empty ? "the name of the directory is empty after"
                            : "there are too many directories before";
        args->base_dirs[args->base_dir_count++] = value;
        return NULL;
    default: /* CLI_OPT_EXCLUDE */
        *subject = is_empty ? "--exclude" : value;
        if (is_empty || args->exclude_count == CLI_EXCLUDES_MAX)
            return is_empty ? "the pattern is empty after" : "there are too many patterns before";
        args->excludes[args->exclude_count++] = value;
        return NULL;
    }
}

/* Sets a number. Returns what is wrong with it, or NULL. */
static const char *set_number(cli_args *args, const cli_option *option, const char *value)
{
    uint64_t number = 0;
    const int is_number = read_number(value, UINT64_MAX - 1, &number);
    const int is_count = is_number && number > 0;
    switch (option->bit) {
    case CLI_OPT_THREADS:
        args->thread_count = (unsigned)number;
        return is_number && number <= LMC_THREAD_COUNT_MAX
                   ? NULL
                   : "the number of threads must be 0 (all cores) to " LMC_TEXT_OF(
                         LMC_THREAD_COUNT_MAX) ", not";
    case CLI_OPT_STEP:
        return cli_read_step(value, &args->step) ? NULL : "a step is a number of at most 2^63, not";
    case CLI_OPT_KEY_EVERY:
        args->key_every = (unsigned)number;
        return is_count && number <= LMC_RUN_KEY_EVERY_MAX
                   ? NULL
                   : "a key frame is made every 1 to " LMC_TEXT_OF(LMC_RUN_KEY_EVERY_MAX) " steps, not";
    case CLI_OPT_DEPTH:
        args->depth = (unsigned)number;
        return is_count && number <= LMC_STORE_DEPTH_MAX
                   ? NULL
                   : "the depth must be 1 to " LMC_TEXT_OF(LMC_STORE_DEPTH_MAX) ", not";
    case CLI_OPT_IDLE:
        args->idle_s = (unsigned)number;
        return is_count && number <= IDLE_S_MAX ? NULL
                                                : "a number of seconds, 1 to 100000000, is expected, not";
    case CLI_OPT_CACHE:
        args->cache_mib = number;
        return is_count && number <= CACHE_MIB_MAX ? NULL : "the cache must have 1 to 16777216 MiB, not";
    default: /* CLI_OPT_LAST, CLI_OPT_EVERY */
        *(option->bit == CLI_OPT_LAST ? &args->last : &args->every) = number;
        return is_count ? NULL : "a number above 0 is expected, not";
    }
}

/* Sets what the option and its value say. */
static int apply_option(parser *parser, const cli_option *option, const char *value)
{
    cli_args *const args = parser->args;
    double seconds = 0;
    char *end = NULL;
    const char *fault = NULL;
    const char *subject = value;
    args->seen |= option->bit;
    switch (option->bit) {
    case CLI_OPT_LEVEL:
        args->level = strcmp(value, "fast") == 0  ? LMC_LEVEL_FAST
                      : strcmp(value, "max") == 0 ? LMC_LEVEL_MAX
                                                  : LMC_LEVEL_DEFAULT;
        if (args->level == LMC_LEVEL_DEFAULT && strcmp(value, "default") != 0)
            fault = "the level must be fast, default or max, not";
        break;
    case CLI_OPT_SHA256:
        if (strspn(value, "0123456789abcdefABCDEF") != 64 || value[64] != '\0')
            fault = "a SHA-256 has 64 hexadecimal digits, unlike";
        args->sha256 = value;
        break;
    case CLI_OPT_SETTLE:
        seconds = value[0] >= '0' && value[0] <= '9' ? strtod(value, &end) : -1;
        if (seconds < 0 || seconds > 86400 || strspn(value, "0123456789.") != (size_t)(end - value) ||
            *end != '\0')
            fault = "a number of seconds, at most 86400, is expected, not";
        else
            args->settle_ms = (uint64_t)(seconds * 1000 + 0.5);
        break;
    case CLI_OPT_THREADS:
    case CLI_OPT_STEP:
    case CLI_OPT_KEY_EVERY:
    case CLI_OPT_DEPTH:
    case CLI_OPT_IDLE:
    case CLI_OPT_CACHE:
    case CLI_OPT_LAST:
    case CLI_OPT_EVERY: fault = set_number(args, option, value); break;
    case CLI_OPT_RM: args->seen &= ~CLI_OPT_KEEP; break; /* the last one counts */
    case CLI_OPT_KEEP: args->seen &= ~CLI_OPT_RM; break;
    default: fault = value ? set_name(args, option, value, &subject) : NULL;
    }
    return !fault || fail_parse(parser, fault, subject);
}

/* "--name", "--name=value", or one or more letters behind one dash. The value of an option is what follows it in its
 * argument, else the next argument. */
static int parse_option(parser *parser, const char *argument)
{
    const int is_long = argument[1] == '-';
    const char *at = argument + (is_long ? 2 : 1);
    do {
        const cli_option *found = NULL;
        const size_t length = is_long ? strcspn(at, "=") : 1;
        for (const cli_option *row = cli_options; row->name; row++)
            if (is_long ? strlen(row->name) == length && memcmp(row->name, at, length) == 0
                        : row->letter == *at)
                found = row;
        if (!found)
            return fail_parse(parser, "unknown option", argument);
        at += length;
        const char *const rest = *at == '\0' ? NULL : is_long ? at + 1 : at;
        if (is_long && rest && !found->value)
            return fail_parse(parser, "this option takes no value:", argument);
        if (found->value && !rest && parser->next == parser->argc)
            return fail_parse(parser, "a value is missing after", argument);
        if (found->value)
            return apply_option(parser, found, rest ? rest : parser->argv[parser->next++]);
        if (!is_long && found->letter == 'f')
            parser->args->seen |= CLI_OPT_F;
        else if (!apply_option(parser, found, NULL))
            return 0;
    } while (*at != '\0');
    return 1;
}

int cli_args_parse(int argc, char **argv, cli_args *args, const char **fault, const char **subject)
{
    parser parser = {argc, argv, 1, args, fault, subject};
    int operand_count = 0;
    int is_over = 0;
    int is_right = 1;
    memset(args, 0, sizeof *args);
    while (is_right && parser.next < argc) {
        char *const argument = argv[parser.next++];
        if (is_over || argument[0] != '-' || argument[1] == '\0')
            argv[1 + operand_count++] = argument;
        else if (strcmp(argument, "--") == 0)
            is_over = 1;
        else
            is_right = parse_option(&parser, argument);
    }
    if ((args->seen & CLI_OPT_RM) != 0) /* nothing is removed whose other form may not be on the disk yet */
        args->seen &= ~CLI_OPT_NO_FSYNC;
    args->command = operand_count > 0 ? argv[1] : NULL;
    args->operands = argv + 2;
    args->operand_count = operand_count > 0 ? operand_count - 1 : 0;
    return is_right;
}
