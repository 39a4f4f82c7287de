/*
 * lmc_test_st_calls.h - every call of lmc_st.h that needs memory, in a form that can be repeated: for tests
 * in which allocations are counted or fail. A call leaves one output, or none if it fails.
 */
#ifndef LMC_TEST_ST_CALLS_H
#define LMC_TEST_ST_CALLS_H

#include "lmc_test_st.h"

#include <fcntl.h>

static const lmc_allocator *lmc_test_memory; /* of the calls; NULL: malloc */
static unsigned lmc_test_threads = 1;
static unsigned lmc_test_damage_count;

static inline void lmc_test_count_damage(void *user, const lmc_st_diag *diag)
{
    (void)user;
    lmc_test_damage_count += diag->status != LMC_OK;
}

static inline lmc_test_settings lmc_test_call_options(void)
{
    lmc_test_settings options = lmc_test_options(lmc_test_threads);
    options.common.allocator = lmc_test_memory;
    options.damage = lmc_test_count_damage;
    return options;
}

/* ---- the files ---- */

/* Paths of all that the calls read and write; made by lmc_test_calls_make(). */
static char plain_path[LMC_TEST_PATH_NBYTES], archive_path[LMC_TEST_PATH_NBYTES];
static char next_path[LMC_TEST_PATH_NBYTES], based_path[LMC_TEST_PATH_NBYTES]; /* against the archive */
static char damaged_path[LMC_TEST_PATH_NBYTES], cut_path[LMC_TEST_PATH_NBYTES];
static char model_path[LMC_TEST_PATH_NBYTES], archives_path[LMC_TEST_PATH_NBYTES];
static char out_path[LMC_TEST_PATH_NBYTES];

static inline void lmc_test_join(char *path, const char *name)
{
    snprintf(path, LMC_TEST_PATH_NBYTES, "%s/%s", lmc_test_dir, name);
}

/* A coded, a stored and a short tensor, an alias, one without bytes. */
static inline void lmc_test_calls_write_plain(const char *path)
{
    static unsigned char data[6505];
    const lmc_test_settings options = lmc_test_options(1);
    lmc_st_writer *const writer = lmc_test_writer();
    lmc_test_weights(data, sizeof data, 1);
    for (size_t i = 6000; i < 6500; i++)
        data[i] = (unsigned char)(data[i - 6000 + 2 * (i % 2)] * 167u + i);
    CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, "format", 6, "pt", 2), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "a", LMC_DTYPE_BF16, 3000, data), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "b", LMC_DTYPE_U8, 500, data + 6000), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "c", LMC_DTYPE_U8, 5, data + 6500), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "tied to a", LMC_DTYPE_BF16, 3000, data), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "none", LMC_DTYPE_F32, 0, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(writer, path, &options, NULL, NULL), LMC_OK);
    lmc_st_writer_free(writer);
}

static inline void lmc_test_calls_make_model(void)
{
    static const char index[] = "{\"metadata\":{\"x\":[1,{}]},\"weight_map\":{\"a\":\"m.safetensors\"}}";
    char inner[LMC_TEST_PATH_NBYTES];
    CU_ASSERT_EQUAL(mkdir(model_path, 0755), 0);
    lmc_test_join(inner, "model/sub");
    CU_ASSERT_EQUAL(mkdir(inner, 0755), 0);
    lmc_test_join(inner, "model/m.safetensors");
    lmc_test_calls_write_plain(inner);
    lmc_test_join(inner, "model/sub/n.safetensors");
    lmc_test_calls_write_plain(inner);
    lmc_test_join(inner, "model/config.json");
    lmc_test_write(inner, "{}", 2);
    lmc_test_join(inner, "model/m.safetensors.index.json");
    lmc_test_write(inner, index, sizeof index - 1);
}

