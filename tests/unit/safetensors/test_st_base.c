/*
 * test_st_base.c - archives with a base: what is coded against what, and that it comes back.
 */
#include "lmc_st_experimental.h"
#include "lmc_test_st_base.h"

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

#define COUNT LMC_TEST_VALUE_COUNT

static unsigned char w[2 * COUNT], v[2 * COUNT], u[2 * COUNT], f[4 * COUNT], g[4 * COUNT];
static const char *old, *new, *archive;

static void set_paths(void)
{
    old = lmc_test_path("old.safetensors");
    new = lmc_test_path("new.safetensors");
    archive = lmc_test_path("new.safetensors.lmc");
}

static void clean(void)
{
    (void)unlink(old);
    (void)unlink(new);
    (void)unlink(archive);
}

LMC_TEST(test_begin)
{
    set_paths();
}

/* Converts `new` against `old`, with one and with three threads, and restores it. */
static void convert(void)
{
    const char *const again = lmc_test_path("again");
    CU_ASSERT_EQUAL(lmc_test_convert(new, old, archive, 1, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_convert(new, old, again, 3, &diag), LMC_OK);
    CU_ASSERT_TRUE(lmc_test_same_files(archive, again));
    (void)unlink(again);
    lmc_test_expect_restored(archive, NULL, NULL, new);
    CU_ASSERT_EQUAL(lmc_test_verify_with(archive, NULL, NULL, &diag), LMC_OK);
}

static void expect_base(const char *name, int base, lmc_st_base_place place)
{
    lmc_st_base_place found = LMC_ST_BASE_FILE;
    lmc_st_mode mode = LMC_ST_MODE_PLAIN;
    const int index = lmc_test_base_of(archive, name, &found, &mode);
    CU_ASSERT_EQUAL(index, base);
    CU_ASSERT_TRUE(base < 0 || found == place);
}

LMC_TEST(test_snapshots)
{
    lmc_st_file *file = NULL;
    lmc_st_base base = LMC_INIT(lmc_st_base);
    lmc_test_write_snapshot(old, 0);
    lmc_test_write_snapshot(new, 3);
    convert();
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(archive, NULL, &file, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_base_info(file, 0, &base), LMC_OK);
    CU_ASSERT_STRING_EQUAL(base.name, "old.safetensors");
    CU_ASSERT_EQUAL(base.original_nbytes, lmc_test_nbytes(old));
    CU_ASSERT_TRUE(base.tensor_count >= 1);
    lmc_st_close(file);
    CU_ASSERT_TRUE(lmc_test_nbytes(archive) < lmc_test_nbytes(new) / 4);
    expect_base("w", 0, LMC_ST_BASE_FILE);
    CU_ASSERT_STRING_EQUAL(lmc_st_mode_name(LMC_ST_MODE_DELTA), "delta");
    clean();
}

/* Of itself little more than the header is left. */
LMC_TEST(test_itself)
{
    lmc_test_write_snapshot(new, 3);
    CU_ASSERT_EQUAL(lmc_test_convert(new, new, archive, 2, &diag), LMC_OK);
    CU_ASSERT_TRUE(lmc_test_nbytes(archive) < 1500);
    lmc_test_expect_restored(archive, new, NULL, new);
    clean();
}

/* Added, removed, reshaped, retyped, renamed. */
LMC_TEST(test_matching)
{
    lmc_test_snapshot(w, COUNT, 0);
    lmc_test_snapshot(v, COUNT, 1);
    lmc_test_weights(u, sizeof u, 12345);
    const uint64_t flat[1] = {COUNT};
    const uint64_t square[2] = {COUNT / 100, 100};
    lmc_st_writer *writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "kept", 4, LMC_DTYPE_BF16, flat, 1, w), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "removed", 7, LMC_DTYPE_BF16, flat, 1, u), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "reshaped", 8, LMC_DTYPE_BF16, square, 2, w), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "retyped", 7, LMC_DTYPE_F16, flat, 1, w), LMC_OK);
    lmc_test_write_plain(writer, old);
    writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "added", 5, LMC_DTYPE_I16, flat, 1, w), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "kept", 4, LMC_DTYPE_BF16, flat, 1, v), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "renamed", 7, LMC_DTYPE_BF16, flat, 1, u), LMC_OK);
    v[COUNT] ^= 1; /* so that it is no alias */
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "retyped", 7, LMC_DTYPE_U16, flat, 1, w), LMC_OK);
    lmc_test_write_plain(writer, new);
    convert();
    /* numbers in `old`: by falling alignment of the dtype, then name: BF16 kept, removed, reshaped, F16 retyped */
    expect_base("added", -1, LMC_ST_BASE_FILE);
    expect_base("kept", 0, LMC_ST_BASE_FILE);
    expect_base("renamed", 1, LMC_ST_BASE_FILE);
    expect_base("retyped", -1, LMC_ST_BASE_FILE);
    clean();
}

