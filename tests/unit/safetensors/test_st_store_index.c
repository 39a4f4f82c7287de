/*
 * test_st_store_index.c - the index of a store: what it keeps and finds, and that a damaged or hostile file gives an error
 * or a worse choice.
 */
#include "lmc_test_st.h"

#include "lmc_experimental.h"
#include "safetensors/store/coarse.h"
#include "safetensors/store/index.h"

#define TENSOR_COUNT 6

static lmc_st_diag diag = {.struct_size = sizeof(lmc_st_diag)};

/* The largest block that was asked for. */
static size_t largest_nbytes;

static void *allocate(void *user, size_t nbytes)
{
    (void)user;
    largest_nbytes = nbytes > largest_nbytes ? nbytes : largest_nbytes;
    return malloc(nbytes);
}

static void release(void *user, void *block)
{
    (void)user;
    free(block);
}

static const lmc_allocator memory = {allocate, release, NULL};

/* ---- models ---- */

static uint32_t random_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void fill_sketch(st_sketch *sketch, uint32_t seed, uint32_t own_seed, unsigned changed)
{
    uint32_t state = seed * 2654435761u + 1, own = own_seed * 2246822519u + 1;
    for (size_t i = 0; i < 128; i++) {
        uint16_t value = (uint16_t)(0x3c00 + (random_next(&state) & 0x83ff));
        if (random_next(&own) % 100 < changed)
            value = (uint16_t)(value + 1 + random_next(&own) % 3);
        memcpy(sketch->bytes + 2 * i, &value, 2);
    }
}

/* A model of six BF16 tensors. Of each, `changed` percent of the values differ from those of the family. */
static void fill_model(st_index_tensor *tensors, uint32_t family, uint32_t own_seed, unsigned changed)
{
    static const unsigned shapes[TENSOR_COUNT][2] = {{1000, 512}, {512, 512}, {512, 512},
                                                     {2048, 512}, {1, 512},   {1, 100}};
    memset(tensors, 0, TENSOR_COUNT * sizeof *tensors);
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        tensors[i].dtype = LMC_DTYPE_BF16;
        tensors[i].nbytes = 2 * (uint64_t)shapes[i][0] * shapes[i][1];
        tensors[i].row_nbytes = 2 * (uint64_t)shapes[i][1];
        tensors[i].has_head = shapes[i][0] > 1;
        tensors[i].content_hash = (uint64_t)family << 32 | own_seed << 8 | i;
        fill_sketch(&tensors[i].sketch, 100 * family + i, 100 * own_seed + i, changed);
        if (tensors[i].has_head) {
            fill_sketch(&tensors[i].head, 100 * family + i + 50, 100 * own_seed + i + 50, changed);
            memset(tensors[i].head.bytes + 64, 0, sizeof tensors[i].head - 64);
        }
    }
}

static void open_index(st_index *index, const char *path)
{
    int is_new = 0;
    CU_ASSERT_EQUAL_FATAL(st_index_open(index, path, &memory, &is_new, &diag), LMC_OK);
}

static void begin(st_index *index)
{
    CU_ASSERT_EQUAL_FATAL(st_index_begin(index, &diag), LMC_OK);
}

static void commit(st_index *index)
{
    CU_ASSERT_EQUAL_FATAL(st_index_commit(index, &diag), LMC_OK);
}

/* Adds "mN/x.lmc" of the model "mN". */
static uint32_t add_model(st_index *index, unsigned number, const st_index_tensor *tensors)
{
    char model[20], path[30];
    uint32_t id = 0;
    snprintf(model, sizeof model, "m%u", number);
    snprintf(path, sizeof path, "m%u/x.lmc", number);
    begin(index);
    CU_ASSERT_EQUAL(
        st_index_add_file(index, model, path, 1000 + number, -5, tensors, TENSOR_COUNT, &id, &diag), LMC_OK);
    CU_ASSERT(id > 0);
    commit(index);
    return id;
}

static void remove_model(st_index *index, unsigned number)
{
    char model[20];
    snprintf(model, sizeof model, "m%u", number);
    begin(index);
    CU_ASSERT_EQUAL(st_index_remove_model(index, model, &diag), LMC_OK);
    commit(index);
}

/* Models of three families, where model N is of family N % 3 and N percent of it are changed. */
static void add_models(st_index *index, unsigned count)
{
    st_index_tensor tensors[TENSOR_COUNT];
    for (unsigned i = 0; i < count; i++) {
        fill_model(tensors, i % 3, i + 1, i);
        add_model(index, i, tensors);
    }
}

