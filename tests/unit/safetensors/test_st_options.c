/*
 * test_st_options.c - lmc_test_settings for every call: progress that never falls and ends at its total, structs of
 * other versions, values out of range.
 */
#include "lmc_test_st_calls.h"

#include <stddef.h>

typedef struct watch {
    uint64_t last, total;
    unsigned calls;
    int is_wrong;
} watch;

static void watch_progress(void *user, uint64_t done_nbytes, uint64_t total_nbytes)
{
    watch *const seen = user;
    seen->is_wrong |= done_nbytes < seen->last || done_nbytes > total_nbytes;
    seen->is_wrong |= seen->calls > 0 && total_nbytes != seen->total;
    seen->last = done_nbytes;
    seen->total = total_nbytes;
    seen->calls++;
}

LMC_TEST(test_begin)
{
    char inner[LMC_TEST_PATH_NBYTES];
    lmc_test_calls_make();
    /* larger than one run, and with most of its bytes in the copies of a tensor */
    const lmc_test_settings options = lmc_test_options(1);
    unlink(plain_path);
    unlink(archive_path);
    lmc_test_write_model(plain_path, 1);
    CU_ASSERT_EQUAL(lmc_test_convert_as(plain_path, archive_path, &options, NULL, NULL), LMC_OK);
    lmc_test_remove(archives_path);
    lmc_test_join(inner, "model/sub/large.safetensors");
    lmc_test_write_model(inner, 2);
    CU_ASSERT_EQUAL(lmc_test_convert_as(model_path, archives_path, &options, NULL, NULL), LMC_OK);
}

typedef enum kind { CONVERT, RESTORE, SALVAGE, VERIFY, COMPARE } kind;

static lmc_status do_call(kind kind, const char *in_path, const lmc_test_settings *options)
{
    switch (kind) {
    case CONVERT: return lmc_test_convert_as(in_path, out_path, options, NULL, NULL);
    case VERIFY: return lmc_test_verify_as(in_path, options, NULL, NULL);
    case COMPARE:
        return lmc_test_compare_as(in_path, in_path == archive_path ? plain_path : model_path, options, NULL);
    default: return lmc_test_restore_as(in_path, out_path, options, NULL, NULL);
    }
}

LMC_TEST(test_progress)
{
    const struct {
        kind kind;
        const char *in_path;
        int is_sound;
    } cases[] = {
        {CONVERT, plain_path, 1},    {RESTORE, archive_path, 1}, {SALVAGE, archive_path, 1},
        {VERIFY, archive_path, 1},   {COMPARE, archive_path, 1}, {CONVERT, model_path, 1},
        {RESTORE, archives_path, 1}, {VERIFY, archives_path, 1}, {COMPARE, archives_path, 1},
        {SALVAGE, damaged_path, 0},  {VERIFY, plain_path, 1},
    };
    for (size_t i = 0; i < 3 * sizeof cases / sizeof cases[0]; i++) {
        watch seen = {.calls = 0};
        lmc_test_settings options = lmc_test_options(1 + (unsigned)i % 3);
        options.common.progress = watch_progress;
        options.common.user = &seen;
        options.salvage = cases[i / 3].kind == SALVAGE;
        options.sha256 = cases[i / 3].in_path == plain_path; /* else nothing of it is read */
        const lmc_status status = do_call(cases[i / 3].kind, cases[i / 3].in_path, &options);
        CU_ASSERT_TRUE((status == LMC_OK) == cases[i / 3].is_sound);
        CU_ASSERT_FALSE(seen.is_wrong);
        CU_ASSERT_EQUAL(seen.last, seen.total);
        CU_ASSERT_TRUE(seen.calls > 1);
        lmc_test_remove(out_path);
    }
}

typedef struct files {
    unsigned count;
    uint64_t in_nbytes, out_nbytes;
    char paths[400];
} files;

static void note_file(void *user, const char *path, lmc_st_event event, uint64_t in_nbytes,
                      uint64_t out_nbytes)
{
    files *const seen = user;
    const size_t length = strlen(seen->paths);
    seen->count++;
    seen->in_nbytes += in_nbytes;
    seen->out_nbytes += out_nbytes;
    snprintf(seen->paths + length, sizeof seen->paths - length, "%s%d ", path, (int)event);
}