/* A later state of the file: a tensor that has changed a little, its F32 master, one of another name. */
static inline void lmc_test_calls_make_next(void)
{
    static unsigned char data[6505];
    static unsigned char master[12000];
    lmc_test_settings options = lmc_test_options(1);
    lmc_st_writer *const writer = lmc_test_writer();
    lmc_test_weights(data, sizeof data, 1);
    for (size_t i = 0; i < 3000; i++) {
        data[2 * i] ^= i % 100 == 0;
        master[4 * i + 1] = (unsigned char)(i % 120);
        memcpy(master + 4 * i + 2, data + 2 * ((i + 7) % 3000), 2);
    }
    static unsigned char copy[6000];
    for (size_t i = 0; i < 3000; i++)
        memcpy(copy + 2 * i, master + 4 * i + 2, 2);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "a", LMC_DTYPE_BF16, 3000, data), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "master", LMC_DTYPE_F32, 3000, master), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "copy", LMC_DTYPE_BF16, 3000, copy), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "added", LMC_DTYPE_U8, 500, data), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(writer, next_path, &options, NULL, NULL), LMC_OK);
    lmc_st_writer_free(writer);
    options.base = archive_path;
    CU_ASSERT_EQUAL(lmc_test_convert_as(next_path, based_path, &options, NULL, NULL), LMC_OK);
}

/* Call first; makes the directory too. */
static inline void lmc_test_calls_make(void)
{
    const lmc_test_settings options = lmc_test_options(1);
    size_t nbytes = 0;
    lmc_test_join(plain_path, "m.safetensors");
    lmc_test_join(archive_path, "m.safetensors.lmc");
    lmc_test_join(next_path, "next.safetensors");
    lmc_test_join(based_path, "next.safetensors.lmc");
    lmc_test_join(damaged_path, "damaged.safetensors.lmc");
    lmc_test_join(cut_path, "cut.safetensors.lmc");
    lmc_test_join(model_path, "model");
    lmc_test_join(archives_path, "archives");
    lmc_test_join(out_path, "out");
    lmc_test_calls_write_plain(plain_path);
    CU_ASSERT_EQUAL(lmc_test_convert_as(plain_path, archive_path, &options, NULL, NULL), LMC_OK);
    unsigned char *const bytes = lmc_test_read(archive_path, &nbytes);
    lmc_test_write(cut_path, bytes, nbytes - 20);
    bytes[nbytes - 600] ^= 1; /* in the frame of a or b */
    bytes[nbytes - 18] ^= 1;  /* in that of c */
    lmc_test_write(damaged_path, bytes, nbytes);
    free(bytes);
    lmc_test_calls_make_next();
    lmc_test_calls_make_model();
    CU_ASSERT_EQUAL(lmc_test_convert_as(model_path, archives_path, &options, NULL, NULL), LMC_OK);
}

static inline void lmc_test_calls_end(void)
{
    unlink(plain_path);
    unlink(archive_path);
    unlink(next_path);
    unlink(based_path);
    unlink(damaged_path);
    unlink(cut_path);
    lmc_test_remove(model_path);
    lmc_test_remove(archives_path);
}

/* ---- the calls ---- */

typedef struct lmc_test_call {
    lmc_status (*function)(const struct lmc_test_call *call);
    const char *path; /* what it reads */
    const char *name;
    lmc_status expected;
    int has_output;
    int writes_directory;
} lmc_test_call;

static inline lmc_status lmc_test_call_read(const lmc_test_call *call)
{
    unsigned char dst[12000];
    lmc_st_file *file = NULL;
    lmc_status status = lmc_st_open(
        call->path,
        &(lmc_st_open_options){.struct_size = sizeof(lmc_st_open_options), .allocator = lmc_test_memory},
        &file, NULL);
    for (uint64_t i = 0; status == LMC_OK && i < lmc_st_tensor_count(file); i++) {
        lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
        lmc_st_mode mode;
        status = lmc_st_tensor_info(file, i, &tensor);
        if (status == LMC_OK)
            status = lmc_st_tensor_mode(file, i, &mode, NULL);
        if (status == LMC_OK)
            status = lmc_st_read(file, NULL, i, dst, sizeof dst, NULL);
        if (status == LMC_OK && tensor.nbytes > 2)
            status = lmc_st_read_range(file, NULL, i, 1, (size_t)tensor.nbytes - 2, dst, NULL);
    }
    lmc_st_close(file);
    return status;
}

