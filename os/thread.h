/*
 * thread.h - threads of a library, which the program that uses it has not started.
 */
#ifndef LMC_OS_THREAD_H
#define LMC_OS_THREAD_H

#include <pthread.h>
#include <signal.h>

/* As pthread_create() without attributes; signals stay with the threads of the program, whose handlers may count on
 * their stacks. Faults of the thread itself are its own, and a profiler reaches it. */
static inline int lmc_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
#ifdef _WIN32
    return pthread_create(thread, NULL, run, argument);
#else
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
    sigset_t blocked;
    sigset_t before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    const int os_errno = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return os_errno;
#endif
}

#endif
