/*
 * test_st_base_chain.c - where a base is looked for, chains of archives, and bases that are missing, wrong, damaged
 * or lead back.
 */
#include "lmc_st_experimental.h"
#include "lmc_test_st_base.h"

#include "os/os.h"

#include <errno.h>

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

/* "sN.safetensors", and its archive. */
static const char *plain_name(unsigned step)
{
    char name[32];
    snprintf(name, sizeof name, "s%u.safetensors", step);
    return lmc_test_path(name);
}

static const char *archive_name(unsigned step)
{
    char name[32];
    snprintf(name, sizeof name, "s%u.safetensors.lmc", step);
    return lmc_test_path(name);
}

static void write_tiny(const char *path, unsigned step)
{
    static unsigned char w[4000];
    lmc_st_writer *const writer = lmc_test_writer();
    lmc_test_snapshot(w, sizeof w / 2, step);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "w", LMC_DTYPE_BF16, sizeof w / 2, w), LMC_OK);
    lmc_test_write_plain(writer, path);
}

/* Archives 0 .. count-1, each with the one before it as its base (the first with none); plain files stay. */
static void make_chain(unsigned count, void (*write)(const char *path, unsigned step))
{
    for (unsigned i = 0; i < count; i++) {
        write(plain_name(i), i);
        CU_ASSERT_EQUAL(
            lmc_test_convert(plain_name(i), i == 0 ? NULL : archive_name(i - 1), archive_name(i), 2, &diag),
            LMC_OK);
    }
}

static void drop_chain(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)unlink(plain_name(i));
        (void)unlink(archive_name(i));
    }
}

static size_t chain_length(const char *path)
{
    lmc_st_file *file = NULL;
    size_t count = 0;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(path, NULL, &file, NULL), LMC_OK);
    for (const lmc_st_file *at = file; at != NULL; count++)
        CU_ASSERT_EQUAL_FATAL(lmc_st_open_base(at, 0, &at, &diag), LMC_OK);
    lmc_st_close(file);
    return count;
}

/* Each is restored with nothing but archives there. */
LMC_TEST(test_chains)
{
    enum { COUNT = 20 };
    make_chain(COUNT, lmc_test_write_snapshot);
    const char *const kept = lmc_test_path("kept");
    for (unsigned i = 0; i < COUNT; i++) {
        CU_ASSERT_EQUAL(rename(plain_name(i), kept), 0);
        CU_ASSERT_EQUAL(chain_length(archive_name(i)), i + 1);
        lmc_test_expect_restored(archive_name(i), NULL, NULL, kept);
    }
    (void)unlink(kept);
    drop_chain(COUNT);
}

LMC_TEST(test_longest_chain)
{
    make_chain(LMC_ST_CHAIN_MAX, write_tiny);
    const unsigned last = LMC_ST_CHAIN_MAX - 1;
    for (unsigned i = 0; i < last; i++)
        (void)unlink(plain_name(i));
    CU_ASSERT_EQUAL(chain_length(archive_name(last)), LMC_ST_CHAIN_MAX);
    lmc_test_expect_restored(archive_name(last), NULL, NULL, plain_name(last));
    /* one more cannot be made */
    write_tiny(plain_name(last + 1), last + 1);
    CU_ASSERT_EQUAL(
        lmc_test_convert(plain_name(last + 1), archive_name(last), archive_name(last + 1), 1, &diag),
        LMC_ERR_LIMIT);
    CU_ASSERT_FALSE(lmc_test_exists(archive_name(last + 1)));
    /* nor read: made against the plain file, it finds an archive in its place */
    CU_ASSERT_EQUAL(
        lmc_test_convert(plain_name(last + 1), plain_name(last), archive_name(last + 1), 1, &diag), LMC_OK);
    lmc_test_expect_restored(archive_name(last + 1), NULL, NULL, plain_name(last + 1));
    (void)unlink(plain_name(last));
    CU_ASSERT_EQUAL(lmc_test_restore(archive_name(last + 1), NULL, NULL, lmc_test_path("restored"), &diag),
                    LMC_ERR_LIMIT);
    drop_chain(LMC_ST_CHAIN_MAX + 1);
}

