/*
 * block_cache.c - a table of blocks by maker and number, a list of those that may go, and one of those that are to be
 * made ahead, from which threads take them. One mutex guards all; it is not held while a block is made.
 */
#include "safetensors/read/block_cache.h"

#include "os/thread.h"
#include "safetensors/common/options.h"

#include <string.h>

/* The table has a slot for so many bytes; blocks are larger, but at the ends of tensors. */
#define SLOT_NBYTES ((uint64_t)64 << 10)
#define SLOT_COUNT_MIN ((size_t)1 << 10)
#define SLOT_COUNT_MAX ((size_t)1 << 16)

/* How far ahead of a reader blocks are made, and a part of the cache that this takes at most. */
#define AHEAD_NBYTES ((uint64_t)4 << 20)
#define AHEAD_PART 4
#define AHEAD_COUNT 256

/* So many blocks behind a reader in order, one is not needed any more: several threads may read for it. */
#define SPENT_BEHIND 16

/* A reader that comes for a block follows the order if the one before it was used at most so many uses ago: of all
 * readers, of which others may have come between. Who reads at random meets blocks that were used long ago. */
#define IN_ORDER_USES 64

#define CACHE_NBYTES_MIN ((uint64_t)1 << 20)
#define CACHE_NBYTES_DEFAULT ((uint64_t)64 << 20) /* for a thread */

typedef enum block_state { QUEUED, MADE_NOW, READY } block_state;

struct st_block {
    st_block_maker *maker;
    uint64_t number;
    block_state state;
    uint64_t used_at;    /* the number of its last use, or 0 */
    unsigned user_count; /* of a ready one */
    int is_spent;        /* a reader that goes in order has left it behind */
    st_buffer content;
    st_block *next_in_slot;
    st_block *before, *behind; /* in the list of its state; a block that is made now is in none */
};

typedef struct block_list {
    st_block *first, *last;
} block_list;

typedef struct owned_scratch {
    st_scratch scratch; /* the first member: one stands for the other */
    struct owned_scratch *next;
} owned_scratch;

struct lmc_st_cache {
    lmc_allocator memory;
    pthread_mutex_t lock;
    pthread_cond_t made;         /* a block is no longer being made */
    pthread_cond_t queued;       /* there is something to make ahead, or the cache ends */
    uint64_t nbytes, nbytes_max; /* of all blocks */
    st_block **slots;
    size_t slot_count; /* a power of two */
    block_list ready;  /* by their last use */
    uint64_t use_count;
    block_list queue;
    owned_scratch *scratches; /* that nobody uses */
    pthread_t *threads;
    unsigned thread_count;
    int is_ending;
};

const unsigned char *st_block_bytes(const st_block *block)
{
    return block->content.bytes;
}

/* ---- the table ---- */

static st_block **slot_of(const lmc_st_cache *cache, const st_block_maker *maker, uint64_t number)
{
    const uint64_t mixed =
        ((uint64_t)(uintptr_t)maker + number) * 0x9E3779B97F4A7C15u; /* Fibonacci hashing */
    return &cache->slots[(size_t)(mixed >> 32) & (cache->slot_count - 1)];
}

static st_block *find(const lmc_st_cache *cache, const st_block_maker *maker, uint64_t number)
{
    st_block *block = *slot_of(cache, maker, number);
    while (block && !(block->maker == maker && block->number == number))
        block = block->next_in_slot;
    return block;
}

static block_list *list_of(lmc_st_cache *cache, block_state state)
{
    return state == READY ? &cache->ready : state == QUEUED ? &cache->queue : NULL;
}

static void leave_list(lmc_st_cache *cache, st_block *block)
{
    block_list *const list = list_of(cache, block->state);
    if (!list)
        return;
    *(block->before ? &block->before->behind : &list->first) = block->behind;
    *(block->behind ? &block->behind->before : &list->last) = block->before;
    block->before = block->behind = NULL;
}

static void join_list(lmc_st_cache *cache, st_block *block)
{
    block_list *const list = list_of(cache, block->state);
    if (!list)
        return;
    block->before = list->last;
    *(list->last ? &list->last->behind : &list->first) = block;
    list->last = block;
}

