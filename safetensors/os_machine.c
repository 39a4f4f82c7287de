/*
 * os_machine.c - os_file.h: what the machine is like.
 */
#include "os_file.h"

#include <time.h>

uint64_t os_unforeseen_u64(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t place = (uint64_t)(uintptr_t)&now; /* moved by address space randomisation */
    return ((uint64_t)now.tv_nsec << 32) ^ (uint64_t)now.tv_sec ^ place * 0x9e3779b97f4a7c15u;
}