/* A file needs a base that needs the file. */
LMC_TEST(test_cycle)
{
    write_tiny(plain_name(0), 0);
    write_tiny(plain_name(1), 1);
    CU_ASSERT_EQUAL(lmc_test_convert(plain_name(0), plain_name(1), archive_name(0), 1, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_convert(plain_name(1), plain_name(0), archive_name(1), 1, &diag), LMC_OK);
    (void)unlink(plain_name(0));
    (void)unlink(plain_name(1));
    for (unsigned i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(lmc_test_restore(archive_name(i), NULL, NULL, lmc_test_path("restored"), &diag),
                        LMC_ERR_BASE);
        CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "needs that base itself"));
        CU_ASSERT_EQUAL(lmc_test_verify_with(archive_name(i), NULL, NULL, &diag), LMC_ERR_BASE);
    }
    drop_chain(2);
}

/* NAME and NAME.lmc, beside it and in a directory, and a file that was named. */
LMC_TEST(test_places)
{
    const char *const dir = lmc_test_path("dir");
    const char *const away = lmc_test_path("away");
    const char *const out = lmc_test_path("restored");
    CU_ASSERT_EQUAL(mkdir(dir, 0755), 0);
    make_chain(2, write_tiny);
    CU_ASSERT_EQUAL(rename(plain_name(0), away), 0);
    lmc_test_expect_restored(archive_name(1), NULL, NULL, plain_name(1)); /* NAME.lmc beside it */
    (void)unlink(archive_name(0));
    CU_ASSERT_EQUAL(lmc_test_restore(archive_name(1), NULL, NULL, out, &diag), LMC_ERR_BASE);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "needs the base s0.safetensors (hash "));
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "not found"));
    CU_ASSERT_FALSE(lmc_test_exists(out));
    lmc_test_expect_restored(archive_name(1), away, NULL, plain_name(1));
    CU_ASSERT_EQUAL(lmc_test_restore(archive_name(1), lmc_test_path("nothing"), dir, out, &diag),
                    LMC_ERR_BASE);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "nothing"));
    CU_ASSERT_EQUAL(rename(away, lmc_test_path("dir/s0.safetensors")), 0);
    lmc_test_expect_restored(archive_name(1), NULL, dir, plain_name(1));
    CU_ASSERT_EQUAL(lmc_test_convert(lmc_test_path("dir/s0.safetensors"), NULL,
                                     lmc_test_path("dir/s0.safetensors.lmc"), 1, &diag),
                    LMC_OK);
    (void)unlink(lmc_test_path("dir/s0.safetensors"));
    lmc_test_expect_restored(archive_name(1), NULL, dir, plain_name(1));
    lmc_test_remove(dir);
    drop_chain(2);
}

/* A symbolic link is followed; a file of the name that is another one is passed over, even if only its content
 * differs. */
LMC_TEST(test_passed_over)
{
    if (!lmc_test_has_links())
        LMC_TEST_SKIP("links cannot be made here");
    const char *const dir = lmc_test_path("dir");
    CU_ASSERT_EQUAL(mkdir(dir, 0755), 0);
    make_chain(2, write_tiny);
    (void)unlink(archive_name(0));
    CU_ASSERT_EQUAL(rename(plain_name(0), lmc_test_path("away")), 0);
    CU_ASSERT_EQUAL(symlink("../away", lmc_test_path("dir/s0.safetensors")), 0);
    write_tiny(plain_name(0), 5);
    lmc_test_expect_restored(archive_name(1), NULL, dir, plain_name(1));
    CU_ASSERT_EQUAL(lmc_test_restore(archive_name(1), NULL, NULL, lmc_test_path("restored"), &diag),
                    LMC_ERR_BASE);
    /* the right one beside it, the wrong one in the directory that is looked in first */
    (void)unlink(lmc_test_path("dir/s0.safetensors"));
    CU_ASSERT_EQUAL(rename(plain_name(0), lmc_test_path("dir/s0.safetensors")), 0);
    CU_ASSERT_EQUAL(rename(lmc_test_path("away"), plain_name(0)), 0);
    lmc_test_expect_restored(archive_name(1), NULL, dir, plain_name(1));
    /* the header of another file */
    lmc_test_write_model(lmc_test_path("dir/s0.safetensors.lmc"), 1);
    lmc_test_expect_restored(archive_name(1), NULL, dir, plain_name(1));
    lmc_test_expect_restored(archive_name(1), lmc_test_path("dir/s0.safetensors.lmc"), NULL, plain_name(1));
    lmc_test_remove(dir);
    drop_chain(2);
}

