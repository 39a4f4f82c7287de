/*
 * test_st_base_files.c - archives with bases in several files, and with bases of other lengths: written by way of
 * options->choose_bases, read, searched for in a store.
 */
#include "lmc_test_st_base.h"

#include "safetensors/base/search.h"
#include "safetensors/convert/convert_file.h"
#include "safetensors/convert/match.h"

#include <sys/stat.h>

#define COUNT 70000u   /* values of "a": several blocks */
#define LEAF_COUNT 250 /* base files of one archive in a test of many */

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);
static unsigned char old_a[2 * COUNT], new_a[2 * COUNT], new_b[2 * COUNT];

/* ---- a choice of bases ---- */

/* Tensor `name` of the source against tensor `base` of a file. */
typedef struct wish {
    const char *name, *base;
    uint32_t file;
    lmc_base_form form;
} wish;

typedef struct choice {
    const char *files[LEAF_COUNT]; /* relative to the test's folder; NULL ends them */
    const char *paths[LEAF_COUNT]; /* to be recorded; NULL: the name */
    const wish *wishes;
    size_t wish_count;
} choice;

static lmc_status choose(void *user, const struct st_source *source, const struct st_aliases *aliases,
                         struct st_base_set *bases, struct st_matches *matches, lmc_st_diag *fault)
{
    const choice *const wanted = user;
    (void)aliases;
    for (size_t i = 0; i < LEAF_COUNT && wanted->files[i]; i++) {
        lmc_st_file *file = NULL;
        const st_open how = {.path = lmc_test_path(wanted->files[i]), .fd = -1};
        const char *const path = wanted->paths[i] ? wanted->paths[i] : wanted->files[i];
        const char *const recorded = wanted->paths[i] || !strrchr(path, '/') ? path : strrchr(path, '/') + 1;
        const size_t nbytes = strlen(recorded);
        const size_t suffix =
            nbytes > 4 && strcmp(recorded + nbytes - 4, ".lmc") == 0 && !wanted->paths[i] ? 4 : 0;
        LMC_TRY(st_file_open(&how, &file, fault));
        LMC_TRY(st_base_set_add(bases, file, recorded, nbytes - suffix, &lmc_memory_default, fault));
        CU_ASSERT_EQUAL(bases->count, i + 1);
    }
    for (size_t i = 0; i < wanted->wish_count; i++) {
        const wish *const one = &wanted->wishes[i];
        const st_string name = {one->name, strlen(one->name)};
        const st_string base_name = {one->base, strlen(one->base)};
        size_t index = 0;
        size_t base = 0;
        if (!st_header_find(source->header, name, &index))
            continue;
        CU_ASSERT_TRUE_FATAL(st_header_find(&bases->list[one->file].file->header, base_name, &base));
        st_matches_set(
            matches,
            &(st_match){1, {(uint32_t)index, (uint32_t)base, LMC_ST_BASE_FILE, one->file}, one->form});
    }
    return LMC_OK;
}

static lmc_status convert(const char *in, const char *out, const choice *wanted)
{
    st_options options;
    lmc_st_result result = LMC_INIT(lmc_st_result);
    st_options_init(&options);
    options.force = 1;
    options.thread_count = 2;
    options.choose_bases = choose;
    options.choose_user = (void *)wanted;
    const char *const out_path = lmc_test_path(out);
    const st_place place = st_place_of(out_path);
    return st_convert_file(lmc_test_path(in), &place, &options, &result, &diag);
}

/* ---- files ---- */

static void write_one(const char *path, const char *name, lmc_dtype dtype, uint64_t count, const void *bytes)
{
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_test_add(writer, name, dtype, count, bytes), LMC_OK);
    lmc_test_write_plain(writer, lmc_test_path(path));
}

/* Two base files and one that needs both; "same" is as in the second. */
static void make_files(void)
{
    lmc_test_snapshot(old_a, COUNT, 0);
    lmc_test_snapshot(new_a, COUNT, 1);
    lmc_test_weights(new_b, sizeof new_b, 11);
    (void)mkdir(lmc_test_path("store"), 0755);
    (void)mkdir(lmc_test_path("store/x"), 0755);
    (void)mkdir(lmc_test_path("store/y"), 0755);
    lmc_test_write(lmc_test_path("store/store.json"), (const unsigned char *)"{}", 2);
    write_one("store/x/one", "a", LMC_DTYPE_BF16, COUNT, old_a);
    write_one("store/y/two", "same", LMC_DTYPE_BF16, COUNT, new_b);
    lmc_st_writer *const writer = lmc_test_writer();
    CU_ASSERT_EQUAL(lmc_test_add(writer, "a", LMC_DTYPE_BF16, COUNT, new_a), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "same", LMC_DTYPE_BF16, COUNT, new_b), LMC_OK);
    lmc_test_write_plain(writer, lmc_test_path("store/x/new"));
}

