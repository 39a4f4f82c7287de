/*
 * test_st_read_many.c - tensors that are read at once, files that a function gives, and the places of tensors.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "lmc_st_experimental.h"
#include "lmc_test_st.h"

#include <sys/mman.h>

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

#define TENSOR_COUNT 300
#define LARGE_NBYTES 3000000u

static unsigned char content[TENSOR_COUNT][1000];
static unsigned char large[LARGE_NBYTES];

static size_t nbytes_of(size_t i)
{
    return i == TENSOR_COUNT ? sizeof large : i % 7 == 0 ? 0 : 2 * (i + 1);
}

static const unsigned char *content_of(size_t i)
{
    return i == TENSOR_COUNT ? large : content[i];
}

/* Small tensors t000, t001 ... in the order of their data, behind a large one. */
LMC_TEST(make_files)
{
    lmc_st_writer *const writer = lmc_test_writer();
    lmc_test_weights(large, sizeof large, 7);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "large", LMC_DTYPE_BF16, sizeof large / 2, large), LMC_OK);
    for (size_t i = 0; i < TENSOR_COUNT; i++) {
        char name[16];
        lmc_test_weights(content[i], sizeof content[i], (unsigned)i);
        snprintf(name, sizeof name, "t%03zu", i);
        CU_ASSERT_EQUAL(lmc_test_add(writer, name, LMC_DTYPE_BF16, nbytes_of(i) / 2, content[i]), LMC_OK);
    }
    CU_ASSERT_EQUAL(lmc_st_writer_write_plain(writer, lmc_test_path("plain"), NULL, NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_write(writer, lmc_test_path("archive"), NULL, NULL, NULL), LMC_OK);
    lmc_st_writer_free(writer);
}

static uint64_t index_of(const lmc_st_file *file, size_t i)
{
    char name[16];
    uint64_t index = 0;
    const int length =
        i == TENSOR_COUNT ? snprintf(name, sizeof name, "large") : snprintf(name, sizeof name, "t%03zu", i);
    CU_ASSERT_TRUE(lmc_st_find_tensor_sized(file, name, (size_t)length, &index));
    return index;
}

static void count_progress(void *user, uint64_t done_nbytes, uint64_t total_nbytes)
{
    uint64_t *const seen = user;
    seen[0] = done_nbytes;
    seen[1] = total_nbytes;
}

/* Every third tensor, the large one, and one of them twice. */
static void check_read(const lmc_st_file *file, unsigned thread_count)
{
    enum { WANTED_MAX = TENSOR_COUNT + 3 };
    static unsigned char got[WANTED_MAX][1000];
    static unsigned char got_large[LARGE_NBYTES];
    uint64_t indices[WANTED_MAX];
    size_t numbers[WANTED_MAX];
    void *dsts[WANTED_MAX];
    uint64_t seen[2] = {0, 1};
    uint64_t expected_nbytes = 0;
    size_t count = 0;
    lmc_st_options options = LMC_INIT(lmc_st_options);
    options.common.thread_count = thread_count;
    options.common.progress = count_progress;
    options.common.user = seen;
    for (size_t i = 0; i <= TENSOR_COUNT; i += 3)
        numbers[count++] = i;
    numbers[count++] = 3;
    memset(got, 0, sizeof got);
    for (size_t i = 0; i < count; i++) {
        indices[i] = index_of(file, numbers[i]);
        dsts[i] = numbers[i] == TENSOR_COUNT ? got_large : got[i];
        expected_nbytes += i + 1 < count ? nbytes_of(numbers[i]) : 0;
    }
    CU_ASSERT_EQUAL(lmc_st_read_many(file, indices, dsts, count, &options, &diag), LMC_OK);
    for (size_t i = 0; i < count; i++)
        CU_ASSERT_EQUAL(memcmp(dsts[i], content_of(numbers[i]), nbytes_of(numbers[i])), 0);
    CU_ASSERT_EQUAL(seen[0], expected_nbytes);
    CU_ASSERT_EQUAL(seen[1], expected_nbytes);
    indices[1] = TENSOR_COUNT + 1;
    CU_ASSERT_EQUAL(lmc_st_read_many(file, indices, dsts, count, &options, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_read_many(file, NULL, NULL, 0, NULL, NULL), LMC_OK);
}

LMC_TEST(test_read_many)
{
    static const char *const names[] = {"plain", "archive"};
    for (size_t i = 0; i < 2; i++) {
        lmc_st_file *file = NULL;
        CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path(names[i]), NULL, &file, NULL), LMC_OK);
        for (unsigned threads = 1; threads <= 4; threads++)
            check_read(file, threads);
        lmc_st_close(file);
    }
}

LMC_TEST(test_cancelled)
{
    static const volatile int cancel = 1;
    uint64_t index = 0;
    void *dst = large;
    lmc_st_file *file = NULL;
    lmc_st_options options = LMC_INIT(lmc_st_options);
    options.common.cancel = &cancel;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path("archive"), NULL, &file, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_read_many(file, &index, &dst, 1, &options, NULL), LMC_ERR_CANCELLED);
    lmc_st_close(file);
}

