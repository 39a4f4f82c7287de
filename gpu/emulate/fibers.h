/*
 * fibers.h - the threads of a thread block as fibers of one host thread. They change where they wait for each other. A
 * seed decides which one goes on: any one, the first one or the last one that can.
 */
#ifndef LMC_GPU_EMULATE_FIBERS_H
#define LMC_GPU_EMULATE_FIBERS_H

#include <stddef.h>
#include <stdint.h>

#define FIBER_COUNT_MAX 1024
#define FIBER_WARP 32

/* Runs body(user) in `count` fibers, a multiple of FIBER_WARP, until all have ended. Returns 0 if some wait for others
 * that have ended: on a GPU they would wait forever. shared: memory that the fibers share, of any contents. */
int fibers_run(uint32_t count, uint64_t seed, void (*body)(void *), void *user, void *shared);

/* Within a fiber: its number, the shared memory, and waiting for all fibers or for those of the warp. */
uint32_t fiber_index(void);
void *fiber_shared(void);
void fiber_barrier(void);

/* Hands over a value and waits for the warp's other fibers. Returns the values of the warp; they stay until the fiber's
 * next call but one. */
const uint32_t *fiber_exchange(uint32_t value);

#endif