/* A BF16 copy of F32 masters of the same file costs next to nothing, with and without a base, whatever
 * stands first; a tensor that is none is not taken for one. */
LMC_TEST(test_masters)
{
    lmc_test_snapshot_f32(f, COUNT, 2);
    lmc_test_snapshot_f32(g, COUNT, 5);
    lmc_test_rounded(w, f, COUNT);
    lmc_test_rounded(v, g, COUNT);
    const uint32_t special[] = {0x7fc12345u, 0xff800001u, 0x7f800000u, 0x80000000u, 0x00000001u,
                                0x7f7fffffu, 0x3f808000u, 0x3f818000u, 0xffffffffu};
    memcpy(f, special, sizeof special);
    lmc_test_rounded(w, f, COUNT);
    for (unsigned has_base = 0; has_base < 2; has_base++) {
        lmc_st_writer *writer = lmc_test_writer();
        CU_ASSERT_EQUAL(lmc_test_add(writer, "f", LMC_DTYPE_F32, COUNT, f), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_add(writer, "g", LMC_DTYPE_F32, COUNT, g), LMC_OK);
        lmc_test_write_plain(writer, old);
        writer = lmc_test_writer();
        CU_ASSERT_EQUAL(lmc_test_add(writer, "f", LMC_DTYPE_F32, COUNT, f), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_add(writer, "g", LMC_DTYPE_F32, COUNT, g), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_add(writer, "w", LMC_DTYPE_BF16, COUNT, w), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_add(writer, "x", LMC_DTYPE_BF16, COUNT, v), LMC_OK);
        lmc_test_write_plain(writer, new);
        CU_ASSERT_EQUAL(lmc_test_convert(old, NULL, archive, 1, &diag), LMC_OK);
        const size_t without = lmc_test_nbytes(archive);
        CU_ASSERT_EQUAL(lmc_test_convert(new, has_base ? old : NULL, archive, 2, &diag), LMC_OK);
        CU_ASSERT_TRUE(lmc_test_nbytes(archive) < (has_base ? 2500 : without + 1000));
        lmc_test_expect_restored(archive, NULL, NULL, new);
        expect_base("w", 0, LMC_ST_BASE_SELF);
        expect_base("x", 1, LMC_ST_BASE_SELF);
        expect_base("f", has_base ? 0 : -1, LMC_ST_BASE_FILE);
    }
    clean();
}

/* The masters are in the base only. */
LMC_TEST(test_masters_in_base)
{
    lmc_test_snapshot_f32(f, COUNT, 2);
    lmc_test_rounded(w, f, COUNT);
    lmc_st_writer *writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_test_add(writer, "f", LMC_DTYPE_F32, COUNT, f), LMC_OK);
    lmc_test_write_plain(writer, old);
    writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_test_add(writer, "f", LMC_DTYPE_BF16, COUNT, w), LMC_OK);
    lmc_test_write_plain(writer, new);
    convert();
    CU_ASSERT_TRUE(lmc_test_nbytes(archive) < 1500);
    expect_base("f", 0, LMC_ST_BASE_FILE);
    clean();
}

/* Same values, other shape: no copy. */
LMC_TEST(test_no_master)
{
    const uint64_t square[2] = {COUNT / 100, 100};
    lmc_test_snapshot_f32(f, COUNT, 2);
    lmc_test_rounded(w, f, COUNT);
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_test_add(writer, "f", LMC_DTYPE_F32, COUNT, f), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_add(writer, "w", 1, LMC_DTYPE_BF16, square, 2, w), LMC_OK);
    lmc_test_write_plain(writer, new);
    CU_ASSERT_EQUAL(lmc_test_convert(new, NULL, archive, 1, &diag), LMC_OK);
    expect_base("w", -1, LMC_ST_BASE_SELF);
    clean();
}

