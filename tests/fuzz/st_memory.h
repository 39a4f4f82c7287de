/*
 * st_memory.h - memory functions that fail from some call on, and that know whether everything was given back.
 */
#ifndef LMC_FUZZ_ST_MEMORY_H
#define LMC_FUZZ_ST_MEMORY_H

#include <lmc.h>

typedef struct fuzz_memory {
    lmc_allocator allocator;
    unsigned allowed_count; /* allocations that still succeed */
    unsigned block_count;   /* that are in use */
    int has_failed;
} fuzz_memory;

/* The struct must stay where it is. */
void fuzz_memory_init(fuzz_memory *memory, unsigned allowed_count);

void fuzz_memory_claim_free(const fuzz_memory *memory);

#endif
