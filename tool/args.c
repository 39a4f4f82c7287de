/*
 * args.c - the table of options, the parser and the help texts that are made from it.
 */
#include "tool/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One option of some commands. An option whose help text differs from command to command has several rows. The manual
 * page and the completions have the options, too: tests/checks/check_help.py compares them with the help texts. */
typedef struct option {
    unsigned bit;
    char letter; /* 0: none */
    const char *name;
    const char *value; /* NULL: it takes none */
    unsigned commands;
    const char *help; /* lines of at most 59 columns */
} option;

#define ALL_COMMANDS ((CLI_ANALYZE << 1) - 1)
#define RUN_ADDS (CLI_RUN_ADD | CLI_RUN_WATCH)
#define RUN_WORK (RUN_ADDS | CLI_RUN_RESTORE | CLI_RUN_VERIFY | CLI_RUN_DROP | CLI_RUN_KEEP | CLI_RUN_DIFF)
#define WITH_BASE (CLI_RESTORE | CLI_VERIFY | CLI_CAT | CLI_INFO | CLI_GET | CLI_DIFF)

static const option options[] = {
    {CLI_OPT_JSON, 0, "json", NULL, CLI_LS,
     "an array of {name, dtype, shape, nbytes, stored_nbytes,\n"
     "ratio, mode}; ratio = stored_nbytes / nbytes, null for an\n"
     "empty tensor"},
    {CLI_OPT_JSON, 0, "json", NULL, CLI_INFO,
     "an object {format, container, version, file, nbytes,\n"
     "stored_nbytes, ratio, tensors, parameters, base, dtypes,\n"
     "metadata}; container: of the original file, \"safetensors\",\n"
     "\"zip\", \"npy\", \"gguf\" or \"raw\"; format: \"lmc\", or the\n"
     "container of a plain file; version: of the archive format,\n"
     "or null; nbytes: of the original file;\n"
     "stored_nbytes: of this one; ratio = stored_nbytes / nbytes;\n"
     "parameters: elements of all tensors; base: null or an\n"
     "object {name, hash, nbytes, file, base}: file is where it\n"
     "was found, or null, and base is that of the base;\n"
     "dtypes: {NAME: {tensors, nbytes, stored_nbytes}}"},
    {CLI_OPT_JSON, 0, "json", NULL, CLI_DIFF,
     "an object {equal, changed, added, removed, retyped,\n"
     "header_equal}; equal: a number; retyped: those of changed\n"
     "that differ in dtype or shape; each list has names"},
    {CLI_OPT_JSON, 0, "json", NULL, CLI_ANALYZE,
     "an array of {file, tensors, all}; tensors: an array of\n"
     "{name, dtype, shape, nbytes, planes, sign, exponent,\n"
     "mantissa, symbols, changed, changed_bits, ulp,\n"
     "predicted_ratio, ratio, mode}; planes: most significant\n"
     "first; changed: share of values; ulp: counts of distances\n"
     "of 0, 1, 2-3, 4-7 ... last places; changed, changed_bits,\n"
     "ulp: null without a file before; all: one for each dtype"},
    {CLI_OPT_JSON, 0, "json", NULL, CLI_BENCH,
     "an array of {level, kernels, threads, base, ratio,\n"
     "encode_GiB_s, decode_GiB_s, memcpy_GiB_s}"},
    {CLI_OPT_JSON, 0, "json", NULL, CLI_DOCTOR,
     "an object {version, archive_version, frame_version,\n"
     "kernels, kernels_available, kernels_wanted, threads,\n"
     "memory, temp_directory, temp_usable, filter_id,\n"
     "plugin_path, plugin_path_entries, problems}"},
    {CLI_OPT_JSON, 0, "json", NULL, CLI_RUN_LS,
     "an array of {step, files, nbytes, stored_nbytes, ratio,\n"
     "base, chain, time}; ratio = stored_nbytes / nbytes; base: a\n"
     "step or null; chain: 0 for a key frame, null if its base is\n"
     "missing; time: of the snapshot, seconds since 1970, UTC"},
    {CLI_OPT_JSON, 0, "json", NULL, CLI_RUN_INFO,
     "an object {format, version, key_every, steps, key_frames,\n"
     "first, last, files, nbytes, stored_nbytes, ratio, chain};\n"
     "first, last: steps or null; chain: the longest"},
    {CLI_OPT_JSON, 0, "json", NULL, CLI_RUN_DIFF,
     "an object {files, added, removed}; files: an array of what\n"
     "\"lmc-st diff --json\" gives, each with its file; added and\n"
     "removed: names of files"},
    {CLI_OPT_STEP, 0, "step", "N", CLI_RUN_ADD, "the step, whatever the name of the snapshot says"},
    {CLI_OPT_SETTLE, 0, "settle", "S", CLI_RUN_WATCH, "seconds in which nothing may have changed; default 5"},
    {CLI_OPT_KEY_EVERY, 0, "key-every", "K", RUN_ADDS,
     "a key frame at the latest after K steps, 1 to 63; the run\n"
     "remembers it; default 8"},
    {CLI_OPT_LAST, 0, "last", "N", CLI_RUN_KEEP, "keep the newest N steps"},
    {CLI_OPT_EVERY, 0, "every", "M", CLI_RUN_KEEP, "keep the steps that M divides"},
    {CLI_OPT_LAST, 0, "last", "N", CLI_RUN_WATCH, "after each step, keep the newest N steps ..."},
    {CLI_OPT_EVERY, 0, "every", "M", CLI_RUN_WATCH, "... and those that M divides; default: all steps"},
    {CLI_OPT_SHA256, 0, "sha256", "HEX", CLI_VERIFY,
     "the file that FILE restores to (a plain file: FILE itself)\n"
     "must have this SHA-256, which hubs show for their files;\n"
     "for one FILE, no directory"},
    {CLI_OPT_RANGE, 0, "range", "A:B", CLI_GET, "bytes A to B - 1 of the tensor; A and B are optional"},
    {CLI_OPT_OUTPUT, 'o', "output", "OUT", CLI_CONVERT | CLI_RESTORE,
     "name of the output, \"-\" for standard output; with several\n"
     "inputs, an existing directory for the outputs"},
    {CLI_OPT_OUTPUT, 'o', "output", "OUT", CLI_GET, "name of the output, \"-\" for standard output"},
    {CLI_OPT_OUTPUT, 'o', "output", "OUT", CLI_RUN_RESTORE, "name of the file or directory that is written"},
    {CLI_OPT_OUTPUT, 'o', "output", "OUT", CLI_RUN_GET, "name of the output, \"-\" for standard output"},
    {CLI_OPT_STDOUT, 'c', "stdout", NULL, CLI_CONVERT | CLI_RESTORE,
     "write to standard output; the default if the input is \"-\""},
    {CLI_OPT_LEVEL, 0, "level", "LEVEL", CLI_CONVERT | RUN_ADDS,
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
    {CLI_OPT_EXCLUDE, 0, "exclude", "GLOB", CLI_CONVERT | RUN_ADDS,
     "of a directory, copy files whose path or name fits GLOB"},
    {CLI_OPT_RAW, 0, "raw", NULL,
     CLI_CONVERT | CLI_LS | CLI_INFO | CLI_GET | CLI_DIFF | CLI_BENCH | CLI_ANALYZE,
     "take a file of any kind: what is unknown, in pieces"},
    {CLI_OPT_THREADS, 'j', "threads", "N",
     CLI_CONVERT | CLI_RESTORE | CLI_VERIFY | CLI_CAT | CLI_DIFF | RUN_WORK,
     "number of threads; 0, the default, is one per core"},
    {CLI_OPT_THREADS, 'j', "threads", "N", CLI_BENCH, "number of threads; default 1, 0 is one per core"},
    {CLI_OPT_FORCE, 'f', "force", NULL, CLI_CONVERT | CLI_RESTORE,
     "replace an existing output (a directory as a whole); write\n"
     "even to a terminal"},
    {CLI_OPT_FORCE, 'f', "force", NULL, CLI_RUN_ADD, "replace a step that is there with other content"},
    {CLI_OPT_FORCE, 'f', "force", NULL, CLI_RUN_RESTORE,
     "replace an existing output, a directory as a whole"},
    {CLI_OPT_FORCE, 'f', "force", NULL, CLI_CAT, "write even to a terminal"},
    {CLI_OPT_FORCE, 'f', "force", NULL, CLI_GET | CLI_RUN_GET,
     "replace an existing output; write even to a terminal"},
    {CLI_OPT_RM, 0, "rm", NULL, CLI_CONVERT, "remove IN once OUT was read back and gave IN, byte for byte"},
    {CLI_OPT_RM, 0, "rm", NULL, RUN_ADDS, "remove a snapshot once its step was read back and gave it"},
    {CLI_OPT_RM, 0, "rm", NULL, CLI_RESTORE, "remove ARCHIVE once OUT was read back and found equal"},
    {CLI_OPT_KEEP, 'k', "keep", NULL, CLI_CONVERT | CLI_RESTORE, "keep the input (the default)"},
    {CLI_OPT_SALVAGE, 0, "salvage", NULL, CLI_RESTORE,
     "of a damaged archive file, write the tensors that are sound\n"
     "and name the others; the exit status is then 1"},
    {CLI_OPT_DRY_RUN, 0, "dry-run", NULL, CLI_RUN_ADD | CLI_RUN_DROP | CLI_RUN_KEEP,
     "change nothing, only say what would be done"},
    {CLI_OPT_NO_FSYNC, 0, "no-fsync", NULL, CLI_CONVERT | CLI_RESTORE | CLI_RUN_RESTORE,
     "do not wait until OUT has reached the disk"},
    {CLI_OPT_NO_FSYNC, 0, "no-fsync", NULL, RUN_ADDS, "do not wait until the step has reached the disk"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, CLI_CONVERT, "no progress bar, summary, or warning"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, CLI_RESTORE, "neither progress bar nor summary on a terminal"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, CLI_VERIFY,
     "no progress bar, summary, or line on what is no archive"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, CLI_DIFF | CLI_RUN_DIFF, "no output, only the exit status"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, RUN_ADDS, "no progress bar, no line for a step, no warning"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, CLI_RUN_DROP | CLI_RUN_KEEP, "no progress bar, no line for a step"},
    {CLI_OPT_QUIET, 'q', "quiet", NULL, CLI_RUN_RESTORE | CLI_RUN_VERIFY, "no progress bar on a terminal"},
    {CLI_OPT_VERBOSE, 'v', "verbose", NULL, CLI_CONVERT | CLI_RESTORE | CLI_VERIFY,
     "summary of each file, even without a terminal"},
    {CLI_OPT_VERBOSE, 'v', "verbose", NULL, RUN_ADDS | CLI_RUN_RESTORE, "a line for each file"},
    {CLI_OPT_VERBOSE, 'v', "verbose", NULL, CLI_RUN_VERIFY, "a line for each step and each file"},
    {CLI_OPT_TEST, 't', "test", NULL, 0, NULL},
    {CLI_OPT_VERSION, 0, "version", NULL, 0, NULL},
    {CLI_OPT_HELP, 'h', "help", NULL, ALL_COMMANDS, "show this text"},
};
#define OPTION_COUNT (sizeof options / sizeof options[0])

/* ---- what the table says ---- */

unsigned cli_options_of(unsigned command)
{
    unsigned found = 0;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        found |= (options[i].commands & command) != 0 ? options[i].bit : 0;
    return found;
}

const char *cli_option_name(unsigned bit)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (options[i].bit == bit)
            return options[i].name;
    return "";
}

