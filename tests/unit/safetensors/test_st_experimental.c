/*
 * test_st_experimental.c - the experimental calls of lmc_st.h: what they refuse, and what they leave after a failure.
 */
#include "lmc_st_experimental.h"
#include "lmc_test_st.h"

#include <fcntl.h>

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

#define CONTENT_NBYTES 3000000u

static unsigned char content[CONTENT_NBYTES];
static unsigned char got[CONTENT_NBYTES];

static void make_files(void)
{
    const uint64_t shape[] = {CONTENT_NBYTES / 2};
    lmc_st_writer *writer = NULL;
    lmc_test_weights(content, sizeof content, 7);
    CU_ASSERT_EQUAL_FATAL(lmc_st_writer_create(NULL, &writer), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "w", 1, LMC_DTYPE_BF16, shape, 1, content), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_write_plain(writer, lmc_test_path("plain"), NULL, NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_write(writer, lmc_test_path("archive"), NULL, NULL, NULL), LMC_OK);
    lmc_st_writer_free(writer);
}

static lmc_st_file *open_file(const char *name)
{
    lmc_st_file *file = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path(name), NULL, &file, NULL), LMC_OK);
    return file;
}

static void check_reader(const char *name)
{
    static const uint64_t offsets[] = {CONTENT_NBYTES - 5, 0, 1234567};
    lmc_st_diag unknown = {.struct_size = 3};
    lmc_st_file *const file = open_file(name);
    lmc_st_reader *reader = NULL;
    CU_ASSERT_EQUAL(lmc_st_reader_create(file, 1, &reader, &diag), LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(reader);
    CU_ASSERT_EQUAL(lmc_st_reader_create(file, 0, &reader, &unknown), LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(reader);
    CU_ASSERT_EQUAL_FATAL(lmc_st_reader_create(file, 0, &reader, &diag), LMC_OK);
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(lmc_st_reader_read(reader, offsets[i], 5, got, NULL), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(got, content + offsets[i], 5), 0);
    }
    CU_ASSERT_EQUAL(lmc_st_reader_read(reader, CONTENT_NBYTES - 4, 5, got, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(diag.status, LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_reader_read(reader, UINT64_MAX, 2, got, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_reader_read(reader, CONTENT_NBYTES, 0, got, NULL), LMC_OK);
    lmc_st_reader_free(reader);
    lmc_st_reader_free(NULL);
    lmc_st_close(file);
}

LMC_TEST(test_reader)
{
    make_files();
    check_reader("plain");
    check_reader("archive");
}

/* F32 values that are denormals of F16. */
LMC_TEST(test_forms)
{
    const uint64_t shape[] = {CONTENT_NBYTES / 4};
    lmc_st_writer *writer = NULL;
    for (size_t i = 0; i < CONTENT_NBYTES; i += 4) {
        const float value = 0x1p-24f * (float)((content[i] << 8 | content[i + 2]) % 1000);
        memcpy(got + i, &value, sizeof value);
    }
    CU_ASSERT_EQUAL_FATAL(lmc_st_writer_create(NULL, &writer), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "w", 1, LMC_DTYPE_F32, shape, 1, got), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_write(writer, lmc_test_path("wide"), NULL, NULL, NULL), LMC_OK);
    lmc_st_writer_free(writer);
    static const char *const names[] = {"plain", "archive", "wide"};
    static const lmc_st_mode modes[] = {LMC_ST_MODE_PLAIN, LMC_ST_MODE_CODED, LMC_ST_MODE_CODED};
    for (size_t i = 0; i < 3; i++) {
        lmc_st_file *const file = open_file(names[i]);
        lmc_form_info form = LMC_INIT(lmc_form_info);
        lmc_st_mode mode = LMC_ST_MODE_ALIAS;
        CU_ASSERT_EQUAL(lmc_st_tensor_form(file, 0, &mode, &form, &diag), LMC_OK);
        CU_ASSERT_EQUAL(mode, modes[i]);
        CU_ASSERT_EQUAL(form.form, i == 2 ? LMC_FORM_F16_IN_F32 : LMC_FORM_PLAIN);
        CU_ASSERT_STRING_EQUAL(form.text, i == 2 ? "F16 in F32" : "");
        CU_ASSERT_EQUAL(lmc_st_tensor_form(file, 1, &mode, &form, &diag), LMC_ERR_ARG);
        form.struct_size++;
        CU_ASSERT_EQUAL(lmc_st_tensor_form(file, 0, &mode, &form, NULL), LMC_ERR_ARG);
        CU_ASSERT_EQUAL(lmc_st_tensor_form(file, 0, &mode, &form, &diag), LMC_ERR_ARG);
        CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "not initialised"));
        lmc_st_close(file);
    }
}

LMC_TEST(test_content_hash)
{
    lmc_st_file *const plain = open_file("plain");
    lmc_st_file *const archive = open_file("archive");
    uint64_t hash = 1;
    size_t block_nbytes = 1;
    CU_ASSERT_EQUAL(lmc_st_content_hash(plain, 0, &hash, &block_nbytes, &diag), LMC_ERR_ARG);
    CU_ASSERT(hash == 0 && block_nbytes == 0);
    CU_ASSERT_EQUAL(lmc_st_content_hash(archive, 1, &hash, &block_nbytes, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_content_hash(archive, 0, &hash, &block_nbytes, &diag), LMC_OK);
    CU_ASSERT(hash != 0 && block_nbytes > 0);
    CU_ASSERT_EQUAL(lmc_st_check_unchanged(archive, &diag), LMC_OK);
    lmc_test_flip(lmc_test_path("archive"), 1000, 1);
    CU_ASSERT_EQUAL(lmc_st_check_unchanged(archive, &diag), LMC_ERR_IO);
    lmc_test_flip(lmc_test_path("archive"), 1000, 1);
    lmc_st_close(plain);
    lmc_st_close(archive);
}

/* Supplies the content up to `limit`, then fails. */
typedef struct supply {
    uint64_t limit;
    lmc_st_diag *diag;
} supply;

static lmc_status supply_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const supply *const supply = user;
    if (offset + nbytes > supply->limit) {
        strcpy(supply->diag->text, "the callback's own words");
        return LMC_ERR_CHECKSUM;
    }
    memcpy(dst, content + offset, nbytes);
    return LMC_OK;
}

/* Progress that ended at its total, and never fell. */
typedef struct progress {
    uint64_t done_nbytes, total_nbytes;
    int has_fallen;
} progress;

static void watch_progress(void *user, uint64_t done_nbytes, uint64_t total_nbytes)
{
    progress *const seen = user;
    *seen = (progress){done_nbytes, total_nbytes, seen->has_fallen || done_nbytes < seen->done_nbytes};
}

LMC_TEST(test_write_content)
{
    progress seen = {0};
    lmc_st_output_options options = LMC_INIT(lmc_st_output_options);
    options.common.progress = watch_progress;
    options.common.user = &seen;
    supply supply = {.limit = CONTENT_NBYTES - 1, .diag = &diag};
    lmc_st_file *const file = open_file("archive");
    size_t nbytes = 0;
    CU_ASSERT_EQUAL(lmc_st_write_content(file, lmc_test_path("out"), CONTENT_NBYTES, supply_content, &supply,
                                         NULL, &diag),
                    LMC_ERR_CHECKSUM);
    CU_ASSERT_STRING_EQUAL(diag.text, "the callback's own words");
    CU_ASSERT_FALSE(lmc_test_exists(lmc_test_path("out")));
    supply.limit = CONTENT_NBYTES;
    CU_ASSERT_EQUAL(
        lmc_st_write_content(file, lmc_test_path("archive"), 9, supply_content, &supply, NULL, &diag),
        LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_write_content(file, lmc_test_path("out"), CONTENT_NBYTES, supply_content, &supply,
                                         &options, &diag),
                    LMC_OK);
    CU_ASSERT(seen.done_nbytes == CONTENT_NBYTES && seen.total_nbytes == CONTENT_NBYTES && !seen.has_fallen);
    unsigned char *const written = lmc_test_read(lmc_test_path("out"), &nbytes);
    CU_ASSERT(nbytes == CONTENT_NBYTES && memcmp(written, content, nbytes) == 0);
    free(written);
    lmc_st_close(file);
}

LMC_TEST(test_cat)
{
    static const char *const names[] = {"plain", "archive"};
    lmc_st_restore_options options = LMC_INIT(lmc_st_restore_options);
    CU_ASSERT_EQUAL(lmc_st_cat(lmc_test_path("plain"), &options, NULL, &diag), LMC_ERR_ARG);
    options.common.progress = watch_progress;
    for (size_t i = 0; i < 2; i++) {
        progress seen = {0};
        options.common.user = &seen;
        options.has_out_fd = 1;
        options.out_fd = open(lmc_test_path("cat"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        CU_ASSERT_EQUAL(lmc_st_cat(lmc_test_path(names[i]), &options, NULL, &diag), LMC_OK);
        close(options.out_fd);
        CU_ASSERT(seen.total_nbytes > 0 && seen.done_nbytes == seen.total_nbytes && !seen.has_fallen);
        CU_ASSERT_TRUE(lmc_test_same_files(lmc_test_path("cat"), lmc_test_path("plain")));
    }
    unlink(lmc_test_path("cat"));
    unlink(lmc_test_path("out"));
    unlink(lmc_test_path("plain"));
    unlink(lmc_test_path("archive"));
    unlink(lmc_test_path("wide"));
}

LMC_TEST_DIR_MAIN("st_experimental")
