/*
 * test_st_writer_refused.c - what lmc_st_writer refuses: when a tensor or entry is added, or when the file
 * is written. A refused call leaves the writer as it was and nothing on the disk.
 */
#include "lmc_test_st.h"

static unsigned char data[4096];

/* Both ways of writing end so, and leave nothing. */
static void expect_refused(const lmc_st_writer *writer, lmc_status expected)
{
    const lmc_test_settings options = lmc_test_options(1);
    lmc_st_result result = LMC_INIT(lmc_st_result);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    memset(&result, 0xff, sizeof result);
    result.struct_size = sizeof result;
    CU_ASSERT_EQUAL(lmc_test_writer_write_as(writer, lmc_test_path("x"), &options, &result, &diag), expected);
    CU_ASSERT_EQUAL(diag.status, expected);
    CU_ASSERT_TRUE(diag.text[0] != '\0');
    CU_ASSERT_STRING_EQUAL(diag.file, lmc_test_path("x"));
    CU_ASSERT_EQUAL(result.tensor_count, 0);
    CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(writer, lmc_test_path("x"), &options, &result, &diag),
                    expected);
    CU_ASSERT_EQUAL(diag.status, expected);
    CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(writer, lmc_test_path("x"), &options, NULL, NULL),
                    expected);
    CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), 0);
}

static void expect_count(const lmc_st_writer *writer, uint64_t count)
{
    const lmc_test_settings options = lmc_test_options(1);
    lmc_st_result result = LMC_INIT(lmc_st_result);
    CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(writer, lmc_test_path("x"), &options, &result, NULL),
                    LMC_OK);
    CU_ASSERT_EQUAL(result.tensor_count, count);
    CU_ASSERT_EQUAL(unlink(lmc_test_path("x")), 0);
}

LMC_TEST(test_duplicate_names)
{
    static const char *const names[] = {"twice", "", "\xe4\xb8\xad", "quote\""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        lmc_st_writer *const writer = lmc_test_writer();
        CU_ASSERT_EQUAL(lmc_test_add(writer, names[i], LMC_DTYPE_U8, 4, data), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_add(writer, "other", LMC_DTYPE_U8, 4, data), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_add(writer, names[i], LMC_DTYPE_F64, 2, data), LMC_OK);
        expect_refused(writer, LMC_ERR_ARG);
        lmc_st_writer_free(writer);
    }
}

LMC_TEST(test_duplicate_keys)
{
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, "k\0", 2, "1", 1), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, "k", 1, "2", 1), LMC_OK);
    expect_count(writer, 0);
    CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, "k\0", 2, "1", 1), LMC_OK);
    expect_refused(writer, LMC_ERR_ARG);
    lmc_st_writer_free(writer);
}

/* The one name that a header gives another meaning. */
LMC_TEST(test_metadata_as_a_name)
{
    lmc_st_writer *const writer = lmc_test_writer();
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "__metadata__", LMC_DTYPE_U8, 4, data), LMC_OK);
    expect_refused(writer, LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_writer_write(writer, lmc_test_path("x"), NULL, NULL, &diag), LMC_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(diag.text, "a tensor cannot be called __metadata__");
    CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, "k", 1, "v", 1), LMC_OK);
    expect_refused(writer, LMC_ERR_ARG);
    lmc_st_writer_free(writer);
}

/* Before anything is coded: read() fails with another status. */
static lmc_status fail_to_read(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)user, (void)offset, (void)dst, (void)nbytes;
    return LMC_ERR_IO;
}

LMC_TEST(test_no_name_of_an_output)
{
    const uint64_t shape[1] = {4};
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_st_writer_add_from(writer, "x", 1, LMC_DTYPE_U8, shape, 1, fail_to_read, NULL),
                    LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_write(writer, "", NULL, NULL, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_writer_write_plain(writer, "", NULL, NULL, NULL), LMC_ERR_ARG);
    lmc_st_writer_free(writer);
}

