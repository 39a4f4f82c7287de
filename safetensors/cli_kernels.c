/*
 * cli_kernels.c - see cli_kernels.h.
 */
#include "cli_kernels.h"

#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_NO_SUCH_SET 77
#define LOOK_UP_MS 100 /* how soon a request to end is noticed */
#define RECORD_NBYTES_MAX 256

const char *const cli_kernel_sets[CLI_KERNEL_SETS] = {"avx512", "avx2", "scalar"};

static int fail_system(const char *what)
{
    fprintf(stderr, "lmc-st: %s: %s\n", what, strerror(errno));
    return CLI_SYSTEM;
}

int cli_send(int pipe_fd, const void *record, size_t nbytes)
{
    /* fewer bytes than a pipe takes at once: they arrive together */
    ssize_t put = 0;
    do {
        put = write(pipe_fd, record, nbytes);
    } while (put < 0 && errno == EINTR);
    return put == (ssize_t)nbytes;
}

static void be_child(const char *set, const cli_child *child, int pipe_fd) __attribute__((noreturn));

static void be_child(const char *set, const cli_child *child, int pipe_fd)
{
    if (setenv("LMC_KERNELS", set, 1) != 0) {
        _exit(CLI_SYSTEM);
    }
    if (strcmp(lmc_kernels_name(), set) != 0) {
        _exit(EXIT_NO_SUCH_SET);
    }
    const int status = child->work(child->user, pipe_fd);
    fflush(stderr);
    _exit(status);
}

/* Reads one record. Returns 1, or 0 when there are no more. */
static int read_record(int pipe_fd, pid_t pid, void *record, size_t nbytes)
{
    size_t done = 0;
    int is_told = 0;
    while (done < nbytes) {
        struct pollfd ready = {.fd = pipe_fd, .events = POLLIN};
        if (cli_cancel != 0 && !is_told) {
            kill(pid, SIGTERM);
            is_told = 1;
        }
        if (poll(&ready, 1, LOOK_UP_MS) <= 0) {
            continue;
        }
        const ssize_t got = read(pipe_fd, (char *)record + done, nbytes - done);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return 0;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return 1;
}

static int wait_for(pid_t pid, const char *set, int *is_there)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return fail_system("cannot wait for a process");
        }
    }
    *is_there = !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_NO_SUCH_SET;
    if (cli_cancel != 0) {
        return 128 + cli_cancel;
    }
    if (WIFEXITED(status)) {
        return *is_there ? WEXITSTATUS(status) : CLI_OK;
    }
    fprintf(stderr, "lmc-st: the process with kernel set %s died of signal %d\n", set, WTERMSIG(status));
    return CLI_SYSTEM;
}

int cli_with_kernels(const char *set, const cli_child *child, int *is_there)
{
    unsigned char record[RECORD_NBYTES_MAX];
    int ends[2];
    *is_there = 0;
    if (pipe(ends) != 0) {
        return fail_system("cannot make a pipe");
    }
    fflush(stdout); /* or the child would have the same text to write */
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        be_child(set, child, ends[1]);
    }
    const int os_errno = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        errno = os_errno;
        return fail_system("cannot make a process");
    }
    while (read_record(ends[0], pid, record, child->record_nbytes)) {
        child->take(child->user, record);
    }
    close(ends[0]);
    return wait_for(pid, set, is_there);
}
