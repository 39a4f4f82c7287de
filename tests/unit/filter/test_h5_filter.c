/* test_h5_filter.c - the filter as HDF5 calls it, from a program in which no HDF5 is to be found: buffers and sizes on
 * success and failure, what the plugin says of itself, the environment, threads and forks. */
#include "lmc_test_h5.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filter/chunk/context.h"
#include "filter/plugin/callbacks.h"
#include "filter/plugin/library.h"

#define CHUNK_NBYTES 20000
#define REVERSE H5_FLAG_REVERSE

static uint8_t chunk[CHUNK_NBYTES];

static const unsigned no_user_values[3] = {0, 0, 0};

/* A buffer as HDF5 hands it over: it may be larger than what is in it. */
typedef struct buffer {
    void *bytes;
    size_t capacity;
} buffer;

static buffer buffer_of(const void *bytes, size_t nbytes, size_t capacity)
{
    buffer b = {malloc(capacity > 0 ? capacity : 1), capacity};
    if (b.bytes == NULL)
        abort();
    memset(b.bytes, 0x5a, capacity);
    if (nbytes > 0)
        memcpy(b.bytes, bytes, nbytes);
    return b;
}

static void values_of(const h5_case *c, uint64_t chunk_nbytes, unsigned values[8])
{
    h5_case_values(c, no_user_values, chunk_nbytes, values);
}

/* ---- buffers ---- */

/* What is written is what the public call gives; the buffer that is handed over is as large as is said. */
static void check_round_trip(const unsigned *values, size_t value_count, size_t nbytes)
{
    buffer b = buffer_of(chunk, nbytes, nbytes);
    h5_stored expected = h5_encode(NULL, values, value_count, chunk, nbytes);
    const size_t stored_nbytes = h5_filter(0x0001, value_count, values, nbytes, &b.capacity, &b.bytes);
    CU_ASSERT_EQUAL_FATAL(stored_nbytes, expected.nbytes);
    CU_ASSERT(b.capacity >= stored_nbytes);
    CU_ASSERT_EQUAL(memcmp(b.bytes, expected.bytes, stored_nbytes), 0);
    memset((uint8_t *)b.bytes + stored_nbytes, 0xee, b.capacity - stored_nbytes); /* all of it is there */
    const size_t found =
        h5_filter(REVERSE | 0x0200, value_count, values, stored_nbytes, &b.capacity, &b.bytes);
    CU_ASSERT_EQUAL(found, nbytes);
    if (found > 0) {
        CU_ASSERT_EQUAL(b.capacity, nbytes);
        CU_ASSERT_EQUAL(memcmp(b.bytes, chunk, nbytes), 0);
    }
    free(b.bytes);
    free(expected.bytes);
}

LMC_TEST(test_every_form)
{
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        unsigned values[8];
        h5_case_fill(&h5_cases[c], chunk, CHUNK_NBYTES);
        values_of(&h5_cases[c], CHUNK_NBYTES, values);
        check_round_trip(values, 8, CHUNK_NBYTES);
        check_round_trip(values, 3, CHUNK_NBYTES - 1);
        check_round_trip(NULL, 0, CHUNK_NBYTES);
        for (size_t nbytes = 1; nbytes < 50; nbytes++) {
            values_of(&h5_cases[c], nbytes, values);
            check_round_trip(values, 8, nbytes);
        }
    }
}

