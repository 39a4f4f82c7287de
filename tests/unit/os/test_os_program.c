/*
 * test_os_program.c - os/os.h: locks, time, memory, the program itself and other processes. This program is its own
 * child: its first argument then is CHILD, and the second says what it is to do.
 */
#include "lmc_test_os.h"
#include "os/thread.h"

#define CHILD "--child"

/* Standard output of a child; *exit_status as os_run_program() has it. NULL if it cannot be run. */
static const char *child_output(const char *what, const char *argument, int *exit_status)
{
    static char output[4096];
    char *const path = os_program_path();
    char *const argv[] = {path, (char *)CHILD, (char *)what, (char *)argument, NULL};
    size_t nbytes = 0;
    const int os_errno = path ? os_run_program(argv, "LMC_TEST_VALUE", "with a \"quote\" \xC3\xA9", output,
                                               sizeof output - 1, &nbytes, exit_status)
                              : ENOENT;
    free(path);
    output[nbytes] = '\0';
    return os_errno == 0 ? output : NULL;
}

static int count_lock(const char *path, os_lock lock)
{
    const int fd = os_is_folder(path) ? os_open_folder(path) : os_open_or_create(OS_HERE, path);
    const int os_errno = fd < 0 ? errno : os_try_lock(fd, lock);
    return os_errno == 0 ? 0 : os_errno == EWOULDBLOCK ? 1 : 2; /* the lock ends with the process */
}

/* What a child does; its exit status. */
static int be_child(int argc, char **argv)
{
    const char *const what = argv[2];
    const char *const argument = argc > 3 ? argv[3] : "";
    if (strcmp(what, "arguments") == 0) {
        for (int i = 3; i < argc; i++)
            printf("<%s>", argv[i]);
        return 7;
    }
    if (strcmp(what, "environment") == 0) {
        const char *const value = os_environment("LMC_TEST_VALUE");
        printf("%s", value ? value : "none");
        return 0;
    }
    if (strcmp(what, "much") == 0) {
        for (int i = 0; i < 100000; i++)
            fputs("0123456789", stdout);
        return 0;
    }
    if (strcmp(what, "alone") == 0)
        return count_lock(argument, OS_LOCK_ALONE);
    if (strcmp(what, "shared") == 0)
        return count_lock(argument, OS_LOCK_SHARED);
    if (strcmp(what, "drop") == 0) {
        printf("kept");
        fflush(stdout);
        os_drop_output();
        printf("lost");
        return 0;
    }
    if (strcmp(what, "bytes") == 0) {
        fwrite("a\r\n\x1A\nb\0c", 1, 8, stdout);
        return 0;
    }
    if (strcmp(what, "crash") == 0)
        __builtin_trap(); /* which sanitizers leave alone */
    return 99;
}

/* ---- locks ---- */

static int status_of(const char *what, const char *path)
{
    int exit_status = -2;
    return child_output(what, path, &exit_status) ? exit_status : -3;
}

static void check_locks(int one, int two, const char *path)
{
    CU_ASSERT_EQUAL(status_of("alone", path), 0);
    CU_ASSERT_EQUAL(os_try_lock(one, OS_LOCK_ALONE), 0);
    CU_ASSERT_EQUAL(os_try_lock(two, OS_LOCK_ALONE), EWOULDBLOCK);
    CU_ASSERT_EQUAL(os_try_lock(two, OS_LOCK_SHARED), EWOULDBLOCK);
    CU_ASSERT_EQUAL(status_of("alone", path), 1);
    CU_ASSERT_EQUAL(status_of("shared", path), 1);
    os_unlock(one);
    CU_ASSERT_EQUAL(os_try_lock(two, OS_LOCK_SHARED), 0);
    CU_ASSERT_EQUAL(os_try_lock(one, OS_LOCK_SHARED), 0);
    CU_ASSERT_EQUAL(status_of("shared", path), 0);
    CU_ASSERT_EQUAL(status_of("alone", path), 1);
    CU_ASSERT_EQUAL(os_try_lock(one, OS_LOCK_ALONE), EWOULDBLOCK);
    os_unlock(one);
    CU_ASSERT_EQUAL(os_try_lock(two, OS_LOCK_ALONE), 0); /* its own does not hinder it */
    CU_ASSERT_EQUAL(status_of("shared", path), 1);
    CU_ASSERT_EQUAL(os_close(two), 0);
    CU_ASSERT_EQUAL(status_of("alone", path), 0);
    CU_ASSERT_EQUAL(os_try_lock(one, OS_LOCK_ALONE), 0);
    os_close(one);
}

LMC_TEST(test_file_locks)
{
    CU_ASSERT(put_file("locked", "readable"));
    const int one = os_open_or_create(test_fd, "locked");
    CU_ASSERT_EQUAL(os_try_lock(one, OS_LOCK_ALONE), 0);
    CU_ASSERT(file_holds("locked", "readable"));
    os_unlock(one);
    check_locks(one, os_open(test_fd, "locked"), in_root("locked"));
    CU_ASSERT_EQUAL(os_unlink(test_fd, "locked"), 0);
}

