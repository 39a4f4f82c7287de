/*
 * test_st_threads.c - liblmc_st used by several threads at once: one open file shared by all, calls on
 * different files, and calls that another thread cancels at any moment.
 */
#include "lmc_st_experimental.h"
#include "lmc_test_st.h"

#include <pthread.h>
#include <time.h>

#define READER_COUNT 8
#define CONVERTER_COUNT 4
#define CANCEL_COUNT 24 /* per call that is cancelled */

static const char *plain_path, *archive_path;
static const char *out_path, *directory_path;
static unsigned char *plain; /* the whole file */
static size_t plain_nbytes, data_offset;

LMC_TEST(test_begin)
{
    const lmc_test_settings options = lmc_test_options(2);
    char inner[LMC_TEST_PATH_NBYTES + 16];
    plain_path = lmc_test_path("m.safetensors");
    archive_path = lmc_test_path("m.safetensors.lmc");
    out_path = lmc_test_path("out");
    directory_path = lmc_test_path("model");
    lmc_test_write_model(plain_path, 1);
    CU_ASSERT_EQUAL(lmc_test_convert_as(plain_path, archive_path, &options, NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL(mkdir(directory_path, 0755), 0);
    snprintf(inner, sizeof inner, "%s/m.safetensors", directory_path);
    lmc_test_write_model(inner, 1);
    plain = lmc_test_read(plain_path, &plain_nbytes);
    data_offset = 8 + (plain[0] | (size_t)plain[1] << 8);
}

/* ---- one file, many readers ---- */

typedef struct reader {
    pthread_t thread;
    const lmc_st_file *file;
    lmc_ctx *ctx; /* NULL: none of its own */
    uint32_t state;
    unsigned wrong;
} reader;

static unsigned next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A random range of a random tensor, described and read. */
static int is_read_right(reader *self, unsigned char *dst)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    lmc_st_mode mode;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    uint64_t found = UINT64_MAX;
    const uint64_t index = next_random(&self->state) % lmc_st_tensor_count(self->file);
    if (lmc_st_tensor_info(self->file, index, &tensor) != LMC_OK ||
        !lmc_st_find_tensor_sized(self->file, tensor.name, tensor.name_nbytes, &found) || found != index ||
        lmc_st_tensor_mode(self->file, index, &mode, &diag) != LMC_OK)
        return 0;
    const uint64_t first = tensor.nbytes == 0 ? 0 : next_random(&self->state) % tensor.nbytes;
    const size_t most = (size_t)(tensor.nbytes - first);
    const size_t nbytes = most == 0 ? 0 : next_random(&self->state) % most;
    return lmc_st_read_range(self->file, self->ctx, index, first, nbytes, dst, &diag) == LMC_OK &&
           memcmp(dst, plain + data_offset + tensor.data_offset + first, nbytes) == 0;
}

static void *read_ranges(void *argument)
{
    reader *const self = argument;
    unsigned char *const dst = malloc(plain_nbytes);
    for (unsigned i = 0; i < 40; i++)
        self->wrong += dst == NULL || !is_read_right(self, dst);
    free(dst);
    return NULL;
}

static void share(const char *path, int with_ctx)
{
    reader readers[READER_COUNT];
    lmc_st_file *file = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(path, NULL, &file, NULL), LMC_OK);
    for (unsigned i = 0; i < READER_COUNT; i++) {
        const reader one = {.file = file, .state = i + 1};
        readers[i] = one;
        if (with_ctx)
            CU_ASSERT_EQUAL(lmc_ctx_create(NULL, &readers[i].ctx), LMC_OK);
    }
    for (unsigned i = 0; i < READER_COUNT; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&readers[i].thread, NULL, read_ranges, &readers[i]), 0);
    for (unsigned i = 0; i < READER_COUNT; i++) {
        CU_ASSERT_EQUAL(pthread_join(readers[i].thread, NULL), 0);
        CU_ASSERT_EQUAL(readers[i].wrong, 0);
        lmc_ctx_free(readers[i].ctx);
    }
    lmc_st_close(file);
}

