/*
 * test_st_store_damage.c - an index of a store that is damaged or hostile gives an error or a worse choice.
 */
#include "lmc_test_store.h"

#define PAGE_NBYTES 8192

/* Uses an index that may be anything. */
static void use_index(const char *path)
{
    static st_index_hits hits[TENSOR_COUNT];
    st_index_tensor wanted[TENSOR_COUNT];
    st_index index;
    listed listed = {0};
    int is_new = 0;
    fill_model(wanted, 1, 500, 10);
    largest_nbytes = 0;
    if (st_index_open(&index, path, &how, &is_new, &diag) == LMC_OK) {
        (void)st_index_list(&index, list_file, &listed, &diag);
        (void)st_index_search(&index, wanted, TENSOR_COUNT, NULL, NULL, hits, &diag);
        if (st_index_begin(&index, &diag) == LMC_OK) {
            if (st_index_add_file(&index, "new", "m1/x.lmc", 1, 1, wanted, TENSOR_COUNT, NULL, &diag) ==
                    LMC_OK &&
                st_index_remove_model(&index, "m2", &diag) == LMC_OK)
                (void)st_index_remove_model(&index, "m3", &diag);
            st_index_rollback(&index);
        }
    }
    st_index_close(&index);
    CU_ASSERT(largest_nbytes < 1 << 20);
}

static void make_index(const char *path)
{
    st_index index;
    open_index(&index, path);
    add_models(&index, 6);
    st_index_close(&index);
}

LMC_TEST(test_damaged_bytes)
{
    const char *const step_text = getenv("LMC_TEST_STEP");
    const size_t step = step_text ? (size_t)atoi(step_text) : 83;
    const char *const path = lmc_test_path("index.sqlite");
    size_t nbytes = 0;
    make_index(path);
    unsigned char *const bytes = lmc_test_read(path, &nbytes);
    for (size_t at = 0; at < nbytes; at += at < 100 ? 1 : step) {
        const unsigned char old = bytes[at];
        bytes[at] ^= at % 3 == 0 ? 0xff : at % 3 == 1 ? 0x01 : 0x80;
        lmc_test_write(path, bytes, nbytes);
        use_index(path);
        bytes[at] = old;
    }
    for (size_t at = 0; at + 64 <= nbytes; at += 29 * step) { /* whole regions */
        unsigned char old[64];
        memcpy(old, bytes + at, 64);
        memset(bytes + at, at % 2 ? 0 : 0xff, 64);
        lmc_test_write(path, bytes, nbytes);
        use_index(path);
        memcpy(bytes + at, old, 64);
    }
    for (size_t at = 1; at < nbytes; at += 37 * step) {
        lmc_test_write(path, bytes, at);
        use_index(path);
    }
    free(bytes);
    unlink(path);
}

LMC_TEST(test_no_index)
{
    if (!lmc_test_has_links())
        LMC_TEST_SKIP("links cannot be made here");
    const char *const path = lmc_test_path("index.sqlite");
    const char *const link = lmc_test_path("link.sqlite");
    unsigned char bytes[5000];
    st_index index;
    int is_new = 0;
    lmc_test_weights(bytes, sizeof bytes, 1);
    lmc_test_write(path, bytes, sizeof bytes);
    CU_ASSERT_EQUAL(st_index_open(&index, path, &how, &is_new, &diag), LMC_ERR_CORRUPT);
    st_index_close(&index);
    unlink(path);
    CU_ASSERT_EQUAL(symlink("index.sqlite", link), 0);
    CU_ASSERT_EQUAL(st_index_open(&index, link, &how, &is_new, &diag), LMC_ERR_CORRUPT);
    st_index_close(&index);
    CU_ASSERT_FALSE(lmc_test_exists(path));
    unlink(link);
    CU_ASSERT_EQUAL(st_index_open(&index, lmc_test_path("none/index.sqlite"), &how, &is_new, &diag),
                    LMC_ERR_IO);
    st_index_close(&index);
    CU_ASSERT_EQUAL(st_index_open(&index, lmc_test_dir, &how, &is_new, &diag), LMC_ERR_CORRUPT);
    st_index_close(&index);
}

