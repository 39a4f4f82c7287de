/*
 * test_st_entries.c - what restoring a converted directory would write, and its archives opened with the bases of the
 * directory: lmc_st_visit_entries(), lmc_st_open_entry().
 */
#include "lmc_test_original.h"
#include "lmc_test_st_base.h"

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

static void make_folder(const char *name)
{
    CU_ASSERT_EQUAL(mkdir(lmc_test_path(name), 0755), 0);
}

static void make_file(const char *name, const char *text)
{
    lmc_test_write(lmc_test_path(name), text, strlen(text));
}

/* ---- entries ---- */

typedef struct visited {
    char text[1000]; /* a line for each: the kind's number and the path */
    unsigned count, most;
} visited;

static int note(void *user, const char *path, lmc_st_entry entry)
{
    visited *const seen = user;
    const size_t length = strlen(seen->text);
    snprintf(seen->text + length, sizeof seen->text - length, "%d %s\n", (int)entry, path);
    return ++seen->count == seen->most ? 7 : 0;
}

static lmc_status visit(const char *name, visited *seen)
{
    seen->text[0] = '\0';
    seen->count = 0;
    return lmc_st_visit_entries(lmc_test_path(name), NULL, note, seen, &diag);
}

/* Two files, in a folder and beside it; copies, of which some are named as archives. */
static void make_model(const char *name)
{
    char path[64];
    lmc_st_writer *writer = NULL;
    make_folder(name);
    for (unsigned i = 0; i < 4; i++) {
        static const char *const folders[] = {"sub", "empty", "sub/deep", "x.lmc"};
        snprintf(path, sizeof path, "%s/%s", name, folders[i]);
        make_folder(path);
    }
    for (unsigned i = 0; i < 2; i++) {
        static unsigned char w[20000];
        snprintf(path, sizeof path, "%s/%s", name, i == 0 ? "m.safetensors" : "sub/n.safetensors");
        lmc_test_snapshot(w, sizeof w / 2, 2 * i + (name[0] == 'b'));
        writer = lmc_test_writer();
        CU_ASSERT_EQUAL(lmc_test_add(writer, "w", LMC_DTYPE_BF16, sizeof w / 2, w), LMC_OK);
        lmc_test_write_plain(writer, lmc_test_path(path));
    }
    for (unsigned i = 0; i < 5; i++) {
        static const char *const files[] = {"m.json", "sub.txt", "sub/old.lmc", "sub/deep/a.lmc", "x.lmc/y"};
        snprintf(path, sizeof path, "%s/%s", name, files[i]);
        make_file(path, "text");
    }
}

static void convert(const char *in, const char *base, const char *out)
{
    CU_ASSERT_EQUAL_FATAL(
        lmc_test_convert(lmc_test_path(in), !base ? NULL : lmc_test_path(base), lmc_test_path(out), 1, &diag),
        LMC_OK);
}

static const char expected[] = "0 empty\n"
                               "2 m.json\n"
                               "1 m.safetensors.lmc\n"
                               "0 sub\n"
                               "2 sub.txt\n"
                               "0 sub/deep\n"
                               "2 sub/deep/a.lmc\n"
                               "1 sub/n.safetensors.lmc\n"
                               "2 sub/old.lmc\n"
                               "0 x.lmc\n"
                               "2 x.lmc/y\n";

LMC_TEST(test_entries)
{
    visited seen = {.most = 0};
    make_model("a");
    convert("a", NULL, "stored");
    CU_ASSERT_TRUE(lmc_test_exists(lmc_test_path("stored/.lmc-copied")));
    CU_ASSERT_EQUAL(visit("stored", &seen), LMC_OK);
    CU_ASSERT_STRING_EQUAL(seen.text, expected);
    CU_ASSERT_EQUAL(diag.status, LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_visit_entries(lmc_test_path("stored"), NULL, note, &seen, NULL), LMC_OK);
    CU_ASSERT_EQUAL(seen.count, 22);
}

/* It ends where the function says so, successfully. */
LMC_TEST(test_ends_early)
{
    for (unsigned most = 1; most < 12; most++) {
        visited seen = {.most = most};
        CU_ASSERT_EQUAL(visit("stored", &seen), LMC_OK);
        CU_ASSERT_EQUAL(seen.count, most);
        CU_ASSERT_EQUAL(strncmp(seen.text, expected, strlen(seen.text)), 0);
    }
}