LMC_TEST(test_damaged)
{
    static unsigned char got[LARGE_NBYTES];
    uint64_t place = 0, nbytes = 0;
    void *dst = got;
    lmc_st_file *file = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path("archive"), NULL, &file, NULL), LMC_OK);
    const uint64_t index = index_of(file, TENSOR_COUNT);
    CU_ASSERT_EQUAL(lmc_st_tensor_place(file, index, &place, &nbytes), LMC_OK);
    lmc_test_flip(lmc_test_path("archive"), (size_t)(place + nbytes / 2), 4);
    CU_ASSERT_EQUAL(lmc_st_read_many(file, &index, &dst, 1, NULL, &diag), LMC_ERR_CHECKSUM);
    CU_ASSERT_STRING_EQUAL(diag.tensor, "large");
    lmc_test_flip(lmc_test_path("archive"), (size_t)(place + nbytes / 2), 4);
    lmc_st_close(file);
}

/* ---- a file that a function gives ---- */

typedef struct memory_file {
    unsigned char *bytes;
    size_t nbytes;
    uint64_t fails_at; /* reads of this byte fail */
} memory_file;

static lmc_status read_memory(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const memory_file *const file = user;
    if (offset <= file->fails_at && file->fails_at - offset < nbytes)
        return LMC_ERR_IO;
    CU_ASSERT_TRUE(offset <= file->nbytes && nbytes <= file->nbytes - offset);
    memcpy(dst, file->bytes + offset, nbytes);
    return LMC_OK;
}

LMC_TEST(test_open_from)
{
    static const char *const names[] = {"plain", "archive"};
    for (size_t i = 0; i < 2; i++) {
        memory_file memory = {.fails_at = UINT64_MAX};
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        lmc_st_file *file = NULL;
        memory.bytes = lmc_test_read(lmc_test_path(names[i]), &memory.nbytes);
        CU_ASSERT_EQUAL_FATAL(lmc_st_open("s3://b/x",
                                          &(lmc_st_open_options){.struct_size = sizeof(lmc_st_open_options),
                                                                 .read = read_memory,
                                                                 .read_user = &memory,
                                                                 .read_nbytes = memory.nbytes},
                                          &file, &diag),
                              LMC_OK);
        CU_ASSERT_STRING_EQUAL(lmc_st_path(file), "s3://b/x");
        CU_ASSERT_EQUAL(lmc_st_is_archive(file), (int)i);
        check_read(file, 3);
        lmc_st_close(file);
        memory.fails_at = 3;
        CU_ASSERT_EQUAL(lmc_st_open("x",
                                    &(lmc_st_open_options){.struct_size = sizeof(lmc_st_open_options),
                                                           .read = read_memory,
                                                           .read_user = &memory,
                                                           .read_nbytes = memory.nbytes},
                                    &file, &diag),
                        LMC_ERR_IO);
        CU_ASSERT_PTR_NULL(file);
        CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "read function"));
        free(memory.bytes);
    }
}

/* Of a batch of small tensors, nothing is read before the first that is wanted, and nothing behind the last. */
LMC_TEST(test_read_between)
{
    static unsigned char got[2][1000];
    const size_t numbers[2] = {200, 201};
    void *dsts[2] = {got[0], got[1]};
    uint64_t indices[2], places[2], nbytes[2];
    memory_file memory = {.fails_at = UINT64_MAX};
    lmc_st_file *file = NULL;
    memory.bytes = lmc_test_read(lmc_test_path("archive"), &memory.nbytes);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open("x",
                                      &(lmc_st_open_options){.struct_size = sizeof(lmc_st_open_options),
                                                             .read = read_memory,
                                                             .read_user = &memory,
                                                             .read_nbytes = memory.nbytes},
                                      &file, NULL),
                          LMC_OK);
    for (size_t i = 0; i < 2; i++) {
        indices[i] = index_of(file, numbers[i]);
        CU_ASSERT_EQUAL(lmc_st_tensor_place(file, indices[i], &places[i], &nbytes[i]), LMC_OK);
    }
    CU_ASSERT_EQUAL(places[1], places[0] + nbytes[0]);
    const uint64_t outside[2] = {places[0] - 1, places[1] + nbytes[1]};
    for (size_t i = 0; i < 2; i++) {
        memory.fails_at = outside[i];
        CU_ASSERT_EQUAL(lmc_st_read_many(file, indices, dsts, 2, NULL, NULL), LMC_OK);
        for (size_t k = 0; k < 2; k++)
            CU_ASSERT_EQUAL(memcmp(got[k], content_of(numbers[k]), nbytes_of(numbers[k])), 0);
    }
    lmc_st_close(file);
    free(memory.bytes);
}

