/*
 * child.c - see child.h.
 */
#include "tool/child.h"

#include "tool/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_UP_MS 100 /* how soon a request to end is noticed */
#define MORE_MEMORY_NBYTES ((uint64_t)4 << 30)

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
        if (poll(&ready, 1, LOOK_UP_MS) <= 0)
            continue;
        const ssize_t got = read(pipe_fd, (char *)record + done, nbytes - done);
        if (got == 0 || (got < 0 && errno != EINTR))
            return 0;
        done += got > 0 ? (size_t)got : 0;
    }
    return 1;
}

int cli_run_child(const cli_child *child, int *status)
{
    unsigned char record[CLI_RECORD_NBYTES_MAX];
    int ends[2];
    if (pipe(ends) != 0)
        return fail_system("cannot make a pipe");
    fflush(stdout); /* or the child would have the same text to write */
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        const int exit_status = child->work(child->user, ends[1]);
        fflush(stderr);
        _exit(exit_status);
    }
    const int os_errno = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        errno = os_errno;
        return fail_system("cannot make a process");
    }
    while (read_record(ends[0], pid, record, child->record_nbytes))
        child->take(child->user, record);
    close(ends[0]);
    while (waitpid(pid, status, 0) < 0)
        if (errno != EINTR)
            return fail_system("cannot wait for a process");
    return cli_cancel != 0 ? 128 + cli_cancel : CLI_OK;
}

/* ---- confinement ---- */

static void set_soft_limit(int resource, uint64_t most)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > most)) {
        limit.rlim_cur = (rlim_t)most;
        setrlimit(resource, &limit);
    }
}

/* Address space in use, sanitizers' shadow included; 0 if the system does not tell. */
static uint64_t used_nbytes(void)
{
    unsigned long long page_count = 0;
    FILE *const file = fopen("/proc/self/statm", "r");
    if (file == NULL)
        return 0;
    const int is_read = fscanf(file, "%llu", &page_count) == 1;
    fclose(file);
    return is_read ? page_count * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

void cli_child_confine(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
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
    set_soft_limit(RLIMIT_CORE, 0);
    const uint64_t used = used_nbytes();
    if (used != 0)
        set_soft_limit(RLIMIT_AS, used + MORE_MEMORY_NBYTES);
}

void cli_child_goes_on(void)
{
    static rlim_t given; /* the limit that the process came with */
    struct rusage usage;
    struct rlimit limit;
    if (getrusage(RUSAGE_SELF, &usage) != 0 || getrlimit(RLIMIT_CPU, &limit) != 0)
        return;
    given = given == 0 ? limit.rlim_cur : given;
    const rlim_t most = (rlim_t)usage.ru_utime.tv_sec + (rlim_t)usage.ru_stime.tv_sec + CLI_CHILD_SECONDS;
    limit.rlim_cur = given != RLIM_INFINITY && given < most ? given : most;
    setrlimit(RLIMIT_CPU, &limit);
}