static void remove_files(void)
{
    static const char *const names[] = {"store/x/one",      "store/x/new",     "store/x/new.lmc",
                                        "store/y/two",      "store/y/two.lmc", "store/y/new.lmc",
                                        "store/store.json", "new.lmc"};
    static const char *const folders[] = {"store/x", "store/y", "store"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unlink(lmc_test_path(names[i]));
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        (void)rmdir(lmc_test_path(folders[i]));
}

static const wish both[] = {{"a", "a", 0, LMC_BASE_PLAIN}, {"same", "same", 1, LMC_BASE_PLAIN}};

static uint32_t features_of(const char *path)
{
    size_t nbytes = 0;
    unsigned char *const bytes = lmc_test_read(lmc_test_path(path), &nbytes);
    const uint32_t features = lmc_load32(bytes + 8 + lmc_load64(bytes) + 8);
    free(bytes);
    return features;
}

static void expect_bases(const char *path, const char *const *paths, const int *are_equal, size_t count)
{
    lmc_st_file *file = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path(path), NULL, &file, &diag), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_base_count(file), count);
    for (size_t i = 0; i < count; i++) {
        lmc_st_base base = LMC_INIT(lmc_st_base);
        const lmc_st_file *found = NULL;
        CU_ASSERT_EQUAL(lmc_st_base_info(file, i, &base), LMC_OK);
        CU_ASSERT_STRING_EQUAL(base.path, paths[i]);
        CU_ASSERT_EQUAL(base.is_equal, are_equal[i]);
        CU_ASSERT_EQUAL(base.tensor_count, 1);
        CU_ASSERT_EQUAL(lmc_st_open_base(file, i, &found, &diag), LMC_OK);
        CU_ASSERT_PTR_NOT_NULL(found);
    }
    lmc_st_base none = LMC_INIT(lmc_st_base);
    CU_ASSERT_EQUAL(lmc_st_base_info(file, count, &none), LMC_OK);
    CU_ASSERT_PTR_NULL(none.name);
    lmc_st_close(file);
}

LMC_TEST(test_two_files_in_a_store)
{
    static const char *const paths[] = {"x/one", "y/two"};
    static const int are_equal[] = {0, 1};
    static const choice wanted = {{"store/x/one", "store/y/two"}, {"x/one", "y/two"}, both, 2};
    make_files();
    CU_ASSERT_EQUAL_FATAL(convert("store/x/new", "store/x/new.lmc", &wanted), LMC_OK);
    CU_ASSERT_EQUAL(features_of("store/x/new.lmc"), 1u << 4);
    expect_bases("store/x/new.lmc", paths, are_equal, 2);
    const char *const archive = lmc_test_path("store/x/new.lmc");
    const char *const plain = lmc_test_path("store/x/new");
    lmc_test_expect_restored(archive, NULL, NULL, plain);
    lmc_st_result result = LMC_INIT(lmc_st_result);
    CU_ASSERT_EQUAL(lmc_test_verify_with(archive, NULL, &result, &diag), LMC_OK);
    /* a base that is an archive is found as well */
    CU_ASSERT_EQUAL(
        lmc_test_convert(lmc_test_path("store/y/two"), NULL, lmc_test_path("store/y/two.lmc"), 1, &diag),
        LMC_OK);
    (void)unlink(lmc_test_path("store/y/two"));
    lmc_test_expect_restored(archive, NULL, NULL, plain);
    /* named files: each for the base that it fits, the other in a directory */
    (void)unlink(lmc_test_path("store/store.json"));
    CU_ASSERT_EQUAL(lmc_test_restore(archive, NULL, NULL, lmc_test_path("out"), &diag), LMC_ERR_BASE);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "y/two"));
    lmc_test_expect_restored(archive, lmc_test_path("store/y/two.lmc"), NULL, plain);
    lmc_test_expect_restored(archive, lmc_test_path("store/x/one"), lmc_test_path("store/y"), plain);
    /* the output is one of the bases */
    CU_ASSERT_EQUAL(
        lmc_test_restore(archive, NULL, lmc_test_path("store/y"), lmc_test_path("store/y/two.lmc"), &diag),
        LMC_ERR_ARG);
    remove_files();
}

