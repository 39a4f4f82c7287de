/*
 * main.c - lmc-st: the table of commands, signals, and messages.
 */
#include "tool/cli.h"

#include "safetensors/common/common.h"
#include "safetensors/common/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const cli_command *command;
    const char *summary; /* one line of the general help */
} commands[] = {
    {&cli_convert, "write archives of safetensors files or directories"},
    {&cli_restore, "write the files that archives were made from"},
    {&cli_verify, "check archives, write nothing"},
    {&cli_cat, "write the restored file to standard output"},
    {&cli_ls, "list the tensors"},
    {&cli_info, "describe a file as a whole"},
    {&cli_get, "write the bytes of a tensor or a part of it"},
    {&cli_diff, "compare the tensors of two files"},
    {&cli_bench, "measure ratio and speed on a file's tensors"},
    {&cli_doctor, "describe this installation and machine, or an HDF5 file"},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

volatile int cli_cancel;

static int output_errno; /* why printing failed first */

static int ends_by_sigpipe = 1; /* 0: the caller had it ignored */
static int reader_has_left;

/* ---- messages ---- */

int cli_usage_error(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "lmc-st: ");
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, " (see lmc-st %s%s--help)\n", command == NULL ? "" : command, command == NULL ? "" : " ");
    return CLI_USAGE;
}

static int exit_status(lmc_status status)
{
    switch (status) {
    case LMC_OK: return CLI_OK;
    case LMC_ERR_ARG: return CLI_USAGE;
    case LMC_ERR_IO:
    case LMC_ERR_NOMEM: return CLI_SYSTEM;
    case LMC_ERR_CANCELLED: return 128 + (cli_cancel != 0 ? cli_cancel : SIGINT);
    default: return CLI_BAD_DATA;
    }
}

int cli_report(const lmc_st_diag *diag)
{
    if (diag->os_errno == EPIPE && ends_by_sigpipe) { /* `lmc-st ls X | head`: nobody is to be told */
        reader_has_left = 1;
        return 128 + SIGPIPE;
    }
    fprintf(stderr, "lmc-st: %s: ", diag->file);
    if (diag->has_tensor)
        fprintf(stderr, "tensor \"%s\": ", diag->tensor);
    if (diag->offset != LMC_ST_NO_OFFSET)
        fprintf(stderr, "offset %llu: ", (unsigned long long)diag->offset);
    fprintf(stderr, "%s\n", diag->text);
    const int is_interrupted = diag->os_errno == EINTR && cli_cancel != 0;
    return exit_status(is_interrupted ? LMC_ERR_CANCELLED : diag->status);
}

int cli_output_works(void)
{
    if (!ferror(stdout))
        return 1;
    output_errno = output_errno != 0 ? output_errno : errno;
    return 0;
}

/* What could not be written would be tried again at the end of the program, and could block it. */
static void drop_output(void)
{
    const int fd = open("/dev/null", O_WRONLY);
    if (fd >= 0) {
        (void)dup2(fd, STDOUT_FILENO);
        close(fd);
    }
}

int cli_finish_output(void)
{
    if (cli_output_works() && fflush(stdout) == 0)
        return CLI_OK;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    const int os_errno = output_errno != 0 ? output_errno : errno;
    drop_output();
    st_diag_init(&diag, "standard output");
    st_fail_os(&diag, os_errno, LMC_ST_NO_OFFSET, "cannot write");
    return cli_report(&diag);
}

/* ---- standard streams ---- */

/* A file that is opened must not get the number of a standard stream that is closed: what is meant for the
 * stream would go there. Reading and writing go on to fail. */
static void occupy_standard_streams(void)
{
    static const int flags[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", flags[fd]);
}

/* ---- signals ---- */

static void on_signal(int number)
{
    __atomic_store_n(&cli_cancel, number, __ATOMIC_RELAXED);
}

/* The work notices cli_cancel between two blocks and removes what it has written. */
static void catch_signals(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;
    struct sigaction old;
    memset(&action, 0, sizeof(action));
    sigemptyset(&action.sa_mask);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, &old); /* writing fails with EPIPE instead, and the work cleans up */
    ends_by_sigpipe = old.sa_handler != SIG_IGN;
    sigaction(SIGXFSZ, &action, NULL); /* likewise with EFBIG */

    /* without SA_RESTART: printing to a pipe that nobody reads must end too */
    action.sa_handler = on_signal;
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
        /* what the caller had ignored (nohup, a shell's background job) stays so */
        if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(ending[i], &action, NULL);
    }
}

/* Ends the program as the signal would have, now that everything is cleaned up. */
static void follow_reader(void)
{
    struct sigaction action;
    sigset_t only;
    memset(&action, 0, sizeof(action));
    sigemptyset(&action.sa_mask);
    action.sa_handler = SIG_DFL;
    sigaction(SIGPIPE, &action, NULL);
    sigemptyset(&only);
    sigaddset(&only, SIGPIPE);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    (void)raise(SIGPIPE);
}

/* ---- help ---- */