/* The list in another folder than the root is a file like others, and so is a folder of its name. */
LMC_TEST(test_other_lists)
{
    visited seen = {.most = 0};
    make_folder("other");
    CU_ASSERT_EQUAL(visit("other", &seen), LMC_OK);
    CU_ASSERT_STRING_EQUAL(seen.text, "");
    make_folder("other/.lmc-copied");
    make_folder("other/sub");
    make_file("other/sub/.lmc-copied", "nothing\n");
    make_file("other/sub/b.lmc", "no archive: nothing is opened");
    CU_ASSERT_EQUAL(visit("other", &seen), LMC_OK);
    CU_ASSERT_STRING_EQUAL(seen.text, "0 .lmc-copied\n0 sub\n2 sub/.lmc-copied\n1 sub/b.lmc\n");
    lmc_test_remove(lmc_test_path("other"));
}

LMC_TEST(test_wrong_lists)
{
    static const char *const lists[] = {
        "gone.lmc\n",                       /* not there */
        "sub/old.lmc\nsub/deep/a.lmc\n",    /* not in order */
        "sub/deep/a.lmc\nsub/deep/a.lmc\n", /* twice */
        "sub/deep/a.lmc",                   /* cut */
        "m.json\n",                         /* not named as an archive */
        "x.lmc\n",                          /* a folder */
        "\n",
    };
    visited seen = {.most = 0};
    const char *const list = lmc_test_path("stored/.lmc-copied");
    size_t nbytes = 0;
    unsigned char *const kept = lmc_test_read(list, &nbytes);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        make_file("stored/.lmc-copied", lists[i]);
        CU_ASSERT_EQUAL(visit("stored", &seen), LMC_ERR_CORRUPT);
        CU_ASSERT_EQUAL(seen.count, 0);
        CU_ASSERT_EQUAL(diag.status, LMC_ERR_CORRUPT);
        CU_ASSERT_STRING_EQUAL(diag.file, list);
    }
    CU_ASSERT_EQUAL(truncate(list, (16 << 20) + 1), 0);
    CU_ASSERT_EQUAL(visit("stored", &seen), LMC_ERR_LIMIT);
    CU_ASSERT_EQUAL(seen.count, 0);
    lmc_test_write(list, kept, nbytes);
    free(kept);
}