/* Marks the block that a reader in order has left behind, if it is there, and makes it the first one to go: its room is
 * used again while the processor's caches still have it. */
static void leave_behind(lmc_st_cache *cache, const st_block_maker *maker, uint64_t number)
{
    st_block *const block = number < SPENT_BEHIND ? NULL : find(cache, maker, number - SPENT_BEHIND);
    if (!block || block->state != READY || block->is_spent)
        return;
    leave_list(cache, block);
    block->is_spent = 1;
    block->behind = cache->ready.first;
    *(block->behind ? &block->behind->before : &cache->ready.last) = block;
    cache->ready.first = block;
}

/* Sets the state; the block becomes the last one of its list. */
static void set_state(lmc_st_cache *cache, st_block *block, block_state state)
{
    leave_list(cache, block);
    block->state = state;
    join_list(cache, block);
}

static void leave_table(lmc_st_cache *cache, st_block *block)
{
    st_block **at = slot_of(cache, block->maker, block->number);
    while (*at != block)
        at = &(*at)->next_in_slot;
    *at = block->next_in_slot;
    leave_list(cache, block);
}

/* ---- room ---- */

static void release(lmc_st_cache *cache, st_block *block)
{
    cache->nbytes -= sizeof *block + block->content.capacity;
    st_buffer_free(&cache->memory, &block->content);
    st_release(&cache->memory, block);
}

static void drop(lmc_st_cache *cache, st_block *block)
{
    leave_table(cache, block);
    release(cache, block);
}

/* The block that was not used for longest. NULL: all are in use. */
static st_block *find_oldest(const lmc_st_cache *cache)
{
    st_block *block = cache->ready.first;
    while (block && block->user_count > 0)
        block = block->behind;
    return block;
}

/* Gives a block that is not in the table, with room for nbytes. NULL: out of memory; or all are in use, and it is not
 * urgent: what a reader waits for may be more than the cache is meant to have. */
static st_block *take_room(lmc_st_cache *cache, size_t nbytes, int is_urgent)
{
    st_block *block = find_oldest(cache);
    while (cache->nbytes + sizeof *block + nbytes > cache->nbytes_max || (block && block->is_spent)) {
        if (!block && !is_urgent)
            return NULL;
        if (!block)
            break;
        leave_table(cache, block);
        const size_t capacity = block->content.capacity;
        if (capacity >= nbytes && capacity / 4 <= nbytes)
            return block;
        release(cache, block);
        block = find_oldest(cache);
    }
    block = st_allocate_zeroed(&cache->memory, 1, sizeof *block);
    if (!block)
        return NULL;
    if (!st_buffer_grow(&cache->memory, &block->content, nbytes)) {
        st_release(&cache->memory, block);
        return NULL;
    }
    cache->nbytes += sizeof *block + block->content.capacity;
    return block;
}

/* Adds a block that is not there. NULL: as take_room(). */
static st_block *add(lmc_st_cache *cache, st_block_maker *maker, uint64_t number, block_state state)
{
    st_block *const block = take_room(cache, maker->nbytes(maker, number), state != QUEUED);
    st_block **const slot = slot_of(cache, maker, number);
    if (!block)
        return NULL;
    *block = (st_block){
        .maker = maker, .number = number, .state = state, .content = block->content, .next_in_slot = *slot};
    *slot = block;
    join_list(cache, block);
    return block;
}

/* ---- scratch ---- */

static owned_scratch *take_scratch(lmc_st_cache *cache)
{
    owned_scratch *owned = cache->scratches;
    if (owned) {
        cache->scratches = owned->next;
        return owned;
    }
    owned = st_allocate_zeroed(&cache->memory, 1, sizeof *owned);
    if (owned)
        owned->scratch.memory = &cache->memory;
    if (owned && lmc_ctx_create(&cache->memory, &owned->scratch.ctx) != LMC_OK) {
        st_release(&cache->memory, owned);
        owned = NULL;
    }
    return owned;
}

