/* pool.c - starts and joins threads within one call, so that fork, dlclose and exit never meet them. */
#include "codec/frame/pool.h"

#include <pthread.h>

#include "lmc.h"

typedef struct pool_thread {
    pthread_t id;
    lmc_pool_work work;
    void *shared;
    unsigned index;
} pool_thread;

static void *run_thread(void *argument)
{
    const pool_thread *const thread = argument;
    thread->work(thread->shared, thread->index);
    return NULL;
}

unsigned lmc_pool_run(unsigned thread_count, lmc_pool_prepare prepare, lmc_pool_work work, void *shared)
{
    pool_thread threads[LMC_THREAD_COUNT_MAX];
    unsigned started = 1;
    for (; started < thread_count; started++) {
        pool_thread *const thread = &threads[started];
        *thread = (pool_thread){.work = work, .shared = shared, .index = started};
        if (!prepare(shared, started) || pthread_create(&thread->id, NULL, run_thread, thread) != 0)
            break;
    }
    work(shared, 0);
    for (unsigned i = 1; i < started; i++)
        pthread_join(threads[i].id, NULL);
    return started;
}