LMC_TEST(test_shared_file)
{
    share(archive_path, 1);
    share(archive_path, 0);
    share(plain_path, 0);
}

/* ---- one file, whose base each of several outputs must not be ---- */

typedef struct writer {
    pthread_t thread;
    const lmc_st_file *file;
    char out[LMC_TEST_PATH_NBYTES];
    lmc_status status;
} writer;

static lmc_status give_zeros(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)user;
    (void)offset;
    memset(dst, 0, nbytes);
    return LMC_OK;
}

static void *write_zeros(void *argument)
{
    writer *const self = argument;
    self->status = lmc_st_write_content(self->file, self->out, 9, give_zeros, NULL, NULL, NULL);
    return NULL;
}

LMC_TEST(test_outputs_of_a_shared_file)
{
    writer writers[CONVERTER_COUNT];
    lmc_st_file *file = NULL;
    lmc_test_settings options = lmc_test_options(2);
    options.base = plain_path;
    CU_ASSERT_EQUAL(lmc_test_convert_as(plain_path, out_path, &options, NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(out_path, NULL, &file, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_base_count(file), 1);
    for (unsigned i = 0; i < CONVERTER_COUNT; i++) {
        writers[i] = (writer){.file = file};
        snprintf(writers[i].out, LMC_TEST_PATH_NBYTES, "%s%u", out_path, i);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&writers[i].thread, NULL, write_zeros, &writers[i]), 0);
    }
    for (unsigned i = 0; i < CONVERTER_COUNT; i++) {
        CU_ASSERT_EQUAL(pthread_join(writers[i].thread, NULL), 0);
        CU_ASSERT_EQUAL(writers[i].status, LMC_OK);
        unlink(writers[i].out);
    }
    lmc_st_close(file);
    unlink(out_path);
}

/* ---- many files ---- */

typedef struct converter {
    pthread_t thread;
    char plain[LMC_TEST_PATH_NBYTES], archive[LMC_TEST_PATH_NBYTES], back[LMC_TEST_PATH_NBYTES];
    lmc_status status;
    lmc_st_result result;
} converter;

static void *convert_and_back(void *argument)
{
    converter *const self = argument;
    lmc_test_settings options = lmc_test_options(2);
    options.sha256 = 1;
    self->result = (lmc_st_result)LMC_INIT(lmc_st_result);
    self->status = lmc_test_convert_as(self->plain, self->archive, &options, NULL, NULL);
    if (self->status == LMC_OK)
        self->status = lmc_test_verify_as(self->archive, &options, &self->result, NULL);
    if (self->status == LMC_OK)
        self->status = lmc_test_restore_as(self->archive, self->back, &options, NULL, NULL);
    if (self->status == LMC_OK)
        self->status = lmc_test_compare_as(self->archive, self->back, &options, NULL);
    return NULL;
}

LMC_TEST(test_parallel_files)
{
    static converter all[CONVERTER_COUNT];
    for (unsigned i = 0; i < CONVERTER_COUNT; i++) {
        snprintf(all[i].plain, sizeof all[i].plain, "%s/%u", lmc_test_dir, i);
        snprintf(all[i].archive, sizeof all[i].archive, "%s/%u.lmc", lmc_test_dir, i);
        snprintf(all[i].back, sizeof all[i].back, "%s/%u.back", lmc_test_dir, i);
        lmc_test_write_model(all[i].plain, 100 + i);
    }
    for (unsigned i = 0; i < CONVERTER_COUNT; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&all[i].thread, NULL, convert_and_back, &all[i]), 0);
    for (unsigned i = 0; i < CONVERTER_COUNT; i++) {
        CU_ASSERT_EQUAL(pthread_join(all[i].thread, NULL), 0);
        CU_ASSERT_EQUAL(all[i].status, LMC_OK);
        CU_ASSERT_TRUE(lmc_test_same_files(all[i].plain, all[i].back));
        unlink(all[i].plain);
        unlink(all[i].archive);
        unlink(all[i].back);
    }
}

