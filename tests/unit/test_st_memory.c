/*
 * test_st_memory.c - every malloc() of every call failing in turn: each call ends with NOMEM or as it should,
 * leaves no file behind and frees what it had. And with an allocator of the caller's, no malloc() of
 * liblmc_st's own.
 */
#include "lmc_test_st_calls.h"

#include <errno.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_FAIL_ALLOCATIONS 1
#else
#define CAN_FAIL_ALLOCATIONS 0
#endif

/* volatile: compilers take many functions of the C library for ones that call nothing here */
static volatile long countdown = -1; /* allocations until one fails; negative: none does */
static int is_lasting;               /* 1: those after it fail too */
static volatile int has_failed;
static volatile long live_count; /* blocks allocated and not freed */
static volatile long own_count;  /* allocations that this program's own code asked for */

#if CAN_FAIL_ALLOCATIONS
/* The program's own malloc() family in front of the C library's, for all libraries in it: these find it only if it is
 * visible, which this project's symbols are not by default. */
#define VISIBLE __attribute__((visibility("default")))

void *__libc_malloc(size_t nbytes);
void *__libc_calloc(size_t count, size_t nbytes);
void *__libc_realloc(void *block, size_t nbytes);
void __libc_free(void *block);

/* The program's text: liblmc_st is linked into it, cJSON, zstd and the C library are not. */
extern const char __executable_start[];
extern const char etext[];

static int shall_fail(const void *caller)
{
    own_count += (const char *)caller >= __executable_start && (const char *)caller < etext;
    if (countdown < 0 || countdown-- > 0) {
        return 0;
    }
    countdown = is_lasting ? 0 : -1;
    has_failed = 1;
    errno = ENOMEM;
    return 1;
}

VISIBLE void *malloc(size_t nbytes)
{
    void *const block = shall_fail(__builtin_return_address(0)) ? NULL : __libc_malloc(nbytes);
    live_count += block != NULL;
    return block;
}

VISIBLE void *calloc(size_t count, size_t nbytes)
{
    void *const block = shall_fail(__builtin_return_address(0)) ? NULL : __libc_calloc(count, nbytes);
    live_count += block != NULL;
    return block;
}

VISIBLE void *realloc(void *block, size_t nbytes)
{
    void *const moved = shall_fail(__builtin_return_address(0)) ? NULL : __libc_realloc(block, nbytes);
    live_count += block == NULL && moved != NULL;
    return moved;
}

VISIBLE void free(void *block)
{
    live_count -= block != NULL;
    __libc_free(block);
}
#endif

static void complain(const lmc_test_call *call, long number, lmc_status status, const char *fault)
{
    printf("\n%s, allocation %ld, status %d: %s\n", call->name, number, (int)status, fault);
    CU_FAIL("see the line above");
}

/* One call in which allocation `number` fails. Returns 1 if it was reached. */
static int fail_one(const lmc_test_call *call, long number)
{
    const long live_before = live_count;
    has_failed = 0;
    countdown = number;
    const lmc_status status = call->function();
    const int was_reached = has_failed;
    const long left = live_count - live_before;
    countdown = -1;
    if (status != call->expected && !(was_reached && status == LMC_ERR_NOMEM)) {
        complain(call, number, status, "wrong status");
    }
    if (left != 0) {
        complain(call, number, status, "memory was not freed");
    }
    if (!lmc_test_call_left_right(call, status)) {
        complain(call, number, status, "wrong files are left");
    }
    return was_reached;
}

/* Fails allocation 0, 1, 2, ... of a call until it needs no more of them. */
static void fail_each(const lmc_test_call *call)
{
    long number = 0;
    while (fail_one(call, number)) {
        number++;
    }
    CU_ASSERT_TRUE(!CAN_FAIL_ALLOCATIONS || number > 5);
}

static void fail_all(int lasting)
{
    is_lasting = lasting;
    for (size_t i = 0; i < LMC_TEST_CALL_COUNT; i++) {
        /* a directory that was begun cannot be listed, and so not removed, without memory */
        if (!lasting || !lmc_test_calls[i].writes_directory) {
            fail_each(&lmc_test_calls[i]);
        }
    }
}

static void test_begin(void)
{
    lmc_test_calls_make();
}

static void test_one_fails(void)
{
    fail_all(0);
}

static void test_all_fail_from_one_on(void)
{
    fail_all(1);
}

/* ---- an allocator of the caller's ---- */

#if CAN_FAIL_ALLOCATIONS
static void *allocate(void *user, size_t nbytes)
{
    ++*(long *)user;
    return __libc_malloc(nbytes);
}

static void release(void *user, void *block)
{
    --*(long *)user;
    __libc_free(block);
}

static void test_no_malloc_of_its_own(void)
{
    long count = 0;
    const lmc_allocator memory = {allocate, release, &count};
    for (size_t i = 0; i < LMC_TEST_CALL_COUNT; i++) {
        const lmc_test_call *const call = &lmc_test_calls[i];
        lmc_test_memory = &memory;
        own_count = 0;
        const lmc_status status = call->function();
        const long own = own_count;
        lmc_test_memory = NULL;
        CU_ASSERT_EQUAL(status, call->expected);
        CU_ASSERT_EQUAL(count, 0);
        if (own != 0) {
            complain(call, own, status, "that many calls of malloc()");
        }
        CU_ASSERT_TRUE(lmc_test_call_left_right(call, status));
    }
    own_count = 0;
    CU_ASSERT_EQUAL(lmc_test_call_read(), LMC_OK);
    CU_ASSERT_TRUE(own_count > 5); /* they are seen */
}
#endif

static void test_end(void)
{
    lmc_test_calls_end();
}

int main(int argc, char **argv)
{
    static const lmc_test tests[] = {
        LMC_TEST(test_begin),
        LMC_TEST(test_one_fails),
        LMC_TEST(test_all_fail_from_one_on),
#if CAN_FAIL_ALLOCATIONS
        LMC_TEST(test_no_malloc_of_its_own),
#endif
        LMC_TEST(test_end),
    };
    return LMC_TEST_MAIN("st_memory", tests, argc, argv);
}