/* Every bit of the base counts: plain, or an archive, whose own checks speak first. */
LMC_TEST(test_wrong_by_one_bit)
{
    lmc_st_result result = LMC_INIT(lmc_st_result);
    const char *const out = lmc_test_path("restored");
    make_chain(2, write_tiny);
    (void)unlink(archive_name(0));
    const size_t nbytes = lmc_test_nbytes(plain_name(0));
    for (size_t at = nbytes - 4000; at < nbytes; at += 97) {
        lmc_test_flip(plain_name(0), at, (unsigned char)(1u << at % 8));
        CU_ASSERT_EQUAL(lmc_test_restore(archive_name(1), NULL, NULL, out, &diag), LMC_ERR_BASE);
        CU_ASSERT_STRING_EQUAL(diag.tensor, "w");
        CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "s0.safetensors (hash "));
        CU_ASSERT_FALSE(lmc_test_exists(out));
        CU_ASSERT_EQUAL(lmc_test_verify_with(archive_name(1), NULL, &result, &diag), LMC_ERR_BASE);
        CU_ASSERT_EQUAL(result.damaged_count, 1);
        lmc_test_flip(plain_name(0), at, (unsigned char)(1u << at % 8));
    }
    lmc_test_flip(plain_name(0), 20, 1); /* its header: it is not even taken for the base */
    CU_ASSERT_EQUAL(lmc_test_restore(archive_name(1), NULL, NULL, out, &diag), LMC_ERR_BASE);
    CU_ASSERT_FALSE(diag.has_tensor);
    drop_chain(2);
}

/* A flip in any file of a chain is found; with a damaged middle the diagnostic says where. */
LMC_TEST(test_damaged_chain)
{
    make_chain(3, write_tiny);
    for (unsigned i = 0; i < 3; i++)
        (void)unlink(plain_name(i));
    for (unsigned i = 0; i < 3; i++) {
        const size_t nbytes = lmc_test_nbytes(archive_name(i));
        for (size_t at = 0; at < nbytes; at += nbytes / 40 + 1) {
            lmc_test_flip(archive_name(i), at, 4);
            CU_ASSERT_NOT_EQUAL(
                lmc_test_restore(archive_name(2), NULL, NULL, lmc_test_path("restored"), &diag), LMC_OK);
            CU_ASSERT_FALSE(lmc_test_exists(lmc_test_path("restored")));
            lmc_test_flip(archive_name(i), at, 4);
        }
    }
    lmc_test_flip(archive_name(0), lmc_test_nbytes(archive_name(0)) - 100, 4);
    CU_ASSERT_NOT_EQUAL(lmc_test_restore(archive_name(2), NULL, NULL, lmc_test_path("restored"), &diag),
                        LMC_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "s0.safetensors.lmc tensor w"));
    CU_ASSERT_STRING_EQUAL(diag.file, archive_name(2));
    drop_chain(3);
}

/* Without the base, everything else is verified. */
LMC_TEST(test_verify_without)
{
    lmc_st_result result = LMC_INIT(lmc_st_result);
    lmc_test_write_snapshot(plain_name(0), 0);
    lmc_test_write_snapshot(plain_name(1), 1);
    CU_ASSERT_EQUAL(lmc_test_convert(plain_name(1), plain_name(0), archive_name(1), 1, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_verify_with(archive_name(1), NULL, &result, &diag), LMC_OK);
    (void)unlink(plain_name(0));
    CU_ASSERT_EQUAL(lmc_test_verify_with(archive_name(1), NULL, &result, &diag), LMC_ERR_BASE);
    CU_ASSERT_EQUAL(result.damaged_count, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "s0.safetensors"));
    const size_t nbytes = lmc_test_nbytes(archive_name(1));
    lmc_test_flip(archive_name(1), nbytes - 10, 1); /* the tensor "short", which needs none */
    CU_ASSERT_EQUAL(lmc_test_verify_with(archive_name(1), NULL, &result, &diag), LMC_ERR_CHECKSUM);
    CU_ASSERT_EQUAL(result.damaged_count, 1);
    drop_chain(2);
}

