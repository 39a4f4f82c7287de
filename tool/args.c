/*
 * args.c - see args.h.
 */
#include "tool/args.h"

#include <string.h>

typedef struct option {
    unsigned bit;
    char letter; /* 0: none */
    int takes_value;
    const char *name;
} option;

static const option options[] = {
    {CLI_OPT_OUTPUT, 'o', 1, "output"},
    {CLI_OPT_LEVEL, 0, 1, "level"},
    {CLI_OPT_THREADS, 'j', 1, "threads"},
    {CLI_OPT_FORCE, 'f', 0, "force"},
    {CLI_OPT_QUIET, 'q', 0, "quiet"},
    {CLI_OPT_VERBOSE, 'v', 0, "verbose"},
    {CLI_OPT_JSON, 0, 0, "json"},
    {CLI_OPT_HELP, 'h', 0, "help"},
    {CLI_OPT_VERSION, 0, 0, "version"},
    {CLI_OPT_STDOUT, 'c', 0, "stdout"},
    {CLI_OPT_RM, 0, 0, "rm"},
    {CLI_OPT_KEEP, 'k', 0, "keep"},
    {CLI_OPT_TEST, 't', 0, "test"},
    {CLI_OPT_NO_FSYNC, 0, 0, "no-fsync"},
    {CLI_OPT_SALVAGE, 0, 0, "salvage"},
    {CLI_OPT_SHA256, 0, 1, "sha256"},
    {CLI_OPT_RANGE, 0, 1, "range"},
    {CLI_OPT_BASE, 0, 1, "base"},
    {CLI_OPT_BASE_DIR, 0, 1, "base-dir"},
};
#define OPTION_COUNT (sizeof(options) / sizeof(options[0]))

/* Where a parse stands. */
typedef struct parser {
    int argc;
    char **argv;
    int next; /* argument */
    cli_args *args;
    const char **fault;
    const char **subject;
} parser;

static int fail(parser *parser, const char *fault, const char *subject)
{
    *parser->fault = fault;
    *parser->subject = subject;
    return 0;
}

const char *cli_option_name(unsigned bit)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (options[i].bit == bit)
            return options[i].name;
    return "";
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
    return fail(parser, "the level must be fast, default or max, not", value);
}

static int set_threads(parser *parser, const char *value)
{
    unsigned count = 0;
    const char *digit = value;
    while (*digit >= '0' && *digit <= '9' && count <= LMC_THREAD_COUNT_MAX) {
        count = count * 10 + (unsigned)(*digit - '0');
        digit++;
    }
    if (digit == value || *digit != '\0' || count > LMC_THREAD_COUNT_MAX)
        return fail(parser, "the number of threads must be 0 (all cores) to 256, not", value);
    parser->args->thread_count = count;
    return 1;
}

static int set_sha256(parser *parser, const char *value)
{
    const size_t digits = strspn(value, "0123456789abcdefABCDEF");
    if (digits != 64 || value[digits] != '\0')
        return fail(parser, "a SHA-256 has 64 hexadecimal digits, unlike", value);
    parser->args->sha256 = value;
    return 1;
}

static int set_base(parser *parser, const char *value)
{
    if (value[0] == '\0')
        return fail(parser, "the name of the base is empty after", "--base");
    if (strcmp(value, "-") == 0) {
        return fail(parser, "the base must be a file, not standard input; a file of this name is ./-, not",
                    "-");
    }
    parser->args->base = value;
    return 1;
}

static int set_base_dir(parser *parser, const char *value)
{
    if (value[0] == '\0')
        return fail(parser, "the name of the directory is empty after", "--base-dir");
    if (parser->args->base_dir_count == CLI_BASE_DIRS_MAX)
        return fail(parser, "there are too many directories before", value);
    parser->args->base_dirs[parser->args->base_dir_count++] = value;
    return 1;
}

static int set_option(parser *parser, const option *option, const char *value)
{
    parser->args->seen |= option->bit;
    switch (option->bit) {
    case CLI_OPT_OUTPUT:
        if (value[0] == '\0')
            return fail(parser, "the name of the output is empty after", "-o");
        parser->args->output = value;
        return 1;
    case CLI_OPT_LEVEL: return set_level(parser, value);
    case CLI_OPT_THREADS: return set_threads(parser, value);
    case CLI_OPT_SHA256: return set_sha256(parser, value);
    case CLI_OPT_RANGE: parser->args->range = value; return 1;
    case CLI_OPT_BASE: return set_base(parser, value);
    case CLI_OPT_BASE_DIR: return set_base_dir(parser, value);
    case CLI_OPT_RM: parser->args->seen &= ~CLI_OPT_KEEP; return 1; /* the last one counts */
    case CLI_OPT_KEEP: parser->args->seen &= ~CLI_OPT_RM; return 1;
    default: return 1;
    }
}

/* The value that is the next argument. */
static int take_value(parser *parser, const option *option, const char *argument)
{
    if (parser->next == parser->argc)
        return fail(parser, "a value is missing after", argument);
    return set_option(parser, option, parser->argv[parser->next++]);
}

static int parse_long(parser *parser, const char *argument)
{
    const char *const name = argument + 2;
    const size_t length = strcspn(name, "=");
    const option *found = NULL;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strlen(options[i].name) == length && memcmp(options[i].name, name, length) == 0)
            found = &options[i];
    if (found == NULL)
        return fail(parser, "unknown option", argument);
    if (name[length] == '=') {
        return found->takes_value ? set_option(parser, found, name + length + 1)
                                  : fail(parser, "this option takes no value:", argument);
    }
    return found->takes_value ? take_value(parser, found, argument) : set_option(parser, found, NULL);
}

/* One or more letters behind one dash; what follows a letter that takes a value is the value. */
static int parse_letters(parser *parser, const char *argument)
{
    for (const char *letter = argument + 1; *letter != '\0'; letter++) {
        const option *found = NULL;
        for (size_t i = 0; i < OPTION_COUNT; i++)
            if (options[i].letter == *letter)
                found = &options[i];
        if (found == NULL)
            return fail(parser, "unknown option", argument);
        if (found->takes_value) {
            return letter[1] == '\0' ? take_value(parser, found, argument)
                                     : set_option(parser, found, letter + 1);
        }
        if (!set_option(parser, found, NULL))
            return 0;
    }
    return 1;
}

int cli_args_parse(int argc, char **argv, cli_args *args, const char **fault, const char **subject)
{
    parser parser = {argc, argv, 1, args, fault, subject};
    int operand_count = 0;
    int is_over = 0;
    memset(args, 0, sizeof(*args));
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
