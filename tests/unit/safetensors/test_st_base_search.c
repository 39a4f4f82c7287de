/*
 * test_st_base_search.c - several files that could be a base by name, size and header, in chains of them; outputs
 * that are files of a chain.
 */
#include "lmc_st_experimental.h"
#include "lmc_test_st_base.h"

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

LMC_TEST(test_begin)
{
    CU_ASSERT_EQUAL(mkdir(lmc_test_path("a"), 0755), 0);
    CU_ASSERT_EQUAL(mkdir(lmc_test_path("b"), 0755), 0);
}

static const char *file_of(const char *folder, unsigned step, const char *suffix)
{
    char name[64];
    snprintf(name, sizeof name, "%s/s%u.safetensors%s", folder, step, suffix);
    return lmc_test_path(name);
}

static void write_tiny(const char *path, unsigned step, unsigned change)
{
    static unsigned char w[4000];
    lmc_st_writer *const writer = lmc_test_writer();
    lmc_test_snapshot(w, sizeof w / 2, step);
    w[sizeof w - 2] ^= (unsigned char)change;
    CU_ASSERT_EQUAL(lmc_test_add(writer, "w", LMC_DTYPE_BF16, sizeof w / 2, w), LMC_OK);
    lmc_test_write_plain(writer, path);
}

/* Steps 0 .. count-1 in "b" are a chain of archives; each of "a" is another snapshot with the same base. The plain
 * files of "b" stay as "b/keptN". */
static void make_two(unsigned count)
{
    static const char *const folders[] = {"a", "b"};
    for (unsigned i = 0; i < count; i++) {
        const char *const base = file_of("b", i - 1, ".lmc");
        for (unsigned k = 0; k < 2; k++) {
            const char *const plain = file_of(folders[k], i, "");
            write_tiny(plain, i, k == 0);
            CU_ASSERT_EQUAL(
                lmc_test_convert(plain, i == 0 ? NULL : base, file_of(folders[k], i, ".lmc"), 1, &diag),
                LMC_OK);
            CU_ASSERT_EQUAL(k == 0 ? unlink(plain) : rename(plain, file_of("b", i, ".kept")), 0);
        }
    }
}

static void drop_two(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)unlink(file_of("a", i, ".lmc"));
        (void)unlink(file_of("b", i, ".lmc"));
        (void)unlink(file_of("b", i, ".kept"));
    }
}

static lmc_st_file *open_in(const char *path, const char *first, const char *second)
{
    const char *const dirs[] = {first, second};
    lmc_st_file *file = NULL;
    lmc_st_open_options options = LMC_INIT(lmc_st_open_options);
    options.base_dirs = dirs;
    options.base_dir_count = 2;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(path, &options, &file, NULL), LMC_OK);
    return file;
}

/* The longest chain, each file of which is found twice: every base is the right one. Would each look at a candidate
 * look at all candidates for its base, this had no end. */
LMC_TEST(test_two_of_each)
{
    const char *const a = lmc_test_path("a");
    const char *const b = lmc_test_path("b");
    make_two(LMC_ST_CHAIN_MAX);
    const unsigned last = LMC_ST_CHAIN_MAX - 1;
    for (unsigned k = 0; k < 2; k++) {
        lmc_st_file *const file = open_in(file_of("b", last, ".lmc"), k == 0 ? a : b, k == 0 ? b : a);
        const lmc_st_file *at = file;
        for (unsigned i = last; i-- > 0;) {
            CU_ASSERT_EQUAL_FATAL(lmc_st_open_base(at, 0, &at, NULL), LMC_OK);
            CU_ASSERT_STRING_EQUAL(lmc_st_path(at), file_of("b", i, ".lmc"));
        }
        CU_ASSERT_EQUAL(lmc_st_open_base(at, 0, &at, NULL), LMC_OK);
        CU_ASSERT_PTR_NULL(at);
        lmc_st_close(file);
    }
    lmc_test_expect_restored(file_of("b", last, ".lmc"), NULL, a, file_of("b", last, ".kept"));
    drop_two(LMC_ST_CHAIN_MAX);
}

/* A plain file that differs in its last value, before and after the right one. */
LMC_TEST(test_last_value)
{
    const char *const a = lmc_test_path("a");
    const char *const b = lmc_test_path("b");
    const char *const wrong = file_of("a", 0, "");
    const char *const right = file_of("b", 0, "");
    const char *const archive = lmc_test_path("s1.safetensors.lmc");
    lmc_test_write_snapshot(right, 0);
    lmc_test_write_snapshot(lmc_test_path("new"), 1);
    CU_ASSERT_EQUAL(lmc_test_convert(lmc_test_path("new"), right, archive, 1, &diag), LMC_OK);
    lmc_test_write_snapshot(wrong, 0);
    /* "w" is the first tensor of the data, or the one before the short ones: its end differs */
    lmc_test_flip(wrong, lmc_test_nbytes(wrong) - 5000 - 9 - 1, 1);
    for (unsigned k = 0; k < 2; k++) {
        const lmc_st_file *base = NULL;
        lmc_st_file *const file = open_in(archive, k == 0 ? a : b, k == 0 ? b : a);
        CU_ASSERT_EQUAL_FATAL(lmc_st_open_base(file, 0, &base, NULL), LMC_OK);
        CU_ASSERT_STRING_EQUAL(lmc_st_path(base), right);
        lmc_st_close(file);
    }
    (void)unlink(wrong);
    (void)unlink(right);
    (void)unlink(archive);
    (void)unlink(lmc_test_path("new"));
}

/* A file of the chain is no output, even if what is written does not need it. */
LMC_TEST(test_outputs)
{
    lmc_test_settings options = lmc_test_options(1);
    const char *const b = lmc_test_path("b");
    const char *const dirs[] = {b};
    make_two(3);
    options.force = 1;
    options.base_dirs = dirs;
    options.base_dir_count = 1;
    for (unsigned i = 0; i < 3; i++) {
        for (options.salvage = 0; options.salvage < 2; options.salvage++) {
            CU_ASSERT_EQUAL(
                lmc_test_restore_as(file_of("b", 2, ".lmc"), file_of("b", i, ".lmc"), &options, NULL, &diag),
                LMC_ERR_ARG);
        }
    }
    lmc_test_expect_restored(file_of("b", 2, ".lmc"), NULL, NULL, file_of("b", 2, ".kept"));
    drop_two(3);
}

LMC_TEST(test_clean_up)
{
    lmc_test_remove(lmc_test_path("a"));
    lmc_test_remove(lmc_test_path("b"));
}

LMC_TEST_DIR_MAIN("st_base_search")
