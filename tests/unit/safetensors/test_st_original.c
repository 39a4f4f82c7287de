/*
 * test_st_original.c - originals of archives of every kind of file, with and without bases, and of plain files, read
 * from anywhere.
 */
#include "lmc_test_archive.h"
#include "lmc_test_original.h"
#include "lmc_test_sized_alloc.h"
#include "lmc_test_st_base.h"
#include "lmc_test_zip.h"

#include "safetensors/read/decoder.h"

#define RANGE_COUNT (600 / LMC_TEST_STEP)

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

static void make_archive(const char *plain, const char *archive, int is_raw)
{
    lmc_test_settings options = lmc_test_options(1);
    options.raw = is_raw;
    CU_ASSERT_EQUAL_FATAL(
        lmc_test_convert_as(lmc_test_path(plain), lmc_test_path(archive), &options, NULL, &diag), LMC_OK);
}

static void drop(const char *const *names)
{
    for (; *names; names++)
        CU_ASSERT_EQUAL(unlink(lmc_test_path(*names)), 0);
}

/* Checks a plain file, and its archive, which is of this kind. */
static void check_both(const char *plain, lmc_st_container kind)
{
    lmc_st_file *file = NULL;
    make_archive(plain, "archive", kind == LMC_ST_CONTAINER_RAW);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path("archive"), NULL, &file, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_container_of(file), kind);
    CU_ASSERT_TRUE(lmc_st_is_archive(file));
    lmc_st_close(file);
    lmc_test_original_check("archive", plain, RANGE_COUNT);
    lmc_test_original_check(plain, plain, RANGE_COUNT / 10);
    drop((const char *const[]){"archive", plain, NULL});
}

/* ---- containers ---- */

static lmc_st_mode mode_of(const lmc_st_file *file, const char *name, size_t *block_nbytes)
{
    uint64_t index = 0, hash = 0;
    lmc_st_mode mode = LMC_ST_MODE_PLAIN;
    CU_ASSERT_TRUE_FATAL(lmc_st_find_tensor(file, name, &index));
    CU_ASSERT_EQUAL(lmc_st_tensor_mode(file, index, &mode, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_content_hash(file, index, &hash, block_nbytes, NULL), LMC_OK);
    return mode;
}

LMC_TEST(test_safetensors)
{
    size_t block_nbytes = 0;
    lmc_st_file *file = NULL;
    lmc_test_write_mixed(lmc_test_path("plain"));
    make_archive("plain", "archive", 0);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path("archive"), NULL, &file, &diag), LMC_OK);
    CU_ASSERT_EQUAL(mode_of(file, "large", &block_nbytes), LMC_ST_MODE_CODED);
    CU_ASSERT_EQUAL(mode_of(file, "large tied", &block_nbytes), LMC_ST_MODE_ALIAS);
    CU_ASSERT_EQUAL(mode_of(file, "noise", &block_nbytes), LMC_ST_MODE_CODED);
    CU_ASSERT_TRUE(block_nbytes < 700001 / 2);
    CU_ASSERT_EQUAL(mode_of(file, "noise of one block", &block_nbytes), LMC_ST_MODE_STORED);
    CU_ASSERT_EQUAL(mode_of(file, "m001", &block_nbytes), LMC_ST_MODE_SHORT);
    lmc_st_close(file);
    CU_ASSERT_EQUAL(unlink(lmc_test_path("archive")), 0);
    check_both("plain", LMC_ST_CONTAINER_SAFETENSORS);
}

/* No tensors; and none with a byte. */
LMC_TEST(test_nothing)
{
    for (unsigned count = 0; count < 4; count += 3) {
        lmc_st_writer *const writer = lmc_test_writer();
        for (unsigned i = 0; i < count; i++)
            CU_ASSERT_EQUAL(
                lmc_test_add(writer, (const char[]){(char)('a' + i), '\0'}, LMC_DTYPE_U8, 0, NULL), LMC_OK);
        lmc_test_write_plain(writer, lmc_test_path("plain"));
        check_both("plain", LMC_ST_CONTAINER_SAFETENSORS);
    }
}

/* {"w": a tensor of 2 x 3 floats on storage "0"} */
static const char pickle[] =
    "\x80\2}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\n"
    "X\1\0\0\0"
    "0X\3\0\0\0cpuK\6tQK\0K\2K\3\x86K\3K\1\x86\x89NtRs.";