LMC_TEST(test_use_base)
{
    static const choice wanted = {{"store/x/one", "store/y/two"}, {"x/one", "y/two"}, both, 2};
    lmc_st_file *file = NULL;
    lmc_st_file *bases[2] = {NULL};
    lmc_ctx *ctx = NULL;
    static unsigned char content[2 * COUNT];
    uint64_t index = 0;
    uint64_t number = 9;
    uint64_t base = 9;
    lmc_st_base_place where = LMC_ST_BASE_SELF;
    make_files();
    CU_ASSERT_EQUAL_FATAL(convert("store/x/new", "new.lmc", &wanted), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path("new.lmc"), NULL, &file, &diag), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path("store/x/one"), NULL, &bases[0], &diag), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path("store/y/two"), NULL, &bases[1], &diag), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(NULL, &ctx), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_use_base(file, bases[1], &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_use_base(file, bases[1], &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_use_base(file, bases[0], &diag), LMC_OK);
    CU_ASSERT_TRUE(lmc_st_find_tensor_sized(file, "same", 4, &index));
    CU_ASSERT_EQUAL(lmc_st_tensor_base(file, index, &where, &number, &base), 1);
    CU_ASSERT_TRUE(where == LMC_ST_BASE_FILE && number == 1 && base == 0);
    CU_ASSERT_EQUAL(lmc_st_read(file, ctx, index, content, sizeof content, &diag), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(content, new_b, sizeof content), 0);
    lmc_st_close(file);
    lmc_ctx_free(ctx);
    lmc_st_close(bases[0]);
    lmc_st_close(bases[1]);
    remove_files();
}

static void expect_content(const lmc_st_file *file, const unsigned char *content)
{
    static unsigned char found[2 * COUNT];
    lmc_ctx *ctx = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(NULL, &ctx), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_read(file, ctx, 0, found, sizeof found, &diag), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(found, content, sizeof found), 0);
    lmc_ctx_free(ctx);
}

/* The base of a file may be read after that file was closed, with the base of its own that was opened meanwhile, whose
 * header is that of the closed file. */
LMC_TEST(test_base_outlives_its_user)
{
    static const wish middle_on_first[] = {{"middle", "a", 0, LMC_BASE_PLAIN}};
    static const wish last_on_middle[] = {{"a", "middle", 0, LMC_BASE_PLAIN}};
    static const choice of_middle = {{"first"}, {NULL}, middle_on_first, 1};
    static const choice of_last = {{"middle.lmc"}, {NULL}, last_on_middle, 1};
    static unsigned char contents[3][2 * COUNT];
    lmc_st_file *last = NULL;
    lmc_st_file *middle = NULL;
    for (unsigned i = 0; i < 3; i++)
        lmc_test_snapshot(contents[i], COUNT, i);
    write_one("first", "a", LMC_DTYPE_BF16, COUNT, contents[0]);
    write_one("middle", "middle", LMC_DTYPE_BF16, COUNT, contents[1]);
    write_one("last", "a", LMC_DTYPE_BF16, COUNT, contents[2]);
    CU_ASSERT_EQUAL_FATAL(convert("middle", "middle.lmc", &of_middle), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(convert("last", "last.lmc", &of_last), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path("last.lmc"), NULL, &last, &diag), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path("middle.lmc"), NULL, &middle, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_use_base(last, middle, &diag), LMC_OK);
    expect_content(last, contents[2]);
    lmc_st_close(last);
    expect_content(middle, contents[1]);
    lmc_st_close(middle);
    static const char *const names[] = {"first", "middle", "middle.lmc", "last", "last.lmc"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unlink(lmc_test_path(names[i]));
}

/* What no frame needs is left out; a single plain name has the old list. */
LMC_TEST(test_unneeded_files)
{
    static const char *const paths[] = {"two"};
    static const int are_equal[] = {0}; /* the old list does not say it */
    static const wish one[] = {{"same", "same", 1, LMC_BASE_PLAIN}};
    static const choice wanted = {{"store/x/one", "store/y/two"}, {NULL, NULL}, one, 1};
    static const choice slash = {{"store/x/one", "store/y/two"}, {NULL, "y/two"}, one, 1};
    static const choice none = {{"store/x/one"}, {NULL}, NULL, 0};
    make_files();
    CU_ASSERT_EQUAL_FATAL(convert("store/x/new", "store/y/new.lmc", &wanted), LMC_OK);
    CU_ASSERT_EQUAL(features_of("store/y/new.lmc"), 1);
    expect_bases("store/y/new.lmc", paths, are_equal, 1);
    CU_ASSERT_EQUAL_FATAL(convert("store/x/new", "store/y/new.lmc", &slash), LMC_OK);
    CU_ASSERT_EQUAL(features_of("store/y/new.lmc"), 1u << 4);
    CU_ASSERT_EQUAL_FATAL(convert("store/x/new", "store/y/new.lmc", &none), LMC_OK);
    CU_ASSERT_EQUAL(features_of("store/y/new.lmc"), 0);
    remove_files();
}

LMC_TEST(test_bad_paths)
{
    static const char *const bad[] = {"/one", "x//one", "../one", "x/../one", "x/.", "x/one/", ""};
    make_files();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const choice wanted = {{"store/x/one"}, {bad[i]}, both, 1};
        CU_ASSERT_EQUAL(convert("store/x/new", "new.lmc", &wanted), LMC_ERR_ARG);
    }
    const choice twice = {{"store/x/one", "store/y/two"}, {"x/one", "x/one"}, both, 2};
    CU_ASSERT_EQUAL(convert("store/x/new", "new.lmc", &twice), LMC_ERR_ARG);
    remove_files();
}

