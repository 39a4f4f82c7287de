/*
 * test_st_writer.c - lmc_st_writer_write() and _write_plain(): what goes in comes out of both, and the archive
 * restores to the plain file. What is refused is in test_st_writer_refused.c, callbacks are in
 * test_st_writer_calls.c.
 */
#include "lmc_test_st.h"

static unsigned char data[1 << 20];

/* A name with everything that JSON escapes or that is long in UTF-8. */
static const char odd_name[] = "a\"b\\c/\b\f\n\r\t\x01\x1f\x7f\0z\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80";
static const size_t odd_name_nbytes = sizeof odd_name - 1;

/* Writes both forms, as `name` and `name`.lmc, and checks that one restores to the other. */
static void write_both(const lmc_st_writer *writer, const char *name)
{
    char archive[LMC_TEST_PATH_NBYTES];
    const char *const plain = lmc_test_path(name);
    const char *const back = lmc_test_path("back");
    const lmc_test_settings options = lmc_test_options(2);
    lmc_st_result of_plain = LMC_INIT(lmc_st_result);
    lmc_st_result of_archive = LMC_INIT(lmc_st_result);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    snprintf(archive, sizeof archive, "%s.lmc", plain);
    CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(writer, plain, &options, &of_plain, &diag), LMC_OK);
    CU_ASSERT_EQUAL(diag.status, LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_writer_write_as(writer, archive, &options, &of_archive, &diag), LMC_OK);
    CU_ASSERT_EQUAL(diag.status, LMC_OK);
    CU_ASSERT_EQUAL(of_plain.original_nbytes, of_archive.original_nbytes);
    CU_ASSERT_EQUAL(of_plain.stored_nbytes, of_plain.original_nbytes);
    CU_ASSERT_EQUAL(of_plain.tensor_count, of_archive.tensor_count);
    CU_ASSERT_EQUAL(lmc_test_restore_as(archive, back, &options, NULL, NULL), LMC_OK);
    CU_ASSERT_TRUE(lmc_test_same_files(plain, back));
    unlink(back);

    /* the same archive as one made of the plain file */
    CU_ASSERT_EQUAL(lmc_test_convert_as(plain, back, &options, NULL, NULL), LMC_OK);
    CU_ASSERT_TRUE(lmc_test_same_files(archive, back));
    unlink(back);
}

/* Opens a file and removes it. */
static lmc_st_file *open_and_unlink(const char *name)
{
    lmc_st_file *file = NULL;
    CU_ASSERT_EQUAL(lmc_st_open(lmc_test_path(name), NULL, &file, NULL), LMC_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(unlink(lmc_test_path(name)), 0);
    return file;
}

/* A tensor of this name, shape and content is in the file. */
static void expect_tensor(const lmc_st_file *file, const char *name, size_t name_nbytes, lmc_dtype dtype,
                          const uint64_t *shape, size_t rank, const void *content, size_t nbytes)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    uint64_t index = UINT64_MAX;
    unsigned char *const read = malloc(nbytes + 1);
    CU_ASSERT_TRUE_FATAL(lmc_st_find_tensor_sized(file, name, name_nbytes, &index));
    CU_ASSERT_EQUAL(lmc_st_tensor_info(file, index, &tensor), LMC_OK);
    CU_ASSERT_EQUAL(tensor.name_nbytes, name_nbytes);
    CU_ASSERT_EQUAL(memcmp(tensor.name, name, name_nbytes), 0);
    CU_ASSERT_EQUAL(tensor.dtype, dtype);
    CU_ASSERT_EQUAL(tensor.rank, rank);
    CU_ASSERT_EQUAL(tensor.nbytes, nbytes);
    CU_ASSERT_TRUE(rank > 0 ? memcmp(tensor.shape, shape, rank * sizeof *shape) == 0 : tensor.shape == NULL);
    CU_ASSERT_EQUAL(lmc_st_read(file, NULL, index, read, nbytes, NULL), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(read, content, nbytes), 0);
    free(read);
}

#define STRIP_ROWS 8
#define STRIP_COLUMNS 61000
#define STRIP_VALUES 4096

/* BF16 whose plan is misled: in the strip of a row that a sample counts, magnitudes follow those of the column, as if
 * columns were of different scale. All others are noise. So the plan has an offset for each column, and blocks do not
 * get smaller. */