LMC_TEST(test_torch)
{
    static lmc_test_bytes bytes;
    static lmc_test_zip zip;
    static unsigned char data[300000];
    bytes.nbytes = 0;
    lmc_test_zip_begin(&zip, &bytes);
    lmc_test_weights(data, sizeof data, 1);
    lmc_test_entry packed = lmc_test_entry_of(&zip, "x/other", data, sizeof data);
    packed.method = 8; /* its bytes stay as they are: skeleton */
    lmc_test_zip_put(&zip, &packed);
    lmc_test_zip_add(&zip, "x/data.pkl", pickle, sizeof pickle - 1);
    lmc_test_zip_add(&zip, "x/data/0", data, 24);
    lmc_test_zip_add(&zip, "x/data/1", data, sizeof data);
    lmc_test_zip_add(&zip, "x/data/2", data, 0);
    for (unsigned i = 3; i < 60; i++) {
        char name[16];
        snprintf(name, sizeof name, "x/data/%u", i);
        lmc_test_zip_add(&zip, name, data + i, i * 200);
    }
    lmc_test_zip_end(&zip);
    lmc_test_write(lmc_test_path("plain"), bytes.at, bytes.nbytes);
    check_both("plain", LMC_ST_CONTAINER_ZIP);
}

LMC_TEST(test_npy)
{
    static const char header[] =
        "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (50000, 3), }";
    static unsigned char bytes[128 + 600000];
    memset(bytes, ' ', 128);
    memcpy(bytes, header, sizeof header - 1);
    bytes[127] = '\n';
    lmc_test_weights(bytes + 128, 600000, 4);
    lmc_test_write(lmc_test_path("plain"), bytes, sizeof bytes);
    check_both("plain", LMC_ST_CONTAINER_NPY);
}

/* A text of more than two pieces, and two tensors. */
LMC_TEST(test_gguf)
{
    enum { TEXT = 2500000, DATA = 200000 };
    static unsigned char bytes[200 + TEXT + 2 * DATA + 64];
    const uint64_t head[2] = {2, 1}, length = TEXT, shape[1] = {DATA / 4};
    const uint32_t version = 3, string = 8, rank = 1, f32 = 0;
    size_t at = 0;
#define PUT(src, n) (memcpy(bytes + at, src, n), at += (n))
    PUT("GGUF", 4), PUT(&version, 4), PUT(head, 16);
    PUT(&(uint64_t){1}, 8), PUT("k", 1), PUT(&string, 4), PUT(&length, 8);
    lmc_test_noise(bytes + at, TEXT, 3);
    for (size_t i = 0; i < TEXT; i++)
        bytes[at + i] = (unsigned char)('a' + bytes[at + i] % 20);
    at += TEXT;
    for (uint64_t i = 0; i < 2; i++) {
        const uint64_t offset = i * DATA;
        PUT(&(uint64_t){1}, 8), PUT(i == 0 ? "a" : "b", 1), PUT(&rank, 4);
        PUT(shape, 8), PUT(&f32, 4), PUT(&offset, 8);
    }
#undef PUT
    at = (at + 31) / 32 * 32;
    lmc_test_weights(bytes + at, 2 * DATA, 9);
    lmc_test_write(lmc_test_path("plain"), bytes, at + 2 * DATA);
    check_both("plain", LMC_ST_CONTAINER_GGUF);
}

LMC_TEST(test_raw)
{
    static unsigned char bytes[900001];
    lmc_test_noise(bytes, sizeof bytes, 8);
    lmc_test_weights(bytes + 1000, 500000, 2);
    lmc_test_write(lmc_test_path("plain"), bytes, sizeof bytes);
    check_both("plain", LMC_ST_CONTAINER_RAW);
    lmc_test_write(lmc_test_path("plain"), bytes, 1);
    check_both("plain", LMC_ST_CONTAINER_RAW);
}

/* ---- frames ---- */

