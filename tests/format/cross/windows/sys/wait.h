/*
 * wait.h - what the tests use of <sys/wait.h>, and of <unistd.h> about other processes: there is no fork().
 */
#ifndef LMC_CROSS_WINDOWS_SYS_WAIT_H
#define LMC_CROSS_WINDOWS_SYS_WAIT_H

#include <errno.h>
#include <sys/types.h>

static inline pid_t fork(void)
{
    errno = ENOSYS;
    return -1;
}

static inline pid_t waitpid(pid_t child, int *status, int options)
{
    (void)child;
    (void)status;
    (void)options;
    errno = ECHILD;
    return -1;
}

static inline unsigned alarm(unsigned seconds)
{
    return seconds;
}

#endif
