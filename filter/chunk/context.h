/*
 * context.h - a codec context for each thread, kept from call to call. A filter runs once for every chunk, and new
 * scratch memory for each would cost as much as the work.
 */
#ifndef LMC_FILTER_CHUNK_CONTEXT_H
#define LMC_FILTER_CHUNK_CONTEXT_H

#include <lmc.h>

/* This thread's context, set to use this many threads (0: one per core); NULL when out of memory. */
lmc_ctx *lmc_h5_context_get(unsigned thread_count);

/* Threads that a call may use by the environment variable LMC_NUM_THREADS: 0 for one per core, at most
 * LMC_THREAD_COUNT_MAX; 1 when it is missing or no number. */
unsigned lmc_h5_thread_count(void);

#endif
