/*
 * lmc_test_st_base.h - files that are coded against each other: snapshots of a small model.
 */
#ifndef LMC_TEST_ST_BASE_H
#define LMC_TEST_ST_BASE_H

#include "lmc_test_st.h"

/* Values of tensor "w" of a snapshot; "f" has as many, F32. */
#define LMC_TEST_VALUE_COUNT 70000u

/* BF16 values of snapshot `step`: each step moves a part of them by one. */
static inline void lmc_test_snapshot(unsigned char *dst, size_t count, unsigned step)
{
    lmc_test_weights(dst, 2 * count, 7);
    for (unsigned k = 1; k <= step; k++)
        for (size_t i = k; i < count; i += 13 + k)
            dst[2 * i]++;
}

/* F32 values whose upper halves are like weights. */
static inline void lmc_test_snapshot_f32(unsigned char *dst, size_t count, unsigned step)
{
    uint32_t state = 99;
    unsigned char *const upper = malloc(2 * count);
    CU_ASSERT_PTR_NOT_NULL_FATAL(upper);
    lmc_test_snapshot(upper, count, step);
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        dst[4 * i] = (unsigned char)(state >> 16);
        dst[4 * i + 1] = (unsigned char)(state >> 24);
        dst[4 * i + 2] = upper[2 * i];
        dst[4 * i + 3] = upper[2 * i + 1];
    }
    free(upper);
}

static inline uint16_t lmc_test_round(uint32_t bits)
{
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16 & 0x8000u) | 0x7fc0u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* The BF16 rounding of F32 values. */
static inline void lmc_test_rounded(unsigned char *dst, const unsigned char *src, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, src + 4 * i, 4);
        const uint16_t value = lmc_test_round(bits);
        memcpy(dst + 2 * i, &value, 2);
    }
}

/* Writes a safetensors file of what the writer holds, and frees it. */
static inline void lmc_test_write_plain(lmc_st_writer *writer, const char *path)
{
    lmc_test_settings options = lmc_test_options(1);
    options.force = 1;
    CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(writer, path, &options, NULL, NULL), LMC_OK);
    lmc_st_writer_free(writer);
}

/* A file with the BF16 tensor "w" of a snapshot, a U8 tensor "same" and a short one. */
static inline void lmc_test_write_snapshot(const char *path, unsigned step)
{
    static unsigned char w[2 * LMC_TEST_VALUE_COUNT];
    static unsigned char same[5000];
    lmc_st_writer *const writer = lmc_test_writer();
    lmc_test_snapshot(w, LMC_TEST_VALUE_COUNT, step);
    lmc_test_weights(same, sizeof same, 3);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "w", LMC_DTYPE_BF16, LMC_TEST_VALUE_COUNT, w), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "same", LMC_DTYPE_U8, sizeof same, same), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "short", LMC_DTYPE_U8, 9, same), LMC_OK);
    lmc_test_write_plain(writer, path);
}

static inline lmc_status lmc_test_convert(const char *in, const char *base, const char *out,
                                          unsigned thread_count, lmc_st_diag *diag)
{
    lmc_test_settings options = lmc_test_options(thread_count);
    options.force = 1;
    options.base = base;
    return lmc_test_convert_as(in, out, &options, NULL, diag);
}

/* base, base_dir: NULL for none. */
static inline lmc_status lmc_test_restore(const char *in, const char *base, const char *base_dir,
                                          const char *out, lmc_st_diag *diag)
{
    lmc_test_settings options = lmc_test_options(2);
    options.force = 1;
    options.base = base;
    options.base_dirs = &base_dir;
    options.base_dir_count = base_dir != NULL;
    return lmc_test_restore_as(in, out, &options, NULL, diag);
}

static inline lmc_status lmc_test_verify_with(const char *in, const char *base, lmc_st_result *result,
                                              lmc_st_diag *diag)
{
    lmc_test_settings options = lmc_test_options(2);
    options.base = base;
    return lmc_test_verify_as(in, &options, result, diag);
}

/* Restores and compares; removes what was restored. */
static inline void lmc_test_expect_restored(const char *archive, const char *base, const char *base_dir,
                                            const char *plain)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    const char *const out = lmc_test_path("restored");
    CU_ASSERT_EQUAL(lmc_test_restore(archive, base, base_dir, out, &diag), LMC_OK);
    CU_ASSERT_TRUE(lmc_test_exists(out) && lmc_test_same_files(out, plain));
    (void)unlink(out);
}

/* What tensor `name` of an archive was coded against: -1 nothing, else its number there, and *place. */
static inline int lmc_test_base_of(const char *path, const char *name, lmc_st_base_place *place,
                                   lmc_st_mode *mode)
{
    lmc_st_file *file = NULL;
    uint64_t index = 0;
    uint64_t number = 0;
    uint64_t base = 0;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(path, NULL, &file, NULL), LMC_OK);
    CU_ASSERT_TRUE_FATAL(lmc_st_find_tensor_sized(file, name, strlen(name), &index));
    CU_ASSERT_EQUAL(lmc_st_tensor_mode(file, index, mode, NULL), LMC_OK);
    const int is_there = lmc_st_tensor_base(file, index, place, &number, &base);
    CU_ASSERT_EQUAL(is_there, *mode == LMC_ST_MODE_DELTA);
    lmc_st_close(file);
    return is_there ? (int)base : -1;
}

static inline size_t lmc_test_nbytes(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? (size_t)status.st_size : 0;
}

#endif
