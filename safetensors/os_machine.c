/*
 * os_machine.c - os_file.h: what the machine is like.
 */
#include "os_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Address space that is taken; 0 if nobody tells (Linux does, in pages, at the beginning of a file). */
static uint64_t taken_nbytes(void)
{
    char text[32];
    const long page_nbytes = sysconf(_SC_PAGESIZE);
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    const ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    return page_nbytes > 0 ? (uint64_t)strtoull(text, NULL, 10) * (uint64_t)page_nbytes : 0;
}

uint64_t os_room_for(uint64_t nbytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return UINT64_MAX;
    }
    const uint64_t taken = taken_nbytes();
    return limit.rlim_cur > taken ? (limit.rlim_cur - taken) / nbytes : 0;
}

uint64_t os_unforeseen_u64(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t place = (uint64_t)(uintptr_t)&now; /* moved by address space randomisation */
    return ((uint64_t)now.tv_nsec << 32) ^ (uint64_t)now.tv_sec ^ place * 0x9e3779b97f4a7c15u;
}
