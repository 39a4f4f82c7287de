/*
 * st_memory.c - see common/memory.h. Threads call these functions at the same time.
 */
#include "st_memory.h"

#include "fuzz.h"

static void *allocate(void *user, size_t nbytes)
{
    fuzz_memory *const memory = user;
    unsigned allowed = __atomic_load_n(&memory->allowed_count, __ATOMIC_RELAXED);
    do {
        if (allowed == 0) {
            __atomic_store_n(&memory->has_failed, 1, __ATOMIC_RELAXED);
            return NULL;
        }
    } while (!__atomic_compare_exchange_n(&memory->allowed_count, &allowed, allowed - 1, 0, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    __atomic_add_fetch(&memory->block_count, 1, __ATOMIC_RELAXED);
    return fuzz_malloc(nbytes);
}

static void release(void *user, void *pointer)
{
    fuzz_memory *const memory = user;
    if (pointer != NULL)
        __atomic_sub_fetch(&memory->block_count, 1, __ATOMIC_RELAXED);
    free(pointer);
}

void fuzz_memory_init(fuzz_memory *memory, unsigned allowed_count)
{
    memset(memory, 0, sizeof(*memory));
    memory->allocator.allocate = allocate;
    memory->allocator.release = release;
    memory->allocator.user = memory;
    memory->allowed_count = allowed_count;
}

void fuzz_memory_claim_free(const fuzz_memory *memory)
{
    FUZZ_CLAIM(memory->block_count == 0);
}