/* Values of a file that was written without the plugin may be anything: such a chunk is coded all the same. */
LMC_TEST(test_values_that_make_no_sense)
{
    const unsigned wrong[][9] = {{3, 0, 0},
                                 {0, 7, 99, 5, 5, 5, 5, 5, 5},
                                 {0, 0, 0, LMC_H5_MAGIC, 4, LMC_H5_TYPE_SHUFFLED, 0, 0, 0},
                                 {0, 0, 0, LMC_H5_MAGIC, 1, LMC_H5_TYPE_BIG_ENDIAN, 0, 0, 0},
                                 {0, 0, 0, LMC_H5_MAGIC, 0xffffffffu, 0xffffffffu, 1, 1, 1}};
    h5_case_fill(&h5_cases[0], chunk, CHUNK_NBYTES);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        for (size_t count = 1; count <= 9; count++) {
            buffer b = buffer_of(chunk, CHUNK_NBYTES, CHUNK_NBYTES);
            const size_t stored_nbytes = h5_filter(0, count, wrong[i], CHUNK_NBYTES, &b.capacity, &b.bytes);
            CU_ASSERT_FATAL(stored_nbytes > 0);
            CU_ASSERT(stored_nbytes < CHUNK_NBYTES && b.capacity >= stored_nbytes);
            CU_ASSERT_EQUAL(h5_filter(REVERSE, count, wrong[i], stored_nbytes, &b.capacity, &b.bytes),
                            CHUNK_NBYTES);
            CU_ASSERT_EQUAL(memcmp(b.bytes, chunk, CHUNK_NBYTES), 0);
            free(b.bytes);
        }
    }
}

/* A failure gives 0 and leaves buffer, address and size as they were. */
static void check_refused(const unsigned *values, size_t value_count, const void *stored, size_t nbytes,
                          const char *word)
{
    const size_t capacity = nbytes + 77;
    buffer b = buffer_of(stored, nbytes, capacity);
    void *const before = b.bytes;
    CU_ASSERT_EQUAL(h5_filter(REVERSE, value_count, values, nbytes, &b.capacity, &b.bytes), 0);
    CU_ASSERT(b.bytes == before && b.capacity == capacity);
    CU_ASSERT(nbytes == 0 || memcmp(b.bytes, stored, nbytes) == 0);
    if (strstr(lmc_h5_last_error(), word) == NULL)
        printf("\nno '%s' in: %s\n", word, lmc_h5_last_error());
    CU_ASSERT(strncmp(lmc_h5_last_error(), "lmc", 3) == 0 && strstr(lmc_h5_last_error(), word) != NULL);
    free(b.bytes);
}

LMC_TEST(test_failures_change_nothing)
{
    unsigned values[8];
    values_of(&h5_cases[5], CHUNK_NBYTES, values);
    h5_case_fill(&h5_cases[5], chunk, CHUNK_NBYTES);
    h5_stored stored = h5_encode(NULL, values, 8, chunk, CHUNK_NBYTES);
    check_refused(values, 8, stored.bytes, 0, "ends early");
    check_refused(values, 8, stored.bytes, 3, "ends early");
    check_refused(values, 8, stored.bytes, 17, "lmc");
    check_refused(values, 8, stored.bytes, stored.nbytes - 1, "byte");
    check_refused(values, 8, chunk, CHUNK_NBYTES, "corrupt");
    check_refused(NULL, 0, chunk, CHUNK_NBYTES, "corrupt");
    stored.bytes[stored.nbytes / 2] ^= 4;
    check_refused(values, 8, stored.bytes, stored.nbytes, "byte");
    check_refused(NULL, 0, stored.bytes, stored.nbytes, "byte");
    free(stored.bytes);
    stored = h5_encode(NULL, NULL, 0, NULL, 0);
    check_refused(NULL, 0, stored.bytes, stored.nbytes, "0 bytes"); /* HDF5 has no chunks of none */
    free(stored.bytes);
}

/* The size that the values record is the size of the chunk, unless they say that it is not known. */
LMC_TEST(test_recorded_sizes)
{
    unsigned values[8];
    const h5_case *const plain = &h5_cases[0];
    h5_case_fill(plain, chunk, CHUNK_NBYTES);
    values_of(plain, CHUNK_NBYTES, values);
    h5_stored stored = h5_encode(NULL, values, 8, chunk, CHUNK_NBYTES - 4);
    check_refused(values, 8, stored.bytes, stored.nbytes, "20000");
    CU_ASSERT(strstr(lmc_h5_last_error(), "19996") != NULL);
    values[7] = 1;
    check_refused(values, 8, stored.bytes, stored.nbytes, "4294987296");
    for (unsigned way = 0; way < 3; way++) {
        const size_t value_count = way == 2 ? 3 : 8;
        values_of(plain, way == 0 ? 0 : CHUNK_NBYTES, values);
        values[5] |= way == 1 ? LMC_H5_TYPE_RESIZED : 0;
        buffer b = buffer_of(stored.bytes, stored.nbytes, stored.nbytes);
        CU_ASSERT_EQUAL(h5_filter(REVERSE, value_count, values, stored.nbytes, &b.capacity, &b.bytes),
                        CHUNK_NBYTES - 4);
        CU_ASSERT_EQUAL(b.capacity, CHUNK_NBYTES - 4);
        free(b.bytes);
    }
    free(stored.bytes);
}

