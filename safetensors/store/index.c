/*
 * index.c - an open index, and the files in it.
 */
#include "safetensors/store/index.h"

#include "os/path.h"
#include "safetensors/files/directories.h"
#include "safetensors/store/coarse.h"
#include "safetensors/store/records.h"

#include <errno.h>
#include <stdlib.h> /* qsort */
#include <string.h>

static lmc_status fail_damaged(lmc_st_diag *diag)
{
    return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                   "the index of the store: the list of files is damaged");
}

/* ---- opening ---- */

/* SQLite would refuse a link anywhere in the path. Those of the directory are followed. */
static lmc_status find_true_path(const char *path, const lmc_allocator *memory, char **found,
                                 lmc_st_diag *diag)
{
    char *const directory = lmc_directory_of(memory, path);
    if (!directory)
        return st_fail_nomem(diag);
    char *const true_directory = st_true_path(memory, directory);
    const int os_errno = errno;
    st_release(memory, directory);
    if (!true_directory)
        return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot find the directory of the index");
    *found = lmc_path_join(memory, true_directory, lmc_last_component(path), "");
    st_release(memory, true_directory);
    return *found ? LMC_OK : st_fail_nomem(diag);
}

lmc_status st_index_open(st_index *index, const char *path, const st_index_how *how, int *is_new,
                         lmc_st_diag *diag)
{
    char *true_path = NULL;
    memset(index, 0, sizeof *index);
    index->memory = how->memory;
    *is_new = 0;
    if (path)
        LMC_TRY(find_true_path(path, how->memory, &true_path, diag));
    const lmc_status status =
        st_database_open(&index->database, true_path, how->access, how->cancel, is_new, diag);
    st_release(how->memory, true_path);
    return status;
}

void st_index_close(st_index *index)
{
    if (index->is_writing)
        st_index_rollback(index);
    st_database_close(&index->database);
}

lmc_status st_index_begin(st_index *index, lmc_st_diag *diag)
{
    assert(!index->is_writing);
    LMC_TRY(st_sql_execute(&index->database, ST_SQL_BEGIN, NULL, 0, diag));
    index->is_writing = 1;
    return LMC_OK;
}

lmc_status st_index_commit(st_index *index, lmc_st_diag *diag)
{
    assert(index->is_writing);
    LMC_TRY(st_sql_execute(&index->database, ST_SQL_COMMIT, NULL, 0, diag));
    index->is_writing = 0;
    return LMC_OK;
}

void st_index_rollback(st_index *index)
{
    lmc_st_diag ignored;
    st_diag_init(&ignored, "");
    /* after some errors SQLite has done so itself, and refuses */
    (void)st_sql_execute(&index->database, ST_SQL_ROLLBACK, NULL, 0, &ignored);
    index->is_writing = 0;
}

/* ---- the list ---- */

static const char *text_of(sqlite3_stmt *statement, int column)
{
    if (sqlite3_column_type(statement, column) != SQLITE_TEXT)
        return NULL;
    const char *const text = (const char *)sqlite3_column_text(statement, column);
    return text && strlen(text) == (size_t)sqlite3_column_bytes(statement, column) ? text : NULL;
}

lmc_status st_index_list(st_index *index, st_index_file_fn visit, void *user, lmc_st_diag *diag)
{
    sqlite3_stmt *statement;
    lmc_status status = LMC_OK;
    int64_t last = 0;
    LMC_TRY(st_sql_begin(&index->database, ST_SQL_FILE_LIST, NULL, 0, &statement, diag));
    while (status == LMC_OK) {
        int has_row = 0;
        status = st_sql_step(&index->database, statement, &has_row, diag);
        if (status != LMC_OK || !has_row)
            break;
        const int64_t id = sqlite3_column_int64(statement, 0);
        const int64_t count = sqlite3_column_int64(statement, 5);
        const st_index_file file = {.id = (uint32_t)id,
                                    .model = text_of(statement, 1),
                                    .path = text_of(statement, 2),
                                    .nbytes = (uint64_t)sqlite3_column_int64(statement, 3),
                                    .mtime_ns = sqlite3_column_int64(statement, 4),
                                    .tensor_count = (uint32_t)count};
        /* numbers that do not rise would be those of a tree that is a circle */
        status = id <= last || id > UINT32_MAX || count < 0 || count > UINT32_MAX || !file.model || !file.path
                     ? fail_damaged(diag)
                     : visit(user, &file);
        last = id;
    }
    st_sql_end(statement);
    return status;
}

