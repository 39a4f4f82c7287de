/*
 * test_st_block_cache.c - safetensors/read/block_cache.h: how often blocks are made and by whom, how much memory they
 * take, and what becomes of faults.
 */
#include "lmc_test_blocks.h"

#include "lmc_test_alloc.h"
#include "lmc_test_sized_alloc.h"

#define BLOCK_NBYTES 100000u
#define MIB ((uint64_t)1 << 20)

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

/* ---- how often blocks are made ---- */

LMC_TEST(test_made_once)
{
    for (int is_in_order = 0; is_in_order < 2; is_in_order++) {
        numbers *const of = numbers_new(100, 5000);
        lmc_st_cache *const cache = open_cache(MIB, 2, NULL);
        CU_ASSERT_EQUAL(read_at_once(cache, &of, 1, 400, is_in_order), 0);
        unsigned sum = 0;
        for (uint64_t i = 0; i < 100; i++)
            sum += made_count(of, i);
        CU_ASSERT_TRUE(sum >= 100);
        /* Of 1600 reads. What a reader in order leaves behind may go before another one comes; some read at random as
         * if in order. */
        CU_ASSERT_TRUE(is_in_order ? sum < 800 : sum < 150);
        st_cache_forget(cache, &of->maker);
        const unsigned before = made_count(of, 7);
        CU_ASSERT_EQUAL(use(cache, of, 7, &diag), LMC_OK);
        CU_ASSERT_EQUAL(made_count(of, 7), before + 1);
        close_all(cache, of);
    }
}

/* The blocks that were used last stay. */
LMC_TEST(test_oldest_goes)
{
    numbers *const of = numbers_new(100, BLOCK_NBYTES);
    lmc_st_cache *const cache = open_cache(MIB, 1, NULL);
    for (uint64_t i = 0; i < 20; i += 2) /* not in order: ten blocks, which fit */
        CU_ASSERT_EQUAL(use(cache, of, i, &diag), LMC_OK);
    CU_ASSERT_EQUAL(use(cache, of, 0, &diag), LMC_OK);
    CU_ASSERT_EQUAL(made_count(of, 0), 1);
    CU_ASSERT_EQUAL(use(cache, of, 50, &diag), LMC_OK);
    for (uint64_t i = 4; i < 20; i += 2)
        CU_ASSERT_EQUAL(use(cache, of, i, &diag), LMC_OK);
    CU_ASSERT_EQUAL(use(cache, of, 0, &diag), LMC_OK);
    CU_ASSERT_EQUAL(made_count(of, 0), 1);
    CU_ASSERT_EQUAL(made_count(of, 4), 1);
    CU_ASSERT_EQUAL(use(cache, of, 2, &diag), LMC_OK); /* this one had gone */
    CU_ASSERT_EQUAL(made_count(of, 2), 2);
    close_all(cache, of);
}

LMC_TEST(test_subjects_apart)
{
    enum { COUNT = 5 };
    numbers *subjects[COUNT];
    lmc_st_cache *const cache = open_cache(MIB, 3, NULL);
    for (size_t i = 0; i < COUNT; i++)
        subjects[i] = numbers_new(30 + 7 * i, 1000 + 40000 * i);
    for (int is_in_order = 0; is_in_order < 2; is_in_order++)
        CU_ASSERT_EQUAL(read_at_once(cache, subjects, COUNT, 150, is_in_order), 0);
    for (size_t i = 0; i < COUNT; i++)
        st_cache_forget(cache, &subjects[i]->maker);
    lmc_st_cache_free(cache);
    for (size_t i = 0; i < COUNT; i++)
        numbers_free(subjects[i]);
}

