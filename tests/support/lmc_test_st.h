/*
 * lmc_test_st.h - what tests of liblmc_st share: a temporary directory, files in it, and a small model.
 *
 * A program that uses the directory ends in LMC_TEST_DIR_MAIN(). Its last test fails if anything has been left in the
 * directory that the program did not unlink.
 */
#ifndef LMC_TEST_ST_H
#define LMC_TEST_ST_H

#include "lmc_test.h"

#include "lmc_st_experimental.h"
#include "lmc_test_settings.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define LMC_TEST_PATH_NBYTES 256

static char lmc_test_dir[] = "/tmp/lmc-st-test-XXXXXX";

/* The path of a name in the directory, which stays good. */
static inline const char *lmc_test_path(const char *name)
{
    static char paths[1000][LMC_TEST_PATH_NBYTES];
    char path[LMC_TEST_PATH_NBYTES];
    size_t i = 0;
    snprintf(path, sizeof path, "%s/%s", lmc_test_dir, name);
    while (paths[i][0] != '\0' && strcmp(paths[i], path) != 0)
        CU_ASSERT_FATAL(++i < sizeof paths / sizeof paths[0]);
    return strcpy(paths[i], path);
}

/* 0 where links cannot be made (tests/format/cross/windows). */
static inline int lmc_test_has_links(void)
{
    const char *const link = lmc_test_path("probe-link");
    if (symlink("nowhere", link) != 0)
        return errno != ENOSYS;
    (void)unlink(link);
    return 1;
}

/* Names in a directory, hidden ones too, "." and ".." not; -1: no such directory. */
static inline int lmc_test_entry_count(const char *path)
{
    DIR *const stream = opendir(path);
    int count = 0;
    while (stream != NULL && readdir(stream) != NULL)
        count++;
    if (stream != NULL)
        closedir(stream);
    return stream == NULL ? -1 : count - 2;
}

static inline int lmc_test_exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

/* Removes a tree of files. */
static inline void lmc_test_remove(const char *path)
{
    DIR *const stream = opendir(path);
    const struct dirent *entry = NULL;
    while (stream != NULL && (entry = readdir(stream)) != NULL) {
        char inner[3 * LMC_TEST_PATH_NBYTES];
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            snprintf(inner, sizeof inner, "%.500s/%.200s", path, entry->d_name);
            lmc_test_remove(inner);
        }
    }
    if (stream != NULL) {
        closedir(stream);
        CU_ASSERT_EQUAL(rmdir(path), 0);
    } else {
        (void)unlink(path);
    }
}

static inline void lmc_test_directory_is_empty(void)
{
    CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), 0);
    lmc_test_remove(lmc_test_dir);
}

static inline int lmc_test_dir_main(const char *suite, int argc, char **argv)
{
    static lmc_test last = {"test_directory_is_empty", lmc_test_directory_is_empty, INT_MAX, NULL};
    if (!mkdtemp(lmc_test_dir))
        abort();
    lmc_test_list(&last);
    return lmc_test_main(suite, argc, argv);
}

#define LMC_TEST_DIR_MAIN(suite)                     \
    int main(int argc, char **argv)                  \
    {                                                \
        return lmc_test_dir_main(suite, argc, argv); \
    }

static inline void lmc_test_write(const char *path, const void *bytes, size_t nbytes)
{
    FILE *const file = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, nbytes, file), nbytes);
    CU_ASSERT_EQUAL(fclose(file), 0);
}

/* A whole file, and a zero behind it; to be freed. */
static inline unsigned char *lmc_test_read(const char *path, size_t *nbytes)
{
    struct stat status;
    FILE *const file = fopen(path, "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL_FATAL(fstat(fileno(file), &status), 0);
    *nbytes = (size_t)status.st_size;
    unsigned char *const bytes = malloc(*nbytes + 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    CU_ASSERT_EQUAL(fread(bytes, 1, *nbytes, file), *nbytes);
    bytes[*nbytes] = 0;
    fclose(file);
    return bytes;
}

static inline int lmc_test_same_files(const char *a_path, const char *b_path)
{
    size_t a_nbytes = 0;
    size_t b_nbytes = 0;
    unsigned char *const a = lmc_test_read(a_path, &a_nbytes);
    unsigned char *const b = lmc_test_read(b_path, &b_nbytes);
    const int is_same = a_nbytes == b_nbytes && memcmp(a, b, a_nbytes) == 0;
    free(a);
    free(b);
    return is_same;
}

/* Changes one byte of a file. */
static inline void lmc_test_flip(const char *path, size_t at, unsigned char mask)
{
    size_t nbytes = 0;
    unsigned char *const bytes = lmc_test_read(path, &nbytes);
    CU_ASSERT_TRUE_FATAL(at < nbytes);
    bytes[at] ^= mask;
    lmc_test_write(path, bytes, nbytes);
    free(bytes);
}

/* Bytes like those of bf16 weights: noise below, few exponents above. */
static inline void lmc_test_weights(unsigned char *dst, size_t nbytes, uint32_t seed)
{
    uint32_t state = seed;
    for (size_t i = 0; i < nbytes; i++) {
        state = state * 1664525u + 1013904223u;
        dst[i] = i % 2 == 0 ? (unsigned char)(state >> 24) : (unsigned char)(0x3c | (state >> 20 & 1));
    }
}

static inline lmc_test_settings lmc_test_options(unsigned thread_count)
{
    lmc_test_settings options = {0};
    options.common.thread_count = thread_count;
    options.no_fsync = 1;
    return options;
}

static inline lmc_st_writer *lmc_test_writer(void)
{
    lmc_st_writer *writer = NULL;
    CU_ASSERT_EQUAL(lmc_st_writer_create(NULL, &writer), LMC_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(writer);
    return writer;
}

/* Adds a tensor of rank 1. */
static inline lmc_status lmc_test_add(lmc_st_writer *writer, const char *name, lmc_dtype dtype,
                                      uint64_t count, const void *data)
{
    return lmc_st_writer_add(writer, name, strlen(name), dtype, &count, 1, data);
}

/* A plain file: a coded tensor of several blocks "a", one equal to it "b", a small one "c", an empty one. */
#define LMC_TEST_MODEL_COUNT 300000u /* values of a and b */
static inline void lmc_test_write_model(const char *path, uint32_t seed)
{
    static unsigned char data[2 * LMC_TEST_MODEL_COUNT];
    const lmc_test_settings options = lmc_test_options(1);
    lmc_st_writer *const writer = lmc_test_writer();
    lmc_test_weights(data, sizeof data, seed);
    CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, "format", 6, "pt", 2), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "a", LMC_DTYPE_BF16, LMC_TEST_MODEL_COUNT, data), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "b", LMC_DTYPE_BF16, LMC_TEST_MODEL_COUNT, data), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "c", LMC_DTYPE_U8, 5, data), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "none", LMC_DTYPE_F32, 0, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(writer, path, &options, NULL, NULL), LMC_OK);
    lmc_st_writer_free(writer);
}

#endif
