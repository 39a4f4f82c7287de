/*
 * test_st_allocator.c - the caller's allocator: what a call takes from it, it gives back to it, with one thread and
 * with several; each of its refusals ends in NOMEM or in a success, with nothing left behind.
 */
#include "lmc_test_st_calls.h"

#include <pthread.h>
#include <stddef.h>

#include "safetensors/common/memory.h"

/* Put before each block: what is released must have come from here. */
typedef union block_head {
    uint64_t mark;
    max_align_t alignment;
} block_head;
#define MARK UINT64_C(0x6c6d632d626c6f63)
#define FREED UINT64_C(0x6c6d632d66726565)

typedef struct pool {
    pthread_mutex_t lock;
    long allocation_count;
    long live_count;
    long foreign_count; /* releases of what was not allocated here, or twice */
    long countdown;     /* allocations until one fails; negative: none does */
    int is_lasting;
    int has_failed;
} pool;

static pool counted = {.lock = PTHREAD_MUTEX_INITIALIZER, .countdown = -1};

static int shall_fail(pool *from)
{
    from->allocation_count++;
    if (from->countdown < 0 || from->countdown-- > 0)
        return 0;
    from->countdown = from->is_lasting ? 0 : -1;
    from->has_failed = 1;
    return 1;
}

/* Leaves errno alone, as an allocator may. */
static void *allocate(void *user, size_t nbytes)
{
    pool *const from = user;
    pthread_mutex_lock(&from->lock);
    block_head *const head = shall_fail(from) ? NULL : malloc(sizeof *head + nbytes);
    from->live_count += head != NULL;
    pthread_mutex_unlock(&from->lock);
    if (head == NULL)
        return NULL;
    head->mark = MARK;
    memset(head + 1, 0xa5, nbytes); /* nothing may rely on zeros */
    return head + 1;
}

static void release(void *user, void *block)
{
    pool *const from = user;
    block_head *const head = (block_head *)block - 1;
    pthread_mutex_lock(&from->lock);
    from->live_count--;
    from->foreign_count += block == NULL || head->mark != MARK;
    pthread_mutex_unlock(&from->lock);
    head->mark = FREED;
    free(head);
}

static const lmc_allocator memory = {allocate, release, &counted};

static void complain(const lmc_test_call *call, long number, lmc_status status, const char *fault)
{
    printf("\n%s, allocation %ld, status %d: %s\n", call->name, number, (int)status, fault);
    CU_FAIL("see the line above");
}

/* One call in which allocation `number` fails (negative: none). Returns 1 if it was reached. */
static int run_call(const lmc_test_call *call, long number)
{
    counted.has_failed = 0;
    counted.countdown = number;
    lmc_test_memory = &memory;
    const lmc_status status = call->function(call);
    lmc_test_memory = NULL;
    counted.countdown = -1;
    if (status != call->expected && !(counted.has_failed && status == LMC_ERR_NOMEM))
        complain(call, number, status, "wrong status");
    if (counted.live_count != 0 || counted.foreign_count != 0) {
        complain(call, number, status, "memory was not given back");
        counted.live_count = 0;
        counted.foreign_count = 0;
    }
    if (!lmc_test_call_left_right(call, status))
        complain(call, number, status, "wrong files are left");
    return counted.has_failed;
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
            counted.allocation_count = 0;
            (void)run_call(&lmc_test_calls[i], -1);
            CU_ASSERT_TRUE(counted.allocation_count > 5);
        }
    }
    lmc_test_threads = 1;
}

static void fail_all(int lasting)
{
    counted.is_lasting = lasting;
    for (size_t i = 0; i < LMC_TEST_CALL_COUNT; i++) {
        const lmc_test_call *const call = &lmc_test_calls[i];
        long number = 0;
        if (lasting && call->writes_directory)
            continue; /* a directory that was begun cannot be removed without memory */
        while (run_call(call, number))
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
    lmc_allocator passing = memory;
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
    CU_ASSERT_EQUAL(counted.live_count, 0);
}

LMC_TEST(test_failed_open)
{
    lmc_st_file *file = (lmc_st_file *)&counted;
    lmc_st_writer *writer = (lmc_st_writer *)&counted;
    CU_ASSERT_EQUAL(
        lmc_st_open(lmc_test_path("none"),
                    &(lmc_st_open_options){.struct_size = sizeof(lmc_st_open_options), .allocator = &memory},
                    &file, NULL),
        LMC_ERR_IO);
    CU_ASSERT_PTR_NULL(file);
    counted.countdown = 0;
    CU_ASSERT_EQUAL(lmc_st_writer_create(&memory, &writer), LMC_ERR_NOMEM);
    CU_ASSERT_PTR_NULL(writer);
    CU_ASSERT_EQUAL(counted.live_count, 0);
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