/* More than the table has slots: some with blocks of one number share one. */
LMC_TEST(test_many_subjects)
{
    enum { COUNT = 1500 };
    static numbers *subjects[COUNT];
    lmc_st_cache *const cache = open_cache(4 * MIB, 1, NULL);
    for (size_t i = 0; i < COUNT; i++)
        subjects[i] = numbers_new(5, 100);
    for (uint64_t number = 0; number < 10; number++)
        for (size_t i = 0; i < COUNT; i++)
            CU_ASSERT_EQUAL(use(cache, subjects[i], number % 5, &diag), LMC_OK);
    for (size_t i = 0; i < COUNT; i++) {
        for (uint64_t number = 0; number < 5; number++)
            CU_ASSERT_EQUAL(made_count(subjects[i], number), 1);
        st_cache_forget(cache, &subjects[i]->maker);
        numbers_free(subjects[i]);
    }
    lmc_st_cache_free(cache);
}

/* ---- ahead ---- */

LMC_TEST(test_in_order)
{
    numbers *const of = numbers_new(200, 10000);
    lmc_st_cache *const cache = open_cache(MIB, 1, NULL);
    CU_ASSERT_EQUAL(use(cache, of, 10, &diag), LMC_OK);
    CU_ASSERT_EQUAL(use(cache, of, 11, &diag), LMC_OK);
    CU_ASSERT_TRUE(wait_until_made(of, 12)); /* and those that a quarter of the cache has room for */
    CU_ASSERT_TRUE(wait_until_made(of, 11 + 26));
    CU_ASSERT_EQUAL(use(cache, of, 12, &diag), LMC_OK);
    CU_ASSERT_TRUE(wait_until_made(of, 12 + 26));
    for (uint64_t i = 0; i < 200; i++)
        CU_ASSERT_EQUAL(made_count(of, i), i >= 10 && i <= 38);
    CU_ASSERT_EQUAL(of->ahead_count, 27);
    for (uint64_t i = 190; i < 200; i++) /* nothing is behind the last one */
        CU_ASSERT_EQUAL(use(cache, of, i, &diag), LMC_OK);
    close_all(cache, of);
}

/* A reader in order takes the room of what it has left behind, not the whole cache. */
LMC_TEST(test_left_behind)
{
    sized_memory memory = {.large_nbytes = BLOCK_NBYTES / 2};
    const lmc_allocator allocator = sized_allocator(&memory);
    numbers *const of = numbers_new(300, BLOCK_NBYTES);
    lmc_st_cache *const cache = open_cache(64 * MIB, 1, &allocator);
    for (uint64_t i = 0; i < 300; i++) {
        CU_ASSERT_EQUAL(use(cache, of, i, &diag), LMC_OK);
        CU_ASSERT_TRUE(i + 1 == 300 || i == 0 || wait_until_made(of, i + 1));
    }
    CU_ASSERT_TRUE(atomic_load(&memory.live_large) < 80); /* 16 of them, and those that are made ahead */
    for (uint64_t i = 0; i < 300; i++)
        CU_ASSERT_EQUAL(made_count(of, i), 1);
    CU_ASSERT_EQUAL(use(cache, of, 290, &diag), LMC_OK); /* the last ones are still there */
    CU_ASSERT_EQUAL(made_count(of, 290), 1);
    close_all(cache, of);
    CU_ASSERT_TRUE(sized_is_whole(&memory));
}

LMC_TEST(test_not_in_order)
{
    numbers *const of = numbers_new(100, 1000);
    lmc_st_cache *const cache = open_cache(MIB, 2, NULL);
    for (uint64_t i = 0; i < 50; i++) {
        CU_ASSERT_EQUAL(use(cache, of, 2 * i, &diag), LMC_OK);
        CU_ASSERT_EQUAL(use(cache, of, 2 * i, &diag), LMC_OK);
    }
    st_cache_forget(cache, &of->maker);
    lmc_st_cache_free(cache);
    CU_ASSERT_EQUAL(of->ahead_count, 0);
    numbers_free(of);
}