LMC_TEST(test_folder_locks)
{
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "locked", 0700), 0);
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "other", 0700), 0);
    const int other = os_open_own_folder(test_fd, "other");
    CU_ASSERT_EQUAL(os_try_lock(other, OS_LOCK_ALONE), 0);
    check_locks(os_open_own_folder(test_fd, "locked"), os_open_folder(in_root("locked")), in_root("locked"));
    os_close(other);
    CU_ASSERT_EQUAL(os_try_lock(-1, OS_LOCK_ALONE), EBADF);
    CU_ASSERT_EQUAL(remove_name("locked"), 0);
    CU_ASSERT_EQUAL(remove_name("other"), 0);
}

/* ---- other processes ---- */

LMC_TEST(test_run_program)
{
    static const char *const arguments[] = {
        "plain",         "with space", "",          "quote\"inside",
        "back\\slash\\", "\\\"",       "\\\\ \\\\", "caf\xC3\xA9 \xE6\xA8\xA1",
        "*.c",           "%PATH%"};
    char expected[128];
    int exit_status = -2;
    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++) {
        const char *const output = child_output("arguments", arguments[i], &exit_status);
        snprintf(expected, sizeof expected, "<%s>", arguments[i]);
        CU_ASSERT(output && strcmp(output, expected) == 0);
        CU_ASSERT_EQUAL(exit_status, 7);
    }
    const char *output = child_output("environment", "", &exit_status);
    CU_ASSERT(output && strcmp(output, "with a \"quote\" \xC3\xA9") == 0);
    CU_ASSERT_EQUAL(exit_status, 0);
    output = child_output("much", "", &exit_status);
    CU_ASSERT(output && strlen(output) == 4095);
    CU_ASSERT_EQUAL(exit_status, 0);
    output = child_output("drop", "", &exit_status);
    CU_ASSERT(output && strcmp(output, "kept") == 0);
    output = child_output("bytes", "", &exit_status);
    CU_ASSERT(output && memcmp(output, "a\r\n\x1A\nb\0c", 8) == 0);
    output = child_output("crash", "", &exit_status);
    CU_ASSERT(output && (output[0] == '\0' || is_wine())); /* whose debugger prints */
    CU_ASSERT_EQUAL(exit_status, -1);
}

LMC_TEST(test_environment)
{
    const char *const path = os_environment("PATH");
    CU_ASSERT_PTR_NOT_NULL(path);
    CU_ASSERT_PTR_NULL(os_environment("LMC_TEST_NONE"));
#ifdef _WIN32
    CU_ASSERT_PTR_EQUAL(path, os_environment("PATH"));
    CU_ASSERT(SetEnvironmentVariableW(L"LMC_TEST_NONE", L""));
    CU_ASSERT_PTR_NULL(os_environment("LMC_TEST_NONE"));
    CU_ASSERT(SetEnvironmentVariableW(L"LMC_TEST_NONE", L"one"));
    const char *const one = os_environment("LMC_TEST_NONE");
    CU_ASSERT(SetEnvironmentVariableW(L"LMC_TEST_NONE", L"two"));
    CU_ASSERT(one && strcmp(one, "one") == 0);
    CU_ASSERT_STRING_EQUAL(os_environment("LMC_TEST_NONE"), "two");
#endif
}

/* ---- the program ---- */

LMC_TEST(test_program)
{
    char *const path = os_program_path();
    CU_ASSERT_PTR_NOT_NULL_FATAL(path);
    CU_ASSERT(os_root_nbytes(path) > 0 && os_is_file(path));
    free(path);
    int ends[2];
    CU_ASSERT_FATAL(make_pipe(ends));
    CU_ASSERT(!os_is_terminal(ends[0]) && !os_is_terminal(-1));
    os_close(ends[0]);
    os_close(ends[1]);
    CU_ASSERT(os_broken_pipe_ends() == 0 || os_broken_pipe_ends() == 1);
}

LMC_TEST(test_libraries)
{
    const void *base = NULL;
    CU_ASSERT(lmc_os_library_find((const void *)&strstr, &base));
    CU_ASSERT_PTR_NOT_NULL(base);
#ifdef _WIN32
    const void *const address = (const void *)GetProcAddress(GetModuleHandleW(L"kernel32.dll"), "Sleep");
    void *const library = lmc_os_library_open(address);
    CU_ASSERT(lmc_os_library_find(address, &base) && base == (const void *)GetModuleHandleW(L"kernel32.dll"));
    CU_ASSERT_PTR_NOT_NULL_FATAL(library);
    CU_ASSERT_PTR_EQUAL(lmc_os_library_symbol(library, "Sleep"), address);
    CU_ASSERT_PTR_NULL(lmc_os_library_symbol(library, "no such call"));
    lmc_os_library_close(library);
#endif
    void *const program = lmc_os_library_open(NULL);
    CU_ASSERT_PTR_NOT_NULL(program);
    lmc_os_library_close(program);
    CU_ASSERT(os_is_library_name(IS_WINDOWS ? "X.dll" : "libX.so.1"));
    CU_ASSERT(!os_is_library_name("x.txt") && !os_is_library_name(".dll"));
    int on_stack = 0;
    CU_ASSERT(!lmc_os_library_find(&on_stack, &base));
}

