/*
 * lmc_test_blocks.h - a cache of blocks, a maker whose blocks tell which they are, and threads that read them.
 */
#ifndef LMC_TEST_BLOCKS_H
#define LMC_TEST_BLOCKS_H

#include "lmc_test.h"

#include "lmc_st_experimental.h"
#include "safetensors/read/block_cache.h"

#include <pthread.h>
#include <time.h>

#define THREAD_COUNT 4

/* ---- a maker ---- */

/* Each byte of a block depends on the maker, the block's number, and its place. */
typedef struct numbers {
    st_block_maker maker; /* the first member */
    unsigned seed;
    size_t nbytes;        /* of all blocks but the last one, which has half of it */
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    unsigned ahead_count; /* blocks that a thread of the cache was asked for */
    unsigned failing;     /* so many of the next ones fail */
    uint64_t held;        /* this block is not made before it is another one */
    unsigned made[];      /* how often each was asked for */
} numbers;

#define NONE_HELD UINT64_MAX

static _Thread_local int is_reader; /* this thread is none of a cache */

static size_t nbytes_of(const st_block_maker *maker, uint64_t number)
{
    const numbers *const of = (const numbers *)(const void *)maker;
    return number + 1 == maker->block_count ? (of->nbytes + 1) / 2 : of->nbytes;
}

static unsigned char byte_of(const numbers *of, uint64_t number, size_t at)
{
    return (unsigned char)(of->seed * 53 + number * 31 + at / 251 + at);
}

static lmc_status make(st_block_maker *maker, uint64_t number, st_scratch *scratch, unsigned char *dst,
                       lmc_st_diag *diag)
{
    numbers *const of = (numbers *)(void *)maker;
    pthread_mutex_lock(&of->lock);
    const int fails = of->failing > 0;
    of->failing -= (unsigned)fails;
    of->made[number]++;
    of->ahead_count += (unsigned)!is_reader;
    pthread_cond_broadcast(&of->changed);
    while (of->held == number)
        pthread_cond_wait(&of->changed, &of->lock);
    pthread_mutex_unlock(&of->lock);
    if (!scratch || !scratch->ctx)
        return st_fail(diag, LMC_ERR_ARG, number, "no context");
    if (fails)
        return st_fail(diag, LMC_ERR_CORRUPT, number, "block %u is bad", (unsigned)number);
    const size_t nbytes = nbytes_of(maker, number);
    for (size_t i = 0; i < nbytes; i++)
        dst[i] = byte_of(of, number, i);
    return LMC_OK;
}

static inline numbers *numbers_new(uint64_t block_count, size_t nbytes)
{
    static unsigned count;
    numbers *const made = calloc(1, sizeof *made + (size_t)block_count * sizeof made->made[0]);
    CU_ASSERT_PTR_NOT_NULL_FATAL(made);
    made->seed = ++count;
    made->maker = (st_block_maker){.block_count = block_count, .nbytes = nbytes_of, .make = make};
    made->nbytes = nbytes;
    made->held = NONE_HELD;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    return made;
}

static inline void numbers_free(numbers *of)
{
    pthread_mutex_destroy(&of->lock);
    pthread_cond_destroy(&of->changed);
    free(of);
}

static inline unsigned made_count(numbers *of, uint64_t number)
{
    pthread_mutex_lock(&of->lock);
    const unsigned count = of->made[number];
    pthread_mutex_unlock(&of->lock);
    return count;
}

static inline void hold(numbers *of, uint64_t number)
{
    pthread_mutex_lock(&of->lock);
    of->held = number;
    pthread_cond_broadcast(&of->changed);
    pthread_mutex_unlock(&of->lock);
}

/* Waits until the block is made, or being made. Returns 0: nobody does it. */
static inline int wait_until_made(numbers *of, uint64_t number)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&of->lock);
    while (of->made[number] == 0 && pthread_cond_timedwait(&of->changed, &of->lock, &until) == 0)
        continue;
    const int is_made = of->made[number] > 0;
    pthread_mutex_unlock(&of->lock);
    return is_made;
}