static inline lmc_status lmc_test_call_convert(const lmc_test_call *call)
{
    const lmc_test_settings options = lmc_test_call_options();
    return lmc_test_convert_as(call->path, out_path, &options, NULL, NULL);
}

/* If it needs a base, that is looked for, and there are two that might be it. */
static inline lmc_status lmc_test_call_restore(const lmc_test_call *call)
{
    const lmc_test_settings options = lmc_test_call_options();
    return lmc_test_restore_as(call->path, out_path, &options, NULL, NULL);
}

static inline lmc_status lmc_test_call_convert_next(const lmc_test_call *call)
{
    lmc_test_settings options = lmc_test_call_options();
    const char *const dirs[] = {lmc_test_dir, "/nowhere"};
    options.base = archive_path;
    options.base_dirs = dirs;
    options.base_dir_count = 2;
    return lmc_test_convert_as(call->path, out_path, &options, NULL, NULL);
}

/* From a stream to a stream: both are collected in temporary files. */
static inline lmc_status lmc_test_call_streams(const lmc_test_call *call)
{
    lmc_test_settings options = lmc_test_call_options();
    options.has_in_fd = 1;
    options.in_fd = open(call->path, O_RDONLY);
    options.has_out_fd = 1;
    options.out_fd = open("/dev/null", O_WRONLY);
    (void)lseek(options.in_fd, 8, SEEK_SET);
    lmc_status status = lmc_test_convert_as("in", "out", &options, NULL, NULL);
    CU_ASSERT_TRUE(status == LMC_ERR_HEADER || status == LMC_ERR_LIMIT || status == LMC_ERR_NOMEM);
    (void)lseek(options.in_fd, 0, SEEK_SET);
    status = lmc_test_convert_as("in", "out", &options, NULL, NULL);
    close(options.in_fd);
    close(options.out_fd);
    return status;
}

/* Which of the two damage gives is the encoder's choice. */
static inline lmc_status lmc_test_as_damage(lmc_status status)
{
    return status == LMC_ERR_CORRUPT ? LMC_ERR_CHECKSUM : status;
}

static inline lmc_status lmc_test_call_verify(const lmc_test_call *call)
{
    const lmc_test_settings options = lmc_test_call_options();
    return lmc_test_as_damage(lmc_test_verify_as(call->path, &options, NULL, NULL));
}

static inline lmc_status lmc_test_call_verify_sha256(const lmc_test_call *call)
{
    lmc_test_settings options = lmc_test_call_options();
    options.sha256 = 1;
    return lmc_test_verify_as(call->path, &options, NULL, NULL);
}

static inline lmc_status lmc_test_call_salvage(const lmc_test_call *call)
{
    lmc_test_settings options = lmc_test_call_options();
    options.salvage = 1;
    return lmc_test_as_damage(lmc_test_restore_as(call->path, out_path, &options, NULL, NULL));
}

/* An archive with its file, or both in directories. */
static inline lmc_status lmc_test_call_compare(const lmc_test_call *call)
{
    const lmc_test_settings options = lmc_test_call_options();
    return lmc_test_compare_as(call->path, call->path == archive_path ? plain_path : model_path, &options,
                               NULL);
}

typedef lmc_status lmc_test_write_function(const lmc_st_writer *writer, const char *path,
                                           const lmc_test_settings *options, lmc_st_result *result,
                                           lmc_st_diag *diag);