/* Every file is told of, in one order, and the sizes add up to the result's. */
LMC_TEST(test_file_done)
{
    static const char converted[] = "config.json3 m.safetensors0 m.safetensors.index.json3 "
                                    "sub/large.safetensors0 sub/n.safetensors0 ";
    for (unsigned threads = 1; threads <= 3; threads++) {
        files seen = {.count = 0};
        lmc_st_result result = LMC_INIT(lmc_st_result);
        lmc_test_settings options = lmc_test_options(threads);
        options.file_done = note_file;
        options.common.user = &seen;
        CU_ASSERT_EQUAL(lmc_test_convert_as(model_path, out_path, &options, &result, NULL), LMC_OK);
        CU_ASSERT_STRING_EQUAL(seen.paths, converted);
        CU_ASSERT_EQUAL(result.file_count, 5);
        CU_ASSERT_EQUAL(result.original_nbytes, seen.in_nbytes);
        CU_ASSERT_EQUAL(result.stored_nbytes, seen.out_nbytes);
        lmc_test_remove(out_path);

        memset(&seen, 0, sizeof seen);
        CU_ASSERT_EQUAL(lmc_test_verify_as(archives_path, &options, &result, NULL), LMC_OK);
        CU_ASSERT_EQUAL(seen.count, 3);
        CU_ASSERT_EQUAL(result.stored_nbytes, seen.in_nbytes);
        CU_ASSERT_EQUAL(result.original_nbytes, seen.out_nbytes);
    }
}

/* Changes a file of the directory when the one behind it is done. */
static void change_file(void *user, const char *path, lmc_st_event event, uint64_t in_nbytes,
                        uint64_t out_nbytes)
{
    size_t nbytes = 0;
    char changed[LMC_TEST_PATH_NBYTES + 16];
    (void)user, (void)event, (void)in_nbytes, (void)out_nbytes;
    if (strcmp(path, "m.safetensors.index.json") != 0)
        return;
    snprintf(changed, sizeof changed, "%s/m.safetensors", model_path);
    unsigned char *const bytes = lmc_test_read(changed, &nbytes);
    bytes[nbytes - 1] ^= 1;
    lmc_test_write(changed, bytes, nbytes);
    free(bytes);
}

/* What is stored would be of two states. */
LMC_TEST(test_a_file_changes_meanwhile)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_test_settings options = lmc_test_options(1);
    options.file_done = change_file;
    CU_ASSERT_EQUAL(lmc_test_convert_as(model_path, out_path, &options, NULL, &diag), LMC_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.file, "m.safetensors"));
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "has changed while the directory was read"));
    CU_ASSERT_FALSE(lmc_test_exists(out_path));
}

