/*
 * run_command.c - lmc-bench-run: time and peak memory of a command:
 *
 *     lmc-bench-run RESULT COMMAND [ARGUMENT...]
 *
 * Writes "seconds cpu_seconds peak_nbytes" to the file RESULT. The exit status is the command's. A Python script cannot
 * measure this: the system counts a child's peak memory from the fork on, when the child is as large as the script.
 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/codec/bench.h"

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
    const double start = bench_now();
    const pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || getrusage(RUSAGE_CHILDREN, &usage) != 0)
        return 127;
    const double seconds = bench_now() - start;
    fprintf(result, "%.6f %.6f %lld\n", seconds, seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
            (long long)usage.ru_maxrss * 1024);
    if (fclose(result) != 0)
        return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