/* ---- coarse rows of a file ---- */

typedef struct own_row {
    st_kind kind;
    uint32_t tensor;
    const unsigned char *values;
} own_row;

static int compare_rows(const void *left, const void *right)
{
    const own_row *const a = left;
    const own_row *const b = right;
    const int order = st_kind_compare(&a->kind, &b->kind);
    return order != 0 ? order : (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

/* Those of all tensors, by kind; to be released. NULL: out of memory. */
static own_row *list_rows(const lmc_allocator *memory, st_records *records, size_t *count)
{
    own_row *const rows = st_allocate_array(memory, 2 * (uint64_t)records->count, sizeof *rows);
    st_record record;
    *count = 0;
    if (!rows)
        return NULL;
    while (st_records_next(records, &record)) {
        rows[(*count)++] = (own_row){st_record_kind(&record), record.tensor, record.sketch};
        if (record.head)
            rows[(*count)++] = (own_row){st_record_head_kind(&record), record.tensor, record.head};
    }
    qsort(rows, *count, sizeof *rows, compare_rows);
    return rows;
}

static size_t count_of_kind(const own_row *rows, size_t count)
{
    size_t same = 1;
    while (same < count && st_kind_compare(&rows[same].kind, &rows[0].kind) == 0)
        same++;
    return same;
}

static lmc_status append_rows(st_index *index, const own_row *rows, size_t count, uint32_t file,
                              lmc_st_diag *diag)
{
    st_buffer buffer = {0};
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < count && status == LMC_OK;) {
        const size_t same = count_of_kind(rows + i, count - i);
        const size_t row_nbytes = st_coarse_row_nbytes(&rows[i].kind);
        unsigned char *const bytes = st_buffer_grow(index->memory, &buffer, same * row_nbytes);
        for (size_t j = 0; j < same && bytes; j++) {
            unsigned char *const row = bytes + j * row_nbytes;
            lmc_store32(row, file);
            lmc_store32(row + 4, rows[i + j].tensor);
            memcpy(row + ST_COARSE_HEAD_NBYTES, rows[i + j].values, row_nbytes - ST_COARSE_HEAD_NBYTES);
        }
        status = bytes ? st_coarse_append(&index->database, &rows[i].kind, bytes, same, diag)
                       : st_fail_nomem(diag);
        i += same;
    }
    st_buffer_free(index->memory, &buffer);
    return status;
}

/* Adds or removes what finds equal tensors. */
static lmc_status change_equal(st_index *index, st_sql sql, st_records records, uint32_t file,
                               lmc_st_diag *diag)
{
    st_record record;
    while (st_records_next(&records, &record)) {
        const int64_t values[] = {st_record_hash(&record), file, record.tensor};
        LMC_TRY(st_sql_execute(&index->database, sql, values, LMC_COUNT(values), diag));
    }
    return LMC_OK;
}

/* ---- removing ---- */

/* The blob of a file's tensors, a copy; to be released even after a failure. */
static lmc_status copy_records(st_index *index, int64_t id, unsigned char **bytes, st_records *records,
                               lmc_st_diag *diag)
{
    sqlite3_stmt *statement;
    int has_row = 0;
    LMC_TRY(st_sql_begin(&index->database, ST_SQL_FILE_TENSORS, &id, 1, &statement, diag));
    lmc_status status = st_sql_step(&index->database, statement, &has_row, diag);
    if (status == LMC_OK && (!has_row || sqlite3_column_type(statement, 1) != SQLITE_BLOB))
        status = fail_damaged(diag);
    if (status == LMC_OK) {
        const void *const blob = sqlite3_column_blob(statement, 1);
        const size_t nbytes = (size_t)sqlite3_column_bytes(statement, 1);
        *bytes = st_allocate(index->memory, nbytes);
        if (!*bytes || (nbytes > 0 && !blob))
            status = st_fail_nomem(diag);
        else if (nbytes > 0)
            memcpy(*bytes, blob, nbytes);
        if (status == LMC_OK)
            status = st_records_open(records, *bytes, nbytes, sqlite3_column_int64(statement, 0), diag);
    }
    st_sql_end(statement);
    return status;
}

lmc_status st_index_load_file(st_index *index, uint32_t id, st_index_tensor **tensors, size_t *count,
                              lmc_st_diag *diag)
{
    unsigned char *bytes = NULL;
    st_records records = {0};
    st_record record;
    *tensors = NULL;
    *count = 0;
    lmc_status status = copy_records(index, id, &bytes, &records, diag);
    if (status == LMC_OK) {
        *tensors = st_allocate_array(index->memory, (uint64_t)records.count + 1, sizeof **tensors);
        status = *tensors ? LMC_OK : st_fail_nomem(diag);
    }
    while (status == LMC_OK && st_records_next(&records, &record)) {
        st_index_tensor *const tensor = &(*tensors)[(*count)++];
        *tensor = (st_index_tensor){.nbytes = record.nbytes,
                                    .row_nbytes = record.row_nbytes,
                                    .content_hash = record.content_hash,
                                    .dtype = record.dtype,
                                    .has_head = record.head != NULL};
        memcpy(tensor->sketch.bytes, record.sketch, sizeof tensor->sketch);
        if (record.head)
            memcpy(tensor->head.bytes, record.head, st_sketch_coarse_nbytes(record.dtype));
    }
    st_release(index->memory, bytes);
    return status;
}

static lmc_status remove_id(st_index *index, int64_t id, lmc_st_diag *diag)
{
    unsigned char *bytes = NULL;
    own_row *rows = NULL;
    st_records records;
    size_t count = 0;
    lmc_status status =
        id <= 0 || id > UINT32_MAX ? fail_damaged(diag) : copy_records(index, id, &bytes, &records, diag);
    if (status == LMC_OK)
        status = st_sql_execute(&index->database, ST_SQL_FILE_REMOVE, &id, 1, diag);
    if (status == LMC_OK)
        status = change_equal(index, ST_SQL_EQUAL_REMOVE, records, (uint32_t)id, diag);
    if (status == LMC_OK) {
        rows = list_rows(index->memory, &records, &count);
        status = rows ? LMC_OK : st_fail_nomem(diag);
    }
    for (size_t i = 0; i < count && status == LMC_OK;) {
        const size_t same = count_of_kind(rows + i, count - i);
        status = st_coarse_add_dead(&index->database, &rows[i].kind, same, index->memory, diag);
        i += same;
    }
    st_release(index->memory, rows);
    st_release(index->memory, bytes);
    return status;
}

/* *id: of a file with this text, 0 if there is none. */
static lmc_status find_file(st_index *index, st_sql sql, const char *text, int64_t *id, lmc_st_diag *diag)
{
    sqlite3_stmt *statement;
    int has_row = 0;
    LMC_TRY(st_sql_begin(&index->database, sql, NULL, 0, &statement, diag));
    const int result = sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC);
    lmc_status status = result == SQLITE_OK ? st_sql_step(&index->database, statement, &has_row, diag)
                                            : st_database_fail(&index->database, result, diag);
    *id = status == LMC_OK && has_row ? sqlite3_column_int64(statement, 0) : 0;
    if (status == LMC_OK && has_row && *id == 0)
        status = fail_damaged(diag);
    st_sql_end(statement);
    (void)sqlite3_clear_bindings(statement);
    return status;
}