static void give_scratch(lmc_st_cache *cache, owned_scratch *owned)
{
    owned->next = cache->scratches;
    cache->scratches = owned;
}

/* ---- making blocks ---- */

/* Makes a block whose state is MADE_NOW; the lock is released meanwhile. After a failure the block is gone. */
static lmc_status make(lmc_st_cache *cache, st_block *block, lmc_st_diag *diag)
{
    owned_scratch *const owned = take_scratch(cache);
    lmc_status status = owned ? LMC_OK : st_fail_nomem(diag);
    if (owned) {
        pthread_mutex_unlock(&cache->lock);
        status = block->maker->make(block->maker, block->number, &owned->scratch, block->content.bytes, diag);
        pthread_mutex_lock(&cache->lock);
        give_scratch(cache, owned);
    }
    if (status == LMC_OK)
        set_state(cache, block, READY);
    else
        drop(cache, block);
    pthread_cond_broadcast(&cache->made);
    return status;
}

/* Has the blocks behind `number` made, as far as they are not there and there is room for them. */
static void make_ahead(lmc_st_cache *cache, st_block_maker *maker, uint64_t number)
{
    const uint64_t part = cache->nbytes_max / AHEAD_PART;
    const uint64_t nbytes_max = part < AHEAD_NBYTES ? part : AHEAD_NBYTES;
    const uint64_t left = maker->block_count - number - 1;
    const uint64_t count = left < AHEAD_COUNT ? left : AHEAD_COUNT;
    uint64_t nbytes = 0;
    for (uint64_t next = number + 1; next <= number + count && cache->thread_count > 0; next++) {
        nbytes += maker->nbytes(maker, next);
        if (nbytes > nbytes_max)
            return;
        if (find(cache, maker, next))
            continue;
        if (!add(cache, maker, next, QUEUED))
            return;
        pthread_cond_signal(&cache->queued);
    }
}

static void *serve_queue(void *user)
{
    lmc_st_cache *const cache = user;
    pthread_mutex_lock(&cache->lock);
    for (;;) {
        while (!cache->queue.first && !cache->is_ending)
            pthread_cond_wait(&cache->queued, &cache->lock);
        if (cache->is_ending)
            break;
        st_block *const block = cache->queue.first;
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        set_state(cache, block, MADE_NOW);
        (void)make(cache, block, &diag); /* a reader that comes for it meets the fault again */
    }
    pthread_mutex_unlock(&cache->lock);
    return NULL;
}

lmc_status st_cache_get(lmc_st_cache *cache, st_block_maker *maker, uint64_t number, st_block **found,
                        lmc_st_diag *diag)
{
    lmc_status status = LMC_OK;
    *found = NULL;
    pthread_mutex_lock(&cache->lock);
    st_block *block = find(cache, maker, number);
    while (block && block->state == MADE_NOW) {
        pthread_cond_wait(&cache->made, &cache->lock);
        block = find(cache, maker, number);
    }
    if (!block || block->state == QUEUED) {
        if (block)
            set_state(cache, block, MADE_NOW);
        else
            block = add(cache, maker, number, MADE_NOW);
        status = block ? make(cache, block, diag) : st_fail_nomem(diag);
    }
    if (status == LMC_OK) {
        const st_block *const before = number > 0 ? find(cache, maker, number - 1) : NULL;
        const int is_in_order =
            before && before->used_at > 0 && cache->use_count - before->used_at < IN_ORDER_USES;
        const int is_first_use = block->used_at == 0;
        set_state(cache, block, READY); /* the last one that was used */
        block->used_at = ++cache->use_count;
        block->user_count++;
        block->is_spent = 0;
        if (is_first_use && is_in_order) {
            leave_behind(cache, maker, number);
            make_ahead(cache, maker, number);
        }
        *found = block;
    }
    pthread_mutex_unlock(&cache->lock);
    return status;
}

