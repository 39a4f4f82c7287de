/*
 * test_st_writer_calls.c - content that is supplied on demand, and the options of a write: descriptors,
 * progress, cancelling, outputs that exist.
 */
#include "lmc_test_st.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#define CONTENT_NBYTES (6u << 20) /* several runs of the engine */

static unsigned char data[CONTENT_NBYTES];

/* ---- read functions ---- */

typedef struct supply {
    lmc_status status; /* what a call that touches byte `fails_at` returns */
    uint64_t fails_at;
    uint64_t nbytes;
    int is_outside; /* a call left the content */
    unsigned call_count;
    unsigned thread_count; /* at most 2 are told apart */
    pthread_t first;
    pthread_mutex_t lock;
} supply;

static lmc_status supply_bytes(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    supply *const content = user;
    pthread_mutex_lock(&content->lock);
    content->is_outside |= offset > content->nbytes || nbytes > content->nbytes - offset;
    if (content->call_count++ == 0) {
        content->first = pthread_self();
        content->thread_count = 1;
    } else if (!pthread_equal(content->first, pthread_self())) {
        content->thread_count = 2;
    }
    pthread_mutex_unlock(&content->lock);
    if (content->status != LMC_OK && content->fails_at - offset < nbytes)
        return content->status;
    memcpy(dst, data + offset, nbytes);
    return LMC_OK;
}

static void add_supplied(lmc_st_writer *writer, const char *name, supply *content, uint64_t nbytes)
{
    content->nbytes = nbytes;
    pthread_mutex_init(&content->lock, NULL);
    CU_ASSERT_EQUAL(
        lmc_st_writer_add_from(writer, name, strlen(name), LMC_DTYPE_U8, &nbytes, 1, supply_bytes, content),
        LMC_OK);
}

LMC_TEST(test_begin)
{
    lmc_test_weights(data, sizeof data, 1);
}

/* Supplied content gives the same bytes as content in memory, for every number of threads. */
LMC_TEST(test_supplied)
{
    lmc_st_writer *const in_memory = lmc_test_writer();
    lmc_test_settings options = lmc_test_options(1);
    CU_ASSERT_EQUAL(lmc_test_add(in_memory, "x", LMC_DTYPE_U8, CONTENT_NBYTES, data), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(in_memory, "y", LMC_DTYPE_U8, 100, data), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(in_memory, "z", LMC_DTYPE_U8, 0, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_writer_write_as(in_memory, lmc_test_path("m"), &options, NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(in_memory, lmc_test_path("p"), &options, NULL, NULL),
                    LMC_OK);
    lmc_st_writer_free(in_memory);
    for (unsigned threads = 1; threads <= 4; threads++) {
        supply contents[3] = {{.status = LMC_OK}};
        lmc_st_writer *const writer = lmc_test_writer();
        options.common.thread_count = threads;
        options.force = 1;
        add_supplied(writer, "x", &contents[0], CONTENT_NBYTES);
        add_supplied(writer, "y", &contents[1], 100);
        add_supplied(writer, "z", &contents[2], 0);
        CU_ASSERT_EQUAL(lmc_test_writer_write_as(writer, lmc_test_path("s"), &options, NULL, NULL), LMC_OK);
        CU_ASSERT_TRUE(lmc_test_same_files(lmc_test_path("s"), lmc_test_path("m")));
        CU_ASSERT_TRUE(threads > 1 || contents[0].thread_count == 1);
        CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(writer, lmc_test_path("s"), &options, NULL, NULL),
                        LMC_OK);
        CU_ASSERT_TRUE(lmc_test_same_files(lmc_test_path("s"), lmc_test_path("p")));
        CU_ASSERT_FALSE(contents[0].is_outside || contents[1].is_outside || contents[2].is_outside);
        lmc_st_writer_free(writer);
    }
    unlink(lmc_test_path("m"));
    unlink(lmc_test_path("p"));
    unlink(lmc_test_path("s"));
}

/* Two threads are in the read function at once: each waits there for the other. */
typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned inside, most;
} meeting;

static lmc_status meet(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    meeting *const place = user;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&place->lock);
    place->inside++;
    place->most = place->inside > place->most ? place->inside : place->most;
    pthread_cond_broadcast(&place->changed);
    /* samples are taken by one thread; pieces of a run's length by several */
    while (nbytes >= (size_t)1 << 19 && place->most < 2 &&
           pthread_cond_timedwait(&place->changed, &place->lock, &until) == 0) {
    }
    place->inside--;
    pthread_mutex_unlock(&place->lock);
    memcpy(dst, data + offset, nbytes);
    return LMC_OK;
}

