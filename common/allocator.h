/*
 * allocator.h - calloc() and free() as an lmc_allocator, for callers that give none. Kernels load whole vectors of
 * scratch memory, beyond the last element that was written; the bytes there do not change a result. With calloc() they
 * are defined, so that valgrind stays silent. memset() would do that too, but pages that are never written would then
 * take memory.
 */
#ifndef LMC_COMMON_ALLOCATOR_H
#define LMC_COMMON_ALLOCATOR_H

#include <stdlib.h>

#include "lmc.h"

static inline void *lmc_default_allocate(void *user, size_t nbytes)
{
    (void)user;
    return calloc(1, nbytes);
}

static inline void lmc_default_release(void *user, void *block)
{
    (void)user;
    free(block);
}

/* 0 for one that lacks a function. NULL is the default. */
static inline int lmc_allocator_is_whole(const lmc_allocator *allocator)
{
    return !allocator || (allocator->allocate && allocator->release);
}

static const lmc_allocator lmc_memory_default = {lmc_default_allocate, lmc_default_release, NULL};

#endif