static void search(st_index *index, const st_index_tensor *wanted, st_index_hits *hits)
{
    CU_ASSERT_EQUAL_FATAL(st_index_search(index, wanted, TENSOR_COUNT, NULL, NULL, hits, &diag), LMC_OK);
}

static int64_t query(st_index *index, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    CU_ASSERT_EQUAL_FATAL(sqlite3_prepare_v2(index->database.handle, sql, -1, &statement, NULL), SQLITE_OK);
    CU_ASSERT_EQUAL_FATAL(sqlite3_step(statement), SQLITE_ROW);
    const int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
}

/* ---- files ---- */

typedef struct listed {
    unsigned count;
    char text[500];
} listed;

static lmc_status list_file(void *user, const st_index_file *file)
{
    listed *const listed = user;
    const size_t used = strlen(listed->text);
    listed->count++;
    snprintf(listed->text + used, sizeof listed->text - used, "%s %s %u %d %u;", file->model, file->path,
             (unsigned)file->nbytes, (int)file->mtime_ns, file->tensor_count);
    return listed->count > 100 ? LMC_ERR_CANCELLED : LMC_OK;
}

static listed list_files(st_index *index)
{
    listed listed = {0};
    CU_ASSERT_EQUAL(st_index_list(index, list_file, &listed, &diag), LMC_OK);
    return listed;
}

LMC_TEST(test_round_trip)
{
    const char *const path = lmc_test_path("index.sqlite");
    st_index index;
    int is_new = 0;
    CU_ASSERT_EQUAL_FATAL(st_index_open(&index, path, &memory, &is_new, &diag), LMC_OK);
    CU_ASSERT_TRUE(is_new);
    CU_ASSERT_EQUAL(list_files(&index).count, 0);
    add_models(&index, 2);
    st_index_close(&index);
    CU_ASSERT_EQUAL_FATAL(st_index_open(&index, path, &memory, &is_new, &diag), LMC_OK);
    CU_ASSERT_FALSE(is_new);
    CU_ASSERT_STRING_EQUAL(list_files(&index).text, "m0 m0/x.lmc 1000 -5 6;m1 m1/x.lmc 1001 -5 6;");
    remove_model(&index, 0);
    remove_model(&index, 7);
    CU_ASSERT_STRING_EQUAL(list_files(&index).text, "m1 m1/x.lmc 1001 -5 6;");
    begin(&index);
    CU_ASSERT_EQUAL(st_index_add_file(&index, "m1", "empty.lmc", 3, 4, NULL, 0, NULL, &diag), LMC_OK);
    CU_ASSERT_EQUAL(st_index_add_file(&index, "m1", "m1/x.lmc", 5, 6, NULL, 0, NULL, &diag),
                    LMC_OK); /* replaced */
    commit(&index);
    CU_ASSERT_STRING_EQUAL(list_files(&index).text, "m1 empty.lmc 3 4 0;m1 m1/x.lmc 5 6 0;");
    CU_ASSERT_EQUAL(query(&index, "SELECT count(*) FROM equal"), 0);
    begin(&index);
    CU_ASSERT_EQUAL(st_index_remove_file(&index, "empty.lmc", &diag), LMC_OK);
    CU_ASSERT_EQUAL(st_index_remove_file(&index, "none", &diag), LMC_OK);
    commit(&index);
    remove_model(&index, 1);
    CU_ASSERT_EQUAL(list_files(&index).count, 0);
    st_index_close(&index);
    unlink(path);
}

LMC_TEST(test_rollback)
{
    const char *const path = lmc_test_path("index.sqlite");
    st_index_tensor tensors[TENSOR_COUNT];
    st_index index;
    open_index(&index, path);
    add_models(&index, 3);
    fill_model(tensors, 9, 9, 0);
    begin(&index);
    CU_ASSERT_EQUAL(st_index_add_file(&index, "x", "x", 1, 1, tensors, TENSOR_COUNT, NULL, &diag), LMC_OK);
    CU_ASSERT_EQUAL(st_index_remove_model(&index, "m1", &diag), LMC_OK);
    st_index_rollback(&index);
    CU_ASSERT_EQUAL(list_files(&index).count, 3);
    begin(&index);
    CU_ASSERT_EQUAL(st_index_remove_model(&index, "m1", &diag), LMC_OK);
    st_index_close(&index); /* rolls back, too */
    open_index(&index, path);
    CU_ASSERT_EQUAL(list_files(&index).count, 3);
    CU_ASSERT_EQUAL(query(&index, "SELECT sum(dead_count) FROM kind"), 0);
    st_index_close(&index);
    unlink(path);
}

