/*
 * posix_machine.c - time, memory and random numbers. madvise() and mincore() are beyond POSIX 2008.
 */
#include "os/posix/posix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

uint64_t os_clock_ns(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void os_sleep_ms(unsigned milliseconds)
{
    const struct timespec pause = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000L};
    (void)nanosleep(&pause, NULL);
}

uint64_t os_unforeseen_u64(void)
{
    const uint64_t now = os_clock_ns();
    /* Where addresses are not laid out at random, processes still differ by their number. */
    const uint64_t number = now ^ (uint64_t)(uintptr_t)&now << 20 ^ (uint64_t)getpid() << 40;
    return number * 0x9E3779B97F4A7C15U;
}

/* ---- memory ---- */

/* Bytes that a limit leaves; field: of /proc/self/statm, which counts pages: what counts against it. If nobody tells,
 * nothing does. */
static uint64_t left_by(int limited, unsigned field)
{
    char text[128];
    const char *at = text;
    char *end = NULL;
    uint64_t pages = 0;
    struct rlimit limit;
    if (getrlimit(limited, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    const long page_nbytes = sysconf(_SC_PAGESIZE);
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    for (unsigned i = 0; i <= field; i++, at = end)
        pages = strtoull(at, &end, 10);
    const uint64_t taken = page_nbytes > 0 ? pages * (uint64_t)page_nbytes : 0;
    return limit.rlim_cur > taken ? limit.rlim_cur - taken : 0;
}

uint64_t os_room_for(uint64_t nbytes)
{
    enum { STATM_ALL = 0, STATM_DATA = 5 };
    const uint64_t address_space = left_by(RLIMIT_AS, STATM_ALL);
    const uint64_t data = left_by(RLIMIT_DATA, STATM_DATA);
    const uint64_t left = address_space < data ? address_space : data;
    return left == UINT64_MAX ? UINT64_MAX : left / nbytes;
}

void os_take_pages(void *memory, size_t nbytes)
{
#ifdef __linux__
    enum { POPULATE_WRITE = 23, NBYTES_MIN = 64 << 10 }; /* MADV_POPULATE_WRITE of Linux 5.14 */
    const long page = sysconf(_SC_PAGESIZE);
    unsigned char is_there = 0;
    if (nbytes < NBYTES_MIN || page <= 0)
        return;
    const uintptr_t mask = (uintptr_t)page - 1;
    const uintptr_t first = ((uintptr_t)memory + mask) & ~mask;
    const uintptr_t end = ((uintptr_t)memory + nbytes) & ~mask;
    /* the last page has been there if the others have: they are in use already */
    if (first < end && mincore((void *)(end - (uintptr_t)page), (size_t)page, &is_there) == 0 &&
        !(is_there & 1))
        (void)madvise((void *)first, (size_t)(end - first), POPULATE_WRITE);
#else
    (void)memory;
    (void)nbytes;
#endif
}
