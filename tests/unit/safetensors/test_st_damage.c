/*
 * test_st_damage.c - the sentence about damaged blocks, the log of lost tensors, and which statuses are damage.
 */
#include "lmc_test.h"

#include "safetensors/restore/damage.h"

static lmc_st_diag fault(lmc_status status, const char *text)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    st_diag_init(&diag, "a file");
    (void)st_fail(&diag, status, 7, "%s", text);
    return diag;
}

/* Notes blocks in this order and returns the sentence; static storage. */
static const char *describe(const uint64_t *blocks, size_t count, uint64_t block_count)
{
    static char text[sizeof(((lmc_st_diag *)0)->text)];
    st_damage damage = {.is_damaged = 0};
    for (size_t i = 0; i < count; i++) {
        char cause[32];
        snprintf(cause, sizeof cause, "block %llu", (unsigned long long)blocks[i]);
        const lmc_st_diag diag = fault(LMC_ERR_CHECKSUM, cause);
        CU_ASSERT_EQUAL(st_damage_note_block(&damage, &lmc_memory_default, blocks[i], block_count, &diag),
                        LMC_OK);
    }
    CU_ASSERT_TRUE(damage.is_damaged);
    CU_ASSERT_EQUAL(damage.diag.status, LMC_ERR_CHECKSUM);
    st_damage_describe(&damage);
    memcpy(text, damage.diag.text, sizeof(text));
    st_damage_free(&damage, &lmc_memory_default);
    CU_ASSERT_FALSE(damage.is_damaged);
    return text;
}

LMC_TEST(test_lists)
{
    static const uint64_t one[] = {4};
    static const uint64_t mixed[] = {9, 3, 8, 7, 3, 12};
    static const uint64_t all[] = {0, 1, 2};
    CU_ASSERT_STRING_EQUAL(describe(one, 1, 5), "block 4; damaged: 1 of 5 blocks, number 4");
    CU_ASSERT_STRING_EQUAL(describe(mixed, 6, 100), "block 3; damaged: 5 of 100 blocks, numbers 3, 7-9, 12");
    CU_ASSERT_STRING_EQUAL(describe(all, 3, 3), "block 0; damaged: 3 of 3 blocks, numbers 0-2");
}

/* More places than fit: the list ends in "...", the count is right, and the text ends. */
LMC_TEST(test_long_lists)
{
    enum { MOST = 4000 };
    static uint64_t blocks[MOST];
    for (size_t count = 1; count < MOST; count += count / 3 + 1) {
        char head[80];
        for (size_t i = 0; i < count; i++)
            blocks[i] = 1000000 + 3 * i;
        const char *const text = describe(blocks, count, 2000000);
        snprintf(head, sizeof head, "block 1000000; damaged: %zu of 2000000 blocks, number", count);
        CU_ASSERT_EQUAL(strncmp(text, head, strlen(head)), 0);
        CU_ASSERT_TRUE(strlen(text) < 300);
        const size_t length = strlen(text);
        CU_ASSERT_EQUAL(count > 16, strcmp(text + length - 5, ", ...") == 0);
    }
}

/* A cause that fills the text leaves no room for the list. */
LMC_TEST(test_long_cause)
{
    char cause[600];
    st_damage damage = {.is_damaged = 0};
    memset(cause, 'x', sizeof cause);
    cause[sizeof cause - 1] = '\0';
    const lmc_st_diag diag = fault(LMC_ERR_CORRUPT, cause);
    CU_ASSERT_EQUAL(st_damage_note_block(&damage, &lmc_memory_default, 3, 9, &diag), LMC_OK);
    st_damage_describe(&damage);
    CU_ASSERT_EQUAL(strlen(damage.diag.text), sizeof damage.diag.text - 1);
    st_damage_free(&damage, &lmc_memory_default);
}

/* The first word on a tensor as a whole stays; blocks are not listed then. */
LMC_TEST(test_the_whole_frame)
{
    st_damage damage = {.is_damaged = 0};
    const lmc_st_diag first = fault(LMC_ERR_CORRUPT, "first");
    const lmc_st_diag later = fault(LMC_ERR_CHECKSUM, "later");
    st_damage_note(&damage, &first);
    st_damage_note(&damage, &later);
    CU_ASSERT_EQUAL(st_damage_note_block(&damage, &lmc_memory_default, 0, 10, &later), LMC_OK);
    st_damage_describe(&damage);
    CU_ASSERT_STRING_EQUAL(damage.diag.text, "first");
    CU_ASSERT_EQUAL(damage.diag.status, LMC_ERR_CORRUPT);
    st_damage_free(&damage, &lmc_memory_default);
}

LMC_TEST(test_log)
{
    st_damage_log log;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    st_damage damage = {.is_damaged = 0};
    CU_ASSERT_EQUAL(st_damage_log_init(&log, &lmc_memory_default, 5, &diag), LMC_OK);
    const lmc_st_diag first = fault(LMC_ERR_CORRUPT, "first");
    st_damage_note(&damage, &first);
    st_damage_log_add(&log, 1, &damage);
    damage.diag = fault(LMC_ERR_CHECKSUM, "second");
    st_damage_log_add(&log, 4, &damage);
    CU_ASSERT_EQUAL(log.lost_count, 2);
    CU_ASSERT_STRING_EQUAL(log.first.text, "first");
    for (size_t i = 0; i < 5; i++)
        CU_ASSERT_EQUAL(log.is_lost[i] != 0, i == 1 || i == 4);
    st_damage_log_free(&log, &lmc_memory_default);
    CU_ASSERT_EQUAL(st_damage_log_init(&log, &lmc_memory_default, 0, &diag), LMC_OK);
    st_damage_log_free(&log, &lmc_memory_default);
}

LMC_TEST(test_statuses)
{
    for (int status = LMC_OK; status <= LMC_ERR_CANCELLED + 1; status++) {
        const int is_damage = status == LMC_ERR_TRUNCATED || status == LMC_ERR_CORRUPT ||
                              status == LMC_ERR_UNSUPPORTED || status == LMC_ERR_CHECKSUM ||
                              status == LMC_ERR_BASE || status == LMC_ERR_LIMIT;
        CU_ASSERT_EQUAL(st_is_damage((lmc_status)status), is_damage);
    }
}

LMC_TEST_MAIN("st_damage")