LMC_TEST(test_allocator_without_functions)
{
    static const lmc_allocator none;
    const lmc_st_open_options how = {.struct_size = sizeof how, .allocator = &none};
    const lmc_st_options options = {.struct_size = sizeof options, .common = {.allocator = &none}};
    lmc_st_writer *writer = lmc_test_writer();
    lmc_st_file *file = NULL;
    lmc_st_cache *cache = NULL;
    lmc_st_writer_free(writer);
    CU_ASSERT_EQUAL(lmc_st_writer_create(&none, &writer), LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(writer);
    CU_ASSERT_EQUAL(lmc_st_open(lmc_test_path("x"), &how, &file, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_cache_create(0, &options, &cache, NULL), LMC_ERR_ARG);
}

/* Marks of an archive would make the plain file one that nothing can open. */
LMC_TEST(test_marks_of_an_archive)
{
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_test_add(writer, "x", LMC_DTYPE_U8, 4, data), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, "lmc_archive", 11, "1", 1), LMC_OK);
    expect_count(writer, 1);
    CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, "format", 6, "lmc", 3), LMC_OK);
    expect_refused(writer, LMC_ERR_ARG);
    lmc_st_writer_free(writer);
}

LMC_TEST(test_bad_utf8)
{
    static const struct {
        const char *bytes;
        size_t nbytes;
    } texts[] = {{"\x80", 1},
                 {"\xff", 1},
                 {"a\xc3", 2},
                 {"\xc0\x80", 2},
                 {"\xe0\x80\x80", 3},
                 {"\xed\xa0\x80", 3},
                 {"\xf4\x90\x80\x80", 4},
                 {"\xf0\x9f\x98", 3},
                 {"\xe4\xb8\xad\xad", 4}};
    lmc_st_writer *const writer = lmc_test_writer();
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const uint64_t shape[1] = {1};
        const char *const bytes = texts[i].bytes;
        const size_t nbytes = texts[i].nbytes;
        CU_ASSERT_EQUAL(lmc_st_writer_add(writer, bytes, nbytes, LMC_DTYPE_U8, shape, 1, data), LMC_ERR_ARG);
        CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, bytes, nbytes, "v", 1), LMC_ERR_ARG);
        CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, "k", 1, bytes, nbytes), LMC_ERR_ARG);
    }
    /* the good beginning of a bad text is good */
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "a\xc3", 1, LMC_DTYPE_U8, NULL, 0, data), LMC_OK);
    expect_count(writer, 1);
    lmc_st_writer_free(writer);
}

LMC_TEST(test_sizes)
{
    static const uint64_t half[2] = {(uint64_t)1 << 32, (uint64_t)1 << 31};
    static const uint64_t all[2] = {(uint64_t)1 << 32, (uint64_t)1 << 32};
    static const uint64_t most[1] = {UINT64_MAX};
    static const uint64_t overflow_then_zero[3] = {(uint64_t)1 << 40, (uint64_t)1 << 40, 0};
    static const uint64_t zero_then_overflow[3] = {0, UINT64_MAX, UINT64_MAX};
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "a", 1, LMC_DTYPE_U8, all, 2, data), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "a", 1, LMC_DTYPE_U8, half, 2, data), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "a", 1, LMC_DTYPE_F4, most, 1, data), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "a", 1, LMC_DTYPE_F64, most, 1, data), LMC_ERR_ARG);
    /* readers multiply from the left, so that a zero that comes too late does not help */
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "a", 1, LMC_DTYPE_U8, overflow_then_zero, 3, data),
                    LMC_ERR_ARG);
    expect_count(writer, 0);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "a", 1, LMC_DTYPE_U8, zero_then_overflow, 3, NULL), LMC_OK);
    expect_count(writer, 1);
    lmc_st_writer_free(writer);
}