/* Writes a file of one U8 tensor "a", and its archive with blocks of this size. */
static void make_one(const unsigned char *content, size_t nbytes, unsigned block_log2, lmc_frame_mode mode)
{
    lmc_st_writer *const writer = lmc_test_writer();
    char text[128];
    (void)lmc_test_write_archive(lmc_test_path("archive"), content, nbytes, block_log2, mode);
    lmc_st_writer_free(writer);
    const int length =
        snprintf(text, sizeof text, "{\"a\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}",
                 nbytes, nbytes);
    const uint64_t header_nbytes = (uint64_t)length;
    FILE *const file = fopen(lmc_test_path("plain"), "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fwrite(&header_nbytes, 1, 8, file), 8);
    CU_ASSERT_EQUAL(fwrite(text, 1, (size_t)length, file), (size_t)length);
    CU_ASSERT_EQUAL(fwrite(content, 1, nbytes, file), nbytes);
    CU_ASSERT_EQUAL(fclose(file), 0);
}

/* Blocks of every size, the largest as large as the cache. Of a frame without an index, the last block, which is a
 * short one, is read first. */
LMC_TEST(test_block_sizes)
{
    static unsigned char content[2200001];
    for (unsigned i = 0; i < 2; i++) {
        const size_t nbytes = i == 0 ? 300001 : sizeof content;
        for (unsigned log2 = i == 0 ? 10 : 18; log2 <= (i == 0 ? 17 : 20); log2++) {
            for (int is_noise = 0; is_noise < 2; is_noise++) {
                lmc_test_original of;
                lmc_st_cache *const cache = lmc_test_cache(1, 2);
                uint32_t state = log2;
                if (is_noise)
                    lmc_test_noise(content, nbytes, log2);
                else
                    lmc_test_weights(content, nbytes, log2);
                make_one(content, nbytes, log2, is_noise ? LMC_FRAME_STORED : LMC_FRAME_CODED);
                lmc_test_original_open(&of, cache, "archive", "plain");
                CU_ASSERT_EQUAL(lmc_test_original_read(&of, of.nbytes - 1, 1, NULL), LMC_OK);
                for (unsigned k = 0; k < RANGE_COUNT / 20; k++)
                    CU_ASSERT_EQUAL(lmc_test_original_read_any(&of, &state), LMC_OK);
                CU_ASSERT_EQUAL(lmc_test_original_read(&of, 0, of.nbytes, NULL), LMC_OK);
                lmc_test_original_close(&of);
                lmc_st_cache_free(cache);
            }
        }
    }
    drop((const char *const[]){"archive", "plain", NULL});
}

/* ---- bases ---- */

#define COUNT 1200000u /* values */

static unsigned char w[2 * COUNT], f[4 * COUNT];

static void write_values(const char *name, lmc_dtype dtype, const void *values)
{
    static unsigned char same[5000];
    lmc_st_writer *const writer = lmc_test_writer();
    lmc_test_weights(same, sizeof same, 3);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "w", dtype, COUNT, values), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "same", LMC_DTYPE_U8, sizeof same, same), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "short", LMC_DTYPE_U8, 9, same), LMC_OK);
    lmc_test_write_plain(writer, lmc_test_path(name));
}

static void convert_against(const char *plain, const char *base, const char *archive)
{
    CU_ASSERT_EQUAL_FATAL(lmc_test_convert(lmc_test_path(plain), !base ? NULL : lmc_test_path(base),
                                           lmc_test_path(archive), 2, &diag),
                          LMC_OK);
}

/* How many blocks of tensor "w" are decoded at once, because its base has larger ones. */
static size_t blocks_at_once(const char *archive)
{
    lmc_st_file *file = NULL;
    lmc_ctx *ctx = NULL;
    st_decoder decoder;
    uint64_t index = 0;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path(archive), NULL, &file, &diag), LMC_OK);
    CU_ASSERT_TRUE_FATAL(lmc_st_find_tensor(file, "w", &index));
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(NULL, &ctx), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(st_decoder_open(&decoder, file, ctx, (size_t)index, &diag), LMC_OK);
    CU_ASSERT_EQUAL(decoder.frame.info.mode, LMC_FRAME_DELTA);
    const size_t count = decoder.part_nbytes / decoder.frame.info.block_nbytes;
    st_decoder_close(&decoder);
    lmc_ctx_free(ctx);
    lmc_st_close(file);
    return count;
}

