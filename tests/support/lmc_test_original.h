/*
 * lmc_test_original.h - the original of an archive, read from anywhere and compared with the file that the archive was
 * made from. After lmc_test_st.h.
 */
#ifndef LMC_TEST_ORIGINAL_H
#define LMC_TEST_ORIGINAL_H

#include "lmc_test_st.h"

#include "safetensors/archive/handle.h"

#define LMC_TEST_WRONG_BYTES ((lmc_status)-1)

typedef struct lmc_test_original {
    lmc_st_file *file;
    lmc_st_original *original;
    unsigned char *bytes; /* as they should be */
    size_t nbytes;
} lmc_test_original;

/* nbytes 0: the default. */
static inline lmc_st_cache *lmc_test_cache(uint64_t nbytes, unsigned thread_count)
{
    lmc_st_cache *cache = NULL;
    lmc_st_options options = LMC_INIT(lmc_st_options);
    options.common.thread_count = thread_count;
    CU_ASSERT_EQUAL_FATAL(lmc_st_cache_create(nbytes, &options, &cache, NULL), LMC_OK);
    return cache;
}

/* Names of files in the test's directory; plain: what the archive was made from. */
static inline void lmc_test_original_open(lmc_test_original *of, lmc_st_cache *cache, const char *archive,
                                          const char *plain)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_st_open_options options = LMC_INIT(lmc_st_open_options);
    options.raw = 1;
    *of = (lmc_test_original){.file = NULL};
    of->bytes = lmc_test_read(lmc_test_path(plain), &of->nbytes);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path(archive), &options, &of->file, &diag), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_original_open(of->file, cache, &of->original, &diag), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_original_nbytes(of->file), of->nbytes);
}

static inline void lmc_test_original_close(lmc_test_original *of)
{
    lmc_st_original_close(of->original);
    lmc_st_close(of->file);
    free(of->bytes);
}

/* Reads a range to a block of exactly its size. */
static inline lmc_status lmc_test_original_read(const lmc_test_original *of, uint64_t offset, size_t nbytes,
                                                lmc_st_diag *diag)
{
    unsigned char *const dst = malloc(nbytes + (nbytes == 0));
    if (!dst)
        return LMC_ERR_NOMEM;
    lmc_status status = lmc_st_original_read(of->original, offset, nbytes, dst, diag);
    if (status == LMC_OK && nbytes > 0 && memcmp(dst, of->bytes + offset, nbytes) != 0)
        status = LMC_TEST_WRONG_BYTES;
    free(dst);
    return status;
}

static inline uint32_t lmc_test_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Reads a range of any size, small ones mostly. */
static inline lmc_status lmc_test_original_read_any(const lmc_test_original *of, uint32_t *state)
{
    const size_t offset = lmc_test_random(state) % (of->nbytes + 1);
    const size_t most = (size_t)1 << (lmc_test_random(state) % 20);
    const size_t left = of->nbytes - offset;
    const size_t nbytes = lmc_test_random(state) % (most < left ? most : left + 1);
    return lmc_test_original_read(of, offset, nbytes, NULL);
}

/* Ranges that end, begin and lie about this place. */
static inline void lmc_test_original_about(const lmc_test_original *of, uint64_t place)
{
    static const unsigned lengths[] = {1, 2, 5, 300};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (unsigned before = 0; before <= lengths[i]; before += (lengths[i] + 1) / 2) {
            const uint64_t offset = place > before ? place - before : 0;
            const uint64_t left = of->nbytes - offset;
            const size_t nbytes = left < lengths[i] ? (size_t)left : lengths[i];
            CU_ASSERT_EQUAL(lmc_test_original_read(of, offset, nbytes, NULL), LMC_OK);
        }
    }
}

/* Where tensor `index` of the listing begins in the original. */
static inline uint64_t lmc_test_origin(const lmc_test_original *of, const char *name, uint64_t *nbytes)
{
    uint64_t index = 0;
    CU_ASSERT_TRUE_FATAL(lmc_st_find_tensor(of->file, name, &index));
    *nbytes = st_file_tensor_nbytes(of->file, (size_t)index);
    return st_file_origin(of->file, (size_t)index);
}

/* The borders of tensors, and places that may be those of blocks. */
static inline void lmc_test_original_borders(const lmc_test_original *of)
{
    const size_t count = of->file->header.tensor_count;
    for (size_t i = 0; i < count; i += LMC_TEST_STEP) {
        const uint64_t begin = st_file_origin(of->file, i);
        const uint64_t nbytes = st_file_tensor_nbytes(of->file, i);
        lmc_test_original_about(of, begin);
        lmc_test_original_about(of, begin + nbytes);
        for (uint64_t at = 65536; at < nbytes; at += 65536)
            lmc_test_original_about(of, begin + at);
    }
    for (uint64_t at = 0; at < of->nbytes; at += LMC_TEST_STEP * 65536u)
        lmc_test_original_about(of, at);
}

