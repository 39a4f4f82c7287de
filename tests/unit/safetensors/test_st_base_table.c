/*
 * test_st_base_table.c - the base list of an archive's table: round trips, and everything that is refused in it, in
 * memory and in archives.
 */
#include "lmc_st_experimental.h"
#include "lmc_test_st_base.h"

#include "safetensors/archive/table.h"

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

#define TENSOR_COUNT 6

/* ---- in memory ---- */

typedef struct forged {
    unsigned char *bytes;
    size_t nbytes;
    size_t list_at; /* the base list */
    size_t links_at;
} forged;

static const st_link usual_links[] = {
    {0, 3, LMC_ST_BASE_FILE, 0}, {2, 4, LMC_ST_BASE_SELF, 0}, {4, 70000, LMC_ST_BASE_FILE, 0}};

static forged make_table(const st_bases *bases)
{
    uint64_t hashes[TENSOR_COUNT] = {1, 2, 3, 4, 5, 6};
    unsigned char text[] = "{}";
    forged made = {0};
    const st_table table = {.original_nbytes = 10,
                            .header = text,
                            .header_nbytes = 2,
                            .hashes = hashes,
                            .tensor_count = TENSOR_COUNT,
                            .bases = *bases};
    made.nbytes = (size_t)st_table_nbytes(TENSOR_COUNT, 0, st_bases_nbytes(bases), 0, sizeof(text) - 1);
    made.bytes = malloc(made.nbytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(made.bytes);
    st_table_write(&table, text, sizeof(text) - 1, ST_TABLE_METHOD_STORED, made.bytes);
    made.list_at = ST_TABLE_HEAD_NBYTES + 2 + 8 * TENSOR_COUNT;
    return made;
}

static forged make(const st_link *links, size_t link_count, const char *name)
{
    st_base_entry file = {(char *)name, 123, 456, 789, 0};
    const st_bases bases = {.links = (st_link *)links,
                            .link_count = link_count,
                            .files = &file,
                            .file_count = name[0] == '\0' ? 0 : 1};
    forged made = make_table(&bases);
    made.links_at = made.list_at + 32 + (strlen(name) + 7) / 8 * 8;
    return made;
}

/* Reads the table with its checksum made right. */
static lmc_status read_again(const forged *made, st_table *table)
{
    lmc_store64(made->bytes + made->nbytes - 8, st_hash(made->bytes, made->nbytes - 8));
    return st_table_read(table, &lmc_memory_default, made->bytes, made->nbytes, 0, &diag);
}

static void expect(forged made, lmc_status status)
{
    st_table table;
    CU_ASSERT_EQUAL(read_again(&made, &table), status);
    st_table_free(&table);
    free(made.bytes);
}

LMC_TEST(test_round_trip)
{
    st_table table;
    const forged made = make(usual_links, 3, "step.safetensors");
    CU_ASSERT_EQUAL(read_again(&made, &table), LMC_OK);
    CU_ASSERT_EQUAL(table.bases.link_count, 3);
    CU_ASSERT_EQUAL(memcmp(table.bases.links, usual_links, sizeof usual_links), 0);
    CU_ASSERT_EQUAL_FATAL(table.bases.file_count, 1);
    CU_ASSERT_STRING_EQUAL(table.bases.files[0].path, "step.safetensors");
    CU_ASSERT_EQUAL(table.bases.files[0].original_nbytes, 123);
    CU_ASSERT_EQUAL(table.bases.files[0].header_hash, 456);
    CU_ASSERT_EQUAL(table.bases.files[0].content_hash, 789);
    CU_ASSERT_EQUAL(st_bases_count_links(&table.bases, 0), 2);
    CU_ASSERT_EQUAL(st_bases_find(&table.bases, 2)->base, 4);
    CU_ASSERT_PTR_NULL(st_bases_find(&table.bases, 3));
    st_table_free(&table);
    free(made.bytes);
    expect(make(usual_links + 1, 1, ""), LMC_OK);
}

/* ---- several files ---- */

static const st_link several_links[] = {{0, 3, LMC_ST_BASE_FILE, 1},
                                        {1, 9, LMC_ST_BASE_FILE, 0},
                                        {2, 4, LMC_ST_BASE_SELF, 0},
                                        {4, 70000, LMC_ST_BASE_FILE, 1}};

static forged make_several(const char *first, const char *second)
{
    st_base_entry files[] = {{(char *)first, 123, 456, 789, 1}, {(char *)second, 12, 45, 78, 0}};
    const st_bases bases = {.links = (st_link *)several_links,
                            .link_count = 4,
                            .files = files,
                            .file_count = 2,
                            .is_several = 1,
                            .has_lengths = 1};
    forged made = make_table(&bases);
    made.links_at = made.list_at + 8 + 2 * 32 + (strlen(first) + 7) / 8 * 8 + (strlen(second) + 7) / 8 * 8;
    return made;
}

LMC_TEST(test_several_round_trip)
{
    st_table table;
    const forged made = make_several("org/base.lmc/model.safetensors", "x");
    CU_ASSERT_EQUAL(read_again(&made, &table), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(table.bases.file_count, 2);
    CU_ASSERT_EQUAL(table.bases.link_count, 4);
    CU_ASSERT_EQUAL(memcmp(table.bases.links, several_links, sizeof several_links), 0);
    CU_ASSERT_STRING_EQUAL(table.bases.files[0].path, "org/base.lmc/model.safetensors");
    CU_ASSERT_STRING_EQUAL(st_base_entry_name(&table.bases.files[0]), "model.safetensors");
    CU_ASSERT_EQUAL(table.bases.files[0].is_equal, 1);
    CU_ASSERT_STRING_EQUAL(table.bases.files[1].path, "x");
    CU_ASSERT_EQUAL(table.bases.files[1].content_hash, 78);
    CU_ASSERT_EQUAL(table.bases.has_lengths, 1);
    CU_ASSERT_EQUAL(st_bases_count_links(&table.bases, 1), 2);
    st_table_free(&table);
    free(made.bytes);
}

/* One number of the list is another one: each rule is broken once. */
LMC_TEST(test_several_refused)
{
    static const struct {
        size_t at; /* from the list on, or from the links on */
        int is_link;
        uint32_t value;
        lmc_status status;
    } cases[] = {{0, 0, 3, LMC_ERR_CORRUPT},
                 {0, 0, 0, LMC_ERR_CORRUPT},
                 {4, 0, 1, LMC_ERR_CORRUPT},
                 {4, 0, 256, LMC_ERR_CORRUPT},
                 {8 + 24, 0, 0, LMC_ERR_CORRUPT},
                 {8 + 24, 0, 2000, LMC_ERR_CORRUPT},
                 {8 + 28, 0, 2, LMC_ERR_UNSUPPORTED},
                 {0, 1, 7, LMC_ERR_CORRUPT},
                 {8, 1, 0, LMC_ERR_CORRUPT},
                 {4, 1, 3u << 24, LMC_ERR_CORRUPT},
                 {4, 1, 2u << 24 | 3, LMC_OK},
                 {12, 1, 1u << 24, LMC_ERR_CORRUPT},
                 {16 + 4, 1, 2u << 24 | 2, LMC_ERR_CORRUPT},
                 {16 + 4, 1, 2u << 24 | 6, LMC_ERR_CORRUPT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        forged made = make_several("a/b", "cde");
        lmc_store32(made.bytes + (cases[i].is_link ? made.links_at : made.list_at) + cases[i].at,
                    cases[i].value);
        expect(made, cases[i].status);
    }
}

LMC_TEST(test_several_paths)
{
    static const char *const bad[] = {"/a", "a/", "a//b", "a/../b", "./a", "a/\xff", "..", "x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect(make_several(bad[i], "x"), LMC_ERR_CORRUPT); /* the last: twice the same */
    expect(make_several("a b/.c/\xc3\xa9", "x"), LMC_OK);
    forged made = make_several("abc", "x");
    made.bytes[made.list_at + 8 + 32 + 3] = 1; /* behind the path */
    expect(made, LMC_ERR_CORRUPT);
    made = make_several("abc", "x");
    made.bytes[ST_TABLE_HEAD_NBYTES - 32] |= 1u << ST_TABLE_FEATURE_BASE; /* both lists */
    expect(made, LMC_ERR_CORRUPT);
}

LMC_TEST(test_names)
{
    static const char *const good[] = {"a", "...", ".a", "a b", "\xc3\xa9", "a\nb", "12345678"};
    static const char *const bad[] = {"/", "a/b", "/etc/passwd", "..", ".", "../x", "a\xff", "\xc0\x80"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        expect(make(usual_links, 1, good[i]), LMC_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect(make(usual_links, 1, bad[i]), LMC_ERR_CORRUPT);
    forged made = make(usual_links, 1, "abc");
    made.bytes[made.list_at + 33] = 0; /* a NUL within */
    expect(made, LMC_ERR_CORRUPT);
    made = make(usual_links, 1, "abc");
    made.bytes[made.list_at + 39] = 1; /* behind it */
    expect(made, LMC_ERR_CORRUPT);
    char longest[256];
    memset(longest, 'n', sizeof longest);
    longest[255] = '\0';
    expect(make(usual_links, 1, longest), LMC_OK);
    made = make(usual_links, 1, longest); /* 256: the padding would serve */
    made.bytes[made.list_at + 32 + 255] = 'n';
    lmc_store32(made.bytes + made.list_at + 4, 256);
    expect(made, LMC_ERR_CORRUPT);
}

LMC_TEST(test_base_without_links)
{
    const size_t fields[] = {8, 16, 24};
    for (size_t i = 0; i < 3; i++) {
        const forged made = make(usual_links + 1, 1, "");
        made.bytes[made.list_at + fields[i]] = 1;
        expect(made, LMC_ERR_CORRUPT);
    }
    expect(make(usual_links + 1, 1, "name"), LMC_ERR_CORRUPT);
    expect(make(usual_links, 3, ""), LMC_ERR_CORRUPT);
}

LMC_TEST(test_links)
{
    static const struct {
        st_link links[2];
        size_t count;
        lmc_status status;
    } kinds[] = {
        {{{5, 0, LMC_ST_BASE_FILE, 0}}, 1, LMC_OK},
        {{{6, 0, LMC_ST_BASE_FILE, 0}}, 1, LMC_ERR_CORRUPT}, /* no such tensor */
        {{{2, 0, LMC_ST_BASE_FILE, 0}, {2, 0, LMC_ST_BASE_FILE, 0}}, 2, LMC_ERR_CORRUPT},
        {{{3, 0, LMC_ST_BASE_FILE, 0}, {2, 0, LMC_ST_BASE_FILE, 0}}, 2, LMC_ERR_CORRUPT},
        {{{0, 0, LMC_ST_BASE_FILE, 0}, {3, 3, LMC_ST_BASE_SELF, 0}}, 2, LMC_ERR_CORRUPT}, /* itself */
        {{{0, 0, LMC_ST_BASE_FILE, 0}, {3, 6, LMC_ST_BASE_SELF, 0}}, 2, LMC_ERR_CORRUPT},
        {{{1, 0, LMC_ST_BASE_FILE, 0}, {3, 1, LMC_ST_BASE_SELF, 0}}, 2, LMC_OK},
        {{{1, 5, LMC_ST_BASE_SELF, 0}, {3, 1, LMC_ST_BASE_SELF, 0}}, 2, LMC_ERR_CORRUPT},
        {{{1, 3, LMC_ST_BASE_SELF, 0}, {3, 1, LMC_ST_BASE_SELF, 0}}, 2, LMC_ERR_CORRUPT}, /* each other */
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const int has_file = kinds[i].links[0].place == LMC_ST_BASE_FILE;
        expect(make(kinds[i].links, kinds[i].count, has_file ? "n" : ""), kinds[i].status);
    }
}

LMC_TEST(test_sizes)
{
    const uint32_t counts[] = {0, 2, 4, 0x20000003u, UINT32_MAX};
    const uint32_t names[] = {0, 8, 17, 255, 256, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const forged made = make(usual_links, 3, "step.safetensors");
        lmc_store32(made.bytes + made.list_at, counts[i]);
        expect(made, LMC_ERR_CORRUPT);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const forged made = make(usual_links, 3, "step.safetensors");
        lmc_store32(made.bytes + made.list_at + 4, names[i]);
        expect(made, LMC_ERR_CORRUPT);
    }
    forged made = make(usual_links, 3, "step.safetensors");
    made.bytes[8] = 0; /* the feature is not set, the list is there */
    expect(made, LMC_ERR_CORRUPT);
    made = make(usual_links, 3, "step.safetensors");
    made.bytes[8] = 3; /* an alias list is promised */
    expect(made, LMC_ERR_CORRUPT);
}

/* Every bit flipped behind a right checksum: refused, or something that keeps the rules. */
LMC_TEST(test_every_bit)
{
    st_table table;
    const forged made = make(usual_links, 3, "step.safetensors");
    for (size_t bit = made.list_at * 8; bit < (made.nbytes - 24) * 8; bit++) {
        made.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (read_again(&made, &table) == LMC_OK) {
            CU_ASSERT_EQUAL(table.bases.link_count, 3);
            CU_ASSERT_TRUE(
                st_base_path_is_valid(table.bases.files[0].path, strlen(table.bases.files[0].path)));
        }
        st_table_free(&table);
        made.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t cut = 0; cut < made.nbytes; cut++) {
        const forged shorter = {made.bytes, cut, 0, 0};
        if (cut >= 8) {
            CU_ASSERT_NOT_EQUAL(read_again(&shorter, &table), LMC_OK);
            st_table_free(&table);
        }
    }
    free(made.bytes);
}

/* ---- in archives ---- */

/* An archive whose table can be changed in place. */
typedef struct opened {
    unsigned char *bytes;
    size_t nbytes;
    unsigned char *table, *list, *links, *check;
} opened;

static opened open_archive(const char *path)
{
    opened archive = {0};
    archive.bytes = lmc_test_read(path, &archive.nbytes);
    archive.table = archive.bytes + 8 + lmc_load64(archive.bytes);
    CU_ASSERT_EQUAL_FATAL(archive.table[8], 1); /* a base, no aliases */
    archive.list =
        archive.table + 40 + lmc_load64(archive.table + 32) + 8 * (size_t)lmc_load32(archive.table + 12);
    archive.links = archive.list + 32 + (lmc_load32(archive.list + 4) + 7) / 8 * 8;
    archive.check = archive.links + 8 * (size_t)lmc_load32(archive.list) + 16;
    CU_ASSERT_EQUAL_FATAL(lmc_load64(archive.check),
                          st_hash(archive.table, (size_t)(archive.check - archive.table)));
    return archive;
}

static void write_archive(opened *archive, const char *path)
{
    lmc_store64(archive->check, st_hash(archive->table, (size_t)(archive->check - archive->table)));
    lmc_test_write(path, archive->bytes, archive->nbytes);
    free(archive->bytes);
}

/* Two tensors in the base, of one type and size and of another, and a third one that is left alone. */
static void make_files(void)
{
    static unsigned char w[4000], v[4000];
    for (unsigned step = 0; step < 2; step++) {
        lmc_st_writer *const writer = lmc_test_writer();
        lmc_test_snapshot(w, sizeof w / 2, step);
        CU_ASSERT_EQUAL(lmc_test_add(writer, "a", LMC_DTYPE_BF16, 2000, w), LMC_OK);
        memcpy(v, w, sizeof v);
        v[0] ^= 128;
        CU_ASSERT_EQUAL(lmc_test_add(writer, "b", LMC_DTYPE_BF16, 2000, v), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_add(writer, "c", LMC_DTYPE_BF16, 1000, w + 2000), LMC_OK);
        if (step == 1)
            CU_ASSERT_EQUAL(lmc_test_add(writer, "d", LMC_DTYPE_U8, 20, w), LMC_OK);
        lmc_test_write_plain(writer, lmc_test_path(step == 0 ? "old" : "new"));
    }
    CU_ASSERT_EQUAL(
        lmc_test_convert(lmc_test_path("new"), lmc_test_path("old"), lmc_test_path("x.lmc"), 1, &diag),
        LMC_OK);
}

static void expect_restore(lmc_status status, const char *text)
{
    CU_ASSERT_EQUAL(lmc_test_restore(lmc_test_path("x.lmc"), NULL, NULL, lmc_test_path("out"), &diag),
                    status);
    if (text != NULL)
        CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, text));
    CU_ASSERT_EQUAL(lmc_test_exists(lmc_test_path("out")), status == LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_verify_with(lmc_test_path("x.lmc"), NULL, NULL, &diag), status);
    (void)unlink(lmc_test_path("out"));
    (void)unlink(lmc_test_path("x.lmc"));
    (void)unlink(lmc_test_path("old"));
    (void)unlink(lmc_test_path("new"));
}

/* `at`: byte of link 0 (tensor "a"). */
static void change_link(size_t at, unsigned char value, lmc_status status, const char *text)
{
    make_files();
    opened archive = open_archive(lmc_test_path("x.lmc"));
    CU_ASSERT_EQUAL(lmc_load32(archive.list), 3);
    archive.links[at] = value;
    write_archive(&archive, lmc_test_path("x.lmc"));
    expect_restore(status, text);
}

LMC_TEST(test_forged_archives)
{
    change_link(4, 0, LMC_OK, NULL);
    change_link(4, 1, LMC_ERR_BASE, "holds other content");                     /* a against b */
    change_link(4, 2, LMC_ERR_CORRUPT, "another type or size");                 /* against c */
    change_link(4, 3, LMC_ERR_CORRUPT, "another type or size");                 /* against none */
    change_link(7, 0x80, LMC_ERR_CORRUPT, NULL);                                /* itself */
    change_link(16, 3, LMC_ERR_CORRUPT, "disagree on whether it needs a base"); /* d instead of c */
}

LMC_TEST(test_forged_base)
{
    static const struct {
        size_t at;
        lmc_status status;
        const char *text;
    } kinds[] = {
        {8, LMC_ERR_BASE, "old is another file"},
        {16, LMC_ERR_BASE, "old is another file"},
        {24, LMC_ERR_CHECKSUM, "another content of the base"},
        {32, LMC_ERR_BASE, "needs the base nld"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        make_files();
        opened archive = open_archive(lmc_test_path("x.lmc"));
        archive.list[kinds[i].at] ^= 1;
        write_archive(&archive, lmc_test_path("x.lmc"));
        expect_restore(kinds[i].status, kinds[i].text);
    }
}

LMC_TEST_DIR_MAIN("st_base_table")
