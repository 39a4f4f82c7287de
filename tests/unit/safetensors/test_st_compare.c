/*
 * test_st_compare.c - lmc_st_compare(): equal, and every kind of difference; what it says of damage; and
 * lmc_st_verify() of an archive that was cut.
 */
#include "lmc_test_st.h"

#include <errno.h>

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

static const char *plain;
static const char *archive;
static size_t plain_nbytes, header_nbytes;

static lmc_status compare(unsigned threads, lmc_st_diag *diag)
{
    const lmc_test_settings options = lmc_test_options(threads);
    return lmc_test_compare_as(archive, plain, &options, diag);
}

LMC_TEST(test_begin)
{
    const lmc_test_settings options = lmc_test_options(2);
    plain = lmc_test_path("m.safetensors");
    archive = lmc_test_path("m.safetensors.lmc");
    lmc_test_write_model(plain, 1);
    unsigned char *const bytes = lmc_test_read(plain, &plain_nbytes);
    header_nbytes = bytes[0] | (size_t)bytes[1] << 8;
    free(bytes);
    CU_ASSERT_EQUAL(lmc_test_convert_as(plain, archive, &options, NULL, NULL), LMC_OK);
}

LMC_TEST(test_equal)
{
    for (unsigned threads = 1; threads <= 4; threads++) {
        CU_ASSERT_EQUAL(compare(threads, &diag), LMC_OK);
        CU_ASSERT_EQUAL(diag.status, LMC_OK);
    }
    CU_ASSERT_EQUAL(lmc_st_compare(archive, plain, NULL, NULL), LMC_OK);
}

/* A bit anywhere in the data, the first and the last one included, is found, and its tensor named. */
LMC_TEST(test_one_bit_of_the_data)
{
    const size_t data = 8 + header_nbytes;
    const struct {
        size_t at;
        const char *tensor;
    } places[] = {{data, "a"},
                  {data + 131071, "a"},
                  {data + 2 * LMC_TEST_MODEL_COUNT - 1, "a"},
                  {data + 2 * LMC_TEST_MODEL_COUNT, "b"},
                  {data + 4 * LMC_TEST_MODEL_COUNT - 1, "b"},
                  {plain_nbytes - 5, "c"},
                  {plain_nbytes - 1, "c"}};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        for (unsigned threads = 1; threads <= 3; threads += 2) {
            lmc_st_diag diag = LMC_INIT(lmc_st_diag);
            lmc_test_flip(plain, places[i].at, (unsigned char)(1u << i));
            CU_ASSERT_EQUAL(compare(threads, &diag), LMC_ERR_CHECKSUM);
            CU_ASSERT_EQUAL(diag.status, LMC_ERR_CHECKSUM);
            CU_ASSERT_STRING_EQUAL(diag.tensor, places[i].tensor);
            lmc_test_flip(plain, places[i].at, (unsigned char)(1u << i));
        }
    }
    CU_ASSERT_EQUAL(compare(2, NULL), LMC_OK);
}

/* Another header that says the same: white space, a changed value of the metadata. */
LMC_TEST(test_one_bit_of_the_header)
{
    lmc_test_flip(plain, 8 + strlen("{\"__metadata__\":{\"format\":\""), 1); /* "pt" becomes "qt" */
    CU_ASSERT_EQUAL(compare(2, &diag), LMC_ERR_CHECKSUM);
    CU_ASSERT_FALSE(diag.has_tensor);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "header"));
    lmc_test_flip(plain, 8 + strlen("{\"__metadata__\":{\"format\":\""), 1);

    lmc_test_flip(plain, 8 + header_nbytes - 1, ' ' ^ '\n');
    const lmc_status status = compare(2, &diag);
    CU_ASSERT_EQUAL(status, LMC_ERR_CHECKSUM);
    lmc_test_flip(plain, 8 + header_nbytes - 1, ' ' ^ '\n');
}

LMC_TEST(test_size)
{
    size_t nbytes = 0;
    lmc_st_writer *const writer = lmc_test_writer();
    unsigned char *const bytes = lmc_test_read(plain, &nbytes);
    unlink(plain);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "c", LMC_DTYPE_U8, 5, bytes), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_write_plain(writer, plain, NULL, NULL, NULL), LMC_OK);
    lmc_st_writer_free(writer);
    CU_ASSERT_EQUAL(compare(1, &diag), LMC_ERR_CHECKSUM);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "size"));

    /* the plain file is bytes: it need not be a safetensors file */
    lmc_test_write(plain, bytes, nbytes - 1);
    CU_ASSERT_EQUAL(compare(1, &diag), LMC_ERR_CHECKSUM);
    lmc_test_write(plain, bytes, nbytes + 1);
    CU_ASSERT_EQUAL(compare(1, &diag), LMC_ERR_CHECKSUM);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "size"));
    lmc_test_write(plain, bytes, nbytes);
    CU_ASSERT_EQUAL(compare(1, &diag), LMC_OK);
    free(bytes);
}

