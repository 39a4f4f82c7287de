/*
 * test_st_original_threads.c - several threads that read one original, and several originals through one cache, while
 * others are opened and closed.
 */
#include "lmc_test_archive.h"
#include "lmc_test_original.h"
#include "lmc_test_st_base.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define THREAD_COUNT 4
#define FILE_COUNT 4

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

/* ---- files ---- */

/* "mixed", "based" (against "base", which is an archive only), "stored" (without an index), "text" (a GGUF file). */
static const char *const plain_names[FILE_COUNT] = {"mixed", "based", "stored", "text"};
static const char *const archive_names[FILE_COUNT] = {"mixed.lmc", "based.lmc", "stored.lmc", "text.lmc"};

static void write_text(const char *name)
{
    enum { TEXT = 1500000 };
    static unsigned char bytes[32 + TEXT + 32];
    static const char head[] = "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0k\10\0\0";
    const uint64_t length = TEXT;
    memcpy(bytes, head, sizeof head);
    memcpy(bytes + sizeof head, &length, 8);
    lmc_test_noise(bytes + sizeof head + 8, TEXT, 3);
    lmc_test_write(lmc_test_path(name), bytes, sizeof head + 8 + TEXT);
}

static void convert(const char *plain, const char *base, const char *archive)
{
    CU_ASSERT_EQUAL_FATAL(lmc_test_convert(lmc_test_path(plain), !base ? NULL : lmc_test_path(base),
                                           lmc_test_path(archive), 1, &diag),
                          LMC_OK);
}

LMC_TEST(test_begin)
{
    static unsigned char noise[300001];
    lmc_test_write_mixed(lmc_test_path("mixed"));
    convert("mixed", NULL, "mixed.lmc");
    lmc_test_write_snapshot(lmc_test_path("base"), 0);
    lmc_test_write_snapshot(lmc_test_path("based"), 1);
    convert("base", NULL, "base.lmc");
    convert("based", "base", "based.lmc");
    CU_ASSERT_EQUAL(unlink(lmc_test_path("base")), 0);
    lmc_test_noise(noise, sizeof noise, 7);
    (void)lmc_test_write_archive(lmc_test_path("stored.lmc"), noise, sizeof noise, 14, LMC_FRAME_STORED);
    CU_ASSERT_EQUAL_FATAL(
        lmc_test_restore(lmc_test_path("stored.lmc"), NULL, NULL, lmc_test_path("stored"), &diag), LMC_OK);
    write_text("text");
    convert("text", NULL, "text.lmc");
}

/* ---- readers ---- */

static atomic_uint started_count;

typedef struct reader {
    pthread_t thread;
    const lmc_test_original *originals;
    size_t original_count;
    unsigned read_count;
    uint32_t state;
    unsigned wrong_count;
} reader;

/* Reads ranges anywhere; every other reader goes through the files in order between them. */
static void *read_ranges(void *user)
{
    reader *const self = user;
    size_t at = 0;
    atomic_fetch_add(&started_count, 1);
    while (atomic_load(&started_count) < THREAD_COUNT) /* all begin at once */
        sched_yield();
    for (unsigned i = 0; i < self->read_count; i++) {
        const size_t number = lmc_test_random(&self->state) % self->original_count;
        const lmc_test_original *const of = &self->originals[number];
        const size_t left = of->nbytes > at ? of->nbytes - at : 0;
        const size_t nbytes = left < 100000 ? left : 100000;
        self->wrong_count += lmc_test_original_read_any(of, &self->state) != LMC_OK;
        self->wrong_count += left > 0 && lmc_test_original_read(of, at, nbytes, NULL) != LMC_OK;
        at = left > 0 ? at + nbytes : 0;
    }
    return NULL;
}

static void start(reader *readers, const lmc_test_original *originals, size_t original_count,
                  unsigned read_count)
{
    atomic_store(&started_count, 0);
    for (unsigned i = 0; i < THREAD_COUNT; i++) {
        readers[i] = (reader){.originals = originals,
                              .original_count = original_count,
                              .read_count = read_count,
                              .state = 100 + i};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&readers[i].thread, NULL, read_ranges, &readers[i]), 0);
    }
}

static void finish(reader *readers)
{
    for (unsigned i = 0; i < THREAD_COUNT; i++) {
        CU_ASSERT_EQUAL(pthread_join(readers[i].thread, NULL), 0);
        CU_ASSERT_EQUAL(readers[i].wrong_count, 0);
    }
}

LMC_TEST(test_one_original)
{
    reader readers[THREAD_COUNT];
    for (unsigned i = 0; i < 2 * FILE_COUNT; i++) {
        lmc_test_original of;
        lmc_st_cache *const cache = lmc_test_cache(i % 2 ? 0 : 1, 1 + i % 3);
        lmc_test_original_open(&of, cache, archive_names[i / 2], plain_names[i / 2]);
        start(readers, &of, 1, 70 / LMC_TEST_STEP);
        finish(readers);
        lmc_test_original_close(&of);
        lmc_st_cache_free(cache);
    }
}

