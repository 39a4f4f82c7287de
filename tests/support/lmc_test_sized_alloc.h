/*
 * lmc_test_sized_alloc.h - an allocator that knows how many bytes it has given out, and how many blocks of at least a
 * certain size; it notices blocks that come back to another one than they are from. Threads share it.
 */
#ifndef LMC_TEST_SIZED_ALLOC_H
#define LMC_TEST_SIZED_ALLOC_H

#include <lmc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct sized_memory {
    size_t large_nbytes;          /* blocks from this size on are counted apart */
    atomic_long live, live_large; /* blocks that were not released */
    atomic_long nbytes, peak_nbytes;
    atomic_long foreign; /* blocks of another allocator that were released to this one */
} sized_memory;

/* Before each block. */
typedef union sized_head {
    struct {
        sized_memory *owner;
        size_t nbytes;
    } of;
    max_align_t alignment;
} sized_head;

static inline void *sized_allocate(void *user, size_t nbytes)
{
    sized_memory *const memory = user;
    sized_head *const head = malloc(sizeof *head + nbytes);
    if (!head)
        return NULL;
    head->of.owner = memory;
    head->of.nbytes = nbytes;
    const long now = atomic_fetch_add(&memory->nbytes, (long)nbytes) + (long)nbytes;
    long peak = atomic_load(&memory->peak_nbytes);
    while (now > peak && !atomic_compare_exchange_weak(&memory->peak_nbytes, &peak, now))
        continue;
    atomic_fetch_add(&memory->live, 1);
    atomic_fetch_add(&memory->live_large, nbytes >= memory->large_nbytes);
    memset(head + 1, 0xa5, nbytes); /* nothing may rely on zeros */
    return head + 1;
}

static inline void sized_release(void *user, void *block)
{
    sized_head *const head = (sized_head *)block - 1;
    sized_memory *const owner = head->of.owner;
    atomic_fetch_add(&((sized_memory *)user)->foreign, owner != user);
    atomic_fetch_sub(&owner->nbytes, (long)head->of.nbytes);
    atomic_fetch_sub(&owner->live, 1);
    atomic_fetch_sub(&owner->live_large, head->of.nbytes >= owner->large_nbytes);
    memset(head + 1, 0x5a, head->of.nbytes);
    free(head);
}

static inline lmc_allocator sized_allocator(sized_memory *memory)
{
    return (lmc_allocator){sized_allocate, sized_release, memory};
}

/* All that was taken has been given back, and nothing else. */
static inline int sized_is_whole(sized_memory *memory)
{
    return atomic_load(&memory->live) == 0 && atomic_load(&memory->foreign) == 0;
}

#endif