/* Only the bytes that are said to be there are read, whatever the buffer has behind them. */
/* Values of another dataset: an optional filter leaves the chunk to HDF5, one that must not fail encodes it. */
LMC_TEST(test_values_of_another_dataset)
{
    unsigned values[8];
    h5_case_fill(&h5_cases[0], chunk, CHUNK_NBYTES);
    values_of(&h5_cases[0], CHUNK_NBYTES / 2, values);
    buffer b = buffer_of(chunk, CHUNK_NBYTES, CHUNK_NBYTES);
    const buffer before = b;
    CU_ASSERT_EQUAL(h5_filter(H5_FLAG_OPTIONAL, 8, values, CHUNK_NBYTES, &b.capacity, &b.bytes), 0);
    CU_ASSERT(b.bytes == before.bytes && b.capacity == before.capacity);
    CU_ASSERT_PTR_NOT_NULL(strstr(lmc_h5_last_error(), "10000"));
    const size_t stored_nbytes = h5_filter(0, 8, values, CHUNK_NBYTES, &b.capacity, &b.bytes);
    CU_ASSERT(stored_nbytes > 0 && stored_nbytes <= b.capacity);
    CU_ASSERT_EQUAL(h5_filter(REVERSE, 0, NULL, stored_nbytes, &b.capacity, &b.bytes), CHUNK_NBYTES);
    CU_ASSERT_EQUAL(memcmp(b.bytes, chunk, CHUNK_NBYTES), 0);
    free(b.bytes);
}

LMC_TEST(test_larger_buffers)
{
    h5_case_fill(&h5_cases[18], chunk, CHUNK_NBYTES);
    h5_stored stored = h5_encode(NULL, NULL, 0, chunk, CHUNK_NBYTES);
    for (size_t more = 0; more < 3000; more += 500) {
        buffer b = buffer_of(stored.bytes, stored.nbytes, stored.nbytes + more);
        CU_ASSERT_EQUAL(h5_filter(REVERSE, 0, NULL, stored.nbytes, &b.capacity, &b.bytes), CHUNK_NBYTES);
        CU_ASSERT_EQUAL(b.capacity, CHUNK_NBYTES);
        CU_ASSERT_EQUAL(memcmp(b.bytes, chunk, CHUNK_NBYTES), 0);
        free(b.bytes);
    }
    free(stored.bytes);
}

/* A terabyte in two megabytes: told by its checksum before anything of that size is asked for. */
LMC_TEST(test_forged_claims)
{
    const size_t blocks = (size_t)1 << 17, nbytes = 32 + 13 * blocks + 13 + 8;
    uint8_t *const frame = calloc(1, nbytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(frame);
    memcpy(frame, "\x8cLMC\x01", 5);
    frame[5] = LMC_DTYPE_F64;
    frame[6] = 1;      /* coded */
    frame[7] = 20;     /* blocks of 8 MiB */
    frame[12] = 13;    /* a plan */
    frame[16 + 5] = 1; /* 2^40 bytes */
    frame[28] = 8;
    check_refused(NULL, 0, frame, nbytes, lmc_status_text(LMC_ERR_CHECKSUM));
    free(frame);
}

/* ---- around it ---- */

LMC_TEST(test_no_library_is_found)
{
    CU_ASSERT(h5_library_of(__builtin_return_address(0)) == NULL);
    CU_ASSERT(h5_library_of((const void *)(uintptr_t)test_no_library_is_found) == NULL);
    CU_ASSERT(h5_library_of(&chunk[1]) == NULL);
    CU_ASSERT(h5_library_of(NULL) == NULL);
    CU_ASSERT_EQUAL(h5_set_local(-1, -1, -1), 0);
    h5_library_push(NULL, "test", "goes nowhere");
    h5_library_release(NULL, h5_library_allocate(NULL, 10));
}

LMC_TEST(test_thread_counts)
{
    static const struct {
        const char *text;
        unsigned count;
    } cases[] = {
        {NULL, 1},    {"", 1},      {"1", 1},
        {"0", 0},     {"7", 7},     {"007", 7},
        {"256", 256}, {"257", 256}, {"99999999999999999999999", 256},
        {"-1", 1},    {" 2", 1},    {"2 ", 1},
        {"two", 1},   {"2x", 1},    {"0x2", 1},
    };
    h5_case_fill(&h5_cases[0], chunk, CHUNK_NBYTES);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].text != NULL)
            setenv("LMC_NUM_THREADS", cases[i].text, 1);
        else
            unsetenv("LMC_NUM_THREADS");
        CU_ASSERT_EQUAL(lmc_h5_thread_count(), cases[i].count);
        check_round_trip((const unsigned[]){0, 4, 16}, 3, CHUNK_NBYTES);
    }
    unsetenv("LMC_NUM_THREADS");
}

