/*
 * child.c - a process that does one thing and leaves one answer in memory that it shares with its parent.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "tool/child.h"

#include "tool/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail_system(const char *what)
{
    fprintf(stderr, "lmc-st: %s: %s\n", what, strerror(errno));
    return CLI_SYSTEM;
}

/* Signals end the child at once, it prints nothing, and leaves no core file. */
static void confine(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    const struct rlimit no_core = {0, 0};
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        struct sigaction action;
        if (sigaction(ending[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            action.sa_handler = SIG_DFL;
            sigaction(ending[i], &action, NULL);
        }
    }
    const int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0) {
        (void)dup2(nowhere, STDOUT_FILENO);
        (void)dup2(nowhere, STDERR_FILENO);
        close(nowhere);
    }
    (void)setrlimit(RLIMIT_CORE, &no_core);
    alarm(CLI_CHILD_SECONDS);
}

int cli_ask_child(int (*work)(void *user, void *answer), void *user, void *answer, size_t nbytes,
                  int *outcome)
{
    int status = 0;
    int exit_status = CLI_OK;
    *outcome = CLI_CHILD_SILENT;
    unsigned char *const shared =
        mmap(NULL, nbytes + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return fail_system("cannot share memory with a process");
    unsigned char *const has_answer = shared + nbytes;
    fflush(stdout); /* or the child would have the same text to write */
    const pid_t pid = fork();
    if (pid == 0) {
        confine();
        *has_answer = (unsigned char)work(user, shared);
        _exit(EXIT_SUCCESS);
    }
    if (pid < 0)
        exit_status = fail_system("cannot make a process");
    while (exit_status == CLI_OK && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            exit_status = fail_system("cannot wait for a process");
        else if (cli_cancel != 0)
            kill(pid, SIGTERM);
    if (*has_answer) {
        *outcome = CLI_CHILD_ANSWERED;
        memcpy(answer, shared, nbytes);
    } else if (WIFSIGNALED(status)) {
        *outcome = WTERMSIG(status);
    }
    munmap(shared, nbytes + 1);
    return cli_cancel != 0 ? 128 + cli_cancel : exit_status;
}
