/*
 * unforeseen.h - a number that a file's author cannot foresee: for private names, and the seeds of tables that
 * untrusted names fill; not for secrets.
 */
#ifndef LMC_COMMON_UNFORESEEN_H
#define LMC_COMMON_UNFORESEEN_H

#include <stdint.h>
#include <time.h>

static inline uint64_t lmc_unforeseen_u64(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t place = (uint64_t)(uintptr_t)&now; /* moved by address space randomisation */
    return ((uint64_t)now.tv_nsec << 32) ^ (uint64_t)now.tv_sec ^ place * 0x9e3779b97f4a7c15u;
}

#endif