static void make_misleading(uint16_t *matrix)
{
    enum { OCTAVE = 256, FLOOR = 3 * OCTAVE, RANGE = 40 * OCTAVE };
    const uint32_t lowest = 107 * OCTAVE, floor = 127 * OCTAVE - FLOOR;
    uint32_t state = 1;
    for (size_t i = 0; i < (size_t)STRIP_ROWS * STRIP_COLUMNS; i++) {
        state = state * 1664525 + 1013904223;
        matrix[i] = (uint16_t)(lowest + (uint32_t)((uint64_t)state * RANGE >> 32));
    }
    for (size_t row = 0; row < STRIP_ROWS; row++) {
        const size_t first = (STRIP_COLUMNS - STRIP_VALUES) * row / STRIP_ROWS;
        for (size_t j = first; j < first + STRIP_VALUES; j++) {
            uint32_t sum = 0;
            for (size_t i = 0; i < STRIP_ROWS; i++) {
                const uint16_t magnitude = matrix[i * STRIP_COLUMNS + j];
                sum += i != row && magnitude > floor ? magnitude - floor : 0;
            }
            const uint32_t mean = sum / (STRIP_ROWS - 1) + OCTAVE;
            matrix[row * STRIP_COLUMNS + j] = (uint16_t)(floor + mean);
        }
    }
    for (size_t i = 0; i < (size_t)STRIP_ROWS * STRIP_COLUMNS;
         i++) { /* the sign, as the rotated value has it */
        state = state * 1664525 + 1013904223;
        matrix[i] = (uint16_t)(matrix[i] >> 1 | (state >> 31) << 15);
    }
}

LMC_TEST(test_begin)
{
    lmc_test_weights(data, sizeof data, 1);
}

/* A frame that is larger than its content by all offsets of columns. Its size has a digit more than the content's; with
 * some lengths of the name, no space of the archive header is left over. */
LMC_TEST(test_misleading_sample)
{
    static uint16_t matrix[STRIP_ROWS * STRIP_COLUMNS];
    static const uint64_t shape[] = {STRIP_ROWS, STRIP_COLUMNS};
    make_misleading(matrix);
    for (size_t name_nbytes = 1; name_nbytes <= 8; name_nbytes++) {
        lmc_st_writer *const writer = lmc_test_writer();
        CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "misleads", name_nbytes, LMC_DTYPE_BF16, shape, 2, matrix),
                        LMC_OK);
        write_both(writer, "misleading");
        unlink(lmc_test_path("misleading"));
        unlink(lmc_test_path("misleading.lmc"));
        lmc_st_writer_free(writer);
    }
}

/* Each dtype small and of several blocks, named and ordered as the official package would. */
LMC_TEST(test_every_dtype)
{
    lmc_st_writer *const writer = lmc_test_writer();
    char names[2 * LMC_DTYPE_COUNT][32];
    for (unsigned i = 0; i < 2 * LMC_DTYPE_COUNT; i++) {
        const uint64_t shape[2] = {i % 2 == 0 ? 3 : 200, i % 2 == 0 ? 8 : 400};
        snprintf(names[i], sizeof names[i], "%u.%s", i, lmc_dtype_name((lmc_dtype)(i / 2)));
        CU_ASSERT_EQUAL(
            lmc_st_writer_add(writer, names[i], strlen(names[i]), (lmc_dtype)(i / 2), shape, 2, data + i),
            LMC_OK);
    }
    write_both(writer, "dtypes");
    lmc_st_writer_free(writer);
    lmc_st_file *const files[] = {open_and_unlink("dtypes"), open_and_unlink("dtypes.lmc")};
    for (unsigned i = 0; i < 4 * LMC_DTYPE_COUNT; i++) {
        const unsigned j = i / 2;
        const uint64_t shape[2] = {j % 2 == 0 ? 3 : 200, j % 2 == 0 ? 8 : 400};
        const lmc_dtype dtype = (lmc_dtype)(j / 2);
        const size_t nbytes = (size_t)(shape[0] * shape[1] * lmc_dtype_nbits(dtype) / 8);
        expect_tensor(files[i % 2], names[j], strlen(names[j]), dtype, shape, 2, data + j, nbytes);
    }
    CU_ASSERT_EQUAL(lmc_st_tensor_count(files[0]), 2 * LMC_DTYPE_COUNT);
    lmc_st_close(files[0]);
    lmc_st_close(files[1]);
}