LMC_TEST(test_supplied_to_threads)
{
    const uint64_t shape[1] = {CONTENT_NBYTES};
    const lmc_test_settings options = lmc_test_options(3);
    meeting place = {.inside = 0};
    lmc_st_writer *const writer = lmc_test_writer();
    pthread_mutex_init(&place.lock, NULL);
    pthread_cond_init(&place.changed, NULL);
    CU_ASSERT_EQUAL(lmc_st_writer_add_from(writer, "x", 1, LMC_DTYPE_U8, shape, 1, meet, &place), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_writer_write_as(writer, lmc_test_path("s"), &options, NULL, NULL), LMC_OK);
    CU_ASSERT_TRUE(place.most >= 2);
    CU_ASSERT_EQUAL(place.inside, 0);
    lmc_st_writer_free(writer);
    unlink(lmc_test_path("s"));
}

/* Whatever status the function returns comes through and the tensor is named, wherever it fails. */
LMC_TEST(test_failing_supply)
{
    static const lmc_status statuses[] = {LMC_ERR_IO,       LMC_ERR_NOMEM, LMC_ERR_CANCELLED,
                                          LMC_ERR_CHECKSUM, LMC_ERR_ARG,   (lmc_status)99};
    static const uint64_t places[] = {0, CONTENT_NBYTES / 2, CONTENT_NBYTES - 1, 3000001};
    for (size_t i = 0; i < 2 * 6 * 4; i++) {
        const lmc_status expected = statuses[i / 2 % 6];
        supply good = {.status = LMC_OK};
        supply bad = {.status = expected, .fails_at = places[i / 12]};
        lmc_test_settings options = lmc_test_options(1 + (unsigned)i % 3);
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        lmc_st_result result = LMC_INIT(lmc_st_result);
        lmc_st_writer *const writer = lmc_test_writer();
        add_supplied(writer, "a.good", &good, CONTENT_NBYTES);
        add_supplied(writer, "bad\n", &bad, CONTENT_NBYTES);
        const lmc_status status =
            i % 2 == 0 ? lmc_test_writer_write_as(writer, lmc_test_path("s"), &options, &result, &diag)
                       : lmc_test_writer_write_plain_as(writer, lmc_test_path("s"), &options, &result, &diag);
        CU_ASSERT_EQUAL(status, expected);
        CU_ASSERT_EQUAL(diag.status, expected);
        CU_ASSERT_EQUAL(diag.has_tensor, 1);
        CU_ASSERT_STRING_EQUAL(diag.tensor, "bad\\n");
        CU_ASSERT_EQUAL(result.tensor_count, 0);
        CU_ASSERT_FALSE(bad.is_outside);
        CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), 0);
        lmc_st_writer_free(writer);
    }
}

/* ---- options ---- */

static lmc_st_writer *make_writer(void)
{
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_test_add(writer, "x", LMC_DTYPE_BF16, CONTENT_NBYTES / 2, data), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "y", LMC_DTYPE_BF16, 500000, data), LMC_OK);
    return writer;
}

typedef lmc_status write_function(const lmc_st_writer *writer, const char *path,
                                  const lmc_test_settings *options, lmc_st_result *result, lmc_st_diag *diag);
static write_function *const writes[] = {lmc_test_writer_write_as, lmc_test_writer_write_plain_as};

static void *drain(void *stream)
{
    const int *const fds = stream; /* from, to */
    char piece[65536];
    ssize_t got = 0;
    while ((got = read(fds[0], piece, sizeof piece)) > 0)
        if (write(fds[1], piece, (size_t)got) != got)
            break;
    return NULL;
}

/* A descriptor gets the bytes that a path would: of a file, which stays open, or of a pipe. */
LMC_TEST(test_descriptors)
{
    lmc_st_writer *const writer = make_writer();
    for (size_t i = 0; i < 4; i++) {
        lmc_test_settings options = lmc_test_options(2);
        pthread_t reader;
        int ends[2];
        CU_ASSERT_EQUAL(writes[i % 2](writer, lmc_test_path("by path"), &options, NULL, NULL), LMC_OK);
        FILE *const file = fopen(lmc_test_path("by fd"), "wb");
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
        int fds[2] = {ends[0], fileno(file)};
        options.has_out_fd = 1;
        options.out_fd = i < 2 ? fileno(file) : ends[1];
        CU_ASSERT_EQUAL_FATAL(pthread_create(&reader, NULL, drain, fds), 0);
        CU_ASSERT_EQUAL(writes[i % 2](writer, "only a name", &options, NULL, NULL), LMC_OK);
        CU_ASSERT_EQUAL(close(ends[1]), 0); /* still the caller's */
        CU_ASSERT_EQUAL(pthread_join(reader, NULL), 0);
        close(ends[0]);
        CU_ASSERT_EQUAL(fclose(file), 0);
        CU_ASSERT_FALSE(lmc_test_exists("only a name"));
        CU_ASSERT_TRUE(lmc_test_same_files(lmc_test_path("by path"), lmc_test_path("by fd")));
        unlink(lmc_test_path("by path"));
        unlink(lmc_test_path("by fd"));
    }
    lmc_st_writer_free(writer);
}

