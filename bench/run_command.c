/*
 * run_command.c - runs a command and tells what it took:
 *
 *     lmc-bench-run RESULT COMMAND [ARGUMENT...]
 *
 * Writes "seconds cpu_seconds peak_nbytes" to the file RESULT; the exit status is the command's. A script could not
 * tell the memory of something smaller than itself: a process counts from the fork on.
 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

int main(int argc, char **argv)
{
    struct rusage usage;
    int status;
    FILE *const result = argc > 2 ? fopen(argv[1], "w") : NULL;
    if (!result) {
        fprintf(stderr, "usage: lmc-bench-run RESULT COMMAND [ARGUMENT...]\n");
        return 2;
    }
    const double start = now();
    const pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || getrusage(RUSAGE_CHILDREN, &usage) != 0)
        return 127;
    const double seconds = now() - start;
    fprintf(result, "%.6f %.6f %lld\n", seconds, seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
            (long long)usage.ru_maxrss * 1024);
    if (fclose(result) != 0)
        return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