LMC_TEST(test_empty_and_scalar)
{
    static const uint64_t hole[3] = {4, 0, 7};
    uint64_t ones[LMC_ST_RANK_MAX];
    lmc_st_writer *const writer = lmc_test_writer();
    for (size_t i = 0; i < LMC_ST_RANK_MAX; i++)
        ones[i] = 1;
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "hole", 4, LMC_DTYPE_BF16, hole, 3, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "half", 4, LMC_DTYPE_F4, hole, 3, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "scalar", 6, LMC_DTYPE_F64, NULL, 0, data), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "deep", 4, LMC_DTYPE_U8, ones, LMC_ST_RANK_MAX, data), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "", 0, LMC_DTYPE_I32, ones, 1, data), LMC_OK);
    write_both(writer, "empty");
    lmc_st_writer_free(writer);
    lmc_st_file *const files[] = {open_and_unlink("empty"), open_and_unlink("empty.lmc")};
    for (size_t i = 0; i < 2; i++) {
        expect_tensor(files[i], "hole", 4, LMC_DTYPE_BF16, hole, 3, data, 0);
        expect_tensor(files[i], "half", 4, LMC_DTYPE_F4, hole, 3, data, 0);
        expect_tensor(files[i], "scalar", 6, LMC_DTYPE_F64, NULL, 0, data, 8);
        expect_tensor(files[i], "deep", 4, LMC_DTYPE_U8, ones, LMC_ST_RANK_MAX, data, 1);
        expect_tensor(files[i], "", 0, LMC_DTYPE_I32, ones, 1, data, 4);
        lmc_st_close(files[i]);
    }
}

LMC_TEST(test_names)
{
    static const uint64_t shape[1] = {100};
    static char long_name[70000];
    static const char *const plain_names[] = {"lmc.archive", "lmc.archive~", "__metadata_", "A", "a",
                                              " ",           "../up"};
    lmc_st_writer *const writer = lmc_test_writer();
    memset(long_name, '"', sizeof long_name);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, odd_name, odd_name_nbytes, LMC_DTYPE_U8, shape, 1, data),
                    LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, long_name, sizeof long_name, LMC_DTYPE_U8, shape, 1, data + 1),
                    LMC_OK);
    for (size_t i = 0; i < sizeof plain_names / sizeof plain_names[0]; i++)
        CU_ASSERT_EQUAL(lmc_test_add(writer, plain_names[i], LMC_DTYPE_U8, 100, data + 2 + i), LMC_OK);
    write_both(writer, "names");
    lmc_st_writer_free(writer);
    lmc_st_file *const files[] = {open_and_unlink("names"), open_and_unlink("names.lmc")};
    for (size_t i = 0; i < 2; i++) {
        expect_tensor(files[i], odd_name, odd_name_nbytes, LMC_DTYPE_U8, shape, 1, data, 100);
        expect_tensor(files[i], long_name, sizeof long_name, LMC_DTYPE_U8, shape, 1, data + 1, 100);
        for (size_t j = 0; j < sizeof plain_names / sizeof plain_names[0]; j++) {
            expect_tensor(files[i], plain_names[j], strlen(plain_names[j]), LMC_DTYPE_U8, shape, 1,
                          data + 2 + j, 100);
        }
        lmc_st_close(files[i]);
    }
}

LMC_TEST(test_metadata)
{
    const char *key = NULL;
    const char *value = NULL;
    size_t key_nbytes = 0;
    size_t value_nbytes = 0;
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, "format", 6, "pt", 2), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, "", 0, odd_name, odd_name_nbytes), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, odd_name, odd_name_nbytes, "", 0), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "x", LMC_DTYPE_U8, 1, data), LMC_OK);
    write_both(writer, "metadata");
    lmc_st_writer_free(writer);
    lmc_st_file *const files[] = {open_and_unlink("metadata"), open_and_unlink("metadata.lmc")};
    for (size_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(lmc_st_metadata_count(files[i]), 3);
        CU_ASSERT_EQUAL(lmc_st_metadata(files[i], 0, &key, &key_nbytes, &value, &value_nbytes), LMC_OK);
        CU_ASSERT_STRING_EQUAL(key, "format");
        CU_ASSERT_STRING_EQUAL(value, "pt");
        CU_ASSERT_EQUAL(lmc_st_metadata(files[i], 1, &key, &key_nbytes, &value, &value_nbytes), LMC_OK);
        CU_ASSERT_EQUAL(key_nbytes, 0);
        CU_ASSERT_EQUAL(value_nbytes, odd_name_nbytes);
        CU_ASSERT_EQUAL(memcmp(value, odd_name, sizeof odd_name), 0);
        CU_ASSERT_EQUAL(lmc_st_metadata(files[i], 2, &key, &key_nbytes, &value, &value_nbytes), LMC_OK);
        CU_ASSERT_EQUAL(key_nbytes, odd_name_nbytes);
        CU_ASSERT_EQUAL(memcmp(key, odd_name, sizeof odd_name), 0);
        CU_ASSERT_STRING_EQUAL(value, "");
        CU_ASSERT_EQUAL(lmc_st_metadata(files[i], 3, &key, &key_nbytes, &value, &value_nbytes), LMC_ERR_ARG);
        CU_ASSERT(!key && !value && key_nbytes == 0 && value_nbytes == 0);
        lmc_st_close(files[i]);
    }
}