/* A base file below counts: five archives with 250 of them each are too many for one that needs them all. */
LMC_TEST(test_too_many_files)
{
    if (!lmc_test_has_links())
        LMC_TEST_SKIP("links cannot be made here");
    static struct {
        char name[16], path[16];
    } leaves[LEAF_COUNT];
    static wish wishes[LEAF_COUNT];
    static unsigned char contents[LEAF_COUNT][4000];
    static choice wanted;
    lmc_st_writer *const writer = lmc_test_writer();
    lmc_test_snapshot(new_b, COUNT, 0);
    write_one("leaf", "a", LMC_DTYPE_BF16, 2000, new_b);
    for (uint32_t i = 0; i < LEAF_COUNT; i++) {
        snprintf(leaves[i].name, sizeof leaves[i].name, "t%u", (unsigned)i);
        snprintf(leaves[i].path, sizeof leaves[i].path, "d%u/leaf", (unsigned)i);
        memcpy(contents[i], new_b, sizeof contents[i]);
        contents[i][2 * i]++; /* no aliases */
        CU_ASSERT_EQUAL(lmc_test_add(writer, leaves[i].name, LMC_DTYPE_BF16, 2000, contents[i]), LMC_OK);
        wishes[i] = (wish){leaves[i].name, "a", i, LMC_BASE_PLAIN};
        wanted.files[i] = "leaf";
        wanted.paths[i] = leaves[i].path;
    }
    lmc_test_write_plain(writer, lmc_test_path("mid"));
    wanted.wishes = wishes;
    wanted.wish_count = LEAF_COUNT;
    CU_ASSERT_EQUAL_FATAL(convert("mid", "mid.lmc", &wanted), LMC_OK);
    for (uint32_t i = 0; i < LEAF_COUNT; i++) { /* they are all one file, at many places */
        leaves[i].path[strlen(leaves[i].path) - strlen("/leaf")] = '\0';
        CU_ASSERT_EQUAL(symlink(".", lmc_test_path(leaves[i].path)), 0);
    }
    lmc_test_write(lmc_test_path("store.json"), (const unsigned char *)"{}", 2);
    lmc_test_expect_restored(lmc_test_path("mid.lmc"), NULL, NULL, lmc_test_path("mid"));
    static const wish top[] = {{"a", "t0", 0, LMC_BASE_PLAIN}};
    write_one("top", "a", LMC_DTYPE_BF16, 2000, new_b);
    choice many = {{"mid.lmc", "mid.lmc", "mid.lmc", "mid.lmc", NULL}, {"a", "b", "c", "d"}, top, 1};
    CU_ASSERT_EQUAL(convert("top", "top.lmc", &many), LMC_OK);
    many.files[4] = "mid.lmc";
    many.paths[4] = "e";
    CU_ASSERT_EQUAL(convert("top", "top.lmc", &many), LMC_ERR_LIMIT);
    static const char *const files[] = {"leaf", "mid", "mid.lmc", "top", "top.lmc", "store.json"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        (void)unlink(lmc_test_path(files[i]));
    for (uint32_t i = 0; i < LEAF_COUNT; i++)
        (void)unlink(lmc_test_path(leaves[i].path));
}

/* ---- other lengths ---- */

/* Reads all of tensor "a", and ranges of it, of an open archive. */
static void expect_ranges(const char *path, const unsigned char *content, size_t nbytes)
{
    lmc_st_file *file = NULL;
    uint64_t index = 0;
    lmc_ctx *ctx = NULL;
    unsigned char *const dst = malloc(nbytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dst);
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(NULL, &ctx), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path(path), NULL, &file, &diag), LMC_OK);
    CU_ASSERT_TRUE(lmc_st_find_tensor_sized(file, "a", 1, &index));
    for (size_t k = 0; k < 12; k++) {
        const size_t begin = nbytes * k / 12;
        const size_t part = (nbytes - begin) * (k + 1) / 12;
        CU_ASSERT_EQUAL(lmc_st_read_range(file, ctx, index, begin, part, dst, &diag), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(dst, content + begin, part), 0);
    }
    lmc_st_close(file);
    lmc_ctx_free(ctx);
    free(dst);
}