LMC_TEST(test_closed_descriptor)
{
    lmc_st_writer *const writer = make_writer();
    for (size_t i = 0; i < 2; i++) {
        lmc_test_settings options = lmc_test_options(1);
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        options.has_out_fd = 1;
        options.out_fd = 999;
        CU_ASSERT_EQUAL(writes[i](writer, "a name", &options, NULL, &diag), LMC_ERR_IO);
        CU_ASSERT_EQUAL(diag.os_errno, EBADF);
        CU_ASSERT_STRING_EQUAL(diag.file, "a name");
    }
    lmc_st_writer_free(writer);
}

LMC_TEST(test_existing_output)
{
    lmc_st_writer *const writer = make_writer();
    for (size_t i = 0; i < 2; i++) {
        lmc_test_settings options = lmc_test_options(1);
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        size_t nbytes = 0;
        lmc_test_write(lmc_test_path("old"), "old", 3);
        CU_ASSERT_EQUAL(writes[i](writer, lmc_test_path("old"), &options, NULL, &diag), LMC_ERR_ARG);
        CU_ASSERT_EQUAL(diag.os_errno, EEXIST);
        unsigned char *const kept = lmc_test_read(lmc_test_path("old"), &nbytes);
        CU_ASSERT_TRUE(nbytes == 3 && memcmp(kept, "old", 3) == 0);
        free(kept);
        options.force = 1;
        CU_ASSERT_EQUAL(writes[i](writer, lmc_test_path("old"), &options, NULL, &diag), LMC_OK);
        CU_ASSERT_EQUAL(lmc_st_verify(lmc_test_path("old"), NULL, NULL, NULL), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), 1);
        unlink(lmc_test_path("old"));
    }
    lmc_st_writer_free(writer);
}

typedef struct watch {
    uint64_t last, total;
    unsigned calls;
    unsigned cancel_at; /* call; 0: never */
    int is_falling;
    int cancel;
} watch;

static void watch_progress(void *user, uint64_t done_nbytes, uint64_t total_nbytes)
{
    watch *const seen = user;
    seen->is_falling |= done_nbytes < seen->last;
    seen->last = done_nbytes;
    seen->total = total_nbytes;
    seen->calls++;
    if (seen->calls == seen->cancel_at)
        __atomic_store_n(&seen->cancel, 1, __ATOMIC_RELAXED);
}

LMC_TEST(test_progress_and_cancel)
{
    lmc_st_writer *const writer = make_writer();
    for (size_t i = 0; i < 2 * 3 * 3; i++) {
        watch seen = {.cancel_at = (unsigned)(i % 3)};
        lmc_test_settings options = lmc_test_options(1 + (unsigned)(i / 6));
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        options.common.progress = watch_progress;
        options.common.user = &seen;
        options.common.cancel = &seen.cancel;
        const lmc_status status = writes[i / 3 % 2](writer, lmc_test_path("s"), &options, NULL, &diag);
        CU_ASSERT_FALSE(seen.is_falling);
        CU_ASSERT_EQUAL(status, seen.cancel_at == 0 ? LMC_OK : LMC_ERR_CANCELLED);
        CU_ASSERT_TRUE(status != LMC_OK || (seen.last == seen.total && seen.calls > 3));
        CU_ASSERT_EQUAL(seen.total, CONTENT_NBYTES + 1000000u);
        CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), status == LMC_OK);
        unlink(lmc_test_path("s"));
    }
    lmc_st_writer_free(writer);
}

LMC_TEST(test_cancelled_before)
{
    const int cancel = 1;
    lmc_st_writer *const writer = make_writer();
    for (size_t i = 0; i < 2; i++) {
        lmc_test_settings options = lmc_test_options(2);
        options.common.cancel = &cancel;
        CU_ASSERT_EQUAL(writes[i](writer, lmc_test_path("s"), &options, NULL, NULL), LMC_ERR_CANCELLED);
    }
    lmc_st_writer_free(writer);
}

LMC_TEST_DIR_MAIN("st_writer_calls")