static inline lmc_status lmc_test_fill_writer(lmc_st_writer *writer)
{
    static const unsigned char data[400];
    lmc_status status = lmc_st_writer_set_metadata(writer, "format", 6, "pt", 2);
    for (unsigned i = 0; status == LMC_OK && i < 20; i++) { /* more than the lists begin with */
        const uint64_t shape[2] = {10, i};
        const char name[2] = {(char)('a' + i), '\0'};
        status = lmc_st_writer_add(writer, name, 1, LMC_DTYPE_BF16, shape, 2, data + i);
    }
    for (unsigned i = 0; status == LMC_OK && i < 20; i++) {
        const char key = (char)('a' + i);
        status = lmc_st_writer_set_metadata(writer, &key, 1, "value", 5);
    }
    return status;
}

static inline lmc_status lmc_test_call_writer_with(lmc_test_write_function *write)
{
    lmc_test_settings options = lmc_test_call_options();
    lmc_st_writer *writer = NULL;
    options.common.allocator = NULL; /* that of the writer */
    lmc_status status = lmc_st_writer_create(lmc_test_memory, &writer);
    if (status == LMC_OK)
        status = lmc_test_fill_writer(writer);
    if (status == LMC_OK)
        status = write(writer, out_path, &options, NULL, NULL);
    lmc_st_writer_free(writer);
    return status;
}

static inline lmc_status lmc_test_call_writer(const lmc_test_call *call)
{
    (void)call;
    return lmc_test_call_writer_with(lmc_test_writer_write_as);
}

static inline lmc_status lmc_test_call_writer_plain(const lmc_test_call *call)
{
    (void)call;
    return lmc_test_call_writer_with(lmc_test_writer_write_plain_as);
}

/* Of the directory's folder. The base of its file has another name. */
static inline lmc_status lmc_test_call_convert_renamed(const lmc_test_call *call)
{
    lmc_test_settings options = lmc_test_call_options();
    options.base = call->path;
    return lmc_test_convert_as(lmc_test_path("model/sub"), out_path, &options, NULL, NULL);
}

/* Over an empty directory, which any output may replace. */
static inline lmc_status lmc_test_call_convert_to_empty(const lmc_test_call *call)
{
    CU_ASSERT_EQUAL(mkdir(out_path, 0755), 0);
    const lmc_status status = lmc_test_call_convert(call);
    if (status != LMC_OK)
        CU_ASSERT_EQUAL(rmdir(out_path), 0);
    return status;
}

/* With force over a directory: the same archives, whose files are taken over. What was there before is
 * removed last, and without memory it cannot be: then it stays beside the new one. */
static inline lmc_status lmc_test_call_replace_directory(const lmc_test_call *call)
{
    lmc_test_settings options = lmc_test_call_options();
    options.force = 1;
    const lmc_status status = lmc_test_convert_as(call->path, archives_path, &options, NULL, NULL);
    if (status == LMC_OK)
        lmc_test_remove(lmc_test_path(".archives.lmc-st-partial"));
    return status;
}

static inline int lmc_test_count_entries(void *user, const char *path, lmc_st_entry entry)
{
    *(unsigned *)user += path[0] != '\0' && entry != LMC_ST_ENTRY_FOLDER;
    return 0;
}

static inline lmc_status lmc_test_call_visit_entries(const lmc_test_call *call)
{
    unsigned count = 0;
    lmc_st_options options = LMC_INIT(lmc_st_options);
    options.common.allocator = lmc_test_memory;
    const lmc_status status =
        lmc_st_visit_entries(call->path, &options, lmc_test_count_entries, &count, NULL);
    CU_ASSERT_EQUAL(count, status == LMC_OK ? 4 : 0);
    return status;
}