/* Little changes, then much, then little again: blocks of several sizes. Only archives are there as bases. */
LMC_TEST(test_chain)
{
    static const char *const kept[] = {"kept0", "kept1", "kept2", "kept3", NULL};
    size_t most = 0;
    lmc_test_weights(w, sizeof w, 7);
    for (unsigned i = 0; i < 4; i++) {
        char plain[] = "s0", archive[] = "s0.lmc", base[] = "s0.lmc";
        plain[1] = archive[1] = (char)('0' + i);
        base[1] = (char)('0' + i - 1);
        for (size_t k = i; k < COUNT && i > 0; k += i % 2 ? 99991 : 3)
            w[2 * k]++;
        write_values(plain, LMC_DTYPE_BF16, w);
        convert_against(plain, i == 0 ? NULL : base, archive);
        CU_ASSERT_EQUAL(rename(lmc_test_path(plain), lmc_test_path(kept[i])), 0);
        const size_t count = i == 0 ? 1 : blocks_at_once(archive);
        most = count > most ? count : most;
        if (i > 1)
            lmc_test_original_check(archive, kept[i], RANGE_COUNT / 4);
    }
    CU_ASSERT_TRUE(most > 1);
    drop(kept);
    drop((const char *const[]){"s0.lmc", "s1.lmc", "s2.lmc", "s3.lmc", NULL});
}

/* F32 as the base of BF16, in an archive of its own, in a plain file, and in the file itself. */
LMC_TEST(test_base_of_another_dtype)
{
    lmc_test_snapshot_f32(f, COUNT, 2);
    lmc_test_rounded(w, f, COUNT);
    write_values("s0", LMC_DTYPE_F32, f);
    convert_against("s0", NULL, "s0.lmc");
    write_values("s1", LMC_DTYPE_BF16, w);
    convert_against("s1", "s0", "s1.lmc");
    CU_ASSERT_EQUAL(blocks_at_once("s1.lmc"), 1);
    lmc_test_original_check("s1.lmc", "s1", RANGE_COUNT / 4);
    CU_ASSERT_EQUAL(unlink(lmc_test_path("s0")), 0);
    lmc_test_original_check("s1.lmc", "s1", RANGE_COUNT / 4);
    drop((const char *const[]){"s1", "s0.lmc", "s1.lmc", NULL});
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_test_add(writer, "f", LMC_DTYPE_F32, COUNT / 4, f), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "w", LMC_DTYPE_BF16, COUNT / 4, w), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "w tied", LMC_DTYPE_BF16, COUNT / 4, w), LMC_OK);
    lmc_test_write_plain(writer, lmc_test_path("s0"));
    convert_against("s0", NULL, "s0.lmc");
    lmc_test_original_check("s0.lmc", "s0", RANGE_COUNT / 4);
    drop((const char *const[]){"s0", "s0.lmc", NULL});
}

/* ---- what is read, and from where memory comes ---- */

typedef struct counted_file {
    unsigned char *bytes;
    size_t nbytes;
    unsigned read_count;
} counted_file;

static lmc_status read_counted(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    counted_file *const file = user;
    __atomic_add_fetch(&file->read_count, 1, __ATOMIC_RELAXED);
    if (offset > file->nbytes || nbytes > file->nbytes - offset)
        return LMC_ERR_IO;
    memcpy(dst, file->bytes + offset, nbytes);
    return LMC_OK;
}

