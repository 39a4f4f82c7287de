/*
 * lmc_test_alloc.h - an allocator that counts, checks what is given back to it, and fails one allocation or all from
 * one on. Threads share it.
 */
#ifndef LMC_TEST_ALLOC_H
#define LMC_TEST_ALLOC_H

#include <lmc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static struct {
    atomic_size_t calls, largest; /* allocations since pool_fail(), and the most bytes that one asked for */
    atomic_long live;             /* blocks that are not released */
    atomic_long foreign;          /* releases of what was not allocated here, or twice */
    size_t failing;               /* the first call that fails; SIZE_MAX: none */
    int once;                     /* only that one */
} pool = {.failing = SIZE_MAX};

/* Before each block. */
typedef union pool_head {
    uint64_t mark;
    max_align_t alignment;
} pool_head;
#define POOL_MARK UINT64_C(0x6c6d632d626c6f63)
#define POOL_FREED UINT64_C(0x6c6d632d66726565)

/* Leaves errno alone, as an allocator may. */
static void *pool_allocate(void *user, size_t nbytes)
{
    const size_t call = atomic_fetch_add(&pool.calls, 1);
    size_t largest = atomic_load(&pool.largest);
    (void)user;
    while (nbytes > largest && !atomic_compare_exchange_weak(&pool.largest, &largest, nbytes))
        continue;
    if (call == pool.failing || (call > pool.failing && !pool.once))
        return NULL;
    pool_head *const head = malloc(sizeof *head + nbytes);
    if (!head)
        return NULL;
    atomic_fetch_add(&pool.live, 1);
    head->mark = POOL_MARK;
    memset(head + 1, 0xa5, nbytes); /* nothing may rely on zeros */
    return head + 1;
}

static void pool_release(void *user, void *block)
{
    (void)user;
    if (!block)
        abort(); /* the library releases nothing that it has not got */
    pool_head *const head = (pool_head *)block - 1;
    atomic_fetch_sub(&pool.live, 1);
    atomic_fetch_add(&pool.foreign, head->mark != POOL_MARK);
    head->mark = POOL_FREED;
    free(head);
}

static const lmc_allocator pool_allocator = {pool_allocate, pool_release, NULL};

/* Has the allocator fail at its call `failing` from here; SIZE_MAX: never. */
static void pool_fail(size_t failing, int once)
{
    atomic_store(&pool.calls, 0);
    atomic_store(&pool.largest, 0);
    pool.failing = failing;
    pool.once = once;
}

static inline int pool_has_failed(void)
{
    return atomic_load(&pool.calls) > pool.failing;
}

/* All that was taken has been given back, and nothing else. */
static inline int pool_is_whole(void)
{
    return atomic_load(&pool.live) == 0 && atomic_load(&pool.foreign) == 0;
}

#endif