LMC_TEST(test_places)
{
    static const char *const names[] = {"plain", "archive"};
    for (size_t i = 0; i < 2; i++) {
        uint64_t place = 0, nbytes = 0;
        size_t plain_nbytes = 0;
        lmc_st_file *file = NULL;
        unsigned char *const plain = lmc_test_read(lmc_test_path("plain"), &plain_nbytes);
        CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path(names[i]), NULL, &file, NULL), LMC_OK);
        const uint64_t index = index_of(file, TENSOR_COUNT);
        CU_ASSERT_EQUAL(lmc_st_tensor_place(file, index, &place, &nbytes), LMC_OK);
        CU_ASSERT_TRUE(i == 0 ? nbytes == sizeof large : nbytes < sizeof large);
        CU_ASSERT_TRUE(i == 1 || memcmp(plain + place, large, sizeof large) == 0);
        CU_ASSERT_EQUAL(lmc_st_tensor_place(file, TENSOR_COUNT + 1, &place, &nbytes), LMC_ERR_ARG);
        CU_ASSERT_EQUAL(place + nbytes, 0);
        lmc_st_close(file);
        free(plain);
    }
}

/* Stored bytes of all tensors, in pieces. */
LMC_TEST(test_stored)
{
    static const char *const names[] = {"plain", "archive"};
    for (size_t i = 0; i < 2; i++) {
        size_t original_nbytes = 0;
        lmc_st_file *file = NULL;
        unsigned char *const bytes = lmc_test_read(lmc_test_path(names[i]), &original_nbytes);
        unsigned char *const got = malloc(original_nbytes);
        CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path(names[i]), NULL, &file, NULL), LMC_OK);
        for (uint64_t index = 0; index <= TENSOR_COUNT; index++) {
            uint64_t place = 0, nbytes = 0;
            CU_ASSERT_EQUAL(lmc_st_tensor_place(file, index, &place, &nbytes), LMC_OK);
            const size_t half = (size_t)nbytes / 2, rest = (size_t)nbytes - half;
            CU_ASSERT_EQUAL(lmc_st_read_stored(file, index, half, rest, got + half, NULL), LMC_OK);
            CU_ASSERT_EQUAL(lmc_st_read_stored(file, index, 0, half, got, NULL), LMC_OK);
            CU_ASSERT_EQUAL(memcmp(got, bytes + place, (size_t)nbytes), 0);
        }
        lmc_st_close(file);
        free(got);
        free(bytes);
    }
}

/* Reads the large tensor to memory without pages, at this place in it. */
static void check_new_memory(const lmc_st_file *file, size_t at, unsigned thread_count)
{
    const size_t room_nbytes = LARGE_NBYTES + 16384;
    const uint64_t index = index_of(file, TENSOR_COUNT);
    lmc_st_options options = LMC_INIT(lmc_st_options);
    options.common.thread_count = thread_count;
    unsigned char *const room =
        mmap(NULL, room_nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_TRUE_FATAL(room != MAP_FAILED);
    void *const dst = room + at;
    const lmc_status status = thread_count > 0
                                  ? lmc_st_read_many(file, &index, &dst, 1, &options, &diag)
                                  : lmc_st_read_range(file, NULL, index, 0, LARGE_NBYTES, dst, &diag);
    CU_ASSERT_EQUAL(status, LMC_OK);
    CU_ASSERT_EQUAL(memcmp(dst, large, LARGE_NBYTES), 0);
    for (size_t i = 0; i < room_nbytes; i++)
        if ((i < at || i >= at + LARGE_NBYTES) && room[i] != 0)
            CU_FAIL("a byte beside the tensor was written");
    munmap(room, room_nbytes);
}

LMC_TEST(test_new_memory)
{
    static const char *const names[] = {"plain", "archive"};
    for (size_t i = 0; i < 2; i++) {
        lmc_st_file *file = NULL;
        CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path(names[i]), NULL, &file, NULL), LMC_OK);
        for (unsigned threads = 0; threads < 3; threads++) {
            check_new_memory(file, 0, threads);
            check_new_memory(file, 5000, threads);
        }
        lmc_st_close(file);
    }
}

LMC_TEST(test_wrong_stored)
{
    static unsigned char got[LARGE_NBYTES];
    uint64_t place = 0, nbytes = 0;
    lmc_st_file *file = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path("archive"), NULL, &file, NULL), LMC_OK);
    const uint64_t index = index_of(file, TENSOR_COUNT);
    CU_ASSERT_EQUAL(lmc_st_tensor_place(file, index, &place, &nbytes), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_read_stored(file, index, 1, (size_t)nbytes, got, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_read_stored(file, index, nbytes + 1, 0, got, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_read_stored(file, TENSOR_COUNT + 1, 0, 1, got, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL_FATAL(truncate(lmc_test_path("archive"), (off_t)(place + nbytes / 2)), 0);
    CU_ASSERT_EQUAL(lmc_st_read_stored(file, index, 0, (size_t)nbytes, got, &diag), LMC_ERR_IO);
    CU_ASSERT_STRING_EQUAL(diag.tensor, "large");
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.file, "archive"));
    lmc_st_close(file);
}

LMC_TEST(test_end)
{
    unlink(lmc_test_path("plain"));
    unlink(lmc_test_path("archive"));
}

LMC_TEST_DIR_MAIN("st_read_many")
