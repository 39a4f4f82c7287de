/*
 * CUnit.h - as much of CUnit's interface as lmc_test.h and the tests use, for machines that have none: one suite, in
 * a program of one file. Assertions may fail in the thread that runs the tests only.
 */
#ifndef LMC_CROSS_CUNIT_H
#define LMC_CROSS_CUNIT_H

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#define CUNIT_TEST_COUNT_MAX 1000
#define CUE_SUCCESS 0
#define CU_BRM_VERBOSE 2

typedef struct CU_Test {
    const char *pName;
    void (*function)(void);
} CU_Test, *CU_pTest;

typedef struct CU_Suite {
    const char *name;
    CU_Test tests[CUNIT_TEST_COUNT_MAX];
    unsigned test_count, run_count, failed_count;
    unsigned fault_count; /* of the current test */
    CU_Test *current;
    jmp_buf end_of_test;
} CU_Suite, *CU_pSuite;

static CU_Suite cunit_suite;

static inline int CU_initialize_registry(void)
{
    return CUE_SUCCESS;
}

static inline void CU_cleanup_registry(void)
{
}

static inline const char *CU_get_error_msg(void)
{
    return "more tests than the stand-in for CUnit has room for";
}

static inline CU_pSuite CU_add_suite(const char *name, int (*set_up)(void), int (*tear_down)(void))
{
    (void)set_up;
    (void)tear_down;
    cunit_suite.name = name;
    return &cunit_suite;
}

static inline CU_pTest CU_add_test(CU_pSuite suite, const char *name, void (*function)(void))
{
    if (suite->test_count == CUNIT_TEST_COUNT_MAX)
        return NULL;
    CU_Test *const test = &suite->tests[suite->test_count++];
    test->pName = name;
    test->function = function;
    return test;
}

static inline CU_pTest CU_get_current_test(void)
{
    return cunit_suite.current;
}

static inline void CU_basic_set_mode(int mode)
{
    (void)mode;
}

static inline int CU_basic_run_tests(void)
{
    CU_Suite *const suite = &cunit_suite;
    printf("Suite: %s\n", suite->name);
    for (; suite->run_count < suite->test_count; suite->run_count++) {
        suite->current = &suite->tests[suite->run_count];
        suite->fault_count = 0;
        printf("  Test: %s ...", suite->current->pName);
        fflush(stdout);
        if (setjmp(suite->end_of_test) == 0)
            suite->current->function();
        if (suite->fault_count == 0)
            puts("passed");
        else
            suite->failed_count++;
    }
    return 0;
}

static inline unsigned CU_get_number_of_tests_run(void)
{
    return cunit_suite.run_count;
}

static inline unsigned CU_get_number_of_tests_failed(void)
{
    return cunit_suite.failed_count;
}

/* Those of the current test are enough to see whether there are more than before. */
static inline unsigned CU_get_number_of_failures(void)
{
    return cunit_suite.fault_count;
}

static inline void cunit_check(int holds, const char *what, const char *file, int line, int is_fatal)
{
    if (holds)
        return;
    if (cunit_suite.fault_count++ == 0)
        puts("FAILED");
    printf("    %u. %s:%d  - %s\n", cunit_suite.fault_count, file, line, what);
    if (is_fatal)
        longjmp(cunit_suite.end_of_test, 1);
}

#define CUNIT_CHECK(condition, what) cunit_check(!!(condition), what, __FILE__, __LINE__, 0)
#define CUNIT_DEMAND(condition, what) cunit_check(!!(condition), what, __FILE__, __LINE__, 1)
#define CUNIT_DISTANCE(a, b) ((a) < (b) ? (b) - (a) : (a) - (b))

#define CU_FAIL(what) CUNIT_CHECK(0, what)
#define CU_ASSERT(condition) CUNIT_CHECK(condition, #condition)
#define CU_ASSERT_FATAL(condition) CUNIT_DEMAND(condition, #condition)
#define CU_ASSERT_TRUE(condition) CUNIT_CHECK(condition, #condition)
#define CU_ASSERT_TRUE_FATAL(condition) CUNIT_DEMAND(condition, #condition)
#define CU_ASSERT_FALSE(condition) CUNIT_CHECK(!(condition), "not " #condition)
#define CU_ASSERT_FALSE_FATAL(condition) CUNIT_DEMAND(!(condition), "not " #condition)
#define CU_ASSERT_EQUAL(a, b) CUNIT_CHECK((a) == (b), #a " == " #b)
#define CU_ASSERT_EQUAL_FATAL(a, b) CUNIT_DEMAND((a) == (b), #a " == " #b)
#define CU_ASSERT_NOT_EQUAL(a, b) CUNIT_CHECK((a) != (b), #a " != " #b)
#define CU_ASSERT_PTR_EQUAL(a, b) CUNIT_CHECK((const void *)(a) == (const void *)(b), #a " == " #b)
#define CU_ASSERT_PTR_NULL(p) CUNIT_CHECK((const void *)(p) == NULL, #p " == NULL")
#define CU_ASSERT_PTR_NOT_NULL(p) CUNIT_CHECK((const void *)(p) != NULL, #p " != NULL")
#define CU_ASSERT_PTR_NOT_NULL_FATAL(p) CUNIT_DEMAND((const void *)(p) != NULL, #p " != NULL")
#define CU_ASSERT_STRING_EQUAL(a, b) CUNIT_CHECK(strcmp(a, b) == 0, #a " == " #b)
#define CU_ASSERT_STRING_NOT_EQUAL(a, b) CUNIT_CHECK(strcmp(a, b) != 0, #a " != " #b)
#define CU_ASSERT_DOUBLE_EQUAL(a, b, most) CUNIT_CHECK(CUNIT_DISTANCE(a, b) <= (most), #a " == " #b)

#endif