/* What a failing call prints, with LMC_H5_DEBUG as given. */
static size_t printed(const char *debug, char *text, size_t capacity)
{
    FILE *const file = tmpfile();
    const int before = dup(STDERR_FILENO);
    if (file == NULL || before < 0)
        abort();
    if (debug != NULL)
        setenv("LMC_H5_DEBUG", debug, 1);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    check_refused(NULL, 0, "nothing that decodes", 20, "corrupt");
    dup2(before, STDERR_FILENO);
    close(before);
    unsetenv("LMC_H5_DEBUG");
    rewind(file);
    const size_t nbytes = fread(text, 1, capacity - 1, file);
    text[nbytes] = '\0';
    fclose(file);
    return nbytes;
}

LMC_TEST(test_debug_lines)
{
    char text[1000], expected[1000];
    CU_ASSERT_EQUAL(printed(NULL, text, sizeof text), 0);
    CU_ASSERT_EQUAL(printed("", text, sizeof text), 0);
    CU_ASSERT_EQUAL(printed("0", text, sizeof text), 0);
    CU_ASSERT(printed("1", text, sizeof text) > 0);
    snprintf(expected, sizeof expected, "lmc-h5: %s\n", lmc_h5_last_error());
    CU_ASSERT_STRING_EQUAL(text, expected);
}

/* Two libhdf5 in one process hold different locks: the filter runs in several threads at once. Returns NULL if all
 * chunks came back. */
static void *filter_in_a_thread(void *user)
{
    const h5_case *const c = &h5_cases[*(const size_t *)user];
    uint8_t bytes[6000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * c->type.nbytes % 251 % (i % 4 + 2));
    for (size_t i = 0; i < 20; i++) {
        const size_t nbytes = sizeof bytes - i;
        buffer b = buffer_of(bytes, nbytes, nbytes);
        const size_t stored_nbytes = h5_filter(0, 0, NULL, nbytes, &b.capacity, &b.bytes);
        const size_t found = h5_filter(REVERSE, 0, NULL, stored_nbytes, &b.capacity, &b.bytes);
        const int is_right = found == nbytes && memcmp(b.bytes, bytes, nbytes) == 0;
        free(b.bytes);
        if (!is_right)
            return user;
    }
    return NULL;
}

static void run_threads(void)
{
    pthread_t threads[H5_CASE_COUNT];
    size_t numbers[H5_CASE_COUNT];
    void *failed;
    for (size_t i = 0; i < H5_CASE_COUNT; i++) {
        numbers[i] = i;
        CU_ASSERT_FATAL(pthread_create(&threads[i], NULL, filter_in_a_thread, &numbers[i]) == 0);
    }
    for (size_t i = 0; i < H5_CASE_COUNT; i++) {
        CU_ASSERT_FATAL(pthread_join(threads[i], &failed) == 0);
        CU_ASSERT(failed == NULL);
    }
}

LMC_TEST(test_threads)
{
    run_threads();
    setenv("LMC_NUM_THREADS", "3", 1);
    run_threads();
    unsetenv("LMC_NUM_THREADS");
}