/* ---- search ---- */

LMC_TEST(test_search)
{
    static st_index_hits hits[TENSOR_COUNT];
    st_index_tensor wanted[TENSOR_COUNT];
    st_index index;
    open_index(&index, NULL);
    fill_model(wanted, 1, 500, 10);
    search(&index, wanted, hits);
    for (unsigned i = 0; i < TENSOR_COUNT; i++)
        CU_ASSERT_EQUAL(hits[i].count, 0);
    add_models(&index, 60);
    search(&index, wanted, hits);
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(hits[i].count, ST_INDEX_HIT_COUNT_MAX);
        for (unsigned j = 0; j < hits[i].count; j++) {
            const st_index_hit *const hit = &hits[i].list[j];
            CU_ASSERT_EQUAL((hit->file - 1) % 3, 1);
            CU_ASSERT_EQUAL(hit->tensor, i);
            CU_ASSERT_EQUAL(hit->content_hash >> 32, 1);
            CU_ASSERT_EQUAL(hit->nbytes, wanted[i].nbytes);
            CU_ASSERT_EQUAL(hit->pair_count, i == 5 ? 100 : 128);
            CU_ASSERT(j == 0 || hit->distance >= hits[i].list[j - 1].distance);
            CU_ASSERT(!hit->is_equal && !hit->is_head && hit->form == LMC_BASE_PLAIN);
            CU_ASSERT(st_index_predict(&wanted[i], hit) <
                      st_sketch_plain_nbits(LMC_DTYPE_BF16, &wanted[i].sketch, 100));
        }
    }
    fill_model(wanted, 77, 501, 10); /* of no family */
    search(&index, wanted, hits);
    for (unsigned i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(hits[i].count, 0);
    st_index_close(&index);
}

LMC_TEST(test_equal)
{
    static st_index_hits hits[TENSOR_COUNT];
    st_index_tensor wanted[TENSOR_COUNT];
    st_index index;
    open_index(&index, NULL);
    add_models(&index, 20);
    fill_model(wanted, 13 % 3, 13 + 1, 13);
    search(&index, wanted, hits);
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        CU_ASSERT_EQUAL(hits[i].list[0].file, 14);
        CU_ASSERT_TRUE(hits[i].list[0].is_equal);
        CU_ASSERT_EQUAL(hits[i].list[0].distance, 0);
        CU_ASSERT_EQUAL(hits[i].list[0].content_hash, wanted[i].content_hash);
        CU_ASSERT_FALSE(hits[i].list[1].is_equal);
    }
    st_index_close(&index);
}

static int is_even(void *user, uint32_t file, const char *model)
{
    CU_ASSERT_EQUAL(file, (uint32_t)atoi(model + 1) + 1);
    ++*(unsigned *)user;
    return file % 2 == 0;
}

LMC_TEST(test_allowed)
{
    static st_index_hits hits[TENSOR_COUNT];
    st_index_tensor wanted[TENSOR_COUNT];
    st_index index;
    unsigned call_count = 0;
    open_index(&index, NULL);
    add_models(&index, 30);
    fill_model(wanted, 0, 1, 0);
    CU_ASSERT_EQUAL(st_index_search(&index, wanted, TENSOR_COUNT, is_even, &call_count, hits, &diag), LMC_OK);
    CU_ASSERT(call_count > 0 && call_count <= 30);
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        CU_ASSERT_EQUAL(hits[i].count, 5);
        for (unsigned j = 0; j < hits[i].count; j++)
            CU_ASSERT_EQUAL(hits[i].list[j].file % 2, 0);
    }
    st_index_close(&index);
}

