/*
 * allocator.h - malloc() and free() as an lmc_allocator, for callers that give none.
 */
#ifndef LMC_COMMON_ALLOCATOR_H
#define LMC_COMMON_ALLOCATOR_H

#include <stdlib.h>

#include "lmc.h"

static inline void *lmc_default_allocate(void *user, size_t nbytes)
{
    (void)user;
    return malloc(nbytes);
}

static inline void lmc_default_release(void *user, void *block)
{
    (void)user;
    free(block);
}

static const lmc_allocator lmc_memory_default = {lmc_default_allocate, lmc_default_release, NULL};

#endif