/* Links in the way to the directory are followed. */
LMC_TEST(test_linked_directory)
{
    if (!lmc_test_has_links())
        LMC_TEST_SKIP("links cannot be made here");
    const char *const link = lmc_test_path("link");
    st_index index;
    CU_ASSERT_EQUAL(symlink(".", link), 0);
    open_index(&index, lmc_test_path("link/index.sqlite"));
    st_index_close(&index);
    CU_ASSERT_TRUE(lmc_test_exists(lmc_test_path("index.sqlite")));
    unlink(lmc_test_path("index.sqlite"));
    unlink(link);
}

static void change(const char *path, const char *sql)
{
    sqlite3 *handle = NULL;
    CU_ASSERT_EQUAL_FATAL(sqlite3_open(path, &handle), SQLITE_OK);
    CU_ASSERT_EQUAL(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(handle);
}

LMC_TEST(test_foreign_schema)
{
    static const char *const changes[] = {
        "CREATE TRIGGER t AFTER INSERT ON file BEGIN DELETE FROM file; END",
        "CREATE VIEW v AS SELECT * FROM file",
        "CREATE TABLE more(x)",
        "CREATE INDEX more ON file(nbytes)",
        "DROP INDEX file_model",
        "ALTER TABLE kind ADD COLUMN more",
        "DROP TABLE coarse; CREATE VIEW coarse AS SELECT 1 AS id, zeroblob(1000000000) AS rows",
        "PRAGMA user_version = 2",
        "PRAGMA application_id = 1",
        "PRAGMA journal_mode = WAL",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = sql || ' ' WHERE name = 'kind'",
    };
    const char *const path = lmc_test_path("index.sqlite");
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        st_index index;
        int is_new = 0;
        make_index(path);
        change(path, changes[i]);
        CU_ASSERT_EQUAL(st_index_open(&index, path, &how, &is_new, &diag), LMC_ERR_CORRUPT);
        st_index_close(&index);
        unlink(path);
    }
}

/* Our schema with contents that no writer makes. */
LMC_TEST(test_hostile_rows)
{
    static const char *const changes[] = {
        "UPDATE coarse SET rows = zeroblob(5)",
        "UPDATE coarse SET rows = zeroblob(10000000)",
        "UPDATE coarse SET rows = 'text'",
        "DELETE FROM coarse WHERE id % 2 = 0",
        "UPDATE coarse SET id = -id",
        "UPDATE kind SET row_count = 4294967295",
        "UPDATE kind SET row_count = -1, dead_count = -5",
        "UPDATE kind SET row_count = 9223372036854775807, dead_count = 3",
        "UPDATE kind SET row_count = 'many'",
        "UPDATE kind SET dead_count = row_count",
        "UPDATE kind SET id = id + 4294967296",
        "UPDATE kind SET id = -id",
        "DELETE FROM kind",
        "UPDATE file SET tensor_count = 2000000000",
        "UPDATE file SET tensor_count = -1",
        "UPDATE file SET tensor_count = 1",
        "UPDATE file SET tensors = zeroblob(6 * 288)",
        "UPDATE file SET tensors = zeroblob(3)",
        "UPDATE file SET tensors = 17",
        "UPDATE file SET model = x'00ff', path = id || char(0)",
        "UPDATE file SET model = 'm2'",
        "UPDATE file SET id = id + 5000000000",
        "UPDATE file SET id = -id",
        "DELETE FROM file WHERE id > 2",
        "UPDATE sqlite_sequence SET seq = 9223372036854775807",
        "UPDATE sqlite_sequence SET seq = 'x'",
        "UPDATE equal SET file = 99999999999999, tensor = -1",
        "DELETE FROM equal; INSERT INTO equal SELECT a.id, b.id, a.id FROM file a, file b",
    };
    const char *const path = lmc_test_path("index.sqlite");
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        make_index(path);
        change(path, changes[i]);
        use_index(path);
        unlink(path);
    }
}