/* Others may read between, but not for long: who reads at random finds the block before it there, too. */
LMC_TEST(test_others_between)
{
    for (uint64_t between = 60; between < 70; between++) {
        numbers *const of = numbers_new(400, 1000);
        lmc_st_cache *const cache = open_cache(MIB, 1, NULL);
        CU_ASSERT_EQUAL(use(cache, of, 0, &diag), LMC_OK);
        for (uint64_t i = 0; i < between; i++)
            CU_ASSERT_EQUAL(use(cache, of, 300 - 2 * i, &diag), LMC_OK);
        CU_ASSERT_EQUAL(use(cache, of, 1, &diag), LMC_OK);
        if (between < 64)
            CU_ASSERT_TRUE(wait_until_made(of, 2));
        st_cache_forget(cache, &of->maker);
        lmc_st_cache_free(cache);
        CU_ASSERT_EQUAL(of->ahead_count > 0, between < 64);
        numbers_free(of);
    }
}

/* What is queued, a reader takes who comes for it before its turn. */
LMC_TEST(test_reader_overtakes)
{
    numbers *const of = numbers_new(100, 10000);
    lmc_st_cache *const cache = open_cache(MIB, 1, NULL);
    hold(of, 2);
    CU_ASSERT_EQUAL(use(cache, of, 0, &diag), LMC_OK);
    CU_ASSERT_EQUAL(use(cache, of, 1, &diag), LMC_OK);
    CU_ASSERT_TRUE(wait_until_made(of, 2)); /* the cache's thread is busy with it */
    for (uint64_t i = 3; i < 40; i++)
        CU_ASSERT_EQUAL(use(cache, of, i, &diag), LMC_OK);
    CU_ASSERT_EQUAL(of->ahead_count, 1);
    hold(of, NONE_HELD);
    CU_ASSERT_EQUAL(use(cache, of, 2, &diag), LMC_OK);
    for (uint64_t i = 0; i < 40; i++)
        CU_ASSERT_EQUAL(made_count(of, i), 1);
    close_all(cache, of);
}

static void *forget(void *user)
{
    reader *const self = user;
    st_cache_forget(self->cache, &self->subjects[0]->maker);
    return NULL;
}

/* A maker goes while one of its blocks is being made and others are queued; its place is used for another one. */
LMC_TEST(test_forget_the_queue)
{
    lmc_st_cache *const cache = open_cache(MIB, 1, NULL);
    for (unsigned i = 0; i < 30; i++) {
        numbers *of = numbers_new(100, 10000);
        numbers *const other = numbers_new(100, 9000);
        reader forgetter = {.cache = cache, .subjects = &of};
        hold(of, 2);
        CU_ASSERT_EQUAL(use(cache, of, 0, &diag), LMC_OK);
        CU_ASSERT_EQUAL(use(cache, of, 1, &diag), LMC_OK);
        CU_ASSERT_TRUE(wait_until_made(of, 2));
        CU_ASSERT_EQUAL_FATAL(pthread_create(&forgetter.thread, NULL, forget, &forgetter), 0);
        for (uint64_t k = 0; k < 30; k++)
            CU_ASSERT_EQUAL(use(cache, other, k, &diag), LMC_OK);
        hold(of, NONE_HELD);
        CU_ASSERT_EQUAL(pthread_join(forgetter.thread, NULL), 0);
        memset(of, 0xff, sizeof *of); /* nobody may look at it */
        free(of);
        for (uint64_t k = 0; k < 100; k++)
            CU_ASSERT_EQUAL(use(cache, other, k, &diag), LMC_OK);
        st_cache_forget(cache, &other->maker);
        numbers_free(other);
    }
    lmc_st_cache_free(cache);
}

/* ---- memory ---- */

#define KEPT_MAX 10 /* blocks of BLOCK_NBYTES that 1 MiB has room for */

LMC_TEST(test_bounded)
{
    sized_memory memory = {.large_nbytes = BLOCK_NBYTES / 2};
    const lmc_allocator allocator = sized_allocator(&memory);
    numbers *const of = numbers_new(200, BLOCK_NBYTES);
    lmc_st_cache *const cache = open_cache(MIB, 2, &allocator);
    const long before = atomic_load(&memory.nbytes);
    for (int is_in_order = 0; is_in_order < 2; is_in_order++) {
        CU_ASSERT_EQUAL(read_at_once(cache, &of, 1, 200, is_in_order), 0);
        CU_ASSERT_TRUE(atomic_load(&memory.live_large) <= KEPT_MAX);
    }
    /* at most what is in use beyond it, and what each thread needs to make a block */
    CU_ASSERT_TRUE(atomic_load(&memory.peak_nbytes) - before < (long)MIB + (THREAD_COUNT + 2) * 200000);
    st_cache_forget(cache, &of->maker);
    CU_ASSERT_EQUAL(atomic_load(&memory.live_large), 0);
    lmc_st_cache_free(cache);
    numbers_free(of);
    CU_ASSERT_TRUE(sized_is_whole(&memory));
}