/* At the end and behind it. */
static inline void lmc_test_original_end(const lmc_test_original *of)
{
    unsigned char none[1];
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    const uint64_t nbytes = of->nbytes;
    const struct {
        uint64_t offset;
        size_t nbytes;
    } beyond[] = {{nbytes, 1},     {nbytes + 1, 0},        {nbytes - 1, 2},        {0, of->nbytes + 1},
                  {UINT64_MAX, 0}, {UINT64_MAX, SIZE_MAX}, {nbytes - 1, SIZE_MAX}, {UINT64_MAX - 1, 1}};
    CU_ASSERT_EQUAL(lmc_st_original_read(of->original, 0, 0, NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_original_read(of->original, nbytes, 0, NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_original_read(of, nbytes - 1, 1, NULL), LMC_OK);
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        CU_ASSERT_EQUAL(lmc_st_original_read(of->original, beyond[i].offset, beyond[i].nbytes, none, &diag),
                        LMC_ERR_ARG);
        CU_ASSERT_EQUAL(diag.status, LMC_ERR_ARG);
        CU_ASSERT_STRING_EQUAL(diag.text, "the original has fewer bytes");
    }
}

/* All that can be read of an archive, with a cache that has room for it and with the smallest one. */
static inline void lmc_test_original_check(const char *archive, const char *plain, unsigned range_count)
{
    for (unsigned i = 0; i < 2; i++) {
        lmc_test_original of;
        uint32_t state = 17 + i;
        lmc_st_cache *const cache = i == 0 ? lmc_test_cache(0, 1) : lmc_test_cache(1, 3);
        lmc_test_original_open(&of, cache, archive, plain);
        for (unsigned k = 0; k < range_count / 2; k++)
            CU_ASSERT_EQUAL(lmc_test_original_read_any(&of, &state), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_original_read(&of, 0, of.nbytes, NULL), LMC_OK);
        for (unsigned k = 0; k < range_count / 2; k++)
            CU_ASSERT_EQUAL(lmc_test_original_read_any(&of, &state), LMC_OK);
        for (size_t at = 0; at < of.nbytes; at += 50000)
            CU_ASSERT_EQUAL(
                lmc_test_original_read(&of, at, of.nbytes - at < 50000 ? of.nbytes - at : 50000, NULL),
                LMC_OK);
        if (i == 0)
            lmc_test_original_borders(&of);
        lmc_test_original_end(&of);
        lmc_test_original_close(&of);
        lmc_st_cache_free(cache);
    }
}

/* Bytes that cannot be coded. */
static inline void lmc_test_noise(unsigned char *dst, size_t nbytes, uint64_t seed)
{
    for (size_t i = 0; i < nbytes; i++) {
        uint64_t x = (seed << 32) + i;
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        dst[i] = (unsigned char)(x >> 40);
    }
}

/* A file with a header of 600 KB, and tensors of every size about the limits by which they are read: "large" (coded),
 * "noise" and "noise of one block" (stored), "zeros", "wide", small and empty ones among them, and some that are
 * equal. */
static inline void lmc_test_write_mixed(const char *path)
{
    enum { LARGE = 400000, NOISE = 700001, SMALL_COUNT = 150 };
    static unsigned char large[2 * LARGE], noise[NOISE], zeros[1000000], text[600000];
    static unsigned char small[SMALL_COUNT][1500], edge[10][65537];
    static const size_t edges[] = {65535, 65536, 65537, 60000, 60001, 60002, 60003, 60004, 60005, 60006};
    lmc_st_writer *const writer = lmc_test_writer();
    char name[32];
    lmc_test_weights(large, sizeof large, 5);
    lmc_test_noise(noise, sizeof noise, 1);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)('a' + noise[i] % 26);
    CU_ASSERT_EQUAL(lmc_st_writer_set_metadata(writer, "note", 4, (const char *)text, sizeof text), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "large", LMC_DTYPE_BF16, LARGE, large), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "large tied", LMC_DTYPE_BF16, LARGE, large), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "noise", LMC_DTYPE_U8, NOISE, noise), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "noise of one block", LMC_DTYPE_U8, 100000, noise + 1), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "zeros", LMC_DTYPE_F32, sizeof zeros / 4, zeros), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "wide", LMC_DTYPE_F64, 50000, large), LMC_OK);
    for (unsigned i = 0; i < SMALL_COUNT; i++) {
        const size_t nbytes = i % 5 == 0 ? 0 : 1 + (i * i * 37) % 1500;
        snprintf(name, sizeof name, i % 3 == 0 ? "a%03u" : i % 3 == 1 ? "m%03u" : "z%03u", i);
        lmc_test_weights(small[i], nbytes, i % 50);
        CU_ASSERT_EQUAL(lmc_test_add(writer, name, LMC_DTYPE_U8, nbytes, small[i]), LMC_OK);
    }
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        static const lmc_dtype dtypes[] = {LMC_DTYPE_F64, LMC_DTYPE_F32, LMC_DTYPE_BF16, LMC_DTYPE_U8};
        snprintf(name, sizeof name, "edge%zu", i);
        lmc_test_weights(edge[i], edges[i], (uint32_t)i);
        CU_ASSERT_EQUAL(lmc_test_add(writer, name, LMC_DTYPE_I8, edges[i], edge[i]), LMC_OK);
        snprintf(name, sizeof name, "none%zu", i);
        CU_ASSERT_EQUAL(lmc_test_add(writer, name, dtypes[i % 4], 0, NULL), LMC_OK);
    }
    CU_ASSERT_EQUAL(lmc_st_writer_write_plain(writer, path, NULL, NULL, NULL), LMC_OK);
    lmc_st_writer_free(writer);
}

#endif
