/*
 * test_st_api.c - lmc_st.h from the outside: convert, open, find, read ranges, cancel.
 */
#include "lmc_test_st.h"

#define VALUE_COUNT 200000u
#define NOISE_NBYTES 300000u
#define DATA_NBYTES (2 * VALUE_COUNT + NOISE_NBYTES + 8)

static const char *plain_path, *archive_path, *back_path;
static unsigned char data[DATA_NBYTES];

/* Tensors "weights" (BF16, coded), "noise" (U8), "pair" (F32, short), "none" (I8, empty). */
static void make_files(void)
{
    char header[512];
    const int length = snprintf(header, sizeof header,
                                "{\"weights\":{\"dtype\":\"BF16\",\"shape\":[%u],\"data_offsets\":[0,%u]},"
                                "\"noise\":{\"dtype\":\"U8\",\"shape\":[%u],\"data_offsets\":[%u,%u]},"
                                "\"pair\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[%u,%u]},"
                                "\"none\":{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[%u,%u]}}",
                                VALUE_COUNT, 2 * VALUE_COUNT, NOISE_NBYTES, 2 * VALUE_COUNT, DATA_NBYTES - 8,
                                DATA_NBYTES - 8, DATA_NBYTES, DATA_NBYTES, DATA_NBYTES);
    uint32_t state = 1;
    for (size_t i = 0; i < DATA_NBYTES; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (unsigned char)(state >> 24);
        if (i < 2 * VALUE_COUNT && i % 2 == 1)
            data[i] = (unsigned char)(0x3c | (state >> 24 & 0x80) | (state >> 20 & 1));
    }
    plain_path = lmc_test_path("m.safetensors");
    archive_path = lmc_test_path("m.safetensors.lmc");
    back_path = lmc_test_path("back");
    FILE *const file = fopen(plain_path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    const unsigned char prefix[8] = {(unsigned char)length, (unsigned char)(length >> 8)};
    fwrite(prefix, 1, sizeof prefix, file);
    fwrite(header, 1, (size_t)length, file);
    fwrite(data, 1, sizeof data, file);
    CU_ASSERT_EQUAL(fclose(file), 0);
}

LMC_TEST(test_convert)
{
    lmc_st_result result = LMC_INIT(lmc_st_result);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    make_files();
    CU_ASSERT_EQUAL(lmc_st_convert(plain_path, archive_path, NULL, &result, &diag), LMC_OK);
    CU_ASSERT_EQUAL(diag.status, LMC_OK);
    CU_ASSERT_EQUAL(result.tensor_count, 4);
    CU_ASSERT_TRUE(result.stored_nbytes < result.original_nbytes);
    CU_ASSERT_EQUAL(lmc_st_convert(plain_path, archive_path, NULL, &result, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(result.tensor_count, 0);
    CU_ASSERT_EQUAL(lmc_st_verify(archive_path, NULL, &result, NULL), LMC_OK);
    CU_ASSERT_TRUE(result.is_archive);
    CU_ASSERT_EQUAL(lmc_st_verify(plain_path, NULL, NULL, NULL), LMC_OK);
}

static lmc_st_file *open_or_fail(const char *path)
{
    lmc_st_file *file = NULL;
    CU_ASSERT_EQUAL(lmc_st_open(path, NULL, &file, NULL), LMC_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    return file;
}

static void expect_loaded(const char *path, const char *name, const unsigned char *expected, size_t nbytes)
{
    void *content = NULL;
    size_t found_nbytes = 1;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    CU_ASSERT_EQUAL_FATAL(lmc_st_load_tensor(path, name, NULL, &content, &found_nbytes, &diag), LMC_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(content);
    CU_ASSERT_EQUAL_FATAL(found_nbytes, nbytes);
    CU_ASSERT_EQUAL(memcmp(content, expected, nbytes), 0);
    free(content);
}

static void expect_not_loaded(const char *path, const char *name, lmc_status status)
{
    void *content = data;
    size_t nbytes = 1;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    CU_ASSERT_EQUAL(lmc_st_load_tensor(path, name, NULL, &content, &nbytes, &diag), status);
    CU_ASSERT_EQUAL(diag.status, status);
    CU_ASSERT_TRUE(!content && nbytes == 0);
}

LMC_TEST(test_load)
{
    for (int is_plain = 0; is_plain < 2; is_plain++) {
        const char *const path = is_plain ? plain_path : archive_path;
        expect_loaded(path, "weights", data, 2 * VALUE_COUNT);
        expect_loaded(path, "noise", data + 2 * VALUE_COUNT, NOISE_NBYTES);
        expect_loaded(path, "none", data, 0);
        expect_not_loaded(path, "no such tensor", LMC_ERR_ARG);
    }
    expect_not_loaded(back_path, "weights", LMC_ERR_IO);
}

LMC_TEST(test_describe)
{
    static const lmc_st_mode modes[] = {LMC_ST_MODE_CODED, LMC_ST_MODE_CODED, LMC_ST_MODE_SHORT,
                                        LMC_ST_MODE_SHORT};
    lmc_st_file *const file = open_or_fail(archive_path);
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    uint64_t index = 0;
    size_t nbytes = 0;
    CU_ASSERT_TRUE(lmc_st_is_archive(file));
    CU_ASSERT_EQUAL(lmc_st_tensor_count(file), 4);
    CU_ASSERT_TRUE(lmc_st_find_tensor_sized(file, "pair", 4, &index));
    CU_ASSERT_EQUAL(index, 2);
    CU_ASSERT_FALSE(lmc_st_find_tensor_sized(file, "pai", 3, &index));
    CU_ASSERT_TRUE(lmc_st_find_tensor(file, "pair", &index));
    CU_ASSERT_FALSE(lmc_st_find_tensor(file, "pai", &index));
    CU_ASSERT_FALSE(lmc_st_find_tensor_sized(file, "lmc.archive", 11, &index));
    CU_ASSERT_EQUAL(lmc_st_tensor_info(file, 2, &tensor), LMC_OK);
    CU_ASSERT_STRING_EQUAL(tensor.name, "pair");
    CU_ASSERT_STRING_EQUAL(tensor.dtype_name, "F32");
    CU_ASSERT_TRUE(tensor.rank == 2 && tensor.shape[0] == 2 && tensor.shape[1] == 1);
    CU_ASSERT_EQUAL(tensor.nbytes, 8);
    CU_ASSERT_EQUAL(lmc_st_tensor_info(file, 4, &tensor), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(memcmp(lmc_st_header(file, &nbytes), "{\"weights\"", 10), 0);
    for (uint64_t i = 0; i < 4; i++) {
        lmc_st_mode mode = LMC_ST_MODE_PLAIN;
        CU_ASSERT_EQUAL(lmc_st_tensor_mode(file, i, &mode, NULL), LMC_OK);
        /* whether noise is stored or coded is the encoder's choice */
        CU_ASSERT_TRUE(mode == modes[i] || (i == 1 && mode == LMC_ST_MODE_STORED));
    }
    lmc_st_close(file);
    lmc_st_close(NULL);
}

static void check_ranges(const lmc_st_file *file, lmc_ctx *ctx)
{
    static const size_t sizes[] = {0, 1, 3, 4096, 131072, 131073, 299999};
    static unsigned char dst[DATA_NBYTES];
    for (uint64_t i = 0; i < 4; i++) {
        lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
        CU_ASSERT_EQUAL_FATAL(lmc_st_tensor_info(file, i, &tensor), LMC_OK);
        const unsigned char *const expected = data + tensor.data_offset;
        CU_ASSERT_EQUAL(lmc_st_read(file, ctx, i, dst, sizeof dst, NULL), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(dst, expected, tensor.nbytes), 0);
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++) {
            for (uint64_t first = 0; first + sizes[j] <= tensor.nbytes; first += 65537) {
                CU_ASSERT_EQUAL(lmc_st_read_range(file, ctx, i, first, sizes[j], dst, NULL), LMC_OK);
                CU_ASSERT_EQUAL(memcmp(dst, expected + first, sizes[j]), 0);
            }
        }
    }
}

LMC_TEST(test_read)
{
    lmc_ctx *ctx = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(NULL, &ctx), LMC_OK);
    lmc_st_file *const archive = open_or_fail(archive_path);
    lmc_st_file *const plain = open_or_fail(plain_path);
    check_ranges(archive, ctx);
    check_ranges(archive, NULL);
    check_ranges(plain, NULL);
    lmc_st_close(archive);
    lmc_st_close(plain);
    lmc_ctx_free(ctx);
}

LMC_TEST(test_read_limits)
{
    unsigned char dst[16];
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_st_file *const file = open_or_fail(archive_path);
    CU_ASSERT_EQUAL(lmc_st_read(file, NULL, 2, dst, 7, &diag), LMC_ERR_DST_SMALL);
    CU_ASSERT_STRING_EQUAL(diag.tensor, "pair");
    CU_ASSERT_EQUAL(lmc_st_read(file, NULL, 4, dst, 16, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_read_range(file, NULL, 2, 8, 0, dst, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_read_range(file, NULL, 2, 8, 1, dst, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_read_range(file, NULL, 2, UINT64_MAX, 2, dst, &diag), LMC_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(diag.file, archive_path);
    lmc_st_close(file);
}

/* A plain file that is cut while it is open: the tensor is named. */
LMC_TEST(test_read_of_a_cut_file)
{
    unsigned char dst[16];
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_st_file *const file = open_or_fail(plain_path);
    const off_t nbytes = (off_t)lmc_st_original_nbytes(file);
    CU_ASSERT_EQUAL(truncate(plain_path, nbytes - 1), 0);
    CU_ASSERT_EQUAL(lmc_st_read(file, NULL, 2, dst, sizeof dst, &diag), LMC_ERR_IO);
    CU_ASSERT_EQUAL(diag.status, LMC_ERR_IO);
    CU_ASSERT_STRING_EQUAL(diag.tensor, "pair");
    CU_ASSERT_EQUAL(diag.offset, (uint64_t)nbytes - 1);
    CU_ASSERT_EQUAL(lmc_st_read_range(file, NULL, 2, 0, 7, dst, &diag), LMC_OK);
    CU_ASSERT_FALSE(diag.has_tensor);
    lmc_st_close(file);
}

/* ---- progress, cancel ---- */

typedef struct watch {
    uint64_t last, total;
    unsigned calls;
    int is_falling;
    volatile int cancel;
    int cancels; /* at the first call */
} watch;

static void watch_progress(void *user, uint64_t done_nbytes, uint64_t total_nbytes)
{
    watch *const seen = user;
    seen->is_falling |= done_nbytes < seen->last;
    seen->last = done_nbytes;
    seen->total = total_nbytes;
    seen->calls++;
    __atomic_store_n(&seen->cancel, seen->cancels, __ATOMIC_RELAXED);
}

LMC_TEST(test_progress_and_cancel)
{
    for (unsigned threads = 1; threads < 4; threads++) {
        for (int cancels = 0; cancels < 2; cancels++) {
            watch seen = {.cancels = cancels};
            lmc_test_settings options = {0};
            lmc_st_diag diag = LMC_INIT(lmc_st_diag);
            options.common.thread_count = threads;
            options.common.progress = watch_progress;
            options.common.user = &seen;
            options.common.cancel = &seen.cancel;
            const lmc_status status = lmc_test_restore_as(archive_path, back_path, &options, NULL, &diag);
            CU_ASSERT_FALSE(seen.is_falling);
            CU_ASSERT_EQUAL(seen.total, DATA_NBYTES);
            if (!cancels) {
                CU_ASSERT_EQUAL(status, LMC_OK);
                CU_ASSERT_EQUAL(seen.last, DATA_NBYTES);
            } else if (status != LMC_OK) { /* one thread: always */
                CU_ASSERT_EQUAL(status, LMC_ERR_CANCELLED);
            }
            CU_ASSERT_EQUAL(access(back_path, F_OK), status == LMC_OK ? 0 : -1);
            CU_ASSERT_TRUE(!cancels || threads > 1 || status == LMC_ERR_CANCELLED);
            unlink(back_path);
        }
    }
}

/* ---- shapes of many dimensions ---- */

#define RANK_COUNT 4

static void expect_shape(const lmc_st_file *file, uint64_t index, size_t rank)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    lmc_st_tensor again = LMC_INIT(lmc_st_tensor);
    CU_ASSERT_EQUAL_FATAL(lmc_st_tensor_info(file, index, &tensor), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(tensor.rank, rank);
    CU_ASSERT_EQUAL(tensor.nbytes, 6);
    for (size_t i = 0; i < rank; i++)
        CU_ASSERT_EQUAL(tensor.shape[i], i == 2 ? 3 : i + 1 == rank ? 2 : 1);
    CU_ASSERT_EQUAL(lmc_st_tensor_info(file, index, &again), LMC_OK);
    CU_ASSERT_PTR_EQUAL(again.shape, tensor.shape);
}

/* Shapes of few dimensions are kept as numbers, others are made from the text. */
LMC_TEST(test_large_ranks)
{
    static const size_t ranks[RANK_COUNT] = {15, 16, 17, LMC_ST_RANK_MAX};
    uint64_t shape[LMC_ST_RANK_MAX];
    const char *const path = lmc_test_path("ranks");
    lmc_st_writer *const writer = lmc_test_writer();
    for (size_t i = 0; i < RANK_COUNT; i++) {
        const char name = (char)('a' + i);
        for (size_t dim = 0; dim < ranks[i]; dim++)
            shape[dim] = dim == 2 ? 3 : dim + 1 == ranks[i] ? 2 : 1;
        CU_ASSERT_EQUAL(lmc_st_writer_add(writer, &name, 1, LMC_DTYPE_U8, shape, ranks[i], data), LMC_OK);
    }
    for (int is_plain = 0; is_plain < 2; is_plain++) {
        CU_ASSERT_EQUAL(is_plain ? lmc_st_writer_write_plain(writer, path, NULL, NULL, NULL)
                                 : lmc_st_writer_write(writer, path, NULL, NULL, NULL),
                        LMC_OK);
        lmc_st_file *const file = open_or_fail(path);
        for (size_t i = 0; i < RANK_COUNT; i++)
            expect_shape(file, i, ranks[i]);
        lmc_st_close(file);
        CU_ASSERT_EQUAL(unlink(path), 0);
    }
    lmc_st_writer_free(writer);
}

/* Spaces are allowed in a shape, and read with it. */
LMC_TEST(test_spaced_shape)
{
    char bytes[400];
    const char *const path = lmc_test_path("spaced");
    const int length = snprintf(
        bytes + 8, sizeof bytes - 8,
        "{\"a\":{\"dtype\":\"U8\", \"shape\" :\t[ 1 , 1,1 ,1,\n\r1,1,1,1,1,1,1,1,1,1,1,1 , 12 , 2 ] ,"
        "\"data_offsets\":[0,24]}}");
    const unsigned char prefix[8] = {(unsigned char)length};
    memcpy(bytes, prefix, sizeof prefix);
    memset(bytes + 8 + length, 'x', 24);
    lmc_test_write(path, bytes, (size_t)length + 32);
    lmc_st_file *const file = open_or_fail(path);
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    CU_ASSERT_EQUAL_FATAL(lmc_st_tensor_info(file, 0, &tensor), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(tensor.rank, 18);
    CU_ASSERT_TRUE(tensor.shape[0] == 1 && tensor.shape[15] == 1 && tensor.shape[16] == 12 &&
                   tensor.shape[17] == 2);
    lmc_st_close(file);
    CU_ASSERT_EQUAL(unlink(path), 0);
}

LMC_TEST(test_clean_up)
{
    unlink(plain_path);
    unlink(archive_path);
}

LMC_TEST_DIR_MAIN("st_api")