static void open_all(lmc_test_original *originals, lmc_st_cache *cache)
{
    for (unsigned i = 0; i < FILE_COUNT; i++)
        lmc_test_original_open(&originals[i], cache, archive_names[i], plain_names[i]);
}

static void close_all(lmc_test_original *originals)
{
    for (unsigned i = 0; i < FILE_COUNT; i++)
        lmc_test_original_close(&originals[i]);
}

LMC_TEST(test_several_originals)
{
    reader readers[THREAD_COUNT];
    lmc_test_original originals[FILE_COUNT];
    for (unsigned i = 0; i < 2; i++) {
        lmc_st_cache *const cache = lmc_test_cache(i == 0 ? 1 : 0, 2);
        open_all(originals, cache);
        start(readers, originals, FILE_COUNT, 210 / LMC_TEST_STEP);
        finish(readers);
        close_all(originals);
        lmc_st_cache_free(cache);
    }
}

/* What is done once, by the thread that comes first: verifying, opening the base and the skeleton. */
LMC_TEST(test_first_reads_at_once)
{
    reader readers[THREAD_COUNT];
    lmc_test_original originals[FILE_COUNT];
    lmc_st_cache *const cache = lmc_test_cache(1, 2);
    for (unsigned i = 0; i < 28; i += LMC_TEST_STEP) {
        open_all(originals, cache);
        for (unsigned number = 0; number < FILE_COUNT; number++) {
            start(readers, &originals[number], 1, 2);
            finish(readers);
        }
        close_all(originals);
    }
    lmc_st_cache_free(cache);
}

/* Others are closed while some of their blocks are still to be made. */
LMC_TEST(test_closed_meanwhile)
{
    reader readers[THREAD_COUNT];
    lmc_test_original originals[FILE_COUNT];
    lmc_st_cache *const cache = lmc_test_cache(2 << 20, 2);
    open_all(originals, cache);
    start(readers, originals, FILE_COUNT, 140 / LMC_TEST_STEP);
    for (unsigned i = 0; i < 84; i += LMC_TEST_STEP) {
        lmc_test_original other;
        const unsigned number = i % FILE_COUNT;
        lmc_test_original_open(&other, cache, archive_names[number], plain_names[number]);
        for (size_t at = 0; at < 300000 && at < other.nbytes; at += 50000)
            CU_ASSERT_EQUAL(lmc_test_original_read(&other, at, 1, NULL), LMC_OK);
        lmc_test_original_close(&other);
    }
    finish(readers);
    close_all(originals);
    lmc_st_cache_free(cache);
}

/* A block that cannot be made fails for each thread that asks for it, and for no other. */
LMC_TEST(test_damaged)
{
    reader readers[THREAD_COUNT];
    uint64_t index = 0, place = 0, nbytes = 0;
    lmc_test_original others[FILE_COUNT];
    lmc_st_cache *const cache = lmc_test_cache(1, 2);
    open_all(others, cache);
    CU_ASSERT_TRUE_FATAL(lmc_st_find_tensor(others[0].file, "large", &index));
    CU_ASSERT_EQUAL(lmc_st_tensor_place(others[0].file, index, &place, &nbytes), LMC_OK);
    const uint64_t begin = lmc_test_origin(&others[0], "large", &nbytes);
    lmc_test_flip(lmc_test_path("mixed.lmc"), (size_t)place + 1000, 1);
    others[0].nbytes = (size_t)begin; /* the readers stay before it */
    start(readers, others, FILE_COUNT, 105 / LMC_TEST_STEP);
    for (unsigned i = 0; i < 50; i++)
        CU_ASSERT_EQUAL(lmc_test_original_read(&others[0], begin + 700 * i, 700, &diag), LMC_ERR_CHECKSUM);
    CU_ASSERT_STRING_EQUAL(diag.tensor, "large");
    finish(readers);
    close_all(others);
    lmc_st_cache_free(cache);
    lmc_test_flip(lmc_test_path("mixed.lmc"), (size_t)place + 1000, 1);
}

LMC_TEST(test_end)
{
    for (unsigned i = 0; i < FILE_COUNT; i++) {
        CU_ASSERT_EQUAL(unlink(lmc_test_path(plain_names[i])), 0);
        CU_ASSERT_EQUAL(unlink(lmc_test_path(archive_names[i])), 0);
    }
    CU_ASSERT_EQUAL(unlink(lmc_test_path("base.lmc")), 0);
}

LMC_TEST_DIR_MAIN("st_original_threads")
