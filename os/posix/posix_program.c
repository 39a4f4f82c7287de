/*
 * posix_program.c - the program as a whole: standard streams, signals, its own path, other programs.
 */
#include "os/posix/posix.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

/* ---- standard streams ---- */

/* A file that is opened must not get the number of a standard stream that is closed: what is meant for the stream would
 * go there; reading and writing go on to fail. */
int os_start_program(int *argc, char ***argv)
{
    static const int flags[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    (void)argc;
    (void)argv;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", flags[fd]);
    return 0;
}

int os_is_terminal(int fd)
{
    return isatty(fd);
}

void os_drop_output(void)
{
    const int fd = open("/dev/null", O_WRONLY);
    if (fd < 0)
        return;
    (void)dup2(fd, STDOUT_FILENO);
    close(fd);
}

/* ---- signals ---- */

static volatile int *caught; /* where the number of a signal is to be stored */
static int does_pipe_end;

static void on_signal(int number)
{
    __atomic_store_n(caught, number, __ATOMIC_RELAXED);
}

void os_catch_signals(volatile int *signal_number, int once)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = SIG_IGN};
    struct sigaction old;
    sigemptyset(&action.sa_mask);
    if (!caught) {
        sigaction(SIGPIPE, &action, &old); /* writing fails with EPIPE instead, and the work cleans up */
        does_pipe_end = old.sa_handler != SIG_IGN;
        sigaction(SIGXFSZ, &action, NULL); /* likewise with EFBIG */
    }
    caught = signal_number;
    /* without SA_RESTART: printing to a pipe that nobody reads must end too */
    action.sa_handler = on_signal;
    action.sa_flags = once ? (int)SA_RESETHAND : 0;
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        /* what the caller had ignored (nohup, a shell's background job) stays so */
        if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(ending[i], &action, NULL);
    }
}

int os_stdio_errno(void)
{
    return errno;
}

int os_broken_pipe_ends(void)
{
    return does_pipe_end;
}

void os_end_by_broken_pipe(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t only;
    sigemptyset(&action.sa_mask);
    sigaction(SIGPIPE, &action, NULL);
    sigemptyset(&only);
    sigaddset(&only, SIGPIPE);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    (void)raise(SIGPIPE);
}

/* ---- programs ---- */

char *os_program_path(void)
{
#ifdef __APPLE__
    char path[4096];
    uint32_t capacity = sizeof path;
    return _NSGetExecutablePath(path, &capacity) == 0 ? realpath(path, NULL) : NULL;
#else
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        return NULL;
    path[length] = '\0';
    return strdup(path);
#endif
}

/* Takes what comes from the pipe until its end; what does not fit is dropped. */
static size_t take_output(int fd, char *output, size_t capacity)
{
    char piece[512];
    size_t taken = 0;
    int64_t got = 0;
    while ((got = os_read(fd, piece, sizeof piece)) > 0) {
        const size_t fitting = (size_t)got < capacity - taken ? (size_t)got : capacity - taken;
        memcpy(output + taken, piece, fitting);
        taken += fitting;
    }
    return taken;
}

int os_run_program(char *const argv[], const char *name, const char *value, char *output, size_t capacity,
                   size_t *output_nbytes, int *exit_status)
{
    int ends[2];
    int status = 0;
    char *const path = os_program_path();
    if (!path)
        return ENOENT;
    if (pipe(ends) != 0) {
        free(path);
        return errno;
    }
    (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    const pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        close(ends[1]);
        if (setenv(name, value, 1) == 0)
            execv(path, argv);
        _exit(127);
    }
    const int os_errno = child < 0 ? errno : 0;
    close(ends[1]);
    free(path);
    *output_nbytes = child < 0 ? 0 : take_output(ends[0], output, capacity);
    close(ends[0]);
    while (child >= 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    *exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return os_errno;
}