void cli_print_options(unsigned command)
{
    enum { HELP_COLUMN = 21 };
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const option *const option = &options[i];
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

static int set_level(parser *parser, const char *value)
{
    static const char *const names[] = {"default", "fast", "max"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(value, names[i]) == 0) {
            parser->args->level = (lmc_level)i;
            return 1;
        }
    }
    return fail_parse(parser, "the level must be fast, default or max, not", value);
}

/* Plain digits. Returns 0 if the text is no number, or one above `most`. */
static int read_number(const char *text, uint64_t most, uint64_t *number)
{
    const char *digit = text;
    for (*number = 0; *digit >= '0' && *digit <= '9'; digit++)
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(*digit - '0'), number))
            return 0;
    return digit != text && *digit == '\0' && *number <= most;
}

int cli_read_step(const char *text, uint64_t *step)
{
    return read_number(text, LMC_ST_RUN_STEP_MAX, step);
}

static int set_threads(parser *parser, const char *value)
{
    uint64_t count = 0;
    if (!read_number(value, LMC_THREAD_COUNT_MAX, &count))
        return fail_parse(parser, "the number of threads must be 0 (all cores) to 256, not", value);
    parser->args->thread_count = (unsigned)count;
    return 1;
}

static int set_step(parser *parser, const char *value)
{
    return cli_read_step(value, &parser->args->step)
               ? 1
               : fail_parse(parser, "a step is a number of at most 2^63, not", value);
}