LMC_TEST(test_no_tensors)
{
    size_t nbytes = 0;
    lmc_st_writer *const writer = lmc_test_writer();
    write_both(writer, "none");
    lmc_st_file *file = open_and_unlink("none");
    CU_ASSERT_EQUAL(lmc_st_tensor_count(file), 0);
    CU_ASSERT_EQUAL(lmc_st_metadata_count(file), 0);
    CU_ASSERT_EQUAL(memcmp(lmc_st_header(file, &nbytes), "{}      ", 8), 0);
    CU_ASSERT_EQUAL(nbytes, 8);
    lmc_st_close(file);
    CU_ASSERT_EQUAL(unlink(lmc_test_path("none.lmc")), 0);

    CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, "k", 1, "v", 1), LMC_OK);
    write_both(writer, "none");
    file = open_and_unlink("none.lmc");
    CU_ASSERT_EQUAL(lmc_st_metadata_count(file), 1);
    lmc_st_close(file);
    CU_ASSERT_EQUAL(unlink(lmc_test_path("none")), 0);
    lmc_st_writer_free(writer);
}

LMC_TEST(test_many_tensors)
{
    lmc_st_writer *const writer = lmc_test_writer();
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    unsigned char read[8];
    unsigned wrong = 0;
    for (unsigned i = 0; i < 10000; i++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%u.scale", (i * 7919u) % 10000u);
        CU_ASSERT_EQUAL_FATAL(lmc_test_add(writer, name, LMC_DTYPE_F32, 2, data + 4 * i), LMC_OK);
    }
    write_both(writer, "many");
    lmc_st_writer_free(writer);
    lmc_st_file *const file = open_and_unlink("many.lmc");
    CU_ASSERT_EQUAL(lmc_st_tensor_count(file), 10000);
    for (uint64_t i = 0; i < 10000; i++) {
        wrong += lmc_st_tensor_info(file, i, &tensor) != LMC_OK;
        const unsigned number = (unsigned)strtoul(tensor.name + strlen("layers."), NULL, 10);
        unsigned at = 0;
        while ((at * 7919u) % 10000u != number)
            at++;
        wrong += lmc_st_read(file, NULL, i, read, 8, NULL) != LMC_OK || memcmp(read, data + 4 * at, 8) != 0;
    }
    CU_ASSERT_EQUAL(wrong, 0);
    lmc_st_close(file);
    CU_ASSERT_EQUAL(unlink(lmc_test_path("many")), 0);
}

/* A writer may be written, grow, and be written again. */
LMC_TEST(test_writing_twice)
{
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_test_add(writer, "x", LMC_DTYPE_BF16, 100000, data), LMC_OK);
    write_both(writer, "first");
    write_both(writer, "again");
    CU_ASSERT_TRUE(lmc_test_same_files(lmc_test_path("first.lmc"), lmc_test_path("again.lmc")));
    CU_ASSERT_TRUE(lmc_test_same_files(lmc_test_path("first"), lmc_test_path("again")));
    CU_ASSERT_EQUAL(lmc_test_add(writer, "y", LMC_DTYPE_BF16, 100000, data + 1), LMC_OK);
    write_both(writer, "larger");
    lmc_st_writer_free(writer);
    lmc_st_writer_free(NULL);
    lmc_st_file *const file = open_and_unlink("larger.lmc");
    CU_ASSERT_EQUAL(lmc_st_tensor_count(file), 2);
    lmc_st_close(file);
    static const char *const names[] = {"first", "first.lmc", "again", "again.lmc", "larger"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CU_ASSERT_EQUAL(unlink(lmc_test_path(names[i])), 0);
}

LMC_TEST_DIR_MAIN("st_writer")
