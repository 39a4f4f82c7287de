/*
 * watch_wait.c - watch_wait.h: inotify where it is (Linux), pselect(), signals.
 */
#include "tool/commands/watch_wait.h"

#include "tool/cli.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/inotify.h>
#endif

/* Programs change several names one after another: what follows an event within this time is seen with it. */
#define GATHER_MS 20

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
#define ENDING_COUNT (sizeof ending / sizeof ending[0])

uint64_t watch_now_ms(void)
{
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- events ---- */

#ifdef __linux__

int watch_notify_open(void)
{
    return inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
}

/* Not each write: a file that grows is looked at when it was closed, and after --settle seconds. */
int watch_notify_add(int fd, const char *path)
{
    const uint32_t events = IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
                            IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
    return fd < 0 ? -1 : inotify_add_watch(fd, path, events);
}

void watch_notify_remove(int fd, int id)
{
    if (fd >= 0 && id >= 0)
        (void)inotify_rm_watch(fd, id); /* fails if the directory is gone, and its watch with it */
}

#else

int watch_notify_open(void)
{
    return -1;
}

int watch_notify_add(int fd, const char *path)
{
    (void)fd;
    (void)path;
    return -1;
}

void watch_notify_remove(int fd, int id)
{
    (void)fd;
    (void)id;
}

#endif

/* ---- waiting ---- */

void watch_end_at_second_signal(void)
{
    struct sigaction action;
    for (size_t i = 0; i < ENDING_COUNT; i++) {
        if (sigaction(ending[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            action.sa_flags |= (int)SA_RESETHAND;
            sigaction(ending[i], &action, NULL);
        }
    }
}

/* A signal between the look at cli_cancel and the wait must end the wait: signals come in within pselect() alone. */
static int wait_for_event(int fd, uint64_t most_ms)
{
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
    for (size_t i = 0; i < ENDING_COUNT; i++)
        sigaddset(&blocked, ending[i]);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    if (__atomic_load_n(&cli_cancel, __ATOMIC_RELAXED) == 0)
        count = pselect(has_fd ? fd + 1 : 0, has_fd ? &set : NULL, NULL, NULL, &time, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return count > 0;
}

void watch_wait(int fd, uint64_t most_ms)
{
    char events[4096];
    if (!wait_for_event(fd, most_ms))
        return;
    (void)wait_for_event(-1, GATHER_MS);
    while (read(fd, events, sizeof events) > 0)
        continue; /* the directories are listed anyway */
}