/* A BF16 model finds the F32 one that it was rounded from. */
LMC_TEST(test_rounded)
{
    static st_index_hits hits[TENSOR_COUNT];
    st_index_tensor tensors[TENSOR_COUNT], wanted[TENSOR_COUNT];
    st_index index;
    open_index(&index, NULL);
    fill_model(tensors, 1, 1, 0);
    fill_model(wanted, 1, 1, 0);
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        st_sketch rounded;
        tensors[i].dtype = LMC_DTYPE_F32;
        tensors[i].nbytes *= 2;
        tensors[i].has_head = 0;
        st_sketch_round(&tensors[i].sketch, &rounded);
        memcpy(wanted[i].sketch.bytes, rounded.bytes, 128);
    }
    add_model(&index, 1, tensors);
    search(&index, wanted, hits);
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        if (!st_sketch_can_round(tensors[i].nbytes))
            continue;
        CU_ASSERT_EQUAL_FATAL(hits[i].count, 1);
        CU_ASSERT_EQUAL(hits[i].list[0].form, LMC_BASE_BF16_OF_F32);
        CU_ASSERT_EQUAL(hits[i].list[0].pair_count, 64);
        CU_ASSERT_EQUAL(hits[i].list[0].nbytes, 2 * wanted[i].nbytes);
        CU_ASSERT_EQUAL(hits[i].list[0].distance, 0);
        CU_ASSERT_DOUBLE_EQUAL(st_index_predict(&wanted[i], &hits[i].list[0]), 0.01, 1e-9);
    }
    st_index_close(&index);
}

/* A matrix with more rows finds its relative, whether other tensors name the file or not. */
LMC_TEST(test_more_rows)
{
    static st_index_hits hits[TENSOR_COUNT];
    st_index_tensor wanted[TENSOR_COUNT];
    st_index index;
    open_index(&index, NULL);
    add_models(&index, 12);
    for (unsigned alone = 0; alone < 2; alone++) {
        fill_model(wanted, 2, 600, 5);
        for (unsigned i = 0; i < (alone ? TENSOR_COUNT : 1); i++) {
            wanted[i].nbytes += wanted[i].row_nbytes * 8;
            fill_sketch(&wanted[i].sketch, 999 + i, 1, 0); /* of other places */
        }
        search(&index, wanted, hits);
        CU_ASSERT_EQUAL_FATAL(hits[0].count, 4);
        CU_ASSERT_TRUE(hits[0].list[0].is_head);
        CU_ASSERT_EQUAL(hits[0].list[0].pair_count, 32);
        CU_ASSERT_EQUAL((hits[0].list[0].file - 1) % 3, 2);
        CU_ASSERT(st_index_predict(&wanted[0], &hits[0].list[0]) < 4);
        CU_ASSERT_EQUAL(hits[1].list[0].is_head, alone);
    }
    st_index_close(&index);
}

LMC_TEST(test_removal)
{
    static st_index_hits hits[TENSOR_COUNT];
    st_index_tensor wanted[TENSOR_COUNT];
    st_index index;
    open_index(&index, NULL);
    add_models(&index, 90);
    CU_ASSERT_EQUAL(query(&index, "SELECT max(row_count) FROM kind"), 360); /* head sketches */
    for (unsigned i = 0; i < 90; i++)
        if (i % 10 != 4)
            remove_model(&index, i);
    CU_ASSERT_EQUAL(list_files(&index).count, 9);
    CU_ASSERT_EQUAL(query(&index, "SELECT sum(row_count - dead_count) FROM kind"), 9 * 10);
    CU_ASSERT(query(&index, "SELECT max(row_count) FROM kind") < 80);
    CU_ASSERT_EQUAL(query(&index, "SELECT count(*) FROM equal"), 9 * TENSOR_COUNT);
    fill_model(wanted, 1, 77, 0);
    search(&index, wanted, hits);
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        CU_ASSERT_EQUAL(hits[i].count, 3); /* of models 4, 34 and 64 */
        CU_ASSERT_EQUAL(hits[i].list[0].file, 5);
    }
    for (unsigned i = 0; i < 90; i++)
        remove_model(&index, i);
    CU_ASSERT_EQUAL(query(&index, "SELECT sum(row_count) FROM kind"), 0);
    CU_ASSERT_EQUAL(query(&index, "SELECT count(*) FROM coarse"), 0);
    add_models(&index, 3);
    search(&index, wanted, hits);
    CU_ASSERT_EQUAL(hits[0].count, 1);
    CU_ASSERT_EQUAL(hits[0].list[0].file, 92);
    st_index_close(&index);
}

