/*
 * test_st_run.c - lmc_run.h: what the calls tell of steps, progress and cancel, structs of older programs, memory that
 * runs out. What becomes of a run is tested by the command (tests/cli/test_run*.py).
 */
#include "lmc_test_alloc.h"
#include "lmc_test_st_base.h"

#include "lmc_run.h"
#include "lmc_store.h"

#include <errno.h>

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

#define STEP_COUNT 4

static const char *run_dir;
static const char *out_path;
static const char *snapshots[STEP_COUNT];

LMC_TEST(test_begin)
{
    run_dir = lmc_test_path("run");
    out_path = lmc_test_path("out");
    for (unsigned i = 0; i < STEP_COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "step%u.safetensors", 10 * i);
        snapshots[i] = lmc_test_path(name);
        lmc_test_write_snapshot(snapshots[i], i);
    }
}

/* ---- the calls, with the options that a test has ---- */

static lmc_status add(unsigned number, const lmc_st_common *common, lmc_run_step_fn step_done,
                      lmc_st_diag *diag)
{
    lmc_run_add_options options = LMC_INIT(lmc_run_add_options);
    options.common = *common;
    options.no_fsync = 1;
    options.step_done = step_done;
    return lmc_run_add(run_dir, snapshots[number], &options, NULL, diag);
}

static lmc_status drop(const uint64_t *steps, size_t count, const lmc_st_common *common,
                       lmc_run_step_fn step_done, lmc_st_diag *diag)
{
    lmc_run_drop_options options = LMC_INIT(lmc_run_drop_options);
    options.common = *common;
    options.no_fsync = 1;
    options.step_done = step_done;
    return lmc_run_drop(run_dir, steps, count, &options, diag);
}

static lmc_status verify(const lmc_st_common *common, lmc_run_step_fn step_done)
{
    lmc_run_verify_options options = LMC_INIT(lmc_run_verify_options);
    options.common = *common;
    options.step_done = step_done;
    return lmc_run_verify(run_dir, NULL, 0, &options, NULL, NULL);
}

static lmc_status restore(uint64_t step, const lmc_st_common *common)
{
    lmc_run_restore_options options = LMC_INIT(lmc_run_restore_options);
    options.common = *common;
    options.no_fsync = 1;
    return lmc_run_restore(run_dir, step, out_path, &options, NULL, NULL);
}

static void add_steps(unsigned count)
{
    const lmc_st_common common = {.thread_count = 2};
    for (unsigned i = 0; i < count; i++)
        CU_ASSERT_EQUAL_FATAL(add(i, &common, NULL, NULL), LMC_OK);
}

static void remove_run(void)
{
    if (lmc_test_exists(run_dir))
        lmc_test_remove(run_dir);
}

static uint64_t step_count(void)
{
    lmc_run *run = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_run_open(run_dir, NULL, &run, NULL), LMC_OK);
    const uint64_t count = lmc_run_step_count(run);
    lmc_run_close(run);
    return count;
}

/* ---- what is told ---- */