LMC_TEST(test_damaged_archive)
{
    size_t nbytes = 0;
    free(lmc_test_read(archive, &nbytes));
    for (size_t at = 0; at < nbytes; at += nbytes / 23) {
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        lmc_test_flip(archive, at, 0x10);
        CU_ASSERT_NOT_EQUAL(compare(2, &diag), LMC_OK);
        CU_ASSERT_STRING_EQUAL(diag.file, archive);
        lmc_test_flip(archive, at, 0x10);
    }
    CU_ASSERT_EQUAL(compare(2, NULL), LMC_OK);
}

LMC_TEST(test_wrong_files)
{
    CU_ASSERT_EQUAL(lmc_st_compare(plain, archive, NULL, &diag), LMC_ERR_CORRUPT);
    CU_ASSERT_EQUAL(lmc_st_compare(plain, plain, NULL, &diag), LMC_ERR_CORRUPT);
    CU_ASSERT_EQUAL(lmc_st_compare(archive, archive, NULL, &diag), LMC_ERR_CHECKSUM);
    CU_ASSERT_EQUAL(lmc_st_compare(archive, lmc_test_path("none"), NULL, &diag), LMC_ERR_IO);
    CU_ASSERT_EQUAL(diag.os_errno, ENOENT);
    CU_ASSERT_STRING_EQUAL(diag.file, lmc_test_path("none"));
    CU_ASSERT_EQUAL(lmc_st_compare(archive, lmc_test_dir, NULL, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(diag.os_errno, EISDIR);
}

LMC_TEST(test_cancelled)
{
    const int cancel = 1;
    lmc_test_settings options = lmc_test_options(2);
    options.common.cancel = &cancel;
    CU_ASSERT_EQUAL(lmc_test_compare_as(archive, plain, &options, NULL), LMC_ERR_CANCELLED);
}

/* ---- a cut archive ---- */

typedef struct report {
    unsigned count;
    unsigned tensor_count;
    int cancel;
    int cancels; /* at the first damage */
} report;

static void note_damage(void *user, const lmc_st_diag *diag)
{
    report *const seen = user;
    seen->count++;
    seen->tensor_count += (unsigned)diag->has_tensor;
    CU_ASSERT_NOT_EQUAL(diag->status, LMC_OK);
    __atomic_store_n(&seen->cancel, seen->cancels, __ATOMIC_RELAXED);
}

LMC_TEST(test_verify_of_a_cut_archive)
{
    size_t nbytes = 0;
    unsigned char *const bytes = lmc_test_read(archive, &nbytes);
    lmc_test_write(archive, bytes, nbytes - 1);
    for (int cancels = 0; cancels < 2; cancels++) {
        report seen = {.cancels = cancels};
        lmc_test_settings options = lmc_test_options(1);
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        lmc_st_result result = LMC_INIT(lmc_st_result);
        options.damage = note_damage;
        options.common.user = &seen;
        options.common.cancel = &seen.cancel;
        CU_ASSERT_EQUAL(lmc_test_verify_as(archive, &options, &result, &diag),
                        cancels ? LMC_ERR_CANCELLED : LMC_ERR_TRUNCATED);
        CU_ASSERT_EQUAL(diag.status, cancels ? LMC_ERR_CANCELLED : LMC_ERR_TRUNCATED);
        CU_ASSERT_EQUAL(result.damaged_count, cancels ? 0 : 1);
        CU_ASSERT_EQUAL(result.is_archive, !cancels); /* what it has seen, as without damage */
        CU_ASSERT_EQUAL(result.stored_nbytes, cancels ? 0 : nbytes - 1);
        CU_ASSERT_EQUAL(result.tensor_count > 0, !cancels);
        CU_ASSERT_EQUAL(seen.count, cancels ? 1 : 2); /* the file, then the tensor */
        CU_ASSERT_EQUAL(seen.tensor_count, cancels ? 0 : 1);
    }
    lmc_test_write(archive, bytes, nbytes);
    free(bytes);
}

LMC_TEST(test_end)
{
    unlink(plain);
    unlink(archive);
}

LMC_TEST_DIR_MAIN("st_compare")