/* Very many tensors of one kind: each finds that of its place. */
LMC_TEST(test_many_of_a_kind)
{
    enum { COUNT = 2500 };
    st_index_tensor *const tensors = calloc(COUNT, sizeof *tensors);
    st_index_hits *const hits = calloc(COUNT, sizeof *hits);
    st_index index;
    unsigned found = 0;
    CU_ASSERT_FATAL(tensors && hits);
    open_index(&index, NULL);
    begin(&index);
    for (unsigned model = 0; model < 2; model++) {
        for (unsigned i = 0; i < COUNT; i++) {
            tensors[i].dtype = LMC_DTYPE_BF16;
            tensors[i].nbytes = 100000;
            fill_sketch(&tensors[i].sketch, i, 7 * i + model, 5);
        }
        if (model == 0)
            CU_ASSERT_EQUAL(st_index_add_file(&index, "a", "a", 1, 1, tensors, COUNT, NULL, &diag), LMC_OK);
    }
    commit(&index);
    CU_ASSERT_EQUAL(st_index_search(&index, tensors, COUNT, NULL, NULL, hits, &diag), LMC_OK);
    for (unsigned i = 0; i < COUNT; i++)
        found += hits[i].count > 0 && hits[i].list[0].tensor == i;
    CU_ASSERT_EQUAL(found, COUNT);
    st_index_close(&index);
    free(tensors);
    free(hits);
}

/* ---- damage ---- */

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
    if (st_index_open(&index, path, &memory, &is_new, &diag) == LMC_OK) {
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
    const char *const path = lmc_test_path("index.sqlite");
    const char *const link = lmc_test_path("link.sqlite");
    unsigned char bytes[5000];
    st_index index;
    int is_new = 0;
    lmc_test_weights(bytes, sizeof bytes, 1);
    lmc_test_write(path, bytes, sizeof bytes);
    CU_ASSERT_EQUAL(st_index_open(&index, path, &memory, &is_new, &diag), LMC_ERR_CORRUPT);
    st_index_close(&index);
    unlink(path);
    CU_ASSERT_EQUAL(symlink("index.sqlite", link), 0);
    CU_ASSERT_EQUAL(st_index_open(&index, link, &memory, &is_new, &diag), LMC_ERR_IO);
    st_index_close(&index);
    CU_ASSERT_FALSE(lmc_test_exists(path));
    unlink(link);
    CU_ASSERT_EQUAL(st_index_open(&index, lmc_test_path("none/index.sqlite"), &memory, &is_new, &diag),
                    LMC_ERR_IO);
    st_index_close(&index);
    CU_ASSERT_EQUAL(st_index_open(&index, lmc_test_dir, &memory, &is_new, &diag), LMC_ERR_IO);
    st_index_close(&index);
}

/* Links in the way to the directory are followed. */
LMC_TEST(test_linked_directory)
{
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
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = 3 WHERE name = 'equal'; "
        "UPDATE sqlite_master SET sql = sql || ' ' WHERE name = 'kind'",
    };
    const char *const path = lmc_test_path("index.sqlite");
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        st_index index;
        int is_new = 0;
        make_index(path);
        change(path, changes[i]);
        CU_ASSERT_EQUAL(st_index_open(&index, path, &memory, &is_new, &diag), LMC_ERR_CORRUPT);
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
    store_big_endian(journal + 24, 8192);
    unsigned char *const name = journal + 512 + 4;
    store_big_endian(name - 4, (1 << 30) / 8192 + 1);
    for (uint32_t i = 0; i < length; i++) {
        name[i] = (unsigned char)victim[i];
        sum += name[i];
    }
    store_big_endian(name + length, length);
    store_big_endian(name + length + 4, sum);
    memcpy(name + length + 8, magic, 8);
    lmc_test_write(journal_path, journal, 512 + 4 + length + 16);
    CU_ASSERT_EQUAL(st_index_open(&index, path, &memory, &is_new, &diag), LMC_ERR_CORRUPT);
    st_index_close(&index);
    CU_ASSERT_TRUE(lmc_test_exists(victim));
    unlink(journal_path);
    unlink(victim);
    unlink(path);
}

/* Two have the file open: one sees what the other has committed. */
LMC_TEST(test_two_at_once)
{
    const char *const path = lmc_test_path("index.sqlite");
    st_index one, other;
    open_index(&one, path);
    open_index(&other, path);
    add_models(&one, 2);
    CU_ASSERT_EQUAL(list_files(&other).count, 2);
    add_models(&other, 4);
    CU_ASSERT_EQUAL(list_files(&one).count, 4);
    st_index_close(&one);
    st_index_close(&other);
    unlink(path);
}

LMC_TEST_DIR_MAIN("store index")
