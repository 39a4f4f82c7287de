/*
 * test_st_struct_size.c - results and diagnostics of programs that were built with an older or a newer header. What an
 * older program knows is served. Nothing behind its struct is touched.
 */
#include "lmc_st_experimental.h"
#include "lmc_test_st_base.h"

#include <stddef.h>

#define FILL 0xee

static const char *old_path, *new_path, *archive_path, *out_path;

LMC_TEST(make_files)
{
    old_path = lmc_test_path("old.safetensors");
    new_path = lmc_test_path("new.safetensors");
    archive_path = lmc_test_path("new.safetensors.lmc");
    out_path = lmc_test_path("out");
    lmc_test_write_snapshot(old_path, 0);
    lmc_test_write_snapshot(new_path, 1);
    CU_ASSERT_EQUAL_FATAL(lmc_test_convert(new_path, old_path, archive_path, 1, NULL), LMC_OK);
}

/* A struct of an older program: everything behind struct_size bytes is FILL. */
static void make_older(void *given, size_t nbytes, size_t struct_size)
{
    memset(given, FILL, nbytes);
    memcpy(given, &struct_size, sizeof struct_size);
}

/* `given` is `whole` as far as it goes, and FILL behind. */
static int is_prefix(const void *given, const void *whole, size_t nbytes, size_t struct_size)
{
    const unsigned char *const bytes = given;
    for (size_t i = struct_size; i < nbytes; i++)
        if (bytes[i] != FILL)
            return 0;
    const size_t first = sizeof(size_t);
    return memcmp(given, &struct_size, first) == 0 &&
           memcmp(bytes + first, (const unsigned char *)whole + first, struct_size - first) == 0;
}

LMC_TEST(test_results)
{
    const size_t ends[] = {sizeof(size_t), offsetof(lmc_st_result, tensor_count),
                           offsetof(lmc_st_result, kept_count), sizeof(lmc_st_result)};
    lmc_st_result whole = LMC_INIT(lmc_st_result), given;
    CU_ASSERT_EQUAL(lmc_st_verify(archive_path, NULL, &whole, NULL), LMC_OK);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        make_older(&given, sizeof given, ends[i]);
        CU_ASSERT_EQUAL(lmc_st_verify(archive_path, NULL, &given, NULL), LMC_OK);
        CU_ASSERT(is_prefix(&given, &whole, sizeof whole, ends[i]));
    }
    given.struct_size = sizeof given + 1;
    CU_ASSERT_EQUAL(lmc_st_verify(archive_path, NULL, &given, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_restore(archive_path, out_path, NULL, &given, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_convert(new_path, out_path, NULL, &given, NULL), LMC_ERR_ARG);
    CU_ASSERT_FALSE(lmc_test_exists(out_path));
    given.struct_size = sizeof(size_t) - 1;
    CU_ASSERT_EQUAL(lmc_st_verify(archive_path, NULL, &given, NULL), LMC_ERR_ARG);
}

/* Calls that fail or succeed, and take a diagnostic. */
#define CALL_COUNT 9

static lmc_status call_with(unsigned call, lmc_st_diag *diag)
{
    unsigned char byte;
    lmc_st_file *file = NULL;
    const lmc_st_file *base = NULL;
    lmc_st_mode mode;
    lmc_status status = call < 5 ? lmc_st_open(archive_path, NULL, &file, NULL) : LMC_OK;
    CU_ASSERT_EQUAL_FATAL(status, LMC_OK);
    switch (call) {
    case 0: status = lmc_st_tensor_mode(file, 1000, &mode, diag); break;
    case 1: status = lmc_st_read_range(file, NULL, 0, UINT64_MAX, 1, &byte, diag); break;
    case 2: status = lmc_st_read(file, NULL, 0, &byte, 0, diag); break;
    case 3: status = lmc_st_check_unchanged(file, diag); break;
    case 4: status = lmc_st_open_base(file, 0, &base, diag); break;
    case 5: status = lmc_st_open(out_path, NULL, &file, diag); break;
    case 6: status = lmc_st_verify(out_path, NULL, NULL, diag); break;
    case 7: status = lmc_st_compare(archive_path, old_path, NULL, diag); break;
    default: status = lmc_st_convert(new_path, archive_path, NULL, NULL, diag); break;
    }
    lmc_st_close(file);
    return status;
}

LMC_TEST(test_diagnostics)
{
    const size_t ends[] = {sizeof(size_t), offsetof(lmc_st_diag, os_errno), offsetof(lmc_st_diag, file),
                           offsetof(lmc_st_diag, text), sizeof(lmc_st_diag)};
    for (unsigned call = 0; call < CALL_COUNT; call++) {
        lmc_st_diag whole = LMC_INIT(lmc_st_diag), given;
        const lmc_status status = call_with(call, &whole);
        CU_ASSERT_EQUAL(whole.status, status);
        CU_ASSERT_EQUAL(status == LMC_OK, call == 3 || call == 4);
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
            make_older(&given, sizeof given, ends[i]);
            CU_ASSERT_EQUAL(call_with(call, &given), status);
            CU_ASSERT(is_prefix(&given, &whole, sizeof whole, ends[i]));
        }
        given.struct_size = sizeof given + 1;
        CU_ASSERT_EQUAL(call_with(call, &given), LMC_ERR_ARG);
        given.struct_size = 0;
        CU_ASSERT_EQUAL(call_with(call, &given), LMC_ERR_ARG);
    }
}

LMC_TEST(test_tensors_and_bases)
{
    lmc_st_file *file = NULL;
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor), given_tensor;
    lmc_st_base base = LMC_INIT(lmc_st_base), given_base;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(archive_path, NULL, &file, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_tensor_info(file, 0, &tensor), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_base_info(file, 0, &base), LMC_OK);
    const size_t tensor_ends[] = {sizeof(size_t), offsetof(lmc_st_tensor, shape), sizeof tensor};
    const size_t base_ends[] = {sizeof(size_t), offsetof(lmc_st_base, content_hash), sizeof base};
    for (size_t i = 0; i < 3; i++) {
        make_older(&given_tensor, sizeof given_tensor, tensor_ends[i]);
        CU_ASSERT_EQUAL(lmc_st_tensor_info(file, 0, &given_tensor), LMC_OK);
        CU_ASSERT(is_prefix(&given_tensor, &tensor, sizeof tensor, tensor_ends[i]));
        make_older(&given_base, sizeof given_base, base_ends[i]);
        CU_ASSERT_EQUAL(lmc_st_base_info(file, 0, &given_base), LMC_OK);
        CU_ASSERT(is_prefix(&given_base, &base, sizeof base, base_ends[i]));
    }
    given_tensor.struct_size++;
    CU_ASSERT_EQUAL(lmc_st_tensor_info(file, 0, &given_tensor), LMC_ERR_ARG);
    given_base.struct_size++;
    CU_ASSERT_EQUAL(lmc_st_base_info(file, 0, &given_base), LMC_ERR_ARG);
    lmc_st_close(file);
}

LMC_TEST(remove_files)
{
    unlink(old_path);
    unlink(new_path);
    unlink(archive_path);
}

LMC_TEST_DIR_MAIN("lmc_struct_size")