LMC_TEST(test_wrong_directories)
{
    visited seen = {.most = 0};
    lmc_st_diag unknown = {.struct_size = 0};
    lmc_st_options options = LMC_INIT(lmc_st_options);
    CU_ASSERT_EQUAL(visit("none", &seen), LMC_ERR_IO);
    CU_ASSERT_EQUAL(diag.os_errno, ENOENT);
    CU_ASSERT_STRING_EQUAL(diag.file, lmc_test_path("none"));
    CU_ASSERT_EQUAL(visit("a/m.json", &seen), LMC_ERR_IO);
    options.struct_size = 0;
    CU_ASSERT_EQUAL(lmc_st_visit_entries(lmc_test_path("stored"), &options, note, &seen, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_visit_entries(lmc_test_path("stored"), NULL, note, &seen, &unknown), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(seen.count, 0);
    if (!lmc_test_has_links())
        LMC_TEST_SKIP("links cannot be made here");
    CU_ASSERT_EQUAL(symlink("sub", lmc_test_path("stored/link")), 0);
    CU_ASSERT_EQUAL(visit("stored", &seen), LMC_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(diag.file, lmc_test_path("stored/link"));
    CU_ASSERT_EQUAL(unlink(lmc_test_path("stored/link")), 0);
    CU_ASSERT_EQUAL(symlink("nowhere", lmc_test_path("stored/link")), 0);
    CU_ASSERT_EQUAL(visit("stored", &seen), LMC_ERR_IO);
    CU_ASSERT_EQUAL(unlink(lmc_test_path("stored/link")), 0);
    CU_ASSERT_EQUAL(mkfifo(lmc_test_path("stored/pipe"), 0600), 0);
    CU_ASSERT_EQUAL(visit("stored", &seen), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(unlink(lmc_test_path("stored/pipe")), 0);
    CU_ASSERT_EQUAL(seen.count, 0);
    CU_ASSERT_EQUAL(symlink("m.json", lmc_test_path("stored/link")), 0); /* to a file */
    CU_ASSERT_EQUAL(visit("stored", &seen), LMC_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(seen.text, "2 link\n"));
    CU_ASSERT_EQUAL(unlink(lmc_test_path("stored/link")), 0);
}

/* ---- archives of entries ---- */

/* Opens an entry of "based", and reads its original; every base is looked for after it was opened. */
static lmc_status read_entry(const char *entry, const lmc_st_compare_options *options, const char *plain)
{
    lmc_test_original of = {.file = NULL};
    lmc_st_cache *const cache = lmc_test_cache(1, 1);
    lmc_status status = lmc_st_open_entry(lmc_test_path("based"), entry, options, &of.file, &diag);
    if (status == LMC_OK) {
        of.bytes = lmc_test_read(lmc_test_path(plain), &of.nbytes);
        CU_ASSERT_TRUE(lmc_st_is_archive(of.file));
        CU_ASSERT_EQUAL_FATAL(lmc_st_original_nbytes(of.file), of.nbytes);
        CU_ASSERT_EQUAL_FATAL(lmc_st_original_open(of.file, cache, &of.original, &diag), LMC_OK);
        status = lmc_test_original_read(&of, 0, of.nbytes, &diag);
        lmc_test_original_close(&of);
    }
    lmc_st_cache_free(cache);
    return status;
}

static void read_both(const lmc_st_compare_options *options, lmc_status wanted)
{
    CU_ASSERT_EQUAL(read_entry("m.safetensors.lmc", options, "b/m.safetensors"), wanted);
    CU_ASSERT_EQUAL(read_entry("sub/n.safetensors.lmc", options, "b/sub/n.safetensors"), wanted);
}

LMC_TEST(test_open_entry)
{
    char base[LMC_TEST_PATH_NBYTES];
    const char *dirs[] = {lmc_test_path("nowhere"), base};
    lmc_st_compare_options options = LMC_INIT(lmc_st_compare_options);
    make_model("b");
    convert("b", "a", "based");
    CU_ASSERT_TRUE(lmc_test_nbytes(lmc_test_path("based/sub/n.safetensors.lmc")) <
                   lmc_test_nbytes(lmc_test_path("stored/sub/n.safetensors.lmc")) / 2);
    read_both(NULL, LMC_ERR_BASE);
    read_both(&options, LMC_ERR_BASE);
    for (unsigned i = 0; i < 2; i++) { /* the plain directory, and its archives */
        snprintf(base, sizeof base, "%s", lmc_test_path(i == 0 ? "a" : "stored"));
        options.base = base;
        read_both(&options, LMC_OK);
        options.base = NULL;
        options.base_dirs = dirs;
        options.base_dir_count = 2;
        read_both(&options, LMC_OK);
        options.base_dir_count = 1;
        read_both(&options, LMC_ERR_BASE);
        options.base_dir_count = 0;
    }
    options.base = lmc_test_path("a/m.safetensors");
    read_both(&options, LMC_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(diag.file, options.base);
    options.base = lmc_test_path("nowhere");
    read_both(&options, LMC_ERR_ARG);
}

LMC_TEST(test_wrong_entries)
{
    lmc_st_file *file = (lmc_st_file *)&diag;
    lmc_st_compare_options options = LMC_INIT(lmc_st_compare_options);
    const char *const stored = lmc_test_path("stored");
    CU_ASSERT_EQUAL(lmc_st_open_entry(stored, "none.lmc", NULL, &file, &diag), LMC_ERR_IO);
    CU_ASSERT_PTR_NULL(file);
    CU_ASSERT_EQUAL(diag.os_errno, ENOENT);
    CU_ASSERT_STRING_EQUAL(diag.file, lmc_test_path("stored/none.lmc"));
    CU_ASSERT_EQUAL(lmc_st_open_entry(stored, "sub", NULL, &file, NULL), LMC_ERR_ARG);
    CU_ASSERT_NOT_EQUAL(lmc_st_open_entry(stored, "sub/old.lmc", NULL, &file, NULL), LMC_OK); /* a text */
    CU_ASSERT_PTR_NULL(file);
    options.struct_size = 0;
    CU_ASSERT_EQUAL(lmc_st_open_entry(stored, "m.safetensors.lmc", &options, &file, NULL), LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(file);
    lmc_test_flip(lmc_test_path("stored/m.safetensors.lmc"), 200, 1);
    CU_ASSERT_NOT_EQUAL(lmc_st_open_entry(stored, "m.safetensors.lmc", NULL, &file, &diag), LMC_OK);
    CU_ASSERT_STRING_EQUAL(diag.file, lmc_test_path("stored/m.safetensors.lmc"));
    CU_ASSERT_PTR_NULL(file);
    lmc_test_flip(lmc_test_path("stored/m.safetensors.lmc"), 200, 1);
    /* a plain file is opened as such */
    CU_ASSERT_EQUAL(lmc_st_open_entry(lmc_test_path("a"), "m.safetensors", NULL, &file, &diag), LMC_OK);
    CU_ASSERT_FALSE(lmc_st_is_archive(file));
    lmc_st_close(file);
}

LMC_TEST(test_end)
{
    lmc_test_remove(lmc_test_path("a"));
    lmc_test_remove(lmc_test_path("b"));
    lmc_test_remove(lmc_test_path("stored"));
    lmc_test_remove(lmc_test_path("based"));
}

LMC_TEST_DIR_MAIN("st_entries")
