/*
 * pool.h - runs one function on several threads and waits for all of them. Nothing outlives the call.
 */
#ifndef LMC_CODEC_POOL_H
#define LMC_CODEC_POOL_H

/* Work of thread `index`; index 0 is the calling thread. The work must get done even if only that runs. */
typedef void (*lmc_pool_work)(void *shared, unsigned index);

/* Runs work on thread_count threads, or on fewer when the system gives no more. */
void lmc_pool_run(unsigned thread_count, lmc_pool_work work, void *shared);

#endif
