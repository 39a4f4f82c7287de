/*
 * child.c - a process that does one thing and sends one answer through a pipe.
 */
#include "tool/child.h"

#include "tool/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static _Noreturn void answer_and_exit(int (*work)(void *user, void *answer), void *user, size_t nbytes,
                                      int pipe_fd)
{
    confine();
    void *const answer = calloc(1, nbytes);
    const int has_answer = answer && work(user, answer) && write(pipe_fd, answer, nbytes) == (ssize_t)nbytes;
    _exit(has_answer ? EXIT_SUCCESS : EXIT_FAILURE);
}

int cli_ask_child(int (*work)(void *user, void *answer), void *user, void *answer, size_t nbytes,
                  int *has_answer, int *signal)
{
    int ends[2];
    int status = 0;
    *has_answer = 0;
    *signal = 0;
    if (pipe(ends) != 0)
        return fail_system("cannot make a pipe");
    fflush(stdout); /* or the child would have the same text to write */
    const pid_t pid = fork();
    if (pid == 0)
        answer_and_exit(work, user, nbytes, ends[1]);
    if (pid < 0) {
        const int exit_status = fail_system("cannot make a process");
        close(ends[0]);
        close(ends[1]);
        return exit_status;
    }
    close(ends[1]);
    ssize_t got = 0;
    while ((got = read(ends[0], answer, nbytes)) < 0 && errno == EINTR)
        if (cli_cancel != 0)
            kill(pid, SIGTERM);
    close(ends[0]);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return fail_system("cannot wait for a process");
    *has_answer = got == (ssize_t)nbytes;
    *signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return cli_cancel != 0 ? 128 + cli_cancel : CLI_OK;
}