static void store_big_endian(unsigned char *dst, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        dst[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* A journal that names another one, which SQLite would delete after it has rolled back. */
LMC_TEST(test_hostile_journal)
{
    static const unsigned char magic[] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
    const char *const path = lmc_test_path("index.sqlite");
    const char *const journal_path = lmc_test_path("index.sqlite-journal");
    const char *const victim = lmc_test_path("victim");
    unsigned char journal[1024 + LMC_TEST_PATH_NBYTES] = {0};
    const uint32_t length = (uint32_t)strlen(victim);
    uint32_t sum = 0;
    st_index index;
    int is_new = 0;
    make_index(path);
    lmc_test_write(victim, "precious", 8);
    memcpy(journal, magic, 8);
    store_big_endian(journal + 16, 1); /* pages, then bytes of a sector and of a page */
    store_big_endian(journal + 20, 512);
    store_big_endian(journal + 24, PAGE_NBYTES);
    unsigned char *const name = journal + 512 + 4;
    store_big_endian(name - 4, (1 << 30) / PAGE_NBYTES + 1);
    for (uint32_t i = 0; i < length; i++) {
        name[i] = (unsigned char)victim[i];
        sum += name[i];
    }
    store_big_endian(name + length, length);
    store_big_endian(name + length + 4, sum);
    memcpy(name + length + 8, magic, 8);
    lmc_test_write(journal_path, journal, 512 + 4 + length + 16);
    CU_ASSERT_EQUAL(st_index_open(&index, path, &how, &is_new, &diag), LMC_ERR_CORRUPT);
    st_index_close(&index);
    CU_ASSERT_TRUE(lmc_test_exists(victim));
    unlink(journal_path);
    unlink(victim);
    unlink(path);
}

/* Makes a page an inner one of a table, whose children are this page and then another one many times. */
static void make_inner_page(unsigned char *page, size_t head, uint32_t first, uint32_t rest)
{
    enum { CELL_COUNT = 1000 };
    memset(page + head, 0, PAGE_NBYTES - head);
    page[head] = 5;
    page[head + 3] = CELL_COUNT >> 8;
    page[head + 4] = CELL_COUNT & 0xff;
    page[head + 5] = (PAGE_NBYTES - 5 * CELL_COUNT) >> 8;
    page[head + 6] = (PAGE_NBYTES - 5 * CELL_COUNT) & 0xff;
    store_big_endian(page + head + 8, rest);
    for (unsigned i = 0; i < CELL_COUNT; i++) {
        const unsigned at = PAGE_NBYTES - 5 * (i + 1);
        page[head + 12 + 2 * i] = (unsigned char)(at >> 8);
        page[head + 13 + 2 * i] = (unsigned char)(at & 0xff);
        store_big_endian(page + at, i == 0 ? first : rest);
        page[at + 4] = (unsigned char)(i & 0x7f);
    }
}

/* The list of tables has one of its pages a billion times. */
LMC_TEST(test_endless_schema)
{
    const char *const path = lmc_test_path("index.sqlite");
    size_t nbytes = 0;
    st_index index;
    int is_new = 0;
    make_index(path);
    unsigned char *const old = lmc_test_read(path, &nbytes);
    unsigned char *const bytes = calloc(1, nbytes + 4 * PAGE_NBYTES);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    memcpy(bytes, old, nbytes);
    CU_ASSERT_EQUAL_FATAL(nbytes % PAGE_NBYTES, 0);
    CU_ASSERT_EQUAL_FATAL(bytes[100], 13);
    const uint32_t page_count = (uint32_t)(nbytes / PAGE_NBYTES);
    const unsigned cell_count = bytes[104];
    unsigned char *const all = bytes + nbytes;    /* all of the tables */
    unsigned char *const one = all + PAGE_NBYTES; /* the index that belongs to a table */
    memcpy(all, bytes, PAGE_NBYTES);
    memmove(all, all + 100, 8 + 2 * cell_count);
    memcpy(one, all, PAGE_NBYTES);
    one[4] = 1;
    for (unsigned i = 0; i < cell_count; i++) {
        const size_t at = (size_t)one[8 + 2 * i] << 8 | one[9 + 2 * i];
        for (unsigned j = 0; j < 20; j++)
            if (memcmp(one + at + j, "sqlite_autoindex", 16) == 0)
                memcpy(one + 8, one + 8 + 2 * i, 2);
    }
    make_inner_page(one + PAGE_NBYTES, 0, page_count + 2, page_count + 2);
    make_inner_page(one + 2 * PAGE_NBYTES, 0, page_count + 3, page_count + 3);
    make_inner_page(bytes, 100, page_count + 1, page_count + 4);
    store_big_endian(bytes + 28, page_count + 4);
    lmc_test_write(path, bytes, nbytes + 4 * PAGE_NBYTES);
    CU_ASSERT_EQUAL(st_index_open(&index, path, &how, &is_new, &diag), LMC_ERR_CORRUPT);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "interrupted"));
    st_index_close(&index);
    free(bytes);
    free(old);
    unlink(path);
}

LMC_TEST_DIR_MAIN("store damage")
