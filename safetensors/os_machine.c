/*
 * os_machine.c - os_file.h: what the machine is like. sched_getaffinity is a Linux call beyond POSIX.
 */
#ifdef __linux__
#define _GNU_SOURCE
#endif

#include "os_file.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

unsigned os_core_count(void)
{
#ifdef __linux__
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) > 0) {
        return (unsigned)CPU_COUNT(&cores);
    }
#endif
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (unsigned)count : 1;
}

uint64_t os_unforeseen_u64(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t place = (uint64_t)(uintptr_t)&now; /* moved by address space randomisation */
    return ((uint64_t)now.tv_nsec << 32) ^ (uint64_t)now.tv_sec ^ place * 0x9e3779b97f4a7c15u;
}
