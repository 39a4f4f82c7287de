/*
 * windows_watch.c - changes of folders: who waits for one waits for a time, and is not told.
 */
#include "os/windows/windows.h"

#define STEP_MS 50

int os_watch_open(void)
{
    return -1;
}

int os_watch_add(int watch_fd, const char *path)
{
    (void)watch_fd;
    (void)path;
    return -1;
}

void os_watch_remove(int watch_fd, int id)
{
    (void)watch_fd;
    (void)id;
}

int os_watch_wait(int watch_fd, uint64_t milliseconds, const volatile int *signal_number)
{
    const uint64_t begin = os_clock_ns();
    (void)watch_fd;
    while (*signal_number == 0) {
        const uint64_t gone = (os_clock_ns() - begin) / 1000000U;
        if (gone >= milliseconds)
            break;
        const uint64_t left = milliseconds - gone;
        os_sleep_ms(left < STEP_MS ? (unsigned)left : STEP_MS);
    }
    return 0;
}
