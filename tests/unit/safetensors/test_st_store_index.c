/*
 * test_st_store_index.c - the index of a store: what it keeps and finds.
 */
#include "lmc_test_store.h"

static void remove_model(st_index *index, unsigned number)
{
    char model[20];
    snprintf(model, sizeof model, "m%u", number);
    begin(index);
    CU_ASSERT_EQUAL(st_index_remove_model(index, model, &diag), LMC_OK);
    commit(index);
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

/* SQLite knows nothing of this library once no index is open. */
LMC_TEST(test_vfs)
{
    st_index one;
    st_index two;
    for (unsigned i = 0; i < 2; i++) {
        open_index(&one, NULL);
        open_index(&two, NULL);
        st_index_close(&one);
        CU_ASSERT_PTR_NOT_NULL(sqlite3_vfs_find("lmc-store"));
        add_models(&two, 1);
        st_index_close(&two);
        CU_ASSERT_PTR_NULL(sqlite3_vfs_find("lmc-store"));
    }
}

/* ---- files ---- */

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
    CU_ASSERT_EQUAL_FATAL(st_index_open(&index, path, &how, &is_new, &diag), LMC_OK);
    CU_ASSERT_TRUE(is_new);
    CU_ASSERT_EQUAL(list_files(&index).count, 0);
    add_models(&index, 2);
    st_index_close(&index);
    CU_ASSERT_EQUAL_FATAL(st_index_open(&index, path, &how, &is_new, &diag), LMC_OK);
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
        st_sketch_round(LMC_BASE_BF16_OF_F32, &tensors[i].sketch, &rounded);
        memcpy(wanted[i].sketch.bytes, rounded.bytes, 128);
    }
    add_model(&index, 1, tensors);
    search(&index, wanted, hits);
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        if (!st_sketch_can_round(LMC_BASE_BF16_OF_F32, tensors[i].nbytes))
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