/* An alias has no base of its own, nor is it one. */
LMC_TEST(test_alias)
{
    lmc_st_mode mode;
    lmc_st_base_place place;
    lmc_test_snapshot(w, COUNT, 0);
    lmc_test_snapshot(v, COUNT, 1);
    lmc_test_snapshot_f32(f, COUNT, 2);
    lmc_test_rounded(u, f, COUNT);
    for (unsigned step = 0; step < 2; step++) {
        const unsigned char *const content = step == 0 ? w : v;
        lmc_st_writer *const writer = lmc_test_writer();
        CU_ASSERT_EQUAL(lmc_test_add(writer, "f", LMC_DTYPE_F32, COUNT, f), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_add(writer, "f tied", LMC_DTYPE_F32, COUNT, f), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_add(writer, "u", LMC_DTYPE_BF16, COUNT, u), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_add(writer, "u tied", LMC_DTYPE_BF16, COUNT, u), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_add(writer, "w", LMC_DTYPE_BF16, COUNT, content), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_add(writer, "w tied", LMC_DTYPE_BF16, COUNT, content), LMC_OK);
        lmc_test_write_plain(writer, step == 0 ? old : new);
    }
    convert();
    CU_ASSERT_EQUAL(lmc_test_base_of(archive, "w tied", &place, &mode), -1);
    CU_ASSERT_EQUAL(mode, LMC_ST_MODE_ALIAS);
    expect_base("u", 0, LMC_ST_BASE_SELF);
    expect_base("w", 4, LMC_ST_BASE_FILE);
    expect_base("f", 0, LMC_ST_BASE_FILE);
    clean();
}

/* A program's archive. */
LMC_TEST(test_writer)
{
    lmc_test_settings options = lmc_test_options(2);
    lmc_test_write_snapshot(old, 0);
    lmc_test_snapshot(w, COUNT, 1);
    lmc_test_snapshot_f32(f, COUNT, 2);
    lmc_test_rounded(v, f, COUNT);
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_test_add(writer, "w", LMC_DTYPE_BF16, COUNT, w), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "f", LMC_DTYPE_F32, COUNT, f), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "v", LMC_DTYPE_BF16, COUNT, v), LMC_OK);
    options.base = old;
    CU_ASSERT_EQUAL(lmc_test_writer_write_as(writer, archive, &options, NULL, &diag), LMC_OK);
    lmc_test_write_plain(writer, new);
    lmc_test_expect_restored(archive, NULL, NULL, new);
    expect_base("w", 0, LMC_ST_BASE_FILE);
    expect_base("v", 0, LMC_ST_BASE_SELF);
    clean();
}

/* Parts of a tensor, by an open file. */
LMC_TEST(test_read_range)
{
    static unsigned char got[2 * COUNT];
    lmc_st_file *file = NULL;
    const size_t places[] = {0, 1, 2047, 70001, sizeof got - 1};
    lmc_test_write_snapshot(old, 0);
    lmc_test_write_snapshot(new, 2);
    lmc_test_snapshot(w, COUNT, 2);
    convert();
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(archive, NULL, &file, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_read(file, NULL, 0, got, sizeof got, &diag), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(got, w, sizeof w), 0);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const size_t nbytes = sizeof got - places[i] < 3000 ? sizeof got - places[i] : 3000;
        CU_ASSERT_EQUAL(lmc_st_read_range(file, NULL, 0, places[i], nbytes, got, &diag), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(got, w + places[i], nbytes), 0);
    }
    lmc_st_close(file);
    clean();
}

/* Without a base and without masters nothing is recorded of either. */
LMC_TEST(test_none)
{
    lmc_st_file *file = NULL;
    lmc_st_base base = LMC_INIT(lmc_st_base);
    lmc_test_write_snapshot(new, 0);
    CU_ASSERT_EQUAL(lmc_test_convert(new, NULL, archive, 1, &diag), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(archive, NULL, &file, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_base_info(file, 0, &base), LMC_OK);
    CU_ASSERT_PTR_NULL(base.name);
    const lmc_st_file *next = file;
    CU_ASSERT_EQUAL(lmc_st_open_base(file, 0, &next, &diag), LMC_OK);
    CU_ASSERT_PTR_NULL(next);
    CU_ASSERT_STRING_EQUAL(lmc_st_path(file), archive);
    lmc_st_close(file);
    lmc_st_open_options options = LMC_INIT(lmc_st_open_options);
    options.base = "x";
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(archive, &options, &file, &diag), LMC_OK);
    lmc_st_close(file);
    /* a base of which nothing can be used */
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_test_add(writer, "other", LMC_DTYPE_U8, 100, w), LMC_OK);
    lmc_test_write_plain(writer, old);
    CU_ASSERT_EQUAL(lmc_test_convert(new, old, lmc_test_path("other.lmc"), 1, &diag), LMC_OK);
    CU_ASSERT_TRUE(lmc_test_same_files(archive, lmc_test_path("other.lmc")));
    (void)unlink(lmc_test_path("other.lmc"));
    clean();
}

LMC_TEST_DIR_MAIN("st_base")
