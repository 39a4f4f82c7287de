/*
 * test_st_tree.c - safetensors/files/directories.h: trees that are listed and removed, and directories that grow beside
 * their place: locks, leftovers, exchange.
 */
#include "lmc_test_st.h"

#include "safetensors/files/directories.h"

#include <errno.h>

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

static const lmc_allocator *const memory = &lmc_memory_default;
static const st_attributes attributes = {.is_known = 1, .permissions = 0755};

static void make_directory(const char *name)
{
    CU_ASSERT_EQUAL(mkdir(lmc_test_path(name), 0755), 0);
}

static void make_file(const char *name, const char *text)
{
    lmc_test_write(lmc_test_path(name), text, strlen(text));
}

static lmc_status read_tree(st_listing *tree, const char *name, lmc_st_diag *diag)
{
    st_diag_init(diag, "test");
    return st_listing_read(tree, memory, lmc_test_path(name), diag);
}

/* ---- paths ---- */

static void expect_true_path(const char *path, const char *expected)
{
    char *const found = st_true_path(memory, path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(found);
    CU_ASSERT_STRING_EQUAL(found, expected);
    st_release(memory, found);
}

LMC_TEST(test_true_paths)
{
    if (!lmc_test_has_links())
        LMC_TEST_SKIP("links cannot be made here");
    char expected[LMC_TEST_PATH_NBYTES];
    char given[LMC_TEST_PATH_NBYTES + 32];
    make_directory("real");
    CU_ASSERT_EQUAL(symlink("real", lmc_test_path("link")), 0);
    expect_true_path(lmc_test_path("link"), lmc_test_path("real"));
    expect_true_path(lmc_test_path("link/"), lmc_test_path("real"));
    expect_true_path(lmc_test_path("link/new"), lmc_test_path("real/new"));
    expect_true_path(lmc_test_path("link/new///"), lmc_test_path("real/new"));
    expect_true_path(lmc_test_path("real/../link/./new"), lmc_test_path("real/new"));
    expect_true_path("/", "/");
    expect_true_path("/no-such-name-here", "/no-such-name-here");
    CU_ASSERT_PTR_NOT_NULL_FATAL(getcwd(expected, sizeof expected - 16));
    snprintf(given, sizeof given, "%s/no-such-name", expected);
    expect_true_path("no-such-name", given);
    CU_ASSERT_PTR_NULL(st_true_path(memory, lmc_test_path("none/new")));
    CU_ASSERT_EQUAL(errno, ENOENT);
    unlink(lmc_test_path("link"));
    CU_ASSERT_EQUAL(rmdir(lmc_test_path("real")), 0);
}

/* ---- trees ---- */

LMC_TEST(test_listing)
{
    if (!lmc_test_has_links())
        LMC_TEST_SKIP("links cannot be made here");
    static const char *const names[] = {"a", "a.b", "a/b", "a/b/c", "a/z", "empty", "z"};
    st_listing tree;
    make_directory("tree");
    make_directory("tree/a");
    make_directory("tree/a/b");
    make_directory("tree/empty");
    make_file("tree/a/b/c", "12345");
    make_file("tree/a/z", "");
    make_file("tree/a.b", "1");
    CU_ASSERT_EQUAL(symlink("a/b/c", lmc_test_path("tree/z")), 0);
    CU_ASSERT_EQUAL(read_tree(&tree, "tree", &diag), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(tree.count, sizeof names / sizeof names[0]);
    for (size_t i = 0; i < tree.count; i++) {
        CU_ASSERT_STRING_EQUAL(tree.entries[i].path, names[i]);
        CU_ASSERT_PTR_EQUAL(st_listing_find(&tree, names[i]), &tree.entries[i]);
    }
    CU_ASSERT_PTR_NULL(st_listing_find(&tree, "a/b/d"));
    CU_ASSERT_EQUAL(st_listing_find(&tree, "a/b/c")->nbytes, 5);
    CU_ASSERT_EQUAL(st_listing_find(&tree, "z")->nbytes, 5); /* the file behind the link */
    CU_ASSERT_TRUE(st_listing_find(&tree, "empty")->is_directory);
    CU_ASSERT_FALSE(st_listing_find(&tree, "z")->is_directory);
    st_listing_free(&tree);
    CU_ASSERT_EQUAL(st_remove_name(OS_HERE, lmc_test_path("tree")), 0);
    CU_ASSERT_FALSE(lmc_test_exists(lmc_test_path("tree")));
}

LMC_TEST(test_refused_entries)
{
    if (!lmc_test_has_links())
        LMC_TEST_SKIP("links cannot be made here");
    st_listing tree;
    make_directory("tree");
    CU_ASSERT_EQUAL(symlink("nowhere", lmc_test_path("tree/x")), 0);
    CU_ASSERT_EQUAL(read_tree(&tree, "tree", &diag), LMC_ERR_IO);
    CU_ASSERT_STRING_EQUAL(diag.file, lmc_test_path("tree/x"));
    st_listing_free(&tree);
    unlink(lmc_test_path("tree/x"));
    CU_ASSERT_EQUAL(symlink(".", lmc_test_path("tree/x")), 0);
    CU_ASSERT_EQUAL(read_tree(&tree, "tree", &diag), LMC_ERR_ARG);
    st_listing_free(&tree);
    unlink(lmc_test_path("tree/x"));
    CU_ASSERT_EQUAL(mkfifo(lmc_test_path("tree/x"), 0600), 0);
    CU_ASSERT_EQUAL(read_tree(&tree, "tree", &diag), LMC_ERR_ARG);
    st_listing_free(&tree);
    CU_ASSERT_EQUAL(st_remove_name(OS_HERE, lmc_test_path("tree")), 0);
    CU_ASSERT_EQUAL(read_tree(&tree, "tree", &diag), LMC_ERR_IO);
    CU_ASSERT_EQUAL(diag.os_errno, ENOENT);
    st_listing_free(&tree);
    CU_ASSERT_EQUAL(st_remove_name(OS_HERE, lmc_test_path("tree")), ENOENT);
}

/* Removing goes no further than links. */
LMC_TEST(test_removing_links)
{
    if (!lmc_test_has_links())
        LMC_TEST_SKIP("links cannot be made here");
    make_directory("keep");
    make_file("keep/file", "kept");
    make_directory("tree");
    CU_ASSERT_EQUAL(symlink("../keep", lmc_test_path("tree/link")), 0);
    CU_ASSERT_EQUAL(st_remove_name(OS_HERE, lmc_test_path("tree")), 0);
    CU_ASSERT_TRUE(lmc_test_exists(lmc_test_path("keep/file")));
    lmc_test_remove(lmc_test_path("keep"));
}

/* ---- staging ---- */

static lmc_status open_staging(st_staging *staging, const char *target, int force, lmc_st_diag *diag)
{
    st_diag_init(diag, "test");
    return st_staging_open(staging, memory, lmc_test_path(target), lmc_test_path("source"), force, diag);
}

LMC_TEST(test_staging)
{
    st_staging first;
    st_staging second;
    make_directory("source");
    CU_ASSERT_EQUAL(open_staging(&first, "out", 0, &diag), LMC_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(first.path, lmc_test_path(".out.lmc-st-partial"))); /* behind a drive */
    make_file(".out.lmc-st-partial/file", "1");

    /* one at a time */
    CU_ASSERT_EQUAL(open_staging(&second, "out", 0, &diag), LMC_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(diag.file, lmc_test_path("out"));
    CU_ASSERT_TRUE(lmc_test_exists(lmc_test_path(".out.lmc-st-partial/file")));

    /* left, then taken over, then named */
    st_staging_leave(&first);
    CU_ASSERT_EQUAL(open_staging(&first, "out/", 0, &diag), LMC_OK);
    CU_ASSERT_TRUE(lmc_test_exists(lmc_test_path(".out.lmc-st-partial/file")));
    CU_ASSERT_EQUAL(st_staging_commit(&first, &attributes, 0, 1, &diag), LMC_OK);
    CU_ASSERT_TRUE(lmc_test_exists(lmc_test_path("out/file")));
    CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), 2);

    CU_ASSERT_EQUAL(open_staging(&first, "out", 0, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(diag.os_errno, EEXIST);
    CU_ASSERT_EQUAL(open_staging(&first, "out", 1, &diag), LMC_OK);
    make_file(".out.lmc-st-partial/other", "2");
    CU_ASSERT_EQUAL(st_staging_commit(&first, &attributes, 1, 1, &diag), LMC_OK);
    CU_ASSERT_FALSE(lmc_test_exists(lmc_test_path("out/file")));
    CU_ASSERT_TRUE(lmc_test_exists(lmc_test_path("out/other")));
    CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), 2);
}

/* Something comes into the place meanwhile. */
LMC_TEST(test_late_arrivals)
{
    st_staging staging;
    lmc_test_remove(lmc_test_path("out"));
    CU_ASSERT_EQUAL(open_staging(&staging, "out", 0, &diag), LMC_OK);
    make_directory("out");
    CU_ASSERT_EQUAL(st_staging_commit(&staging, &attributes, 0, 1, &diag), LMC_OK); /* an empty one */
    CU_ASSERT_EQUAL(rmdir(lmc_test_path("out")), 0);

    CU_ASSERT_EQUAL(open_staging(&staging, "out", 0, &diag), LMC_OK);
    make_directory("out");
    make_file("out/theirs", "3");
    CU_ASSERT_EQUAL(st_staging_commit(&staging, &attributes, 0, 1, &diag), LMC_ERR_ARG);
    st_staging_discard(&staging);
    CU_ASSERT_EQUAL(diag.os_errno, EEXIST);
    CU_ASSERT_TRUE(lmc_test_exists(lmc_test_path("out/theirs")));
    CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), 2);
    lmc_test_remove(lmc_test_path("out"));

    CU_ASSERT_EQUAL(open_staging(&staging, "out", 0, &diag), LMC_OK);
    make_file("out", "a file");
    CU_ASSERT_NOT_EQUAL(st_staging_commit(&staging, &attributes, 0, 1, &diag), LMC_OK);
    st_staging_discard(&staging);
    CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), 2);
    CU_ASSERT_EQUAL(unlink(lmc_test_path("out")), 0);

    CU_ASSERT_EQUAL(open_staging(&staging, "out", 0, &diag), LMC_OK);
    st_staging_discard(&staging);
    CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), 1);
}