/* ---- cancelling ---- */

static lmc_status do_convert(const lmc_test_settings *options, lmc_st_diag *diag)
{
    return lmc_test_convert_as(plain_path, out_path, options, NULL, diag);
}

static lmc_status do_restore(const lmc_test_settings *options, lmc_st_diag *diag)
{
    return lmc_test_restore_as(archive_path, out_path, options, NULL, diag);
}

static lmc_status do_verify(const lmc_test_settings *options, lmc_st_diag *diag)
{
    return lmc_test_verify_as(archive_path, options, NULL, diag);
}

static lmc_status do_compare(const lmc_test_settings *options, lmc_st_diag *diag)
{
    return lmc_test_compare_as(archive_path, plain_path, options, diag);
}

static lmc_status do_convert_directory(const lmc_test_settings *options, lmc_st_diag *diag)
{
    return lmc_test_convert_as(directory_path, out_path, options, NULL, diag);
}

static lmc_status do_write(const lmc_test_settings *options, lmc_st_diag *diag)
{
    const uint64_t count = plain_nbytes;
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_test_add(writer, "x", LMC_DTYPE_U8, count, plain), LMC_OK);
    const lmc_status status = lmc_test_writer_write_as(writer, out_path, options, NULL, diag);
    lmc_st_writer_free(writer);
    return status;
}

static lmc_status (*const calls[])(const lmc_test_settings *, lmc_st_diag *) = {
    do_convert, do_restore, do_verify, do_compare, do_convert_directory, do_write};

typedef struct canceller {
    pthread_t thread;
    long nanoseconds;
    int cancel;
} canceller;

static void *cancel_soon(void *argument)
{
    canceller *const self = argument;
    const struct timespec wait = {0, self->nanoseconds};
    (void)nanosleep(&wait, NULL);
    __atomic_store_n(&self->cancel, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* A call that is cancelled ends as it would have, or with CANCELLED and nothing left; an unfinished directory
 * is taken up by the next run. */
static void cancel_one(size_t call, unsigned threads, long nanoseconds)
{
    enum { FILES = 3 };
    canceller other = {.nanoseconds = nanoseconds};
    lmc_test_settings options = lmc_test_options(threads);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    options.common.cancel = &other.cancel;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&other.thread, NULL, cancel_soon, &other), 0);
    const lmc_status status = calls[call](&options, &diag);
    CU_ASSERT_EQUAL(pthread_join(other.thread, NULL), 0);
    CU_ASSERT_TRUE(status == LMC_OK || status == LMC_ERR_CANCELLED);
    CU_ASSERT_EQUAL(diag.status, status);
    const int has_output = lmc_test_exists(out_path);
    CU_ASSERT_TRUE(!has_output || status == LMC_OK);
    lmc_test_remove(out_path);
    if (calls[call] == do_convert_directory && status != LMC_OK)
        lmc_test_remove(lmc_test_path(".out.lmc-st-partial"));
    CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), FILES);
}

LMC_TEST(test_cancel_at_any_moment)
{
    uint32_t state = 1;
    for (size_t call = 0; call < sizeof calls / sizeof calls[0]; call++) {
        for (unsigned i = 0; i < CANCEL_COUNT; i++) {
            /* most waits short, some longer than the call */
            cancel_one(call, 1 + i % 3, (long)(next_random(&state) % (1u << (12 + i % 13))));
        }
    }
}

LMC_TEST(test_end)
{
    free(plain);
    unlink(plain_path);
    unlink(archive_path);
    lmc_test_remove(directory_path);
}

LMC_TEST_DIR_MAIN("st_threads")
