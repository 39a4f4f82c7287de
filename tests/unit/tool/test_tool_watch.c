/*
 * test_tool_watch.c - what `run watch` decides of what it has seen, without files and without a clock.
 */
#include "lmc_test.h"

#include "tool/commands/watch_snapshot.h"

#include <errno.h>

#define SETTLE_MS 5000

volatile int cli_cancel; /* what main.c has */

LMC_TEST(test_temporary_names)
{
    static const char *const temporary[] = {".lmc-new", "tmp-checkpoint-10", "tmp", "step10.pt.tmp", ".tmp"};
    static const char *const others[] = {"checkpoint-10", "step10.pt", "atmp", "x.tmp2", "xtmp", ""};
    for (size_t i = 0; i < sizeof temporary / sizeof temporary[0]; i++)
        CU_ASSERT(watch_is_temporary(temporary[i]));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        CU_ASSERT(!watch_is_temporary(others[i]));
}

LMC_TEST(test_settles)
{
    watch_entry entry = {.step = 10};
    CU_ASSERT_EQUAL(watch_due_ms(&entry, SETTLE_MS), WATCH_NEVER);
    watch_see(&entry, 0, 1000); /* also a print of 0 is one */
    CU_ASSERT_EQUAL(watch_due_ms(&entry, SETTLE_MS), 6000);
    watch_see(&entry, 0, 5999);
    CU_ASSERT_EQUAL(watch_due_ms(&entry, SETTLE_MS), 6000);
    watch_see(&entry, 1, 5999);
    CU_ASSERT_EQUAL(watch_due_ms(&entry, SETTLE_MS), 10999);
    CU_ASSERT_EQUAL(watch_due_ms(&entry, WATCH_NEVER), WATCH_NEVER);
    watch_finish(&entry, 7);
    CU_ASSERT_EQUAL(watch_due_ms(&entry, SETTLE_MS), WATCH_NEVER);
    watch_see(&entry, 1, 20000);
    CU_ASSERT_EQUAL(entry.state, WATCH_DONE);
    CU_ASSERT_EQUAL(entry.own_print, 7);
    watch_see(&entry, 2, 20000);
    CU_ASSERT_EQUAL(watch_due_ms(&entry, SETTLE_MS), 25000);
}

LMC_TEST(test_damage_waits_for_a_change)
{
    watch_entry entry = {.step = 10};
    watch_see(&entry, 1, 0);
    CU_ASSERT(watch_fail(&entry, LMC_ERR_TRUNCATED, 0, 0, SETTLE_MS, 5000));
    watch_see(&entry, 1, 6000);
    CU_ASSERT_EQUAL(watch_due_ms(&entry, SETTLE_MS), WATCH_NEVER);
    watch_see(&entry, 2, 7000);
    CU_ASSERT_EQUAL(watch_due_ms(&entry, SETTLE_MS), 12000);
    CU_ASSERT(watch_fail(&entry, LMC_ERR_TRUNCATED, 0, 0, SETTLE_MS, 12000)); /* news of another state */
}

LMC_TEST(test_failures_of_the_system_are_tried_again)
{
    watch_entry entry = {.step = 10};
    uint64_t now_ms = 5000;
    watch_see(&entry, 1, 0);
    CU_ASSERT(watch_fail(&entry, LMC_ERR_IO, ENOSPC, 1, SETTLE_MS, now_ms));
    CU_ASSERT_EQUAL(watch_due_ms(&entry, SETTLE_MS), 10000);
    CU_ASSERT(!watch_fail(&entry, LMC_ERR_IO, ENOSPC, 1, SETTLE_MS, 10000));
    CU_ASSERT_EQUAL(watch_due_ms(&entry, SETTLE_MS), 20000);
    CU_ASSERT(watch_fail(&entry, LMC_ERR_IO, EIO, 1, SETTLE_MS, 20000)); /* another cause */
    CU_ASSERT_EQUAL(watch_due_ms(&entry, SETTLE_MS), 40000);
    for (int i = 0; i < 100; i++) {
        now_ms = watch_due_ms(&entry, SETTLE_MS);
        CU_ASSERT(!watch_fail(&entry, LMC_ERR_IO, EIO, 1, SETTLE_MS, now_ms));
        CU_ASSERT(watch_due_ms(&entry, SETTLE_MS) - now_ms <= WATCH_PAUSE_MS_MAX);
    }
    watch_see(&entry, 2, now_ms);
    CU_ASSERT_EQUAL(watch_due_ms(&entry, SETTLE_MS), now_ms + SETTLE_MS);
    CU_ASSERT(watch_fail(&entry, LMC_ERR_IO, EIO, 1, 0, now_ms)); /* the pauses begin again, but none is 0 */
    CU_ASSERT(watch_due_ms(&entry, 0) > now_ms && watch_due_ms(&entry, 0) < now_ms + SETTLE_MS);
}

LMC_TEST(test_order)
{
    watch_entry entries[] = {{.name = "b", .step = 30},
                             {.name = "a", .step = UINT64_MAX},
                             {.name = "c", .step = 4},
                             {.name = "b", .step = 4}};
    watch_entry *order[] = {&entries[0], &entries[1], &entries[2], &entries[3]};
    qsort(order, 4, sizeof order[0], watch_compare_steps);
    CU_ASSERT(order[0] == &entries[3] && order[1] == &entries[2]);
    CU_ASSERT(order[2] == &entries[0] && order[3] == &entries[1]);
}

LMC_TEST(test_retention)
{
    CU_ASSERT(watch_is_kept(10, 1000, 0, 0));
    CU_ASSERT(watch_is_kept(11, 0, 0, 10)); /* the newest stays */
    CU_ASSERT(!watch_is_kept(11, 1, 0, 10));
    CU_ASSERT(watch_is_kept(20, 1, 0, 10));
    CU_ASSERT(watch_is_kept(11, 2, 3, 0));
    CU_ASSERT(!watch_is_kept(11, 3, 3, 0));
    CU_ASSERT(!watch_is_kept(11, 3, 3, 10));
    CU_ASSERT(watch_is_kept(0, 3, 3, 10));
}

LMC_TEST_MAIN("watch")
