/*
 * lmc_test.h - the frame around a CUnit test program.
 *
 *     LMC_TEST(test_empty_input)
 *     {
 *         CU_ASSERT(...);
 *     }
 *
 *     LMC_TEST_MAIN("frame")
 *
 * Tests run in the order of the file.
 *
 * Arguments pick tests by a part of their name; no argument runs all. The last line that is printed is
 * "LMC-TESTS passed=N failed=N" ("skipped=N" too if a test called LMC_TEST_SKIP): tests/run.sh adds
 * these up. A test that fails once fails as a whole, whatever its number of assertions.
 */
#ifndef LMC_TEST_H
#define LMC_TEST_H

#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct lmc_test {
    const char *name;
    void (*function)(void);
    int line; /* where it stands in the file */
    struct lmc_test *next;
} lmc_test;

/* Loops over many cases alike add this to their counter. A plain build tries every case; with sanitizers, or under an
 * emulator of another processor, each takes ten times as long, and a seventh of them is tried. As 7 is a prime,
 * counter % 2 and the like still vary. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(LMC_TEST_EMULATED)
#define LMC_TEST_STEP 7
#else
#define LMC_TEST_STEP 1
#endif

/* The head of a test's function, which the program runs. */
#define LMC_TEST(test)                                              \
    static void test(void);                                         \
    static __attribute__((constructor)) void test##_is_listed(void) \
    {                                                               \
        static lmc_test listed = {#test, test, __LINE__, NULL};     \
        lmc_test_list(&listed);                                     \
    }                                                               \
    static void test(void)

#define LMC_TEST_MAIN(suite) LMC_TEST_MAIN_WITH(suite, (void)0, (void)0)

/* With what is made before the tests and freed after them: an expression each. */
#define LMC_TEST_MAIN_WITH(suite, set_up, tear_down)         \
    int main(int argc, char **argv)                          \
    {                                                        \
        set_up;                                              \
        const int result = lmc_test_main(suite, argc, argv); \
        tear_down;                                           \
        return result;                                       \
    }

/* Ends the calling test as skipped, if it has failed nothing so far. `reason` is a string literal. */
#define LMC_TEST_SKIP(reason)                                            \
    do {                                                                 \
        printf("\nSKIP %s: %s\n", CU_get_current_test()->pName, reason); \
        lmc_test_skipped_count++;                                        \
        return;                                                          \
    } while (0)

static lmc_test *lmc_test_first;
static unsigned lmc_test_skipped_count;

/* Adds a test, which stays the caller's, behind those of smaller lines: constructors run in any order. */
static __attribute__((unused)) void lmc_test_list(lmc_test *test)
{
    lmc_test **link = &lmc_test_first;
    while (*link && (*link)->line <= test->line)
        link = &(*link)->next;
    test->next = *link;
    *link = test;
}

/* 1 if the command line asks for the test: it names a part of it, or names nothing. */
static int lmc_test_is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i]) != NULL)
            return 1;
    return argc < 2;
}

/* Runs the tests; returns the exit status of the program: 0 if all passed, else 1. */
static __attribute__((unused)) int lmc_test_main(const char *suite_name, int argc, char **argv)
{
    size_t wanted_count = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (CU_initialize_registry() != CUE_SUCCESS) {
        fprintf(stderr, "CUnit: %s\n", CU_get_error_msg());
        return 1;
    }
    CU_pSuite suite = CU_add_suite(suite_name, NULL, NULL);
    for (const lmc_test *test = lmc_test_first; suite != NULL && test != NULL; test = test->next) {
        if (!lmc_test_is_wanted(test->name, argc, argv))
            continue;
        if (CU_add_test(suite, test->name, test->function) == NULL)
            suite = NULL;
        wanted_count++;
    }
    if (suite == NULL || wanted_count == 0) {
        fprintf(stderr, "%s: %s\n", suite_name, suite == NULL ? CU_get_error_msg() : "no such test");
        CU_cleanup_registry();
        return 1;
    }

    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    const unsigned failed_count = CU_get_number_of_tests_failed();
    const unsigned run_count = CU_get_number_of_tests_run();
    CU_cleanup_registry();

    printf("LMC-TESTS passed=%u failed=%u", run_count - failed_count - lmc_test_skipped_count, failed_count);
    if (lmc_test_skipped_count > 0)
        printf(" skipped=%u", lmc_test_skipped_count);
    printf("\n");
    return failed_count > 0 || run_count < wanted_count;
}

#endif
