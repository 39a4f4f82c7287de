/* clock.c - the clocks of all programs in bench/. */
#include <time.h>

#include "bench/codec/bench.h"

static double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double bench_cpu_now(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}
