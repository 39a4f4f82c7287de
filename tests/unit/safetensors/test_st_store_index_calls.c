/*
 * test_st_store_index_calls.c - lmc_store.h: the calls on an index alone. Sketches of models are made, merged, and tell
 * what the models should be based on.
 */
#include "lmc_test_st_base.h"

#include "lmc_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define COUNT 70000u

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);
static unsigned char values[2 * COUNT], other[2 * COUNT];

static void write_model(const char *path, const unsigned char *a, const unsigned char *b)
{
    lmc_st_writer *const writer = lmc_test_writer();
    if (a)
        CU_ASSERT_EQUAL_FATAL(lmc_test_add(writer, "a", LMC_DTYPE_BF16, COUNT, a), LMC_OK);
    if (b)
        CU_ASSERT_EQUAL_FATAL(lmc_test_add(writer, "b", LMC_DTYPE_BF16, COUNT, b), LMC_OK);
    lmc_test_write_plain(writer, lmc_test_path(path));
}

/* What is told of one model. */
typedef struct told {
    uint64_t alone_nbytes;
    struct {
        char name[32];
        uint64_t nbytes;
        int is_chosen;
    } bases[8];
    size_t count;
} told;

static void note(void *user, const char *name, const char *base, uint64_t nbytes, int is_chosen)
{
    told *const told = user;
    CU_ASSERT_PTR_NOT_NULL(name);
    if (!base) {
        CU_ASSERT_EQUAL(told->count, 0);
        told->alone_nbytes = nbytes;
        return;
    }
    CU_ASSERT_FATAL(told->count < 8);
    (void)snprintf(told->bases[told->count].name, sizeof told->bases[0].name, "%s", base);
    told->bases[told->count].nbytes = nbytes;
    told->bases[told->count++].is_chosen = is_chosen;
}

static void ignore(void *user, const char *name, const char *base, uint64_t nbytes, int is_chosen)
{
    (void)user, (void)name, (void)base, (void)nbytes, (void)is_chosen;
}

static told predict(const char *name, const char *const *allowed, size_t allowed_count)
{
    told told = {0};
    lmc_store_index_options options = LMC_INIT(lmc_store_index_options);
    options.common.user = &told;
    CU_ASSERT_EQUAL(lmc_store_index_predict(lmc_test_path("all.sqlite"), &name, 1, allowed, allowed_count,
                                            &options, note, &diag),
                    LMC_OK);
    return told;
}

static void add(const char *index, const char *name, const char *path)
{
    CU_ASSERT_EQUAL(lmc_store_index_add(lmc_test_path(index), name, lmc_test_path(path), NULL, &diag),
                    LMC_OK);
}