/* Converts the file `in`, whose tensor "a" has this content, against `base`, and reads it. */
static void expect_length(const char *in, const char *base, const unsigned char *content, size_t nbytes,
                          uint32_t features)
{
    static const wish one[] = {{"a", "a", 0, LMC_BASE_PLAIN}};
    char out[64];
    snprintf(out, sizeof out, "%s.lmc", in);
    const choice wanted = {{base}, {NULL}, one, 1};
    CU_ASSERT_EQUAL_FATAL(convert(in, out, &wanted), LMC_OK);
    CU_ASSERT_EQUAL(features_of(out), features);
    const char *const archive = lmc_test_path(out);
    const char *const plain = lmc_test_path(in);
    lmc_test_expect_restored(archive, NULL, NULL, plain);
    CU_ASSERT_EQUAL(lmc_test_verify_with(archive, NULL, NULL, &diag), LMC_OK);
    expect_ranges(out, content, nbytes);
}

/* A chain of plain file, archive and archive, whose lengths differ in each step, in both directions. */
LMC_TEST(test_lengths)
{
    static const uint32_t counts[] = {COUNT, 66000, 65536, 32768};
    static const size_t kinds = sizeof counts / sizeof counts[0];
    lmc_test_snapshot(old_a, COUNT, 0);
    lmc_test_snapshot(new_a, COUNT, 1);
    for (size_t i = 0; i < kinds; i++) {
        write_one("l0", "a", LMC_DTYPE_BF16, counts[i], old_a);
        for (size_t k = 0; k < 3; k++) {
            lmc_test_snapshot(new_b, COUNT, 2);
            write_one("l1", "a", LMC_DTYPE_BF16, counts[k], new_a);
            expect_length("l1", "l0", new_a, 2 * counts[k], i == k ? 1 : 1u << 4 | 1u << 5);
            for (size_t j = 0; j < 3; j++) {
                write_one("l2", "a", LMC_DTYPE_BF16, counts[j], new_b);
                expect_length("l2", "l1.lmc", new_b, 2 * counts[j], j == k ? 1 : 1u << 4 | 1u << 5);
            }
        }
    }
    (void)unlink(lmc_test_path("l0"));
    (void)unlink(lmc_test_path("l1"));
    (void)unlink(lmc_test_path("l1.lmc"));
    (void)unlink(lmc_test_path("l2"));
    (void)unlink(lmc_test_path("l2.lmc"));
}

/* BF16 of an F32 tensor that is shorter or longer, plain and as an archive. */
LMC_TEST(test_lengths_of_rounded)
{
    static unsigned char f[4 * COUNT], u[2 * COUNT];
    static const uint32_t counts[] = {40000, COUNT};
    static const wish one[] = {{"a", "f", 0, LMC_BASE_BF16_OF_F32}};
    lmc_test_snapshot_f32(f, COUNT, 0);
    lmc_test_rounded(u, f, COUNT);
    for (size_t i = 0; i < 4; i++) {
        const uint32_t count = counts[i % 2];
        write_one("f0", "f", LMC_DTYPE_F32, COUNT + 40000 - count, f);
        CU_ASSERT_EQUAL(lmc_test_convert(lmc_test_path("f0"), NULL, lmc_test_path("f0.lmc"), 1, &diag),
                        LMC_OK);
        write_one("u", "a", LMC_DTYPE_BF16, count, u);
        const choice wanted = {{i < 2 ? "f0" : "f0.lmc"}, {NULL}, one, 1};
        CU_ASSERT_EQUAL_FATAL(convert("u", "u.lmc", &wanted), LMC_OK);
        CU_ASSERT_EQUAL(features_of("u.lmc"), 1u << 4 | 1u << 5);
        const char *const archive = lmc_test_path("u.lmc");
        lmc_test_expect_restored(archive, NULL, NULL, lmc_test_path("u"));
        expect_ranges("u.lmc", u, 2 * (size_t)count);
    }
    (void)unlink(lmc_test_path("f0"));
    (void)unlink(lmc_test_path("f0.lmc"));
    (void)unlink(lmc_test_path("u"));
    (void)unlink(lmc_test_path("u.lmc"));
}

LMC_TEST_DIR_MAIN("st_base_files")
