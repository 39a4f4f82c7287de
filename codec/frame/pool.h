/*
 * pool.h - runs one function on several threads and waits for all of them. Nothing outlives the call.
 */
#ifndef LMC_CODEC_FRAME_POOL_H
#define LMC_CODEC_FRAME_POOL_H

/* Work of thread `index`; index 0 is the calling thread. The work must get done even if only that runs. */
typedef void (*lmc_pool_work)(void *shared, unsigned index);

/* Takes what thread `index` >= 1 needs, in the calling thread and just before it is started, so that no thread takes
 * memory that another one cannot use. Returns 0 if that is not there. */
typedef int (*lmc_pool_prepare)(void *shared, unsigned index);

/* Runs work on thread_count threads, or on fewer when prepare or the system gives no more. Returns how many. */
unsigned lmc_pool_run(unsigned thread_count, lmc_pool_prepare prepare, lmc_pool_work work, void *shared);

#endif