/* all.sqlite: "base" has a, "org/tuned" a later a, "far" another a, "mixed" (a folder of two files) both. */
static void make_index(void)
{
    lmc_test_snapshot(values, COUNT, 0);
    lmc_test_weights(other, sizeof other, 99);
    write_model("base", values, NULL);
    write_model("far", other, NULL);
    lmc_test_snapshot(values, COUNT, 1);
    write_model("tuned", values, NULL);
    (void)mkdir(lmc_test_path("mixed"), 0777);
    lmc_test_snapshot(values, COUNT, 5);
    write_model("mixed/1.safetensors", values, NULL);
    for (size_t i = 0; i < sizeof other; i += 40)
        other[i]++;
    write_model("mixed/2.safetensors", NULL, other);
    add("one.sqlite", "base", "base");
    add("one.sqlite", "far", "mixed");
    add("one.sqlite", "far", "far"); /* replaces it */
    add("two.sqlite", "org/tuned", "tuned");
    add("two.sqlite", "mixed", "mixed");
    add("two.sqlite", "left out", "far");
    const char *const all = lmc_test_path("all.sqlite");
    CU_ASSERT_EQUAL(lmc_store_index_merge(all, lmc_test_path("one.sqlite"), NULL, NULL, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_store_index_merge(all, lmc_test_path("two.sqlite"), "org/tuned", NULL, &diag),
                    LMC_OK);
    CU_ASSERT_EQUAL(lmc_store_index_merge(all, lmc_test_path("two.sqlite"), "mixed", NULL, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_store_index_merge(all, lmc_test_path("two.sqlite"), "mixed", NULL, &diag), LMC_OK);
}

LMC_TEST(test_predictions)
{
    static const char *const far[] = {"far", "none"};
    make_index();
    CU_ASSERT_PTR_NULL(sqlite3_vfs_find("lmc-store")); /* SQLite may outlast the library */
    const told tuned = predict("org/tuned", NULL, 0);
    CU_ASSERT_EQUAL_FATAL(tuned.count, 2); /* the mixed one has its tensor, too */
    CU_ASSERT_STRING_EQUAL(tuned.bases[0].name, "base");
    CU_ASSERT_TRUE(tuned.bases[0].is_chosen && tuned.bases[0].nbytes < tuned.alone_nbytes / 2);
    CU_ASSERT_STRING_EQUAL(tuned.bases[1].name, "mixed");
    const told mixed = predict("mixed", NULL, 0);
    CU_ASSERT_EQUAL_FATAL(mixed.count, 3); /* a file of it needs one, the other one another */
    CU_ASSERT_TRUE(mixed.bases[0].is_chosen && mixed.bases[1].is_chosen);
    CU_ASSERT_TRUE(strcmp(mixed.bases[0].name, "far") == 0 || strcmp(mixed.bases[1].name, "far") == 0);
    const told limited = predict("mixed", far, 2);
    CU_ASSERT_EQUAL_FATAL(limited.count, 1);
    CU_ASSERT_STRING_EQUAL(limited.bases[0].name, "far");
    CU_ASSERT_EQUAL(limited.alone_nbytes, mixed.alone_nbytes);
    CU_ASSERT_EQUAL(predict("mixed", far, 0).count, 0);
    CU_ASSERT_EQUAL(predict("far", NULL, 0).count, 1);
}

LMC_TEST(test_what_is_refused)
{
    told told = {0};
    lmc_store_index_options options = LMC_INIT(lmc_store_index_options);
    options.common.user = &told;
    const char *const all = lmc_test_path("all.sqlite");
    const char *const none = lmc_test_path("none");
    const char *const wrong = lmc_test_path("wrong.sqlite");
    static const char *const names[] = {"far", "none"};
    lmc_test_write(wrong, (const unsigned char *)"", 0);
    CU_ASSERT_EQUAL(lmc_store_index_merge(all, wrong, NULL, NULL, &diag), LMC_ERR_CORRUPT);
    lmc_test_write(wrong, (const unsigned char *)"no index", 8);
    CU_ASSERT_EQUAL(lmc_store_index_predict(all, names + 1, 1, NULL, 0, &options, note, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_store_index_predict(none, names, 1, NULL, 0, &options, note, &diag), LMC_ERR_IO);
    CU_ASSERT_EQUAL(lmc_store_index_predict(wrong, names, 1, NULL, 0, &options, note, &diag),
                    LMC_ERR_CORRUPT);
    CU_ASSERT_EQUAL(lmc_store_index_merge(all, none, NULL, NULL, &diag), LMC_ERR_IO);
    CU_ASSERT_EQUAL(lmc_store_index_merge(all, wrong, NULL, NULL, &diag), LMC_ERR_CORRUPT);
    CU_ASSERT_EQUAL(lmc_store_index_merge(wrong, all, NULL, NULL, &diag), LMC_ERR_CORRUPT);
    CU_ASSERT_NOT_EQUAL(access(none, F_OK), 0); /* nothing was made */
    CU_ASSERT_EQUAL(lmc_store_index_add(all, "../x", lmc_test_path("far"), NULL, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_store_index_add(all, "x", none, NULL, &diag), LMC_ERR_IO);
    CU_ASSERT_EQUAL(lmc_store_index_add(all, "x", wrong, NULL, &diag), LMC_ERR_HEADER);
    CU_ASSERT_EQUAL(lmc_store_index_add(all, "far", wrong, NULL, &diag), LMC_ERR_HEADER);
    CU_ASSERT_EQUAL(predict("far", NULL, 0).count, 1); /* it is as before */
    options.struct_size = 1;
    CU_ASSERT_EQUAL(lmc_store_index_add(all, "x", lmc_test_path("far"), &options, &diag), LMC_ERR_ARG);
    const volatile int cancel = 1;
    options = (lmc_store_index_options)LMC_INIT(lmc_store_index_options);
    options.common.cancel = &cancel;
    CU_ASSERT_EQUAL(lmc_store_index_merge(all, lmc_test_path("two.sqlite"), NULL, &options, &diag),
                    LMC_ERR_CANCELLED);
    CU_ASSERT_EQUAL(lmc_store_index_predict(all, names, 2, NULL, 0, NULL, ignore, &diag), LMC_ERR_ARG);
}

/* A program that changes the index is waited for, but no longer than the caller wants; not by what makes sketches. */
LMC_TEST(test_busy_index)
{
    const char *const all = lmc_test_path("all.sqlite");
    const volatile int cancel = 1;
    const time_t start = time(NULL);
    lmc_store_index_options options = LMC_INIT(lmc_store_index_options);
    options.common.cancel = &cancel;
    sqlite3 *writer = NULL;
    CU_ASSERT_EQUAL_FATAL(sqlite3_open(all, &writer), SQLITE_OK);
    CU_ASSERT_EQUAL(sqlite3_exec(writer, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    CU_ASSERT_EQUAL(lmc_store_index_merge(all, lmc_test_path("two.sqlite"), NULL, &options, &diag),
                    LMC_ERR_CANCELLED);
    CU_ASSERT_EQUAL(lmc_store_index_merge(lmc_test_path("two.sqlite"), all, NULL, &options, &diag),
                    LMC_ERR_CANCELLED);
    CU_ASSERT_EQUAL(lmc_store_index_add(all, "x", lmc_test_path("wrong.sqlite"), NULL, &diag),
                    LMC_ERR_HEADER);
    CU_ASSERT(time(NULL) - start < 8);
    sqlite3_close(writer);
}

#ifdef F_GETLK
/* 1 if another process finds that this one has announced a change to the database: SQLite locks this byte then. */
static int has_lock(const char *path)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0x40000001, .l_len = 1};
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        const int fd = open(path, O_RDWR);
        _exit(fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? 1 : 0);
    }
    CU_ASSERT_EQUAL_FATAL(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
}

/* To close any descriptor of a file ends all locks that the process has on it. */
LMC_TEST(test_locks_stay)
{
    static const char *const name = "far";
    const char *const all = lmc_test_path("all.sqlite");
    told told = {0};
    lmc_store_index_options options = LMC_INIT(lmc_store_index_options);
    options.common.user = &told;
    sqlite3 *writer = NULL;
    CU_ASSERT_EQUAL_FATAL(sqlite3_open(all, &writer), SQLITE_OK);
    CU_ASSERT_EQUAL(sqlite3_exec(writer, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    CU_ASSERT_EQUAL(has_lock(all), 1);
    CU_ASSERT_EQUAL(lmc_store_index_predict(all, &name, 1, NULL, 0, &options, note, &diag), LMC_OK);
    CU_ASSERT_EQUAL(has_lock(all), 1);
    sqlite3_close(writer);
    CU_ASSERT_EQUAL(has_lock(all), 0);
}
#endif

/* Every damaged byte of the index gives a result or an error. */
LMC_TEST(test_damage)
{
    size_t nbytes = 0;
    const char *const all = lmc_test_path("all.sqlite");
    const char *const damaged = lmc_test_path("damaged.sqlite");
    const char *const target = lmc_test_path("target.sqlite");
    const char *const mixed = "mixed";
    unsigned char *const bytes = lmc_test_read(all, &nbytes);
    lmc_store_index_options options = LMC_INIT(lmc_store_index_options);
    for (size_t at = 0; at < nbytes; at += 499) {
        told told = {0};
        options.common.user = &told;
        bytes[at] ^= 0xff;
        lmc_test_write(damaged, bytes, nbytes);
        (void)!lmc_store_index_predict(damaged, &mixed, 1, NULL, 0, &options, note, &diag);
        (void)!lmc_store_index_merge(target, damaged, NULL, NULL, &diag);
        bytes[at] ^= 0xff;
    }
    free(bytes);
    static const char *const names[] = {"all.sqlite",    "one.sqlite",   "two.sqlite", "damaged.sqlite",
                                        "target.sqlite", "wrong.sqlite", "base",       "far",
                                        "tuned",         "mixed"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        lmc_test_remove(lmc_test_path(names[i]));
}

LMC_TEST(test_arranging)
{
    const uint64_t alone[] = {100, 90, 95, 50};
    const lmc_store_cost costs[] = {{0, 1, 10}, {1, 0, 10}, {1, 2, 5}, {2, 1, 20}, {3, 1, 40}};
    size_t bases[] = {LMC_STORE_NO_BASE, LMC_STORE_NO_BASE, LMC_STORE_NO_BASE, LMC_STORE_NO_BASE};
    CU_ASSERT_EQUAL(lmc_store_arrange(4, alone, costs, 5, 1, bases), LMC_OK);
    CU_ASSERT_TRUE(bases[0] == 1 && bases[1] == LMC_STORE_NO_BASE && bases[2] == 1 && bases[3] == 1);
    /* model 1 keeps the base that it has */
    const uint64_t kept[] = {100, 1000, 95, 50};
    const lmc_store_cost fixed[] = {{0, 1, 10}, {1, 2, 0}, {2, 1, 20}, {3, 1, 40}};
    for (size_t i = 0; i < 4; i++)
        bases[i] = i == 1 ? 2 : LMC_STORE_NO_BASE;
    CU_ASSERT_EQUAL(lmc_store_arrange(4, kept, fixed, 4, 1, bases), LMC_OK);
    CU_ASSERT_TRUE(bases[0] == LMC_STORE_NO_BASE && bases[1] == 2 && bases[2] == LMC_STORE_NO_BASE);
    CU_ASSERT_EQUAL(lmc_store_arrange(4, kept, fixed, 4, 2, bases), LMC_OK);
    CU_ASSERT_TRUE(bases[0] == 1 && bases[1] == 2 && bases[2] == LMC_STORE_NO_BASE && bases[3] == 1);
    const lmc_store_cost wrong[][2] = {
        {{0, 4, 1}, {1, 0, 1}}, {{4, 0, 1}, {4, 1, 1}}, {{1, 0, 1}, {0, 1, 1}}, {{1, 1, 1}, {2, 1, 1}}};
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(lmc_store_arrange(4, alone, wrong[i], 2, 1, bases), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_store_arrange(4, alone, costs, 5, 0, bases), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_store_arrange(4, alone, costs, 5, LMC_STORE_DEPTH_MAX + 1, bases), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_store_arrange(0, NULL, NULL, 0, 1, NULL), LMC_OK);
    /* numbers of which one less is the same number to a double: the search ends */
    const uint64_t huge[] = {UINT64_MAX, 1662521125, UINT64_MAX, 1371211091};
    const lmc_store_cost huge_costs[] = {
        {0, 1, UINT64_MAX}, {1, 2, 249575870}, {1, 3, 232997186}, {2, 0, UINT64_MAX}, {3, 1, 366755836}};
    for (unsigned depth = 1; depth <= LMC_STORE_DEPTH_MAX; depth += LMC_STORE_DEPTH_MAX - 1) {
        for (size_t i = 0; i < 4; i++)
            bases[i] = LMC_STORE_NO_BASE;
        CU_ASSERT_EQUAL(lmc_store_arrange(4, huge, huge_costs, 5, depth, bases), LMC_OK);
    }
    bases[0] = bases[1] = bases[2] = LMC_STORE_NO_BASE;
    for (size_t wrong_base = 4; wrong_base > 2; wrong_base--) { /* none such; itself */
        bases[3] = wrong_base;
        CU_ASSERT_EQUAL(lmc_store_arrange(4, alone, costs, 5, 1, bases), LMC_ERR_ARG);
    }
}

LMC_TEST_DIR_MAIN("store index calls")