/* What is in use may exceed the cache; it does not stay when it is no longer in use. */
LMC_TEST(test_in_use)
{
    enum { COUNT = 30 };
    st_block *blocks[COUNT];
    sized_memory memory = {.large_nbytes = BLOCK_NBYTES / 2};
    const lmc_allocator allocator = sized_allocator(&memory);
    numbers *const of = numbers_new(200, BLOCK_NBYTES);
    lmc_st_cache *const cache = open_cache(1, 1, &allocator); /* less than the least */
    for (uint64_t i = 0; i < COUNT; i++)
        CU_ASSERT_EQUAL_FATAL(st_cache_get(cache, &of->maker, 4 * i, &blocks[i], &diag), LMC_OK);
    CU_ASSERT_EQUAL(atomic_load(&memory.live_large), COUNT);
    for (uint64_t i = 0; i < COUNT; i++)
        CU_ASSERT_TRUE(is_right(blocks[i], of, 4 * i));
    /* nothing is made ahead meanwhile */
    CU_ASSERT_EQUAL(use(cache, of, 1, &diag), LMC_OK);
    CU_ASSERT_EQUAL(use(cache, of, 2, &diag), LMC_OK);
    CU_ASSERT_EQUAL(atomic_load(&memory.live_large), COUNT + 1);
    for (uint64_t i = 0; i < COUNT; i++)
        st_cache_put(cache, blocks[i]);
    CU_ASSERT_TRUE(atomic_load(&memory.live_large) <= KEPT_MAX);
    for (uint64_t i = 0; i < COUNT; i++)
        CU_ASSERT_EQUAL(use(cache, of, 4 * i, &diag), LMC_OK);
    CU_ASSERT_TRUE(atomic_load(&memory.live_large) <= KEPT_MAX);
    close_all(cache, of);
    CU_ASSERT_TRUE(sized_is_whole(&memory));
}