/* With a base to look for in two directories. */
static inline lmc_status lmc_test_call_open_entry(const lmc_test_call *call)
{
    const char *const dirs[] = {lmc_test_dir, "/nowhere"};
    lmc_st_file *file = NULL;
    lmc_st_compare_options options = LMC_INIT(lmc_st_compare_options);
    options.common.allocator = lmc_test_memory;
    options.base = archives_path;
    options.base_dirs = dirs;
    options.base_dir_count = 2;
    const lmc_status status = lmc_st_open_entry(call->path, "next.safetensors.lmc", &options, &file, NULL);
    CU_ASSERT_EQUAL(file != NULL, status == LMC_OK);
    lmc_st_close(file);
    return status;
}

static const lmc_test_call lmc_test_calls[] = {
    {lmc_test_call_read, archive_path, "read", LMC_OK, 0, 0},
    {lmc_test_call_read, plain_path, "read a plain file", LMC_OK, 0, 0},
    {lmc_test_call_convert, plain_path, "convert", LMC_OK, 1, 0},
    {lmc_test_call_restore, archive_path, "restore", LMC_OK, 1, 0},
    {lmc_test_call_convert_next, next_path, "convert with a base", LMC_OK, 1, 0},
    {lmc_test_call_restore, based_path, "restore with a base", LMC_OK, 1, 0},
    {lmc_test_call_read, based_path, "read with a base", LMC_OK, 0, 0},
    {lmc_test_call_verify_sha256, based_path, "verify with a base", LMC_OK, 0, 0},
    {lmc_test_call_streams, plain_path, "streams", LMC_OK, 0, 0},
    {lmc_test_call_verify_sha256, archive_path, "verify", LMC_OK, 0, 0},
    {lmc_test_call_verify_sha256, plain_path, "verify a plain file", LMC_OK, 0, 0},
    {lmc_test_call_verify, damaged_path, "verify a damaged archive", LMC_ERR_CHECKSUM, 0, 0},
    {lmc_test_call_verify, cut_path, "verify a cut archive", LMC_ERR_TRUNCATED, 0, 0},
    {lmc_test_call_salvage, damaged_path, "salvage", LMC_ERR_CHECKSUM, 1, 0},
    {lmc_test_call_salvage, archive_path, "salvage a sound archive", LMC_OK, 1, 0},
    {lmc_test_call_compare, archive_path, "compare", LMC_OK, 0, 0},
    {lmc_test_call_writer, NULL, "write", LMC_OK, 1, 0},
    {lmc_test_call_writer_plain, NULL, "write a plain file", LMC_OK, 1, 0},
    {lmc_test_call_convert, model_path, "convert a directory", LMC_OK, 1, 1},
    {lmc_test_call_convert_renamed, model_path, "convert a directory with a base", LMC_OK, 1, 1},
    {lmc_test_call_convert_to_empty, model_path, "convert to an empty directory", LMC_OK, 1, 1},
    {lmc_test_call_replace_directory, model_path, "replace a directory", LMC_OK, 0, 1},
    {lmc_test_call_restore, archives_path, "restore a directory", LMC_OK, 1, 1},
    {lmc_test_call_verify, archives_path, "verify a directory", LMC_OK, 0, 0},
    {lmc_test_call_compare, archives_path, "compare directories", LMC_OK, 0, 0},
    {lmc_test_call_visit_entries, archives_path, "visit entries", LMC_OK, 0, 0},
    {lmc_test_call_open_entry, lmc_test_dir, "open an entry", LMC_OK, 0, 0},
};
#define LMC_TEST_CALL_COUNT (sizeof lmc_test_calls / sizeof lmc_test_calls[0])

/* Looks at what a call has left and removes it. Returns 1 if that is its output or, after a failure,
 * nothing. */
static inline int lmc_test_call_left_right(const lmc_test_call *call, lmc_status status)
{
    enum { FILES_OF_CALLS = 8 };
    const int is_expected = call->has_output && status == call->expected;
    const int is_right = lmc_test_exists(out_path) == is_expected &&
                         lmc_test_entry_count(lmc_test_dir) == FILES_OF_CALLS + is_expected;
    lmc_test_remove(out_path);
    return is_right;
}

#endif