static int set_key_every(parser *parser, const char *value)
{
    uint64_t count = 0;
    if (!read_number(value, LMC_ST_RUN_KEY_EVERY_MAX, &count) || count == 0)
        return fail_parse(parser, "a key frame is made every 1 to 63 steps, not", value);
    parser->args->key_every = (unsigned)count;
    return 1;
}

/* Seconds with a fraction, down to milliseconds. */
static int set_settle(parser *parser, const char *value)
{
    const uint64_t most = 86400; /* a day */
    char *end = NULL;
    const double seconds = value[0] >= '0' && value[0] <= '9' ? strtod(value, &end) : -1;
    if (seconds < 0 || seconds > (double)most || strspn(value, "0123456789.") != (size_t)(end - value) ||
        *end != '\0')
        return fail_parse(parser, "a number of seconds, at most 86400, is expected, not", value);
    parser->args->settle_ms = (uint64_t)(seconds * 1000 + 0.5);
    return 1;
}

/* Of --last and --every. */
static int set_count(parser *parser, const char *value, uint64_t *count)
{
    return read_number(value, UINT64_MAX, count) && *count > 0
               ? 1
               : fail_parse(parser, "a number above 0 is expected, not", value);
}

static int set_sha256(parser *parser, const char *value)
{
    const size_t digits = strspn(value, "0123456789abcdefABCDEF");
    if (digits != 64 || value[digits] != '\0')
        return fail_parse(parser, "a SHA-256 has 64 hexadecimal digits, unlike", value);
    parser->args->sha256 = value;
    return 1;
}

