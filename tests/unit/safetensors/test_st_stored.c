/*
 * test_st_stored.c - frames without an index: their blocks can be trusted only when all of them have been
 * hashed. Archives are put together here, so that frames are stored whatever the encoder would choose.
 */
#include "lmc_test_archive.h"
#include "lmc_test_settings.h"
#include "lmc_test_st.h"

#include "safetensors/read/reader.h"

#define BLOCK_NBYTES (1u << LMC_BLOCK_LOG2_DEFAULT_BYTE)
#define CONTENT_NBYTES 5000000u /* many blocks, several runs of the engine */

static const char *archive_path, *back_path;
static unsigned char content[CONTENT_NBYTES];
static size_t frame_offset; /* in the archive */

/* A stored frame: noise cannot be coded. */
static void make_archive(void)
{
    uint64_t state = 1;
    for (size_t i = 0; i < CONTENT_NBYTES; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        content[i] = (unsigned char)(state >> 56);
    }
    frame_offset = lmc_test_write_archive(archive_path, content, CONTENT_NBYTES, 0, LMC_FRAME_STORED);
}

static lmc_status restore_with(unsigned thread_count)
{
    lmc_test_settings options = {0};
    options.common.thread_count = thread_count;
    options.force = 1;
    return lmc_test_restore_as(archive_path, back_path, &options, NULL, NULL);
}

