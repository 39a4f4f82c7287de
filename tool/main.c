/*
 * main.c - lmc-st: the table of commands, help, signals, and what happens before and after a command.
 */
#include "os/os.h"
#include "tool/cli.h"

#include <stdio.h>
#include <string.h>

const cli_command *const cli_commands[] = {
    &cli_convert, &cli_restore, &cli_verify, &cli_cat, &cli_ls,    &cli_info,  &cli_get,     &cli_diff,
    &cli_analyze, &cli_bench,   &cli_doctor, &cli_run, &cli_store, &cli_mount, &cli_unmount, NULL};

/* Set by a signal. The work notices it between two blocks and removes what it has written. */
volatile int cli_cancel;

const cli_command *const *cli_commands_of(const cli_command *command)
{
    return command == &cli_run ? cli_run_commands : command == &cli_store ? cli_store_commands : NULL;
}

static const cli_command *find_among(const cli_command *const *commands, const char *name)
{
    while (*commands && strcmp((*commands)->name, name) != 0)
        commands++;
    return *commands;
}

const cli_command *cli_find_command(const char *name)
{
    const cli_command *found = find_among(cli_commands, name);
    for (size_t i = 0; cli_commands[i] && !found; i++) {
        const cli_command *const *const own = cli_commands_of(cli_commands[i]);
        found = own ? find_among(own, name) : NULL;
    }
    return found;
}

int cli_need_command(const cli_args *args)
{
    enum { NAMED_COUNT = 5 };
    char names[80] = "";
    char shown[80];
    const cli_command *const *const own = cli_commands_of(cli_find_command(args->command));
    if (args->operand_count > 0)
        return cli_usage_error(args->command, "there is no command \"%s %s\"", args->command,
                               cli_shown(shown, sizeof shown, args->operands[0]));
    for (size_t i = 0, at = 0; own[i] && i < NAMED_COUNT; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s, ", strchr(own[i]->name, ' ') + 1);
    return cli_usage_error(args->command, "%s needs a command: %s...", args->command, names);
}

/* Runs the command if it has all options that were given. */
static int run_with_options(const cli_command *command, const cli_args *args, uint64_t seen)
{
    const uint64_t of_letter_f = CLI_OPT_FORCE | CLI_OPT_FOREGROUND;
    const uint64_t known = cli_options_of(command->bit);
    if ((seen & CLI_OPT_F) != 0)
        seen |= (known & of_letter_f) != 0 ? known & of_letter_f : CLI_OPT_FORCE;
    seen &= ~CLI_OPT_F;
    const uint64_t foreign = seen & ~known;
    if (foreign != 0)
        return cli_usage_error(command->name, "%s has no option --%s", command->name,
                               cli_option_name(foreign & ~(foreign - 1)));
    cli_args own = *args;
    own.seen = seen;
    return command->run(&own);
}

/* "lmc-st -t FILE...", "lmc-st restore -t FILE...": verify. Commands that write files take -t, too. */
static int run_test(const cli_args *args)
{
    cli_args files = *args;
    const cli_command *const command = cli_find_command(args->command);
    files.command = cli_verify.name;
    if (!command) {
        files.operands--;
        files.operand_count++;
    } else if (command != &cli_convert && command != &cli_restore && command != &cli_verify) {
        return run_with_options(command, args, CLI_OPT_TEST); /* says that it has no such option */
    }
    /* as with zstd, what the others say of outputs and inputs has no meaning then */
    return run_with_options(&cli_verify, &files,
                            args->seen & ~(CLI_OPT_TEST | CLI_OPT_F | CLI_OPT_FORCE | CLI_OPT_RM |
                                           CLI_OPT_KEEP | CLI_OPT_NO_FSYNC | CLI_OPT_OUTPUT | CLI_OPT_STDOUT |
                                           CLI_OPT_LEVEL | CLI_OPT_SALVAGE));
}

/* Prints the general help text. */
static void print_help(FILE *out)
{
    fprintf(out, "lmc-st: lossless archives of model files and checkpoints\n\n");
    for (size_t i = 0; cli_commands[i]; i++)
        fprintf(out, "  lmc-st %-8s  %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    fprintf(out, "\n"
                 "  lmc-st COMMAND --help     what a command does; or lmc-st help COMMAND\n"
                 "  lmc-st -t FILE...         the same as \"lmc-st verify FILE...\"\n"
                 "  lmc-st --version          print the version\n"
                 "\n"
                 "Exit status: 0 success, 1 bad data, 2 wrong usage, 3 input or output failed or\n"
                 "memory ran out, 128 + N after signal N. The manual is lmc-st(1).\n");
}

static int run_lmc_st(int argc, char **argv)
{
    cli_args args;
    char name[32];
    char shown[80];
    const char *fault = NULL;
    const char *subject = NULL;
    if (argc > 1 && strcmp(argv[1], CLI_COMPLETE) == 0)
        return cli_complete(argc - 2, argv + 2);
    if (argc == 2 && strcmp(argv[1], CLI_TRY_KERNELS) == 0)
        return cli_try_kernels();
    const int is_parsed = cli_args_parse(argc, argv, &args, &fault, &subject);
    if (args.command && strcmp(args.command, "help") == 0) { /* "help COMMAND": "COMMAND --help" */
        args.seen |= CLI_OPT_HELP;
        args.command = args.operand_count > 0 ? args.operands[0] : NULL;
        args.operands += args.operand_count > 0;
        args.operand_count -= args.operand_count > 0;
    }
    const cli_command *const group = args.command ? cli_find_command(args.command) : NULL;
    if (group && cli_commands_of(group) && args.operand_count > 0) { /* "run add" */
        snprintf(name, sizeof name, "%s %.20s", group->name, args.operands[0]);
        const cli_command *const of_group = cli_find_command(name);
        args.command = of_group ? of_group->name : args.command;
        args.operands += of_group != NULL;
        args.operand_count -= of_group != NULL;
    }
    const cli_command *const command = args.command ? cli_find_command(args.command) : NULL;
    if (!is_parsed) {
        return cli_usage_error(command ? command->name : NULL, "%s %s", fault,
                               cli_shown(shown, sizeof shown, subject));
    }
    if ((args.seen & CLI_OPT_VERSION) != 0) {
        printf("lmc-st %s\n", lmc_version_text());
        return cli_finish_output();
    }
    const int wants_help = (args.seen & CLI_OPT_HELP) != 0;
    if (!args.command) {
        print_help(wants_help ? stdout : stderr);
        return wants_help ? cli_finish_output() : CLI_USAGE;
    }
    if ((args.seen & CLI_OPT_TEST) != 0 && !wants_help)
        return run_test(&args);
    if (!command) {
        return cli_usage_error(NULL, "there is no command \"%s\"",
                               cli_shown(shown, sizeof shown, args.command));
    }
    if (!wants_help)
        return run_with_options(command, &args, args.seen);
    printf("Usage: lmc-st %s %s[OPTION...]\n\n%s\n", command->name, command->operands, command->before);
    cli_print_options(command->bit);
    printf("%s", command->after ? command->after : "");
    return cli_finish_output();
}

int main(int argc, char **argv)
{
    const int os_errno = os_start_program(&argc, &argv);
    if (os_errno != 0)
        return cli_fail_os("lmc-st", os_errno, "cannot start");
    os_catch_signals(&cli_cancel, 0);
    int status = run_lmc_st(argc, argv);
    status = status == CLI_OK ? cli_close_output() : status;
    cli_follow_reader();
    return status;
}