void st_cache_put(lmc_st_cache *cache, st_block *block)
{
    pthread_mutex_lock(&cache->lock);
    block->user_count--;
    st_block *oldest = find_oldest(cache);
    while (oldest && oldest != cache->ready.last && cache->nbytes > cache->nbytes_max) {
        drop(cache, oldest);
        oldest = find_oldest(cache);
    }
    pthread_mutex_unlock(&cache->lock);
}

void st_cache_forget(lmc_st_cache *cache, st_block_maker *maker)
{
    pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; i < cache->slot_count; i++) {
        st_block *block = cache->slots[i];
        while (block) {
            st_block *next = block->next_in_slot;
            if (block->maker == maker && block->state == MADE_NOW) {
                pthread_cond_wait(&cache->made, &cache->lock);
                next = cache->slots[i]; /* others may have come or gone meanwhile */
            } else if (block->maker == maker) {
                drop(cache, block);
            }
            block = next;
        }
    }
    pthread_mutex_unlock(&cache->lock);
}

/* ---- begin and end ---- */

static void free_cache(lmc_st_cache *cache)
{
    const lmc_allocator memory = cache->memory;
    while (cache->scratches) {
        owned_scratch *const owned = cache->scratches;
        cache->scratches = owned->next;
        st_scratch_free(&owned->scratch);
        lmc_ctx_free(owned->scratch.ctx);
        st_release(&memory, owned);
    }
    pthread_mutex_destroy(&cache->lock);
    pthread_cond_destroy(&cache->made);
    pthread_cond_destroy(&cache->queued);
    st_release(&memory, cache->slots);
    st_release(&memory, cache->threads);
    st_release(&memory, cache);
}

void lmc_st_cache_free(lmc_st_cache *cache)
{
    if (!cache)
        return;
    pthread_mutex_lock(&cache->lock);
    cache->is_ending = 1;
    pthread_cond_broadcast(&cache->queued);
    pthread_mutex_unlock(&cache->lock);
    for (unsigned i = 0; i < cache->thread_count; i++)
        pthread_join(cache->threads[i], NULL);
    free_cache(cache);
}

static lmc_status create_cache(const st_options *options, uint64_t nbytes, lmc_st_cache **created,
                               lmc_st_diag *diag)
{
    const lmc_allocator *const memory = options->allocator;
    const unsigned thread_count = options->thread_count ? options->thread_count : lmc_core_count();
    const uint64_t wanted = nbytes ? nbytes : thread_count * CACHE_NBYTES_DEFAULT;
    lmc_st_cache *const cache = st_allocate_zeroed(memory, 1, sizeof *cache);
    if (!cache)
        return st_fail_nomem(diag);
    *cache = (lmc_st_cache){.memory = *memory, .slot_count = SLOT_COUNT_MIN};
    cache->nbytes_max = wanted < CACHE_NBYTES_MIN ? CACHE_NBYTES_MIN : wanted;
    while (cache->slot_count < SLOT_COUNT_MAX && cache->slot_count < cache->nbytes_max / SLOT_NBYTES)
        cache->slot_count *= 2;
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->made, NULL);
    pthread_cond_init(&cache->queued, NULL);
    cache->slots = st_allocate_zeroed(memory, cache->slot_count, sizeof(st_block *));
    cache->threads = st_allocate_zeroed(memory, thread_count, sizeof *cache->threads);
    if (!cache->slots || !cache->threads) {
        free_cache(cache);
        return st_fail_nomem(diag);
    }
    /* fewer threads than were wanted make less ahead */
    while (cache->thread_count < thread_count &&
           lmc_thread_start(&cache->threads[cache->thread_count], serve_queue, cache) == 0)
        cache->thread_count++;
    *created = cache;
    return LMC_OK;
}

lmc_status lmc_st_cache_create(uint64_t nbytes, const lmc_st_options *options, lmc_st_cache **cache,
                               lmc_st_diag *diag)
{
    st_call call;
    *cache = NULL;
    lmc_status status = st_call_begin_plain(&call, "", options, diag);
    if (status == LMC_OK)
        status = create_cache(&call.options, nbytes, cache, call.diag);
    return st_call_end(&call, status);
}