/* Nothing is read of the archive what was read before; file and cache have memory of their own. */
LMC_TEST(test_read_once)
{
    sized_memory of_file = {.large_nbytes = 1 << 20}, of_cache = {.large_nbytes = 1 << 20};
    const lmc_allocator file_memory = sized_allocator(&of_file), cache_memory = sized_allocator(&of_cache);
    counted_file stored = {.read_count = 0};
    lmc_test_original of = {.file = NULL};
    lmc_st_open_options options = LMC_INIT(lmc_st_open_options);
    lmc_st_options cache_options = LMC_INIT(lmc_st_options);
    lmc_st_cache *cache = NULL;
    lmc_test_write_mixed(lmc_test_path("plain"));
    make_archive("plain", "archive", 0);
    stored.bytes = lmc_test_read(lmc_test_path("archive"), &stored.nbytes);
    of.bytes = lmc_test_read(lmc_test_path("plain"), &of.nbytes);
    options.allocator = &file_memory;
    options.read = read_counted;
    options.read_user = &stored;
    options.read_nbytes = stored.nbytes;
    cache_options.common.allocator = &cache_memory;
    cache_options.common.thread_count = 2;
    CU_ASSERT_EQUAL_FATAL(lmc_st_cache_create(0, &cache_options, &cache, &diag), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open("s3://b/x", &options, &of.file, &diag), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_original_open(of.file, cache, &of.original, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_original_read(&of, 0, of.nbytes, NULL), LMC_OK);
    const unsigned read_count = stored.read_count;
    uint32_t state = 1;
    CU_ASSERT_TRUE(read_count > 20);
    for (unsigned i = 0; i < 100; i++)
        CU_ASSERT_EQUAL(lmc_test_original_read_any(&of, &state), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_original_read(&of, 0, of.nbytes, NULL), LMC_OK);
    CU_ASSERT_EQUAL(stored.read_count, read_count);
    CU_ASSERT_TRUE(atomic_load(&of_file.live) > 20 && atomic_load(&of_cache.live) > 20);
    lmc_test_original_close(&of);
    CU_ASSERT_TRUE(sized_is_whole(&of_file));
    lmc_st_cache_free(cache);
    CU_ASSERT_TRUE(sized_is_whole(&of_cache));
    free(stored.bytes);
    drop((const char *const[]){"archive", "plain", NULL});
}

/* More tensors take no more memory once some were read. */
LMC_TEST(test_many_tensors)
{
    enum { TENSOR_COUNT = 200, NBYTES = 65536 };
    static unsigned char data[TENSOR_COUNT][NBYTES];
    sized_memory memory = {.large_nbytes = 1 << 20};
    const lmc_allocator allocator = sized_allocator(&memory);
    lmc_test_original of = {.file = NULL};
    lmc_st_open_options options = LMC_INIT(lmc_st_open_options);
    lmc_st_options cache_options = LMC_INIT(lmc_st_options);
    lmc_st_cache *cache = NULL;
    lmc_st_writer *const writer = lmc_test_writer();
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%u", i);
        lmc_test_weights(data[i], NBYTES, i);
        CU_ASSERT_EQUAL(lmc_test_add(writer, name, LMC_DTYPE_BF16, NBYTES / 2, data[i]), LMC_OK);
    }
    lmc_test_write_plain(writer, lmc_test_path("plain"));
    make_archive("plain", "archive", 0);
    of.bytes = lmc_test_read(lmc_test_path("plain"), &of.nbytes);
    options.allocator = cache_options.common.allocator = &allocator;
    cache_options.common.thread_count = 1;
    CU_ASSERT_EQUAL_FATAL(lmc_st_cache_create(1, &cache_options, &cache, &diag), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path("archive"), &options, &of.file, &diag), LMC_OK);
    const long before = atomic_load(&memory.nbytes);
    CU_ASSERT_EQUAL_FATAL(lmc_st_original_open(of.file, cache, &of.original, &diag), LMC_OK);
    CU_ASSERT_TRUE(atomic_load(&memory.nbytes) - before < 50000);
    CU_ASSERT_EQUAL(lmc_test_original_read(&of, 0, 40 * NBYTES, NULL), LMC_OK);
    const long after_some = atomic_load(&memory.nbytes);
    CU_ASSERT_EQUAL(lmc_test_original_read(&of, 0, of.nbytes, NULL), LMC_OK);
    /* a thread of the cache may have had nothing to do before: its context */
    CU_ASSERT_TRUE(atomic_load(&memory.nbytes) - after_some < 5 << 20);
    lmc_test_original_close(&of);
    lmc_st_cache_free(cache);
    CU_ASSERT_TRUE(sized_is_whole(&memory));
    drop((const char *const[]){"archive", "plain", NULL});
}

LMC_TEST(test_calls)
{
    lmc_st_diag unknown = {.struct_size = 0};
    lmc_test_original of;
    lmc_st_original *second = NULL;
    lmc_st_cache *const cache = lmc_test_cache(0, 1);
    lmc_test_write_model(lmc_test_path("plain"), 1);
    make_archive("plain", "archive", 0);
    lmc_test_original_open(&of, cache, "archive", "plain");
    CU_ASSERT_EQUAL(lmc_st_original_open(of.file, cache, &second, &unknown), LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(second);
    CU_ASSERT_EQUAL(lmc_st_original_read(of.original, 0, 0, NULL, &unknown), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_original_open(of.file, cache, &second, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_original_read(&of, 0, of.nbytes, &diag), LMC_OK);
    CU_ASSERT_EQUAL(diag.status, LMC_OK);
    CU_ASSERT_STRING_EQUAL(diag.text, "");
    lmc_st_original_close(second);
    lmc_st_original_close(NULL);
    CU_ASSERT_EQUAL(lmc_test_original_read(&of, 0, of.nbytes, &diag), LMC_OK);
    lmc_test_original_close(&of);
    lmc_st_cache_free(cache);
    drop((const char *const[]){"archive", "plain", NULL});
}

LMC_TEST_DIR_MAIN("st_original")