/* Each tensor fits, all of them together do not: LIMIT, before anything is read. */
LMC_TEST(test_sum_of_sizes)
{
    static const uint64_t large[1] = {(uint64_t)1 << 60};
    lmc_st_writer *const writer = lmc_test_writer();
    for (unsigned i = 0; i < 8; i++) {
        const char name = (char)('a' + i);
        CU_ASSERT_EQUAL(lmc_st_writer_add(writer, &name, 1, LMC_DTYPE_U8, large, 1, data), LMC_OK);
    }
    expect_refused(writer, LMC_ERR_LIMIT);
    lmc_st_writer_free(writer);
}

LMC_TEST(test_bits_below_a_byte)
{
    static const struct {
        lmc_dtype dtype;
        uint64_t count;
        lmc_status status;
    } cases[] = {{LMC_DTYPE_F4, 1, LMC_ERR_ARG},      {LMC_DTYPE_F4, 3, LMC_ERR_ARG},
                 {LMC_DTYPE_F4, 4, LMC_OK},           {LMC_DTYPE_F6_E2M3, 1, LMC_ERR_ARG},
                 {LMC_DTYPE_F6_E2M3, 2, LMC_ERR_ARG}, {LMC_DTYPE_F6_E3M2, 3, LMC_ERR_ARG},
                 {LMC_DTYPE_F6_E3M2, 4, LMC_OK},      {LMC_DTYPE_F6_E2M3, 0, LMC_OK}};
    lmc_st_writer *const writer = lmc_test_writer();
    uint64_t good = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        CU_ASSERT_EQUAL(lmc_test_add(writer, name, cases[i].dtype, cases[i].count, data), cases[i].status);
        good += cases[i].status == LMC_OK;
    }
    expect_count(writer, good);
    lmc_st_writer_free(writer);
}

LMC_TEST(test_dtype_and_rank)
{
    static uint64_t ones[LMC_ST_RANK_MAX + 1];
    lmc_st_writer *const writer = lmc_test_writer();
    for (size_t i = 0; i <= LMC_ST_RANK_MAX; i++)
        ones[i] = 1;
    CU_ASSERT_EQUAL(lmc_test_add(writer, "a", (lmc_dtype)LMC_DTYPE_COUNT, 1, data), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "a", (lmc_dtype)200, 0, data), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "a", 1, LMC_DTYPE_U8, ones, LMC_ST_RANK_MAX + 1, data),
                    LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_writer_add_from(writer, "a", 1, LMC_DTYPE_U8, ones, 1, NULL, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "a", 1, LMC_DTYPE_U8, ones, 1, NULL), LMC_ERR_ARG);
    expect_count(writer, 0);
    lmc_st_writer_free(writer);
}

/* A header above the limit. */
LMC_TEST(test_header_limit)
{
    const size_t nbytes = LMC_ST_HEADER_NBYTES_MAX / 2;
    char *const name = malloc(nbytes);
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_PTR_NOT_NULL_FATAL(name);
    memset(name, 'a', nbytes);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, name, nbytes, LMC_DTYPE_U8, NULL, 0, data), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, name, nbytes - 1, LMC_DTYPE_U8, NULL, 0, data), LMC_OK);
    expect_refused(writer, LMC_ERR_LIMIT);
    lmc_st_writer_free(writer);
    free(name);
}

LMC_TEST(test_options)
{
    lmc_st_writer *const writer = lmc_test_writer();
    lmc_test_settings options = lmc_test_options(LMC_THREAD_COUNT_MAX + 1);
    CU_ASSERT_EQUAL(lmc_test_writer_write_as(writer, lmc_test_path("x"), &options, NULL, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(writer, lmc_test_path("x"), &options, NULL, NULL),
                    LMC_ERR_ARG);
    options = lmc_test_options(1);
    CU_ASSERT_EQUAL(lmc_test_writer_write_as(writer, lmc_test_path("no/x"), &options, NULL, NULL),
                    LMC_ERR_IO);
    CU_ASSERT_EQUAL(lmc_test_writer_write_as(writer, lmc_test_dir, &options, NULL, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(writer, lmc_test_dir, &options, NULL, NULL), LMC_ERR_ARG);
    lmc_st_writer_free(writer);
}

LMC_TEST_DIR_MAIN("st_writer_refused")
