/*
 * test_st_allocator.c - the caller's allocator: what a call takes from it, it gives back to it, with one thread and
 * with several; each of its refusals ends in NOMEM or in a success, with nothing left behind.
 */
#include "lmc_test_alloc.h"
#include "lmc_test_st_calls.h"

#include "safetensors/common/memory.h"

static void complain(const lmc_test_call *call, size_t number, lmc_status status, const char *fault)
{
    printf("\n%s, allocation %ld, status %d: %s\n", call->name, (long)number, (int)status, fault);
    CU_FAIL("see the line above");
}

/* One call in which allocation `number` fails (SIZE_MAX: none), or all from it on. Returns 1 if it was reached. */
static int run_call(const lmc_test_call *call, size_t number, int once)
{
    pool_fail(number, once);
    lmc_test_memory = &pool_allocator;
    const lmc_status status = call->function(call);
    lmc_test_memory = NULL;
    const int has_failed = pool_has_failed();
    pool.failing = SIZE_MAX;
    if (status != call->expected && !(has_failed && status == LMC_ERR_NOMEM))
        complain(call, number, status, "wrong status");
    if (!pool_is_whole()) {
        complain(call, number, status, "memory was not given back");
        atomic_store(&pool.live, 0);
        atomic_store(&pool.foreign, 0);
    }
    if (!lmc_test_call_left_right(call, status))
        complain(call, number, status, "wrong files are left");
    return has_failed;
}

LMC_TEST(test_begin)
{
    lmc_test_calls_make();
}

LMC_TEST(test_counts)
{
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        lmc_test_threads = threads;
        for (size_t i = 0; i < LMC_TEST_CALL_COUNT; i++) {
            (void)run_call(&lmc_test_calls[i], SIZE_MAX, 1);
            CU_ASSERT_TRUE(atomic_load(&pool.calls) > 5);
        }
    }
    lmc_test_threads = 1;
}

static void fail_all(int lasting)
{
    for (size_t i = 0; i < LMC_TEST_CALL_COUNT; i++) {
        const lmc_test_call *const call = &lmc_test_calls[i];
        size_t number = 0;
        if (lasting && call->writes_directory)
            continue; /* a directory that was begun cannot be removed without memory */
        while (run_call(call, number, !lasting))
            number++;
        CU_ASSERT_TRUE(number > 5);
    }
}

LMC_TEST(test_one_fails)
{
    fail_all(0);
}

LMC_TEST(test_all_fail_from_one_on)
{
    fail_all(1);
}

/* With several threads, which one meets the failure is chance. */
LMC_TEST(test_one_fails_with_threads)
{
    lmc_test_threads = 3;
    fail_all(0);
    lmc_test_threads = 1;
}

/* The struct is copied; the functions must last as long as what was made with them. */
LMC_TEST(test_the_struct_is_copied)
{
    lmc_allocator passing = pool_allocator;
    unsigned char dst[6000];
    lmc_st_file *file = NULL;
    lmc_st_writer *writer = NULL;
    CU_ASSERT_EQUAL_FATAL(
        lmc_st_open(archive_path,
                    &(lmc_st_open_options){.struct_size = sizeof(lmc_st_open_options), .allocator = &passing},
                    &file, NULL),
        LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_writer_create(&passing, &writer), LMC_OK);
    memset(&passing, 0, sizeof passing);
    CU_ASSERT_EQUAL(lmc_st_read(file, NULL, 1, dst, sizeof dst, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, "k", 1, "v", 1), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_write(writer, out_path, NULL, NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL(unlink(out_path), 0);
    lmc_st_close(file);
    lmc_st_writer_free(writer);
    CU_ASSERT_TRUE(pool_is_whole());
}

LMC_TEST(test_failed_open)
{
    lmc_st_file *file = (lmc_st_file *)&pool;
    lmc_st_writer *writer = (lmc_st_writer *)&pool;
    CU_ASSERT_EQUAL(lmc_st_open(lmc_test_path("none"),
                                &(lmc_st_open_options){.struct_size = sizeof(lmc_st_open_options),
                                                       .allocator = &pool_allocator},
                                &file, NULL),
                    LMC_ERR_IO);
    CU_ASSERT_PTR_NULL(file);
    pool_fail(0, 1);
    CU_ASSERT_EQUAL(lmc_st_writer_create(&pool_allocator, &writer), LMC_ERR_NOMEM);
    CU_ASSERT_PTR_NULL(writer);
    CU_ASSERT_TRUE(pool_is_whole());
}

LMC_TEST(test_end)
{
    lmc_test_calls_end();
}

/* A count that a file states may be larger than all memory: no part of it is allocated in its place. */
LMC_TEST(test_arrays_beyond_all_memory)
{
    CU_ASSERT_PTR_NULL(st_allocate_array(&lmc_memory_default, UINT64_MAX, 24));
    CU_ASSERT_PTR_NULL(st_allocate_array(&lmc_memory_default, (uint64_t)SIZE_MAX / 24 + 1, 24));
    CU_ASSERT_PTR_NULL(st_allocate_zeroed(&lmc_memory_default, (uint64_t)SIZE_MAX / 24 + 1, 24));
    unsigned char *const zeros = st_allocate_zeroed(&lmc_memory_default, 3, 8);
    CU_ASSERT_PTR_NOT_NULL_FATAL(zeros);
    for (size_t i = 0; i < 24; i++)
        CU_ASSERT_EQUAL(zeros[i], 0);
    st_release(&lmc_memory_default, zeros);
}

LMC_TEST_DIR_MAIN("st_allocator")