lmc_status st_index_remove_file(st_index *index, const char *path, lmc_st_diag *diag)
{
    int64_t id = 0;
    assert(index->is_writing);
    LMC_TRY(find_file(index, ST_SQL_FILE_OF_PATH, path, &id, diag));
    return id == 0 ? LMC_OK : remove_id(index, id, diag);
}

/* The loop ends: a file that is found again after its removal is a fault. */
lmc_status st_index_remove_model(st_index *index, const char *model, lmc_st_diag *diag)
{
    int64_t id = 0;
    assert(index->is_writing);
    do {
        LMC_TRY(find_file(index, ST_SQL_FILE_OF_MODEL, model, &id, diag));
        if (id != 0)
            LMC_TRY(remove_id(index, id, diag));
    } while (id != 0);
    return LMC_OK;
}

/* ---- adding ---- */

static lmc_status insert_file(st_index *index, const st_index_file *file, const unsigned char *bytes,
                              size_t nbytes, int64_t *id, lmc_st_diag *diag)
{
    const int64_t numbers[] = {(int64_t)file->nbytes, file->mtime_ns, file->tensor_count};
    sqlite3_stmt *statement;
    int has_row = 0;
    LMC_TRY(st_sql_begin(&index->database, ST_SQL_FILE_ADD, numbers, LMC_COUNT(numbers), &statement, diag));
    int result = sqlite3_bind_text(statement, 4, file->model, -1, SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 5, file->path, -1, SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = sqlite3_bind_blob64(statement, 6, bytes, nbytes, SQLITE_STATIC);
    const lmc_status status = result == SQLITE_OK ? st_sql_step(&index->database, statement, &has_row, diag)
                                                  : st_database_fail(&index->database, result, diag);
    st_sql_end(statement);
    (void)sqlite3_clear_bindings(statement);
    *id = sqlite3_last_insert_rowid(index->database.handle);
    return status != LMC_OK ? status : *id <= 0 || *id > UINT32_MAX ? fail_damaged(diag) : LMC_OK;
}

lmc_status st_index_add_file(st_index *index, const char *model, const char *path, uint64_t nbytes,
                             int64_t mtime_ns, const st_index_tensor *tensors, size_t count, uint32_t *id,
                             lmc_st_diag *diag)
{
    const st_index_file file = {0, model, path, nbytes, mtime_ns, (uint32_t)count};
    size_t blob_nbytes = 0, row_count = 0;
    int64_t new_id = 0;
    own_row *rows = NULL;
    st_records records;
    assert(index->is_writing);
    if (count > ST_INDEX_TENSOR_COUNT_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "too many tensors for the index of a store");
    LMC_TRY(st_index_remove_file(index, path, diag));
    unsigned char *const bytes = st_records_make(index->memory, tensors, count, &blob_nbytes);
    if (!bytes)
        return st_fail_nomem(diag);
    lmc_status status = st_records_open(&records, bytes, blob_nbytes, (int64_t)count, diag);
    if (status == LMC_OK)
        status = insert_file(index, &file, bytes, blob_nbytes, &new_id, diag);
    if (status == LMC_OK)
        status = change_equal(index, ST_SQL_EQUAL_ADD, records, (uint32_t)new_id, diag);
    if (status == LMC_OK) {
        rows = list_rows(index->memory, &records, &row_count);
        status = rows ? append_rows(index, rows, row_count, (uint32_t)new_id, diag) : st_fail_nomem(diag);
    }
    st_release(index->memory, rows);
    st_release(index->memory, bytes);
    if (id)
        *id = status == LMC_OK ? (uint32_t)new_id : 0;
    return status;
}
