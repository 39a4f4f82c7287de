/*
 * pool.h - runs one function on several threads and waits for all of them. No thread outlives the call.
 */
#ifndef LMC_CODEC_FRAME_POOL_H
#define LMC_CODEC_FRAME_POOL_H

/* The work of thread `index`; index 0 is the calling thread. All of the work must get done even if only that thread
 * runs. */
typedef void (*lmc_pool_work)(void *shared, unsigned index);

/* Takes the memory that thread `index` >= 1 needs. It is called in the calling thread, right before that thread
 * starts, so that no thread takes memory that another could use. Returns 0 if there is not enough. */
typedef int (*lmc_pool_prepare)(void *shared, unsigned index);

/* Runs work on thread_count threads, or on fewer when prepare or the system gives no more. Returns how many threads
 * ran. */
unsigned lmc_pool_run(unsigned thread_count, lmc_pool_prepare prepare, lmc_pool_work work, void *shared);

#endif