/* What needs no base, and what can be had of it, is saved. */
LMC_TEST(test_salvage)
{
    lmc_st_result result = LMC_INIT(lmc_st_result);
    lmc_test_settings options = lmc_test_options(2);
    const char *const out = lmc_test_path("restored");
    options.salvage = 1;
    options.force = 1;
    lmc_test_write_snapshot(plain_name(0), 0);
    lmc_test_write_snapshot(plain_name(1), 1);
    CU_ASSERT_EQUAL(lmc_test_convert(plain_name(1), plain_name(0), archive_name(1), 1, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_restore_as(archive_name(1), out, &options, &result, &diag), LMC_OK);
    CU_ASSERT_TRUE(lmc_test_same_files(out, plain_name(1)));
    lmc_test_flip(plain_name(0), lmc_test_nbytes(plain_name(0)) - 20000, 1); /* in w */
    CU_ASSERT_EQUAL(lmc_test_restore_as(archive_name(1), out, &options, &result, &diag), LMC_ERR_BASE);
    CU_ASSERT_EQUAL(result.damaged_count, 1);
    CU_ASSERT_STRING_EQUAL(diag.tensor, "w");
    (void)unlink(plain_name(0));
    CU_ASSERT_EQUAL(lmc_test_restore_as(archive_name(1), out, &options, &result, &diag), LMC_ERR_BASE);
    CU_ASSERT_TRUE(result.damaged_count >= 1 && result.damaged_count <= 2);
    (void)unlink(out);
    drop_chain(2);
}

/* No call writes to a base. */
LMC_TEST(test_never_written)
{
    make_chain(3, write_tiny);
    (void)unlink(plain_name(0));
    CU_ASSERT_EQUAL(lmc_test_convert(plain_name(2), archive_name(1), archive_name(1), 1, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_test_convert(plain_name(2), archive_name(1), archive_name(0), 1, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_test_restore(archive_name(2), archive_name(1), NULL, archive_name(1), &diag),
                    LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_test_restore(archive_name(2), archive_name(1), NULL, archive_name(0), &diag),
                    LMC_ERR_ARG);
    lmc_test_expect_restored(archive_name(2), NULL, NULL, plain_name(2));
    drop_chain(3);
}

LMC_TEST(test_named_base)
{
    lmc_st_file *file = NULL;
    const lmc_st_file *base = NULL;
    unsigned char got[4000];
    make_chain(2, write_tiny);
    CU_ASSERT_EQUAL(rename(archive_name(0), lmc_test_path("away")), 0);
    (void)unlink(plain_name(0));
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(archive_name(1), NULL, &file, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_read(file, NULL, 0, got, sizeof got, &diag), LMC_ERR_BASE);
    CU_ASSERT_EQUAL(lmc_st_open_base(file, 0, &base, &diag), LMC_ERR_BASE);
    lmc_st_close(file);
    lmc_st_open_options options = LMC_INIT(lmc_st_open_options);
    options.base = lmc_test_path("away");
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(archive_name(1), &options, &file, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_read(file, NULL, 0, got, sizeof got, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_open_base(file, 0, &base, &diag), LMC_OK);
    CU_ASSERT_STRING_EQUAL(lmc_st_path(base), lmc_test_path("away"));
    lmc_st_close(file);
    (void)unlink(lmc_test_path("away"));
    drop_chain(2);
}

/* A base whose name cannot be recorded. */
LMC_TEST(test_name)
{
    const char *const bad = lmc_test_path("not \xff utf-8");
    if (os_list_separator[0] == ';')
        LMC_TEST_SKIP("all names are UTF-8 on Windows");
    write_tiny(bad, 0);
    write_tiny(plain_name(1), 1);
    CU_ASSERT_EQUAL(lmc_test_convert(plain_name(1), bad, archive_name(1), 1, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_test_convert(plain_name(1), lmc_test_dir, archive_name(1), 1, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_test_convert(plain_name(1), plain_name(0), archive_name(1), 1, &diag), LMC_ERR_IO);
    CU_ASSERT_EQUAL(diag.os_errno, ENOENT);
    CU_ASSERT_FALSE(lmc_test_exists(archive_name(1)));
    (void)unlink(bad);
    drop_chain(2);
}

/* Each file of a directory has the file of its name as its base, or none. */
LMC_TEST(test_directories)
{
    static const char *const folders[] = {"d0", "d0/sub", "d1", "d1/sub", "d2", "d2/sub"};
    lmc_test_settings options = lmc_test_options(2);
    const char *const a1 = lmc_test_path("a1");
    const char *const d0 = lmc_test_path("d0");
    const char *const dirs[] = {a1, d0};
    lmc_st_writer *writer = NULL;
    for (size_t i = 0; i < 6; i++)
        CU_ASSERT_EQUAL(mkdir(lmc_test_path(folders[i]), 0755), 0);
    for (unsigned i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "d%u/m.safetensors", i);
        write_tiny(lmc_test_path(name), i);
        snprintf(name, sizeof name, "d%u/sub/m.safetensors", i);
        write_tiny(lmc_test_path(name), i + 3);
        snprintf(name, sizeof name, "d%u/only%u.safetensors", i, i);
        writer = lmc_test_writer();
        CU_ASSERT_EQUAL(lmc_test_add(writer, "w", LMC_DTYPE_U8, 3 + i, "only"), LMC_OK);
        lmc_test_write_plain(writer, lmc_test_path(name));
    }
    options.base = d0;
    CU_ASSERT_EQUAL(lmc_test_convert_as(lmc_test_path("d1"), lmc_test_path("a1"), &options, NULL, &diag),
                    LMC_OK);
    options.base = a1;
    options.base_dirs = dirs;
    options.base_dir_count = 2;
    CU_ASSERT_EQUAL(lmc_test_convert_as(lmc_test_path("d2"), lmc_test_path("a2"), &options, NULL, &diag),
                    LMC_OK);
    CU_ASSERT_EQUAL(chain_length(lmc_test_path("a2/only2.safetensors.lmc")), 1);
    CU_ASSERT_EQUAL(lmc_test_compare_as(lmc_test_path("a2"), lmc_test_path("d2"), &options, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_verify_as(lmc_test_path("a2"), &options, NULL, &diag), LMC_OK);
    options.base = NULL;
    CU_ASSERT_EQUAL(lmc_test_verify_as(lmc_test_path("a2"), &options, NULL, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_restore_as(lmc_test_path("a2"), lmc_test_path("r2"), &options, NULL, &diag),
                    LMC_OK);
    CU_ASSERT_TRUE(
        lmc_test_same_files(lmc_test_path("r2/sub/m.safetensors"), lmc_test_path("d2/sub/m.safetensors")));
    options.base_dir_count = 0;
    CU_ASSERT_EQUAL(lmc_test_verify_as(lmc_test_path("a2"), &options, NULL, &diag), LMC_ERR_BASE);
    CU_ASSERT_EQUAL(lmc_test_restore_as(lmc_test_path("a2"), lmc_test_path("r3"), &options, NULL, &diag),
                    LMC_ERR_BASE);
    CU_ASSERT_FALSE(lmc_test_exists(lmc_test_path("r3")));
    options.base = lmc_test_path("d0/m.safetensors");
    CU_ASSERT_EQUAL(lmc_test_verify_as(lmc_test_path("a2"), &options, NULL, &diag), LMC_ERR_ARG);
    options.base = d0;
    options.force = 1;
    CU_ASSERT_EQUAL(lmc_test_convert_as(lmc_test_path("d1"), lmc_test_path("d0"), &options, NULL, &diag),
                    LMC_ERR_ARG);
    for (size_t i = 0; i < 6; i += 2)
        lmc_test_remove(lmc_test_path(folders[i]));
    lmc_test_remove(lmc_test_path("a1"));
    lmc_test_remove(lmc_test_path("a2"));
    lmc_test_remove(lmc_test_path("r2"));
}

LMC_TEST_DIR_MAIN("st_base_chain")
