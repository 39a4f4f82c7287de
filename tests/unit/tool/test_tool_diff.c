/*
 * test_tool_diff.c - "lmc-st diff" on archives whose content hashes cannot be compared: their blocks have
 * other sizes.
 */
#include "lmc_test_archive.h"
#include "lmc_test_st.h"

#include "tool/commands/cmd_diff.h"

#define CONTENT_NBYTES 3000000u

volatile int cli_cancel; /* what main.c has */

static unsigned char content[CONTENT_NBYTES];

/* Bytes of few values: frames of them are coded. `noise`: all values, stored. */
static void fill(int is_noise)
{
    uint64_t state = 3;
    for (size_t i = 0; i < CONTENT_NBYTES; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        content[i] = (unsigned char)(is_noise ? state >> 56 : __builtin_popcountll(state >> 40));
    }
}

/* Compares two archives; returns the status and sets *differs. */
static lmc_status compare(const char *a_path, const char *b_path, int *differs, lmc_st_diag *diag)
{
    lmc_st_file *a = NULL;
    lmc_st_file *b = NULL;
    const lmc_st_common common = {0};
    cli_pair pair = {.nbytes = CONTENT_NBYTES};
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(a_path, NULL, &a, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(b_path, NULL, &b, NULL), LMC_OK);
    const lmc_status status = cli_diff_contents(a, b, &pair, 1, &common, diag);
    *differs = pair.differs;
    lmc_st_close(a);
    lmc_st_close(b);
    return status;
}

static void compare_block_sizes(int is_noise)
{
    static const size_t changed[] = {0, 1u << 20, 2097151, CONTENT_NBYTES - 1};
    const char *const small_blocks = lmc_test_path("small.lmc");
    const char *const large_blocks = lmc_test_path("large.lmc");
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    int differs = 0;
    const lmc_frame_mode mode = is_noise ? LMC_FRAME_STORED : LMC_FRAME_CODED;
    fill(is_noise);
    const size_t frame_offset = lmc_test_write_archive(small_blocks, content, CONTENT_NBYTES, 12, mode);
    lmc_test_write_archive(large_blocks, content, CONTENT_NBYTES, 17, mode);
    CU_ASSERT_EQUAL(compare(small_blocks, large_blocks, &differs, &diag), LMC_OK);
    CU_ASSERT_EQUAL(differs, 0);
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++) {
        content[changed[i]] ^= 1;
        lmc_test_write_archive(large_blocks, content, CONTENT_NBYTES, 17, mode);
        CU_ASSERT_EQUAL(compare(small_blocks, large_blocks, &differs, &diag), LMC_OK);
        CU_ASSERT_EQUAL(differs, 1);
        CU_ASSERT_EQUAL(compare(large_blocks, small_blocks, &differs, &diag), LMC_OK);
        CU_ASSERT_EQUAL(differs, 1);
        content[changed[i]] ^= 1;
    }
    lmc_test_write_archive(large_blocks, content, CONTENT_NBYTES, 17, mode);
    lmc_test_flip(small_blocks, frame_offset + 900000, 0x10);
    const lmc_status status = compare(large_blocks, small_blocks, &differs, &diag);
    CU_ASSERT(status == LMC_ERR_CHECKSUM || status == LMC_ERR_CORRUPT);
    CU_ASSERT_STRING_EQUAL(diag.file, small_blocks);
    CU_ASSERT_STRING_EQUAL(diag.tensor, "a");
    unlink(small_blocks);
    unlink(large_blocks);
}

LMC_TEST(test_coded)
{
    compare_block_sizes(0);
}

LMC_TEST(test_stored)
{
    compare_block_sizes(1);
}

LMC_TEST_DIR_MAIN("st_diff")