/* Places that would destroy the input or the ground one stands on. */
LMC_TEST(test_bad_places)
{
    if (!lmc_test_has_links())
        LMC_TEST_SKIP("links cannot be made here");
    static const char *const places[] = {"source", "source/", "source/inner", "source/../source/inner", ""};
    st_staging staging;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        CU_ASSERT_EQUAL(open_staging(&staging, places[i], 1, &diag), LMC_ERR_ARG);
    make_file("file", "");
    CU_ASSERT_EQUAL(open_staging(&staging, "file", 1, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(symlink("source", lmc_test_path("link")), 0);
    CU_ASSERT_EQUAL(open_staging(&staging, "link/inner", 1, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(open_staging(&staging, "none/out", 1, &diag), LMC_ERR_IO);
    CU_ASSERT_EQUAL(open_staging(&staging, "sourc", 0, &diag), LMC_OK); /* only the beginning is equal */
    st_staging_discard(&staging);

    /* the unfinished directory's name is taken by something else */
    make_file(".out.lmc-st-partial", "");
    CU_ASSERT_EQUAL(open_staging(&staging, "out", 0, &diag), LMC_ERR_IO);
    CU_ASSERT_EQUAL(unlink(lmc_test_path(".out.lmc-st-partial")), 0);
    CU_ASSERT_EQUAL(symlink("source", lmc_test_path(".out.lmc-st-partial")), 0);
    CU_ASSERT_EQUAL(open_staging(&staging, "out", 0, &diag), LMC_ERR_IO);
    CU_ASSERT_EQUAL(unlink(lmc_test_path(".out.lmc-st-partial")), 0);
    unlink(lmc_test_path("file"));
    unlink(lmc_test_path("link"));
    CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), 1);
}

LMC_TEST(test_end)
{
    CU_ASSERT_EQUAL(rmdir(lmc_test_path("source")), 0);
}

LMC_TEST_DIR_MAIN("st_tree")