/* After salvage, damaged_count tells whether the output is there. */
LMC_TEST(test_results_of_salvage)
{
    static const lmc_st_result none = LMC_INIT(lmc_st_result);
    lmc_test_settings options = lmc_test_options(1);
    lmc_st_result result = LMC_INIT(lmc_st_result);
    options.salvage = 1;
    CU_ASSERT_NOT_EQUAL(lmc_test_restore_as(damaged_path, out_path, &options, &result, NULL), LMC_OK);
    CU_ASSERT_TRUE(result.damaged_count >= 2);
    CU_ASSERT_EQUAL(result.damaged_count + result.tensor_count, 5);
    CU_ASSERT_TRUE(lmc_test_exists(out_path));

    /* here it is not: it exists already, or the input is no archive */
    CU_ASSERT_EQUAL(lmc_test_restore_as(damaged_path, out_path, &options, &result, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(memcmp(&result, &none, sizeof none), 0);
    unlink(out_path);
    CU_ASSERT_EQUAL(lmc_test_restore_as(plain_path, out_path, &options, &result, NULL), LMC_ERR_CORRUPT);
    CU_ASSERT_EQUAL(memcmp(&result, &none, sizeof none), 0);
    CU_ASSERT_FALSE(lmc_test_exists(out_path));
}

/* A folder is no file, whatever its name. */
LMC_TEST(test_folder_named_as_a_file)
{
    char inner[LMC_TEST_PATH_NBYTES];
    const lmc_test_settings options = lmc_test_options(1);
    lmc_test_join(inner, "model/folder.safetensors");
    CU_ASSERT_EQUAL(mkdir(inner, 0755), 0);
    CU_ASSERT_EQUAL(lmc_test_convert_as(model_path, out_path, &options, NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_verify_as(out_path, &options, NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_compare_as(out_path, model_path, &options, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_verify_as(model_path, &options, NULL, NULL), LMC_OK);
    lmc_test_remove(out_path);
    CU_ASSERT_EQUAL(rmdir(inner), 0);
}

/* ---- versions ---- */

/* What each call takes, as a struct of the caller's. */
static lmc_status call_with(kind kind, const void *options)
{
    switch (kind) {
    case CONVERT: return lmc_st_convert(plain_path, out_path, options, NULL, NULL);
    case VERIFY: return lmc_st_verify(archive_path, options, NULL, NULL);
    case COMPARE: return lmc_st_compare(archive_path, plain_path, options, NULL);
    default: return lmc_st_restore(archive_path, out_path, options, NULL, NULL);
    }
}

static const size_t struct_sizes[] = {
    [CONVERT] = sizeof(lmc_st_convert_options), [RESTORE] = sizeof(lmc_st_restore_options),
    [SALVAGE] = sizeof(lmc_st_restore_options), [VERIFY] = sizeof(lmc_st_verify_options),
    [COMPARE] = sizeof(lmc_st_compare_options),
};

/* Of a shorter struct nothing beyond its size is looked at. */
LMC_TEST(test_older_structs)
{
    for (kind kind = CONVERT; kind <= COMPARE; kind++) {
        for (size_t size = sizeof(size_t); size <= struct_sizes[kind]; size += sizeof(size_t)) {
            size_t *const exact = calloc(1, size); /* a sanitizer sees reads beyond it */
            CU_ASSERT_PTR_NOT_NULL_FATAL(exact);
            *exact = size;
            CU_ASSERT_EQUAL(call_with(kind, exact), LMC_OK);
            if (lmc_test_exists(out_path))
                lmc_test_remove(out_path);
            free(exact);
        }
    }
}

LMC_TEST(test_unknown_structs)
{
    for (kind kind = CONVERT; kind <= COMPARE; kind++) {
        const size_t sizes[] = {0, 1, sizeof(size_t) - 1, struct_sizes[kind] + 1, SIZE_MAX};
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            size_t *const given = calloc(1, struct_sizes[kind]);
            CU_ASSERT_PTR_NOT_NULL_FATAL(given);
            *given = sizes[i];
            CU_ASSERT_EQUAL(call_with(kind, given), LMC_ERR_ARG);
            CU_ASSERT_FALSE(lmc_test_exists(out_path));
            free(given);
        }
    }
    lmc_st_verify_options options = LMC_INIT(lmc_st_verify_options);
    lmc_st_result result = LMC_INIT(lmc_st_result);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    options.struct_size++;
    memset(&result, 0xff, sizeof result);
    result.struct_size = sizeof result;
    CU_ASSERT_EQUAL(lmc_st_verify(archive_path, &options, &result, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(diag.status, LMC_ERR_ARG);
    CU_ASSERT_EQUAL(result.tensor_count, 0);
}

/* A descriptor is only taken if the options say that there is one: 0 is one, too. */
LMC_TEST(test_descriptors)
{
    lmc_test_settings options = lmc_test_options(1);
    options.in_fd = 5;
    CU_ASSERT_EQUAL(lmc_test_convert_as(plain_path, out_path, &options, NULL, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_test_verify_as(archive_path, &options, NULL, NULL), LMC_ERR_ARG);
    options.has_in_fd = 1;
    options.in_fd = -1;
    CU_ASSERT_EQUAL(lmc_test_convert_as(plain_path, out_path, &options, NULL, NULL), LMC_ERR_ARG);
    options.has_in_fd = 0;
    options.in_fd = 0;
    options.out_fd = 1;
    CU_ASSERT_EQUAL(lmc_test_restore_as(archive_path, out_path, &options, NULL, NULL), LMC_ERR_ARG);
    CU_ASSERT_FALSE(lmc_test_exists(out_path));
    const int in_fd = dup(STDIN_FILENO);
    const int file = open(archive_path, O_RDONLY);
    CU_ASSERT_EQUAL(dup2(file, STDIN_FILENO), STDIN_FILENO);
    options.out_fd = 0;
    options.has_in_fd = 1;
    CU_ASSERT_EQUAL(lmc_test_verify_as("standard input", &options, NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL(dup2(in_fd, STDIN_FILENO), STDIN_FILENO);
    close(file);
    close(in_fd);
}

LMC_TEST(test_ranges)
{
    lmc_test_settings options = lmc_test_options(LMC_THREAD_COUNT_MAX + 1);
    for (kind kind = CONVERT; kind <= COMPARE; kind++)
        CU_ASSERT_EQUAL(do_call(kind, archive_path, &options), LMC_ERR_ARG);
    options = lmc_test_options(1);
    for (int is_low = 0; is_low < 2; is_low++) {
        options.level = (lmc_level)(is_low ? -1 : LMC_LEVEL_MAX + 1);
        CU_ASSERT_EQUAL(do_call(CONVERT, plain_path, &options), LMC_ERR_ARG);
    }
    CU_ASSERT_FALSE(lmc_test_exists(out_path));
    const lmc_test_settings most = lmc_test_options(LMC_THREAD_COUNT_MAX);
    CU_ASSERT_EQUAL(lmc_test_verify_as(archive_path, &most, NULL, NULL), LMC_OK);
}

LMC_TEST(test_not_for_directories)
{
    lmc_test_settings options = lmc_test_options(1);
    options.salvage = 1;
    CU_ASSERT_EQUAL(lmc_test_restore_as(archives_path, out_path, &options, NULL, NULL), LMC_ERR_ARG);
    options.salvage = 0;
    options.has_out_fd = 1;
    options.out_fd = 1;
    CU_ASSERT_EQUAL(lmc_test_restore_as(archives_path, out_path, &options, NULL, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_test_convert_as(model_path, out_path, &options, NULL, NULL), LMC_ERR_ARG);
}

LMC_TEST(test_end)
{
    lmc_test_calls_end();
}

LMC_TEST_DIR_MAIN("st_options")