static int set_base(parser *parser, const char *value)
{
    if (value[0] == '\0')
        return fail_parse(parser, "the name of the base is empty after", "--base");
    if (strcmp(value, "-") == 0) {
        return fail_parse(
            parser, "the base must be a file, not standard input; a file of this name is ./-, not", "-");
    }
    parser->args->base = value;
    return 1;
}

static int set_base_dir(parser *parser, const char *value)
{
    if (value[0] == '\0')
        return fail_parse(parser, "the name of the directory is empty after", "--base-dir");
    if (parser->args->base_dir_count == CLI_BASE_DIRS_MAX)
        return fail_parse(parser, "there are too many directories before", value);
    parser->args->base_dirs[parser->args->base_dir_count++] = value;
    return 1;
}

static int set_exclude(parser *parser, const char *value)
{
    if (value[0] == '\0')
        return fail_parse(parser, "the pattern is empty after", "--exclude");
    if (parser->args->exclude_count == CLI_EXCLUDES_MAX)
        return fail_parse(parser, "there are too many patterns before", value);
    parser->args->excludes[parser->args->exclude_count++] = value;
    return 1;
}

static int apply_option(parser *parser, const option *option, const char *value)
{
    parser->args->seen |= option->bit;
    switch (option->bit) {
    case CLI_OPT_OUTPUT:
        if (value[0] == '\0')
            return fail_parse(parser, "the name of the output is empty after", "-o");
        parser->args->output = value;
        return 1;
    case CLI_OPT_LEVEL: return set_level(parser, value);
    case CLI_OPT_THREADS: return set_threads(parser, value);
    case CLI_OPT_SHA256: return set_sha256(parser, value);
    case CLI_OPT_RANGE: parser->args->range = value; return 1;
    case CLI_OPT_BASE: return set_base(parser, value);
    case CLI_OPT_BASE_DIR: return set_base_dir(parser, value);
    case CLI_OPT_EXCLUDE: return set_exclude(parser, value);
    case CLI_OPT_STEP: return set_step(parser, value);
    case CLI_OPT_SETTLE: return set_settle(parser, value);
    case CLI_OPT_KEY_EVERY: return set_key_every(parser, value);
    case CLI_OPT_LAST: return set_count(parser, value, &parser->args->last);
    case CLI_OPT_EVERY: return set_count(parser, value, &parser->args->every);
    case CLI_OPT_RM: parser->args->seen &= ~CLI_OPT_KEEP; return 1; /* the last one counts */
    case CLI_OPT_KEEP: parser->args->seen &= ~CLI_OPT_RM; return 1;
    default: return 1;
    }
}