/* Of blocks that are larger than the cache, those stay that are in use, and the one that was used last. */
LMC_TEST(test_larger_than_the_cache)
{
    st_block *blocks[2];
    sized_memory memory = {.large_nbytes = MIB};
    const lmc_allocator allocator = sized_allocator(&memory);
    numbers *const of = numbers_new(10, 3 * MIB);
    lmc_st_cache *const cache = open_cache(MIB, 1, &allocator);
    CU_ASSERT_EQUAL_FATAL(st_cache_get(cache, &of->maker, 1, &blocks[0], &diag), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(st_cache_get(cache, &of->maker, 2, &blocks[1], &diag), LMC_OK);
    CU_ASSERT_TRUE(is_right(blocks[0], of, 1) && is_right(blocks[1], of, 2));
    st_cache_put(cache, blocks[0]);
    CU_ASSERT_EQUAL(atomic_load(&memory.live_large), 1);
    st_cache_put(cache, blocks[1]);
    CU_ASSERT_EQUAL(atomic_load(&memory.live_large), 1);
    CU_ASSERT_EQUAL(use(cache, of, 2, &diag), LMC_OK);
    CU_ASSERT_EQUAL(made_count(of, 2), 1);
    CU_ASSERT_EQUAL(use(cache, of, 3, &diag), LMC_OK);
    CU_ASSERT_EQUAL(atomic_load(&memory.live_large), 1);
    CU_ASSERT_EQUAL(of->ahead_count, 0);
    close_all(cache, of);
    CU_ASSERT_TRUE(sized_is_whole(&memory));
}

/* Many small blocks take room of their own. It is there for large blocks afterwards. */
LMC_TEST(test_small_blocks)
{
    enum { SMALL_COUNT = 20000 };
    sized_memory memory = {.large_nbytes = BLOCK_NBYTES / 2};
    const lmc_allocator allocator = sized_allocator(&memory);
    numbers *const small = numbers_new(SMALL_COUNT, 1);
    numbers *const large = numbers_new(100, BLOCK_NBYTES);
    lmc_st_cache *const cache = open_cache(MIB, 1, &allocator);
    const long before = atomic_load(&memory.nbytes);
    for (uint64_t i = 0; i < SMALL_COUNT; i++)
        CU_ASSERT_EQUAL(use(cache, small, i % 2 ? i : SMALL_COUNT - 2 - i, &diag), LMC_OK);
    CU_ASSERT_TRUE(atomic_load(&memory.nbytes) - before <= (long)MIB + 65536);
    for (unsigned round = 0; round < 2; round++)
        for (uint64_t i = 0; i < 2 * (KEPT_MAX - 1); i += 2)
            CU_ASSERT_EQUAL(use(cache, large, i, &diag), LMC_OK);
    for (uint64_t i = 0; i < 2 * (KEPT_MAX - 1); i += 2)
        CU_ASSERT_EQUAL(made_count(large, i), 1);
    st_cache_forget(cache, &large->maker);
    st_cache_forget(cache, &small->maker);
    lmc_st_cache_free(cache);
    numbers_free(small);
    numbers_free(large);
    CU_ASSERT_TRUE(sized_is_whole(&memory));
}

/* ---- faults ---- */

LMC_TEST(test_asked_again)
{
    sized_memory memory = {.large_nbytes = BLOCK_NBYTES / 2};
    const lmc_allocator allocator = sized_allocator(&memory);
    numbers *const of = numbers_new(100, BLOCK_NBYTES);
    lmc_st_cache *const cache = open_cache(MIB, 1, &allocator);
    st_block *block = NULL;
    of->failing = 3;
    for (unsigned i = 0; i < 3; i++) {
        diag = (lmc_st_diag)LMC_INIT(lmc_st_diag);
        CU_ASSERT_EQUAL(st_cache_get(cache, &of->maker, 5, &block, &diag), LMC_ERR_CORRUPT);
        CU_ASSERT_PTR_NULL(block);
        CU_ASSERT_STRING_EQUAL(diag.text, "block 5 is bad");
        CU_ASSERT_EQUAL(diag.offset, 5);
        CU_ASSERT_EQUAL(atomic_load(&memory.live_large), 0);
    }
    CU_ASSERT_EQUAL(use(cache, of, 5, &diag), LMC_OK);
    CU_ASSERT_EQUAL(made_count(of, 5), 4);
    close_all(cache, of);
    CU_ASSERT_TRUE(sized_is_whole(&memory));
}

/* A fault ahead of a reader is told to who comes for the block, and nobody else. */
LMC_TEST(test_fault_ahead)
{
    numbers *const of = numbers_new(40, 10000);
    lmc_st_cache *const cache = open_cache(MIB, 1, NULL);
    CU_ASSERT_EQUAL(use(cache, of, 0, &diag), LMC_OK);
    hold(of, 2);
    CU_ASSERT_EQUAL(use(cache, of, 1, &diag), LMC_OK);
    CU_ASSERT_TRUE(wait_until_made(of, 2));
    pthread_mutex_lock(&of->lock);
    of->failing = 24; /* 3 .. 26, then all is well again */
    pthread_mutex_unlock(&of->lock);
    hold(of, NONE_HELD);
    CU_ASSERT_TRUE(wait_until_made(of, 27));
    for (uint64_t i = 2; i < 40; i++)
        CU_ASSERT_EQUAL(use(cache, of, i, &diag), LMC_OK);
    for (uint64_t i = 3; i < 27; i++)
        CU_ASSERT_EQUAL(made_count(of, i), 2);
    close_all(cache, of);
}

/* Each failure of the maker is told to one reader, or happened ahead. */
LMC_TEST(test_faults_at_once)
{
    for (int is_in_order = 0; is_in_order < 2; is_in_order++) {
        numbers *const of = numbers_new(50, 3000);
        lmc_st_cache *const cache = open_cache(MIB, 2, NULL);
        of->failing = 60;
        const unsigned failed = read_at_once(cache, &of, 1, 400, is_in_order);
        CU_ASSERT_EQUAL(of->failing, 0);
        CU_ASSERT_TRUE(failed <= 60 && failed + of->ahead_count >= 60);
        for (uint64_t i = 0; i < 50; i++)
            CU_ASSERT_EQUAL(use(cache, of, i, &diag), LMC_OK);
        close_all(cache, of);
    }
}

/* ---- allocations that fail ---- */

static lmc_status run_scenario(void)
{
    lmc_st_cache *cache = NULL;
    lmc_st_options options = LMC_INIT(lmc_st_options);
    options.common.thread_count = 2;
    options.common.allocator = &pool_allocator;
    lmc_status worst = lmc_st_cache_create(MIB, &options, &cache, &diag);
    if (worst != LMC_OK)
        return cache ? LMC_ERR_ARG : worst;
    numbers *const of = numbers_new(40, 60000);
    for (uint64_t i = 0; i < 40; i++) {
        const lmc_status status = use(cache, of, i < 20 ? i : 59 - i, &diag);
        worst = status != LMC_OK ? status : worst;
    }
    close_all(cache, of);
    return worst;
}

LMC_TEST(test_without_memory)
{
    for (int once = 0; once < 2; once++) {
        int is_reached = 1;
        for (size_t number = 0; is_reached; number++) {
            pool_fail(number, once);
            const lmc_status status = run_scenario();
            is_reached = pool_has_failed();
            CU_ASSERT_TRUE(status == LMC_OK || (is_reached && status == LMC_ERR_NOMEM));
            CU_ASSERT_TRUE(status != LMC_ERR_NOMEM || diag.status == LMC_ERR_NOMEM);
            CU_ASSERT_TRUE(once || !is_reached || status == LMC_ERR_NOMEM || number > 20);
            CU_ASSERT_TRUE_FATAL(pool_is_whole());
            CU_ASSERT_TRUE(is_reached || number > 10);
        }
    }
    pool_fail(SIZE_MAX, 1);
}

/* ---- calls ---- */

LMC_TEST(test_options)
{
    lmc_st_cache *cache = NULL;
    lmc_st_options options = LMC_INIT(lmc_st_options);
    options.common.thread_count = LMC_THREAD_COUNT_MAX + 1;
    CU_ASSERT_EQUAL(lmc_st_cache_create(0, &options, &cache, &diag), LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(cache);
    CU_ASSERT_EQUAL(diag.status, LMC_ERR_ARG);
    options.struct_size = 0;
    CU_ASSERT_EQUAL(lmc_st_cache_create(0, &options, &cache, NULL), LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(cache);
    lmc_st_cache_free(NULL);
    for (unsigned i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(lmc_st_cache_create(0, NULL, &cache, NULL), LMC_OK);
        CU_ASSERT_PTR_NOT_NULL(cache);
        lmc_st_cache_free(cache);
    }
}

/* The table does not grow with it. */
LMC_TEST(test_no_limit)
{
    sized_memory memory = {.large_nbytes = MIB};
    const lmc_allocator allocator = sized_allocator(&memory);
    const uint64_t sizes[] = {(uint64_t)1 << 36, (uint64_t)1 << 44, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        numbers *const of = numbers_new(40, 1000);
        lmc_st_cache *const cache = open_cache(sizes[i], 1, &allocator);
        CU_ASSERT_TRUE(atomic_load(&memory.nbytes) < (long)MIB);
        for (uint64_t k = 0; k < 40; k++)
            CU_ASSERT_EQUAL(use(cache, of, k, &diag), LMC_OK);
        close_all(cache, of);
    }
    CU_ASSERT_TRUE(sized_is_whole(&memory));
}

LMC_TEST_MAIN("st_block_cache")