/* ---- a reader ---- */

static inline lmc_st_cache *open_cache(uint64_t nbytes, unsigned thread_count, const lmc_allocator *memory)
{
    lmc_st_cache *cache = NULL;
    lmc_st_options options = LMC_INIT(lmc_st_options);
    options.common.thread_count = thread_count;
    options.common.allocator = memory;
    CU_ASSERT_EQUAL_FATAL(lmc_st_cache_create(nbytes, &options, &cache, NULL), LMC_OK);
    return cache;
}

static inline void close_all(lmc_st_cache *cache, numbers *of)
{
    st_cache_forget(cache, &of->maker);
    lmc_st_cache_free(cache);
    numbers_free(of);
}

static int is_right(const st_block *block, const numbers *of, uint64_t number)
{
    const unsigned char *const bytes = st_block_bytes(block);
    const size_t nbytes = nbytes_of(&of->maker, number);
    for (size_t i = 0; i < nbytes; i += 97)
        if (bytes[i] != byte_of(of, number, i))
            return 0;
    return bytes[nbytes - 1] == byte_of(of, number, nbytes - 1);
}

/* Gets a block, looks at it, and puts it back. */
static inline lmc_status use(lmc_st_cache *cache, numbers *of, uint64_t number, lmc_st_diag *found)
{
    st_block *block = NULL;
    is_reader = 1;
    const lmc_status status = st_cache_get(cache, &of->maker, number, &block, found);
    if (status != LMC_OK)
        return block ? LMC_ERR_ARG : status;
    const int is_good = is_right(block, of, number);
    st_cache_put(cache, block);
    return is_good ? LMC_OK : LMC_ERR_CHECKSUM;
}

static unsigned next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

typedef struct reader {
    pthread_t thread;
    lmc_st_cache *cache;
    numbers *const *subjects;
    size_t subject_count;
    uint32_t state;
    unsigned use_count;
    int is_in_order;
    unsigned failed, wrong; /* calls that failed as the maker does, and otherwise */
} reader;

static void *read_blocks(void *user)
{
    reader *const self = user;
    for (unsigned i = 0; i < self->use_count; i++) {
        lmc_st_diag own = LMC_INIT(lmc_st_diag);
        numbers *const of = self->subjects[next_random(&self->state) % self->subject_count];
        const uint64_t number = (self->is_in_order ? i : next_random(&self->state)) % of->maker.block_count;
        const lmc_status status = use(self->cache, of, number, &own);
        const int is_told = status == LMC_ERR_CORRUPT && own.offset == number && strstr(own.text, "is bad");
        self->failed += (unsigned)is_told;
        self->wrong += (unsigned)(status != LMC_OK && !is_told);
    }
    return NULL;
}

/* Several readers at once. Returns how many calls failed. */
static inline unsigned read_at_once(lmc_st_cache *cache, numbers *const *subjects, size_t subject_count,
                                    unsigned use_count, int is_in_order)
{
    reader readers[THREAD_COUNT];
    unsigned failed = 0;
    for (unsigned i = 0; i < THREAD_COUNT; i++) {
        readers[i] = (reader){.cache = cache,
                              .subjects = subjects,
                              .subject_count = subject_count,
                              .state = i + 1,
                              .use_count = use_count,
                              .is_in_order = is_in_order};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&readers[i].thread, NULL, read_blocks, &readers[i]), 0);
    }
    for (unsigned i = 0; i < THREAD_COUNT; i++) {
        CU_ASSERT_EQUAL(pthread_join(readers[i].thread, NULL), 0);
        CU_ASSERT_EQUAL(readers[i].wrong, 0);
        failed += readers[i].failed;
    }
    return failed;
}

#endif
