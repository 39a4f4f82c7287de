/*
 * posix_watch.c - changes of folders, by inotify where it is.
 */
#include "os/posix/posix.h"

#include <signal.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/inotify.h>
#endif

/* Programs change several names one after another: what follows a change within this time is seen with it. */
#define GATHER_MS 20

int os_watch_open(void)
{
#ifdef __linux__
    return inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
#else
    return -1;
#endif
}

int os_watch_add(int watch_fd, const char *path)
{
#ifdef __linux__
    const uint32_t events = IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
                            IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
    return watch_fd < 0 ? -1 : inotify_add_watch(watch_fd, path, events);
#else
    (void)watch_fd;
    (void)path;
    return -1;
#endif
}

void os_watch_remove(int watch_fd, int id)
{
#ifdef __linux__
    if (watch_fd >= 0 && id >= 0)
        (void)inotify_rm_watch(watch_fd, id); /* fails if the folder is gone, and its watch with it */
#else
    (void)watch_fd;
    (void)id;
#endif
}

/* A signal between the look at *signal_number and the wait must end the wait: signals come in within pselect() alone. */
static int wait_for_event(int fd, uint64_t most_ms, const volatile int *signal_number)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    fd_set set;
    sigset_t blocked, before;
    const struct timespec time = {.tv_sec = (time_t)(most_ms / 1000),
                                  .tv_nsec = (long)(most_ms % 1000) * 1000000};
    int count = 0;
    const int has_fd = fd >= 0 && fd < FD_SETSIZE;
    FD_ZERO(&set);
    if (has_fd)
        FD_SET(fd, &set);
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        sigaddset(&blocked, ending[i]);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    if (__atomic_load_n(signal_number, __ATOMIC_RELAXED) == 0)
        count = pselect(has_fd ? fd + 1 : 0, has_fd ? &set : NULL, NULL, NULL, &time, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return count > 0;
}

int os_watch_wait(int watch_fd, uint64_t milliseconds, const volatile int *signal_number)
{
    char events[4096];
    if (!wait_for_event(watch_fd, milliseconds, signal_number))
        return 0;
    (void)wait_for_event(-1, GATHER_MS, signal_number);
    while (read(watch_fd, events, sizeof events) > 0)
        continue; /* they say only that there is something to look for */
    return 1;
}