LMC_TEST(test_list)
{
    lmc_run *run = NULL;
    lmc_run_step step = LMC_INIT(lmc_run_step);
    uint64_t index = 99;
    add_steps(3);
    CU_ASSERT_EQUAL_FATAL(lmc_run_open(run_dir, NULL, &run, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_run_step_count(run), 3);
    CU_ASSERT_EQUAL(lmc_run_key_every(run), LMC_RUN_KEY_EVERY_DEFAULT);
    CU_ASSERT_EQUAL(lmc_run_step_info(run, 2, &step), LMC_OK);
    CU_ASSERT_EQUAL(step.step, 20);
    CU_ASSERT_TRUE(step.has_base && step.base == 10 && step.chain == 2 && !step.is_directory);
    CU_ASSERT_TRUE(step.file_count == 1 && step.stored_nbytes < step.original_nbytes);
    CU_ASSERT_EQUAL(lmc_run_step_info(run, 3, &step), LMC_ERR_ARG);
    CU_ASSERT_TRUE(step.step == 0 && step.chain == 0 && step.original_nbytes == 0);
    CU_ASSERT_TRUE(lmc_run_find_step(run, 10, &index) && index == 1);
    CU_ASSERT_FALSE(lmc_run_find_step(run, 11, &index));
    lmc_run_close(run);
    lmc_run_close(NULL);
    lmc_store *store = NULL;
    lmc_store_model model = LMC_INIT(lmc_store_model);
    CU_ASSERT_EQUAL_FATAL(lmc_store_open(run_dir, NULL, &store, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_store_model_info(store, 2, &model), LMC_OK);
    CU_ASSERT_TRUE(strcmp(model.name, "20") == 0 && model.base_count == 1);
    CU_ASSERT_EQUAL(lmc_store_model_info(store, 3, &model), LMC_ERR_ARG);
    CU_ASSERT_TRUE(!model.name && !model.bases && model.base_count == 0);
    lmc_store_close(store);
    step.step = 77;
    CU_ASSERT_EQUAL(lmc_run_add(run_dir, "nameless", NULL, &step, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(step.step, 0);
    lmc_store_plan_result result = LMC_INIT(lmc_store_plan_result);
    result.stored_nbytes = 77;
    CU_ASSERT_EQUAL(lmc_store_plan(run_dir, NULL, &result, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(result.stored_nbytes, 0);
    remove_run();
}

typedef struct told {
    unsigned counts[5]; /* of each event */
    uint64_t last_step;
    uint64_t done_nbytes, total_nbytes;
    int has_fallen;
    int cancel; /* set once progress was told, if it is -1 before */
    volatile int cancelled;
} told;

static void on_step(void *user, lmc_run_event event, const lmc_run_step *step)
{
    told *const told = user;
    told->counts[event]++;
    told->last_step = step->step;
}

static void on_progress(void *user, uint64_t done_nbytes, uint64_t total_nbytes)
{
    told *const told = user;
    told->has_fallen |= done_nbytes < told->done_nbytes || done_nbytes > total_nbytes;
    told->done_nbytes = done_nbytes;
    told->total_nbytes = total_nbytes;
    if (told->cancel)
        __atomic_store_n(&told->cancelled, 1, __ATOMIC_RELAXED);
}

static lmc_st_common common_of(told *told)
{
    *told = (struct told){0};
    return (lmc_st_common){
        .thread_count = 2, .user = told, .progress = on_progress, .cancel = &told->cancelled};
}

static void expect_progress(const told *told)
{
    CU_ASSERT_FALSE(told->has_fallen);
    CU_ASSERT_TRUE(told->total_nbytes > 0);
    CU_ASSERT_EQUAL(told->done_nbytes, told->total_nbytes);
}

LMC_TEST(test_events_and_progress)
{
    told told;
    lmc_st_common common = common_of(&told);
    const uint64_t gone[] = {0, 10};
    for (unsigned i = 0; i < STEP_COUNT; i++) {
        common = common_of(&told);
        CU_ASSERT_EQUAL(add(i, &common, on_step, NULL), LMC_OK);
        CU_ASSERT_TRUE(told.counts[LMC_RUN_ADDED] == 1 && told.last_step == 10 * i);
        expect_progress(&told);
    }
    CU_ASSERT_EQUAL(add(0, &common, on_step, NULL), LMC_OK);
    CU_ASSERT_EQUAL(told.counts[LMC_RUN_PRESENT], 1);
    common = common_of(&told);
    CU_ASSERT_EQUAL(verify(&common, on_step), LMC_OK);
    CU_ASSERT_EQUAL(told.counts[LMC_RUN_VERIFIED], STEP_COUNT);
    expect_progress(&told);
    common = common_of(&told);
    CU_ASSERT_EQUAL(drop(gone, 2, &common, on_step, NULL), LMC_OK);
    CU_ASSERT_TRUE(told.counts[LMC_RUN_REBASED] == 1 && told.counts[LMC_RUN_DROPPED] == 2);
    expect_progress(&told);
    common = common_of(&told);
    CU_ASSERT_EQUAL(restore(30, &common), LMC_OK);
    CU_ASSERT_TRUE(lmc_test_same_files(out_path, snapshots[3]));
    expect_progress(&told);
    unlink(out_path);
    CU_ASSERT_STRING_EQUAL(lmc_run_event_name(LMC_RUN_REBASED), "re-based");
    CU_ASSERT_PTR_NULL(lmc_run_event_name((lmc_run_event)5));
    remove_run();
}

/* Cancelled in the midst: the run is as it was. */
LMC_TEST(test_cancel)
{
    told told;
    const uint64_t first = 0;
    add_steps(3);
    lmc_st_common common = common_of(&told);
    told.cancel = 1;
    CU_ASSERT_EQUAL(add(3, &common, NULL, &diag), LMC_ERR_CANCELLED);
    common = common_of(&told);
    told.cancel = 1;
    CU_ASSERT_EQUAL(drop(&first, 1, &common, NULL, &diag), LMC_ERR_CANCELLED);
    CU_ASSERT_EQUAL(diag.status, LMC_ERR_CANCELLED);
    CU_ASSERT_EQUAL(lmc_test_entry_count(run_dir), 3 + 2);
    CU_ASSERT_EQUAL(lmc_run_verify(run_dir, NULL, 0, NULL, NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL(step_count(), 3);
    remove_run();
}

LMC_TEST(test_tensor)
{
    static unsigned char expected[2 * LMC_TEST_VALUE_COUNT];
    static unsigned char found[2 * LMC_TEST_VALUE_COUNT];
    lmc_st_file *file = NULL;
    uint64_t index = 0;
    add_steps(3);
    lmc_test_snapshot(expected, LMC_TEST_VALUE_COUNT, 2);
    static const char *const names[] = {"w", "step20.safetensors:w"};
    for (size_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(lmc_run_open_tensor(run_dir, 20, names[i], NULL, &file, &index, &diag), LMC_OK);
        CU_ASSERT_EQUAL(lmc_st_read(file, NULL, index, found, sizeof found, &diag), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(found, expected, sizeof found), 0);
        lmc_st_close(file);
    }
    CU_ASSERT_EQUAL(lmc_run_open_tensor(run_dir, 20, "x", NULL, &file, &index, &diag), LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(file);
    CU_ASSERT_EQUAL(lmc_run_open_tensor(run_dir, 21, "w", NULL, &file, &index, &diag), LMC_ERR_ARG);
    remove_run();
}

/* The plain base is read if it is that of the chosen step. Under a name that the step does not have, it is no base. */
LMC_TEST(test_base_snapshot)
{
    for (unsigned i = 0; i < 4; i++) {
        const int is_other = i % 2 == 1;
        lmc_run_add_options options = LMC_INIT(lmc_run_add_options);
        lmc_run_step added = LMC_INIT(lmc_run_step);
        add_steps(2);
        options.no_fsync = 1;
        options.base_snapshot = snapshots[is_other ? 3 : 1];
        options.base_step = i < 2 ? 10 : 0;
        CU_ASSERT_EQUAL(lmc_run_add(run_dir, snapshots[2], &options, &added, &diag), LMC_OK);
        CU_ASSERT_EQUAL(added.has_base, i != 1);
        CU_ASSERT_EQUAL(lmc_run_compare(run_dir, 20, snapshots[2], NULL, &diag), LMC_OK);
        remove_run();
    }
}

/* ---- what is refused ---- */

LMC_TEST(test_refused_options)
{
    lmc_run_add_options options = LMC_INIT(lmc_run_add_options);
    lmc_run_step step = LMC_INIT(lmc_run_step);
    const char *const path = snapshots[1];
    options.key_every = 64;
    CU_ASSERT_EQUAL(lmc_run_add(run_dir, path, &options, NULL, &diag), LMC_ERR_ARG);
    options.key_every = 0;
    options.level = (lmc_level)(LMC_LEVEL_MAX + 1);
    CU_ASSERT_EQUAL(lmc_run_add(run_dir, path, &options, NULL, &diag), LMC_ERR_ARG);
    options.level = LMC_LEVEL_DEFAULT;
    options.common.thread_count = LMC_THREAD_COUNT_MAX + 1;
    CU_ASSERT_EQUAL(lmc_run_add(run_dir, path, &options, NULL, &diag), LMC_ERR_ARG);
    options.common.thread_count = 0;
    options.struct_size = sizeof options + 8;
    CU_ASSERT_EQUAL(lmc_run_add(run_dir, path, &options, NULL, &diag), LMC_ERR_ARG);
    step.struct_size = sizeof step + 8;
    CU_ASSERT_EQUAL(lmc_run_add(run_dir, path, NULL, &step, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_run_drop(run_dir, NULL, 0, NULL, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_run_keep(run_dir, 0, 0, NULL, &diag), LMC_ERR_ARG);
    CU_ASSERT_FALSE(lmc_test_exists(run_dir));
}

/* A shorter struct gets the fields that it has. */
LMC_TEST(test_struct_size)
{
    lmc_run *run = NULL;
    lmc_run_step step;
    memset(&step, 0x5a, sizeof step);
    step.struct_size = offsetof(lmc_run_step, chain);
    add_steps(2);
    CU_ASSERT_EQUAL_FATAL(lmc_run_open(run_dir, NULL, &run, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_run_step_info(run, 1, &step), LMC_OK);
    CU_ASSERT_EQUAL(step.step, 10);
    CU_ASSERT_EQUAL(step.chain, UINT64_C(0x5a5a5a5a5a5a5a5a));
    step.struct_size = sizeof step + 1;
    CU_ASSERT_EQUAL(lmc_run_step_info(run, 1, &step), LMC_ERR_ARG);
    lmc_run_close(run);
    remove_run();
}

/* ---- memory ---- */

static lmc_status call_add(const lmc_st_common *common)
{
    return add(3, common, NULL, NULL);
}

static lmc_status call_drop(const lmc_st_common *common)
{
    const uint64_t first = 0;
    return drop(&first, 1, common, NULL, NULL);
}

static lmc_status call_repair(const lmc_st_common *common)
{
    lmc_st_options options = LMC_INIT(lmc_st_options);
    options.common = *common;
    return lmc_run_repair(run_dir, &options, NULL);
}

static lmc_status call_verify(const lmc_st_common *common)
{
    return verify(common, NULL);
}

static lmc_status call_restore(const lmc_st_common *common)
{
    const lmc_status status = restore(20, common);
    CU_ASSERT_EQUAL(status == LMC_OK, lmc_test_exists(out_path));
    unlink(out_path);
    return status;
}

static lmc_status call_open_tensor(const lmc_st_common *common)
{
    lmc_st_file *file = NULL;
    uint64_t index = 0;
    const lmc_status status = lmc_run_open_tensor(run_dir, 20, "w", common->allocator, &file, &index, NULL);
    lmc_st_close(file);
    return status;
}

/* One allocation of the call fails, many of them in their turn: it ends in NOMEM or in a success, gives everything
 * back, and leaves a sound run. */
static void fail_each_allocation(lmc_status (*call)(const lmc_st_common *common), int is_reader)
{
    const lmc_st_common common = {.thread_count = 1, .allocator = &pool_allocator};
    int has_failed = 1;
    for (size_t number = 0; has_failed; number += (1 + number / 40) * LMC_TEST_STEP) {
        if (!is_reader || number == 0) {
            remove_run();
            add_steps(3);
        }
        pool_fail(number, 1);
        const lmc_status status = call(&common);
        has_failed = pool_has_failed();
        if (status != LMC_OK && status != LMC_ERR_NOMEM)
            printf("\nallocation %zu: status %d\n", number, (int)status);
        CU_ASSERT_TRUE(status == LMC_OK || (has_failed && status == LMC_ERR_NOMEM));
        CU_ASSERT_TRUE(pool_is_whole());
        if (!is_reader)
            CU_ASSERT_EQUAL(lmc_run_verify(run_dir, NULL, 0, NULL, NULL, NULL), LMC_OK);
        CU_ASSERT_TRUE(step_count() >= 2);
    }
    remove_run();
}

LMC_TEST(test_memory)
{
    fail_each_allocation(call_verify, 1);
    fail_each_allocation(call_restore, 1);
    fail_each_allocation(call_open_tensor, 1);
    fail_each_allocation(call_repair, 0);
    fail_each_allocation(call_add, 0);
    fail_each_allocation(call_drop, 0);
}

/* A tensor is looked for in all archives of a step: one that is damaged ends the search, whatever was found. */
LMC_TEST(test_tensor_beside_damage)
{
    static const char *const names[] = {"a.safetensors", "b.safetensors"};
    static const char damaged[] = "{\"no\": \"archive\"}";
    const char *const snapshot = lmc_test_path("step50");
    lmc_st_file *file = NULL;
    uint64_t index = 0;
    CU_ASSERT_EQUAL_FATAL(mkdir(snapshot, 0777), 0);
    for (size_t i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "step50/%s", names[i]);
        lmc_test_write_snapshot(lmc_test_path(name), 0);
    }
    CU_ASSERT_EQUAL_FATAL(lmc_run_add(run_dir, snapshot, NULL, NULL, NULL), LMC_OK);
    pool_fail(SIZE_MAX, 0);
    for (size_t i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "run/50/%s.lmc", names[i]);
        size_t nbytes = 0;
        unsigned char *const sound = lmc_test_read(lmc_test_path(name), &nbytes);
        lmc_test_write(lmc_test_path(name), damaged, sizeof damaged - 1);
        const lmc_status status = lmc_run_open_tensor(run_dir, 50, "w", &pool_allocator, &file, &index, NULL);
        CU_ASSERT_TRUE(status != LMC_OK && !file);
        CU_ASSERT_TRUE(pool_is_whole());
        lmc_test_write(lmc_test_path(name), sound, nbytes);
        free(sound);
    }
    lmc_test_remove(snapshot);
    remove_run();
}

/* A call that gets over a failure succeeds, and so does its diagnostic: of a damaged archive a step has no base. */
LMC_TEST(test_diag_of_success)
{
    static const char list[] = "{\"format\":\"lmc-run\",\"version\":1,\"key_every\":8,\"steps\":[]}";
    const char *const archive = lmc_test_path("run/0/step0.safetensors.lmc");
    lmc_run *run = NULL;
    size_t nbytes = 0;
    add_steps(1);
    unsigned char *const sound = lmc_test_read(archive, &nbytes);
    lmc_test_write(archive, sound, nbytes / 2);
    lmc_test_write(lmc_test_path("run/run.json"), list, sizeof list - 1);
    CU_ASSERT_EQUAL_FATAL(lmc_run_open(run_dir, NULL, &run, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_run_step_count(run), 1);
    CU_ASSERT_TRUE(diag.status == LMC_OK && diag.os_errno == 0 && diag.text[0] == '\0');
    lmc_run_close(run);
    free(sound);
    remove_run();
}

/* ---- where a run is ---- */

static void check_located(const char *name, lmc_store_kind kind, unsigned depth)
{
    lmc_store_kind found = LMC_STORE_MODELS;
    unsigned found_depth = 99;
    CU_ASSERT_EQUAL(lmc_store_locate(lmc_test_path(name), &found, &found_depth), LMC_OK);
    CU_ASSERT_TRUE(found == kind && found_depth == depth);
}

LMC_TEST(test_locate)
{
    static const char foreign[] = "{\"format\":\"of another program\"}";
    static const char mark[] = "{\"format\":\"lmc-store\",\"version\":1}\n";
    const char *const list = lmc_test_path("run.json");
    const char *const store_mark = lmc_test_path("run/0/store.json");
    lmc_test_write(list, foreign, sizeof foreign - 1);
    add_steps(1);
    check_located("run", LMC_STORE_RUN, 0);
    check_located("run/none", LMC_STORE_RUN, 1);
    check_located("run/0/step0.safetensors.lmc", LMC_STORE_RUN, 2);
    check_located("run.json", LMC_STORE_NONE, 0);
    check_located("none/none", LMC_STORE_NONE, 0);
    lmc_test_write(store_mark, foreign, sizeof foreign - 1);
    check_located("run/0", LMC_STORE_RUN, 1);
    lmc_test_write(store_mark, mark, sizeof mark - 1);
    check_located("run/0", LMC_STORE_MODELS, 0);
    check_located("run/0/./../0/none", LMC_STORE_MODELS, 1);
    unlink(list);
    remove_run();
}

LMC_TEST(test_end)
{
    for (unsigned i = 0; i < STEP_COUNT; i++)
        unlink(snapshots[i]);
}

LMC_TEST_DIR_MAIN("st_run")