/* ---- threads ---- */

static void *take_mask(void *mask)
{
#ifndef _WIN32
    (void)pthread_sigmask(SIG_BLOCK, NULL, mask);
#endif
    return mask;
}

/* A program's signals stay with its own threads. */
LMC_TEST(test_threads)
{
    pthread_t thread;
    void *result = NULL;
#ifdef _WIN32
    int mask = 0;
    CU_ASSERT_EQUAL_FATAL(lmc_thread_start(&thread, take_mask, &mask), 0);
#else
    sigset_t mask;
    sigset_t own;
    sigemptyset(&mask);
    CU_ASSERT_EQUAL_FATAL(lmc_thread_start(&thread, take_mask, &mask), 0);
    (void)pthread_sigmask(SIG_BLOCK, NULL, &own);
    CU_ASSERT(!sigismember(&own, SIGINT) && !sigismember(&own, SIGALRM));
#endif
    CU_ASSERT_EQUAL(pthread_join(thread, &result), 0);
    CU_ASSERT_PTR_EQUAL(result, &mask);
#ifndef _WIN32
    CU_ASSERT(sigismember(&mask, SIGINT) && sigismember(&mask, SIGALRM) && sigismember(&mask, SIGUSR1));
    CU_ASSERT(!sigismember(&mask, SIGSEGV) && !sigismember(&mask, SIGPROF));
#endif
}

/* ---- time, memory, numbers ---- */

LMC_TEST(test_machine)
{
    const uint64_t begin = os_clock_ns();
    const uint64_t number = os_unforeseen_u64();
    os_sleep_ms(20);
    CU_ASSERT(os_clock_ns() - begin >= 15000000U);
    const uint64_t other = os_unforeseen_u64();
    CU_ASSERT((uint32_t)number != (uint32_t)other && number >> 32 != other >> 32); /* users take a part */
    CU_ASSERT(os_room_for(1000) >= 1000);
    char page[100000];
    os_take_pages(page, sizeof page);
    char text[100] = "";
    os_error_text(ENOENT, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, "No such file or directory");
    static const int errors[] = {EBUSY,  ELOOP,  ENOTSUP, EWOULDBLOCK, ECANCELED,
                                 EILSEQ, ENOSPC, EINVAL,  12345};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        text[0] = '\0';
        os_error_text(errors[i], text, sizeof text);
        CU_ASSERT_NOT_EQUAL(text[0], '\0');
    }
    os_error_text(ENOENT, text, 3);
    CU_ASSERT(strlen(text) <= 2);
}

LMC_TEST(test_cores)
{
    CU_ASSERT(lmc_os_core_count() >= 1);
    CU_ASSERT(lmc_os_core_count() <= 100000);
    (void)lmc_os_core_quota("");
}

LMC_TEST(test_watch)
{
    volatile int signal_number = 0;
    const uint64_t begin = os_clock_ns();
    CU_ASSERT_EQUAL(os_watch_wait(-1, 30, &signal_number), 0);
    CU_ASSERT(os_clock_ns() - begin >= 20000000U);
    signal_number = 2;
    CU_ASSERT_EQUAL(os_watch_wait(-1, 100000, &signal_number), 0);
    signal_number = 0;
    const int fd = os_watch_open();
    if (fd < 0)
        LMC_TEST_SKIP("the system does not tell of changes");
    const int id = os_watch_add(fd, test_root);
    CU_ASSERT(id >= 0);
    CU_ASSERT(put_file("watched", ""));
    CU_ASSERT_EQUAL(os_watch_wait(fd, 5000, &signal_number), 1);
    CU_ASSERT_EQUAL(os_watch_wait(fd, 10, &signal_number), 0);
    os_watch_remove(fd, id);
    os_close(fd);
    CU_ASSERT_EQUAL(os_unlink(test_fd, "watched"), 0);
}

/* Makes the directory of the tests, or is a child and ends. */
static void begin(int *argc, char ***argv)
{
    if (*argc > 2 && strcmp((*argv)[1], CHILD) == 0)
        exit(os_start_program(argc, argv) == 0 ? be_child(*argc, *argv) : 98);
    make_root(argc, argv);
}

LMC_TEST_MAIN_WITH("os program", begin(&argc, &argv), remove_root())
