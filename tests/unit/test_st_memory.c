/*
 * test_st_memory.c - every allocation of convert, restore, open and read failing in turn: each call ends
 * with NOMEM or a success, leaves no file behind and frees what it had.
 */
#include "lmc_test.h"

#include "lmc_st.h"

#include <errno.h>
#include <unistd.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_FAIL_ALLOCATIONS 1
#else
#define CAN_FAIL_ALLOCATIONS 0
#endif

#if CAN_FAIL_ALLOCATIONS
static long countdown = -1; /* allocations until one fails; negative: none does */
static long live_count;     /* blocks allocated and not freed */

/* The program's own malloc() family in front of the C library's, for all libraries in it. */
void *__libc_malloc(size_t nbytes);
void *__libc_calloc(size_t count, size_t nbytes);
void *__libc_realloc(void *block, size_t nbytes);
void __libc_free(void *block);

static int shall_fail(void)
{
    if (countdown < 0 || countdown-- > 0) {
        return 0;
    }
    countdown = -1;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t nbytes)
{
    void *const block = shall_fail() ? NULL : __libc_malloc(nbytes);
    live_count += block != NULL;
    return block;
}

void *calloc(size_t count, size_t nbytes)
{
    void *const block = shall_fail() ? NULL : __libc_calloc(count, nbytes);
    live_count += block != NULL;
    return block;
}

void *realloc(void *block, size_t nbytes)
{
    void *const moved = shall_fail() ? NULL : __libc_realloc(block, nbytes);
    live_count += block == NULL && moved != NULL;
    return moved;
}

void free(void *block)
{
    live_count -= block != NULL;
    __libc_free(block);
}
#endif

static char directory[] = "/tmp/lmc-st-memory-XXXXXX";
static char plain_path[64];
static char archive_path[64];
static char back_path[64];

static lmc_st_options one_thread(void)
{
    lmc_st_options options;
    lmc_st_options_init(&options);
    options.thread_count = 1;
    options.no_fsync = 1;
    return options;
}

static lmc_status do_convert(void)
{
    const lmc_st_options options = one_thread();
    return lmc_st_convert(plain_path, archive_path, &options, NULL, NULL);
}

static lmc_status do_restore(void)
{
    const lmc_st_options options = one_thread();
    return lmc_st_restore(archive_path, back_path, &options, NULL, NULL);
}

static lmc_status do_read(void)
{
    unsigned char dst[600];
    lmc_st_file *file = NULL;
    lmc_status status = lmc_st_open(archive_path, &file, NULL);
    for (uint64_t i = 0; status == LMC_OK && i < 3; i++) {
        lmc_st_tensor tensor;
        status = lmc_st_tensor_info(file, i, &tensor);
        if (status == LMC_OK) {
            status =
                lmc_st_read_range(file, NULL, i, 1, tensor.nbytes < 600 ? tensor.nbytes - 1 : 600, dst, NULL);
        }
    }
    lmc_st_close(file);
    return status;
}

/* Fails allocation 0, 1, 2, ... of the call until it needs no more of them. */
static void fail_each(lmc_status (*call)(void), const char *output)
{
#if CAN_FAIL_ALLOCATIONS
    for (long i = 0; i < 10000; i++) {
        const long live_before = live_count;
        countdown = i;
        const lmc_status status = call();
        const int was_reached = countdown < 0;
        countdown = -1;
        CU_ASSERT_TRUE(status == LMC_OK || status == LMC_ERR_NOMEM);
        CU_ASSERT_EQUAL(live_count, live_before);
        if (output != NULL) {
            CU_ASSERT_EQUAL(access(output, F_OK), status == LMC_OK ? 0 : -1);
        }
        if (!was_reached) {
            CU_ASSERT_EQUAL(status, LMC_OK);
            CU_ASSERT_TRUE(i > 5);
            return;
        }
        if (output != NULL) {
            unlink(output);
        }
    }
    CU_FAIL("the call never succeeded");
#else
    CU_ASSERT_EQUAL(call(), LMC_OK);
    CU_ASSERT_TRUE(output == NULL || access(output, F_OK) == 0);
#endif
}

/* A coded, a stored and a short tensor. */
static void make_file(void)
{
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"a\":{\"dtype\":\"BF16\",\"shape\":[3000],\"data_offsets\":[0,6000]},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[500],\"data_offsets\":[6000,6500]},"
                                 "\"c\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[6500,6505]}}";
    const unsigned char prefix[8] = {(sizeof(header) - 1) & 255, (sizeof(header) - 1) >> 8};
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
    snprintf(plain_path, sizeof(plain_path), "%s/m.safetensors", directory);
    snprintf(archive_path, sizeof(archive_path), "%s/m.safetensors.lmc", directory);
    snprintf(back_path, sizeof(back_path), "%s/back", directory);
    FILE *const file = fopen(plain_path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fwrite(prefix, 1, sizeof(prefix), file);
    fwrite(header, 1, sizeof(header) - 1, file);
    uint32_t state = 1;
    for (unsigned i = 0; i < 6505; i++) {
        state = state * 1664525u + 1013904223u;
        fputc(i < 6000 && i % 2 == 1 ? 0x3c : (int)(state >> 24), file);
    }
    CU_ASSERT_EQUAL(fclose(file), 0);
}

static void test_convert(void)
{
    make_file();
    fail_each(do_convert, archive_path);
}

static void test_restore(void)
{
    fail_each(do_restore, back_path);
}

static void test_read(void)
{
    fail_each(do_read, NULL);
}

static void test_clean_up(void)
{
    unlink(plain_path);
    unlink(archive_path);
    unlink(back_path);
    CU_ASSERT_EQUAL(rmdir(directory), 0); /* nothing was left behind */
}

int main(int argc, char **argv)
{
    static const lmc_test tests[] = {
        LMC_TEST(test_convert),
        LMC_TEST(test_restore),
        LMC_TEST(test_read),
        LMC_TEST(test_clean_up),
    };
    return LMC_TEST_MAIN("st_memory", tests, argc, argv);
}