/* The value that is the next argument. */
static int apply_with_next_argument(parser *parser, const option *option, const char *argument)
{
    if (parser->next == parser->argc)
        return fail_parse(parser, "a value is missing after", argument);
    return apply_option(parser, option, parser->argv[parser->next++]);
}

static int parse_long(parser *parser, const char *argument)
{
    const char *const name = argument + 2;
    const size_t length = strcspn(name, "=");
    const option *found = NULL;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strlen(options[i].name) == length && memcmp(options[i].name, name, length) == 0)
            found = &options[i];
    if (!found)
        return fail_parse(parser, "unknown option", argument);
    if (name[length] == '=') {
        return found->value ? apply_option(parser, found, name + length + 1)
                            : fail_parse(parser, "this option takes no value:", argument);
    }
    return found->value ? apply_with_next_argument(parser, found, argument)
                        : apply_option(parser, found, NULL);
}

/* One or more letters behind one dash; what follows a letter that takes a value is the value. */
static int parse_letters(parser *parser, const char *argument)
{
    for (const char *letter = argument + 1; *letter != '\0'; letter++) {
        const option *found = NULL;
        for (size_t i = 0; i < OPTION_COUNT; i++)
            if (options[i].letter == *letter)
                found = &options[i];
        if (!found)
            return fail_parse(parser, "unknown option", argument);
        if (found->value) {
            return letter[1] == '\0' ? apply_with_next_argument(parser, found, argument)
                                     : apply_option(parser, found, letter + 1);
        }
        if (!apply_option(parser, found, NULL))
            return 0;
    }
    return 1;
}

int cli_args_parse(int argc, char **argv, cli_args *args, const char **fault, const char **subject)
{
    parser parser = {argc, argv, 1, args, fault, subject};
    int operand_count = 0;
    int is_over = 0;
    memset(args, 0, sizeof *args);
    while (parser.next < argc) {
        char *const argument = argv[parser.next++];
        if (is_over || argument[0] != '-' || argument[1] == '\0')
            argv[1 + operand_count++] = argument;
        else if (strcmp(argument, "--") == 0)
            is_over = 1;
        else if (!(argument[1] == '-' ? parse_long(&parser, argument) : parse_letters(&parser, argument)))
            return 0;
    }
    args->command = operand_count > 0 ? argv[1] : NULL;
    args->operands = argv + 2;
    args->operand_count = operand_count > 0 ? operand_count - 1 : 0;
    return 1;
}