static void print_help(FILE *out)
{
    fprintf(out, "lmc-st: lossless archives of safetensors files\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  lmc-st %-8s  %s\n", commands[i].command->name, commands[i].summary);
    fprintf(out, "\n"
                 "  lmc-st COMMAND --help     what a command does, and its options\n"
                 "  lmc-st help COMMAND       the same\n"
                 "  lmc-st -t FILE...         the same as \"lmc-st verify FILE...\"\n"
                 "  lmc-st --version          print the version\n"
                 "\n"
                 "Exit status: 0 success, 1 bad data, 2 wrong usage (also: the output exists, no\n"
                 "such tensor), 3 input or output failed or memory ran out, 128 + N after signal\n"
                 "N (130: Ctrl-C; 141: nobody reads the output). The manual is lmc-st(1).\n");
}

static int print_command_help(const cli_command *command)
{
    printf("Usage: lmc-st %s\n\n%s", command->synopsis, command->help);
    return cli_finish_output();
}

/* ---- */

void cli_set_options(const cli_args *args, lmc_st_options *options)
{
    lmc_st_options_init(options);
    options->level = args->level;
    options->thread_count = args->thread_count;
    options->force = (args->seen & CLI_OPT_FORCE) != 0;
    options->no_fsync = (args->seen & CLI_OPT_NO_FSYNC) != 0;
    options->salvage = (args->seen & CLI_OPT_SALVAGE) != 0;
    options->sha256 = (args->seen & CLI_OPT_SHA256) != 0;
    options->base = args->base;
    options->base_dirs = args->base_dirs;
    options->base_dir_count = args->base_dir_count;
    options->cancel = &cli_cancel;
}

/* "lmc-st help COMMAND" becomes "lmc-st COMMAND --help". */
static void take_help(cli_args *args)
{
    if (args->command == NULL || strcmp(args->command, "help") != 0)
        return;
    args->seen |= CLI_OPT_HELP;
    args->command = args->operand_count > 0 ? args->operands[0] : NULL;
}

static const cli_command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].command->name, name) == 0)
            return commands[i].command;
    return NULL;
}

static int fail_foreign_option(const cli_command *command, unsigned foreign)
{
    return cli_usage_error(command->name, "%s has no option --%s", command->name,
                           cli_option_name(foreign & ~(foreign - 1)));
}

/* "lmc-st -t FILE...", "lmc-st restore -t FILE...": verify. Commands that write files take it, too. */
static int run_test(const cli_args *args)
{
    cli_args files = *args;
    const cli_command *const command = find_command(args->command);
    files.command = cli_verify.name;
    if (command == NULL) {
        files.operands--;
        files.operand_count++;
    } else if (command != &cli_convert && command != &cli_restore && command != &cli_verify) {
        return fail_foreign_option(command, CLI_OPT_TEST);
    }
    /* as with zstd, what the others say of outputs and inputs has no meaning then */
    files.seen &= ~(unsigned)(CLI_OPT_TEST | CLI_OPT_FORCE | CLI_OPT_RM | CLI_OPT_KEEP | CLI_OPT_NO_FSYNC |
                              CLI_OPT_OUTPUT | CLI_OPT_STDOUT | CLI_OPT_LEVEL | CLI_OPT_SALVAGE);
    const unsigned foreign = files.seen & ~cli_verify.options;
    return foreign != 0 ? fail_foreign_option(&cli_verify, foreign) : cli_verify.run(&files);
}

static int run_command(const cli_args *args)
{
    char shown[80];
    const cli_command *const command = find_command(args->command);
    if (command == NULL) {
        st_text_escape(shown, sizeof(shown), args->command, strlen(args->command));
        return cli_usage_error(NULL, "there is no command \"%s\"", shown);
    }
    if ((args->seen & CLI_OPT_HELP) != 0)
        return print_command_help(command);
    const unsigned foreign = args->seen & ~command->options;
    if (foreign != 0)
        return fail_foreign_option(command, foreign);
    return command->run(args);
}

static int run(int argc, char **argv)
{
    cli_args args;
    const char *fault = NULL;
    const char *subject = NULL;
    if (!cli_args_parse(argc, argv, &args, &fault, &subject)) {
        char shown[80];
        st_text_escape(shown, sizeof(shown), subject, strlen(subject));
        return cli_usage_error(NULL, "%s %s", fault, shown);
    }
    take_help(&args);
    if ((args.seen & CLI_OPT_VERSION) != 0) {
        printf("lmc-st %s\n", lmc_version_text());
        return cli_finish_output();
    }
    if (args.command != NULL && (args.seen & (CLI_OPT_TEST | CLI_OPT_HELP)) == CLI_OPT_TEST)
        return run_test(&args);
    if (args.command != NULL)
        return run_command(&args);
    if ((args.seen & CLI_OPT_HELP) != 0) {
        print_help(stdout);
        return cli_finish_output();
    }
    print_help(stderr);
    return CLI_USAGE;
}

int main(int argc, char **argv)
{
    occupy_standard_streams();
    catch_signals();
    const int status = run(argc, argv);
    if (reader_has_left)
        follow_reader();
    return status;
}