LMC_TEST(test_fork)
{
    setenv("LMC_NUM_THREADS", "3", 1);
    h5_case_fill(&h5_cases[0], chunk, CHUNK_NBYTES);
    check_round_trip((const unsigned[]){0, 4, 16}, 3, CHUNK_NBYTES);
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0 && errno == ENOSYS)
        LMC_TEST_SKIP("there is no fork() here");
    if (child == 0) {
        size_t number = 0;
        alarm(60);
        _exit(filter_in_a_thread(&number) == NULL ? 0 : 1);
    }
    int status = -1;
    CU_ASSERT(child > 0 && waitpid(child, &status, 0) == child);
    CU_ASSERT_EQUAL(status, 0);
    unsetenv("LMC_NUM_THREADS");
}

/* ---- the plugin ---- */

static void *use_and_end(void *user)
{
    const h5_filter_class *const filter = user;
    buffer b = buffer_of(chunk, 1000, 1000);
    const size_t stored_nbytes = filter->filter(0, 0, NULL, 1000, &b.capacity, &b.bytes);
    const size_t found = filter->filter(REVERSE, 0, NULL, stored_nbytes, &b.capacity, &b.bytes);
    const int is_right = found == 1000 && memcmp(b.bytes, chunk, 1000) == 0;
    free(b.bytes);
    return is_right ? NULL : user;
}

/* As HDF5 does: open, ask, use, close. Threads that used it end later, and free what they hold. */
LMC_TEST(test_plugin)
{
    void *const handle = dlopen(LMC_H5_PLUGIN, RTLD_LAZY | RTLD_LOCAL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(handle);
    int (*get_type)(void);
    const void *(*get_info)(void);
    const char *(*last_error)(void);
    *(void **)&get_type = dlsym(handle, "H5PLget_plugin_type");
    *(void **)&get_info = dlsym(handle, "H5PLget_plugin_info");
    *(void **)&last_error = dlsym(handle, "lmc_h5_last_error");
    CU_ASSERT_FATAL(get_type != NULL && get_info != NULL && last_error != NULL);
    CU_ASSERT(dlsym(handle, "lmc_h5_encode_chunk") != NULL && dlsym(handle, "lmc_h5_decode_chunk") != NULL);
    CU_ASSERT_EQUAL(get_type(), 0);
    const h5_filter_class *const filter = get_info();
    CU_ASSERT(filter == get_info());
    CU_ASSERT(filter->version == 1 && filter->id == LMC_H5_FILTER_ID);
    CU_ASSERT(filter->encoder_present == 1 && filter->decoder_present == 1);
    CU_ASSERT_STRING_EQUAL(filter->name, LMC_H5_FILTER_NAME);
    CU_ASSERT(strstr(filter->name, "lmc") != NULL && strstr(filter->name, "HDF5_PLUGIN_PATH") != NULL);
    CU_ASSERT(filter->can_apply == NULL && filter->set_local != NULL && filter->filter != NULL);
    CU_ASSERT_EQUAL(filter->set_local(-1, -1, -1), 0);

    pthread_t thread;
    void *failed, *bytes = (void *)(uintptr_t) "nothing that decodes";
    size_t capacity = 20;
    CU_ASSERT_STRING_EQUAL(last_error(), "");
    CU_ASSERT_EQUAL(filter->filter(REVERSE, 0, NULL, 20, &capacity, &bytes), 0);
    CU_ASSERT(strstr(last_error(), "corrupt") != NULL);
    CU_ASSERT_FATAL(pthread_create(&thread, NULL, use_and_end, (void *)(uintptr_t)filter) == 0);
    CU_ASSERT_EQUAL(dlclose(handle), 0);
    CU_ASSERT_FATAL(pthread_join(thread, &failed) == 0);
    CU_ASSERT(failed == NULL);
    CU_ASSERT_STRING_EQUAL(filter->name, LMC_H5_FILTER_NAME);
}

int main(int argc, char **argv)
{
    unsetenv("LMC_NUM_THREADS");
    unsetenv("LMC_H5_DEBUG");
    return lmc_test_main("h5_filter", argc, argv);
}