LMC_TEST(test_sound)
{
    static unsigned char dst[CONTENT_NBYTES];
    lmc_st_file *file = NULL;
    archive_path = lmc_test_path("a.lmc");
    back_path = lmc_test_path("back");
    make_archive();
    CU_ASSERT_EQUAL(lmc_st_verify(archive_path, NULL, NULL, NULL), LMC_OK);
    for (unsigned threads = 1; threads < 4; threads++)
        CU_ASSERT_EQUAL(restore_with(threads), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(archive_path, NULL, &file, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_read(file, NULL, 0, dst, sizeof dst, NULL), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(dst, content, sizeof dst), 0);
    CU_ASSERT_EQUAL(lmc_st_read_range(file, NULL, 0, 1234567, 70001, dst, NULL), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(dst, content + 1234567, 70001), 0);
    lmc_st_close(file);
    CU_ASSERT_EQUAL(lmc_st_open(back_path, NULL, &file, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_read(file, NULL, 0, dst, sizeof dst, NULL), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(dst, content, sizeof dst), 0);
    lmc_st_close(file);
    unlink(back_path);
}

static void flip_byte(size_t offset)
{
    lmc_test_flip(archive_path, offset, 0x10);
}

/* A wrong byte anywhere is found by every call, also by one that wants other bytes. */
LMC_TEST(test_damaged)
{
    static const size_t places[] = {0, 65536, 1048575, 2500000, CONTENT_NBYTES - 1};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        unsigned char dst[10];
        lmc_st_file *file = NULL;
        flip_byte(frame_offset + 32 + places[i]);
        CU_ASSERT_EQUAL(lmc_st_verify(archive_path, NULL, NULL, NULL), LMC_ERR_CHECKSUM);
        for (unsigned threads = 1; threads < 4; threads++) {
            CU_ASSERT_EQUAL(restore_with(threads), LMC_ERR_CHECKSUM);
            CU_ASSERT_EQUAL(access(back_path, F_OK), -1);
        }
        CU_ASSERT_EQUAL_FATAL(lmc_st_open(archive_path, NULL, &file, NULL), LMC_OK);
        CU_ASSERT_EQUAL(lmc_st_read_range(file, NULL, 0, 3000000, sizeof dst, dst, NULL), LMC_ERR_CHECKSUM);
        lmc_st_close(file);
        flip_byte(frame_offset + 32 + places[i]);
    }
    CU_ASSERT_EQUAL(lmc_st_verify(archive_path, NULL, NULL, NULL), LMC_OK);
}

/* Bytes that this process has read so far; 0 if the system does not count them. */
static unsigned long long bytes_read(void)
{
    unsigned long long count = 0;
    FILE *const counters = fopen("/proc/self/io", "r");
    if (counters != NULL) {
        if (fscanf(counters, "rchar: %llu", &count) != 1)
            count = 0;
        fclose(counters);
    }
    return count;
}

/* Many ranges through one reader: the frame is verified once, then only what is asked for is read. */
LMC_TEST(test_reader)
{
    static unsigned char dst[300000];
    lmc_st_file *file = NULL;
    lmc_ctx *ctx = NULL;
    st_reader reader;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    uint64_t state = 7;
    uint64_t wanted_nbytes = 0;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(archive_path, NULL, &file, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(NULL, &ctx), LMC_OK);
    const unsigned long long before = bytes_read();
    CU_ASSERT_EQUAL_FATAL(st_reader_open(&reader, file, ctx, 0, &diag), LMC_OK);
    for (int turn = 0; turn < 60; turn++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const size_t first = (size_t)((state >> 20) % CONTENT_NBYTES);
        const size_t left = CONTENT_NBYTES - first;
        const size_t most = turn % 2 == 0 ? 100 : sizeof dst;
        const size_t nbytes = (size_t)((state >> 44) % ((left < most ? left : most) + 1));
        CU_ASSERT_EQUAL_FATAL(st_reader_read(&reader, first, nbytes, dst, &diag), LMC_OK);
        CU_ASSERT_EQUAL_FATAL(memcmp(dst, content + first, nbytes), 0);
        wanted_nbytes += nbytes;
    }
    if (before > 0) {
        /* the frame once; then each range with the blocks that it begins and ends in */
        CU_ASSERT(bytes_read() - before < CONTENT_NBYTES + wanted_nbytes + 60 * 2 * BLOCK_NBYTES + 100000);
    }
    const unsigned long long before_row = bytes_read();
    for (size_t i = 0; i < 1000; i++) {
        CU_ASSERT_EQUAL_FATAL(st_reader_read(&reader, 1200000 + 50 * i, 10, dst, &diag), LMC_OK);
        CU_ASSERT_EQUAL_FATAL(memcmp(dst, content + 1200000 + 50 * i, 10), 0);
    }
    if (before > 0)
        CU_ASSERT(bytes_read() - before_row < 3 * BLOCK_NBYTES); /* each block once, not once a range */
    st_reader_close(&reader);
    lmc_ctx_free(ctx);
    lmc_st_close(file);
}

/* Bytes that change behind the back of a reader that has verified them are noticed. */
LMC_TEST(test_reader_of_a_changing_file)
{
    unsigned char dst[10];
    lmc_st_file *file = NULL;
    lmc_ctx *ctx = NULL;
    st_reader reader;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(archive_path, NULL, &file, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(NULL, &ctx), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(st_reader_open(&reader, file, ctx, 0, &diag), LMC_OK);
    CU_ASSERT_EQUAL(st_reader_read(&reader, 0, sizeof dst, dst, &diag), LMC_OK);
    flip_byte(frame_offset + 32 + 3000000);
    CU_ASSERT_EQUAL(st_reader_read(&reader, 3000010, sizeof dst, dst, &diag), LMC_ERR_CHECKSUM);
    CU_ASSERT_STRING_EQUAL(diag.tensor, "a");
    CU_ASSERT_EQUAL(st_reader_read(&reader, 3000010, sizeof dst, dst, &diag), LMC_ERR_CHECKSUM);
    CU_ASSERT_EQUAL(st_reader_read(&reader, 100000, sizeof dst, dst, &diag), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(dst, content + 100000, sizeof dst), 0);
    st_reader_close(&reader);

    /* not verified before: nothing is right, again and again */
    CU_ASSERT_EQUAL_FATAL(st_reader_open(&reader, file, ctx, 0, &diag), LMC_OK);
    CU_ASSERT_EQUAL(st_reader_read(&reader, 0, sizeof dst, dst, &diag), LMC_ERR_CHECKSUM);
    CU_ASSERT_EQUAL(st_reader_read(&reader, 0, sizeof dst, dst, &diag), LMC_ERR_CHECKSUM);
    st_reader_close(&reader);
    flip_byte(frame_offset + 32 + 3000000);
    lmc_ctx_free(ctx);
    lmc_st_close(file);
}

LMC_TEST(test_clean_up)
{
    unlink(archive_path);
}

LMC_TEST_DIR_MAIN("st_stored")
