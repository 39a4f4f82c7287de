/*
 * coarse.c - rows in blobs. The first blob of a kind is small, since many kinds have few tensors, and each that follows
 * has twice the room until it is large enough to be read fast.
 */
#include "safetensors/store/coarse.h"

#include "safetensors/store/sketch.h"

#define FIRST_ROW_COUNT 8
#define DOUBLING_COUNT 6 /* blobs before the first that has the most rows */
#define MOST_ROW_COUNT (FIRST_ROW_COUNT << DOUBLING_COUNT)
#define DOUBLING_ROW_COUNT (MOST_ROW_COUNT - FIRST_ROW_COUNT)

/* A kind with fewer rows is not worth a move. */
#define COMPACT_ROW_COUNT_MIN 64

/* Where a row is. */
typedef struct place {
    uint32_t blob;
    uint32_t row, row_count; /* in the blob */
} place;

static place place_of(uint64_t row)
{
    place at = {0, (uint32_t)row, FIRST_ROW_COUNT};
    if (row >= DOUBLING_ROW_COUNT) {
        row -= DOUBLING_ROW_COUNT;
        return (place){(uint32_t)(row / MOST_ROW_COUNT) + DOUBLING_COUNT, (uint32_t)(row % MOST_ROW_COUNT),
                       MOST_ROW_COUNT};
    }
    while (at.row >= at.row_count) {
        at.row -= at.row_count;
        at.row_count *= 2;
        at.blob++;
    }
    return at;
}

int st_kind_compare(const st_kind *a, const st_kind *b)
{
    if (a->nbytes != b->nbytes)
        return a->nbytes < b->nbytes ? -1 : 1;
    if (a->row_nbytes != b->row_nbytes)
        return a->row_nbytes < b->row_nbytes ? -1 : 1;
    return (a->dtype > b->dtype) - (a->dtype < b->dtype);
}

size_t st_coarse_row_nbytes(const st_kind *kind)
{
    return ST_COARSE_HEAD_NBYTES + st_sketch_coarse_nbytes(kind->dtype);
}

static lmc_status fail_damaged(lmc_st_diag *diag)
{
    return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                   "the index of the store: rows of a kind are damaged");
}

/* ---- kinds ---- */

lmc_status st_coarse_find(st_database *database, const st_kind *kind, st_coarse *coarse, lmc_st_diag *diag)
{
    const int64_t key[] = {kind->dtype, (int64_t)kind->nbytes, (int64_t)kind->row_nbytes};
    sqlite3_stmt *statement;
    int has_row = 0;
    *coarse = (st_coarse){.kind = *kind};
    LMC_TRY(st_sql_begin(database, ST_SQL_KIND_FIND, key, LMC_COUNT(key), &statement, diag));
    lmc_status status = st_sql_step(database, statement, &has_row, diag);
    if (status == LMC_OK && has_row) {
        coarse->id = sqlite3_column_int64(statement, 0);
        coarse->row_count = (uint64_t)sqlite3_column_int64(statement, 1);
        coarse->dead_count = (uint64_t)sqlite3_column_int64(statement, 2);
        if (coarse->id <= 0 || coarse->id > INT32_MAX || coarse->row_count > UINT32_MAX ||
            coarse->dead_count > coarse->row_count)
            status = fail_damaged(diag);
    }
    st_sql_end(statement);
    return status;
}

static lmc_status set_counts(st_database *database, const st_coarse *coarse, lmc_st_diag *diag)
{
    const int64_t values[] = {coarse->id, (int64_t)coarse->row_count, (int64_t)coarse->dead_count};
    return st_sql_execute(database, ST_SQL_KIND_SET, values, LMC_COUNT(values), diag);
}

static int64_t blob_id(const st_coarse *coarse, uint32_t blob)
{
    return coarse->id * ((int64_t)1 << 32) + blob;
}

/* ---- rows ---- */

/* Writes rows that are in one blob. */
static lmc_status write_rows(st_database *database, const st_coarse *coarse, place at,
                             const unsigned char *rows, size_t count, lmc_st_diag *diag)
{
    const size_t row_nbytes = st_coarse_row_nbytes(&coarse->kind);
    sqlite3_blob *blob = NULL;
    int result =
        sqlite3_blob_open(database->handle, "main", "coarse", "rows", blob_id(coarse, at.blob), 1, &blob);
    if (result == SQLITE_OK && (size_t)sqlite3_blob_bytes(blob) != at.row_count * row_nbytes)
        result = SQLITE_CORRUPT;
    if (result == SQLITE_OK)
        result = sqlite3_blob_write(blob, rows, (int)(count * row_nbytes), (int)(at.row * row_nbytes));
    const int closed = sqlite3_blob_close(blob);
    if (result == SQLITE_OK)
        result = closed;
    return result == SQLITE_OK ? LMC_OK
           : result == SQLITE_CORRUPT || (result & 0xff) == SQLITE_ERROR
               ? fail_damaged(diag)
               : st_database_fail(database, result, diag);
}

lmc_status st_coarse_append(st_database *database, const st_kind *kind, const unsigned char *rows,
                            size_t count, lmc_st_diag *diag)
{
    const size_t row_nbytes = st_coarse_row_nbytes(kind);
    st_coarse coarse;
    LMC_TRY(st_coarse_find(database, kind, &coarse, diag));
    if (coarse.id == 0) {
        const int64_t key[] = {kind->dtype, (int64_t)kind->nbytes, (int64_t)kind->row_nbytes};
        LMC_TRY(st_sql_execute(database, ST_SQL_KIND_ADD, key, LMC_COUNT(key), diag));
        LMC_TRY(st_coarse_find(database, kind, &coarse, diag));
    }
    if (coarse.id == 0)
        return fail_damaged(diag);
    if (count > UINT32_MAX - coarse.row_count)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                       "the index of the store has too many tensors of a kind");
    while (count > 0) {
        const place at = place_of(coarse.row_count);
        const size_t now = lmc_min_size(count, at.row_count - at.row);
        if (at.row == 0) {
            const int64_t values[] = {blob_id(&coarse, at.blob), (int64_t)(at.row_count * row_nbytes)};
            LMC_TRY(st_sql_execute(database, ST_SQL_COARSE_ADD, values, LMC_COUNT(values), diag));
        }
        LMC_TRY(write_rows(database, &coarse, at, rows, now, diag));
        coarse.row_count += now;
        rows += now * row_nbytes;
        count -= now;
    }
    return set_counts(database, &coarse, diag);
}

/* The blobs must be those that the count of rows tells, each once: a damaged tree could repeat them without end. */
lmc_status st_coarse_scan(st_database *database, const st_coarse *coarse, st_coarse_rows_fn visit, void *user,
                          lmc_st_diag *diag)
{
    const int64_t range[] = {blob_id(coarse, 0), blob_id(coarse, UINT32_MAX)};
    const size_t row_nbytes = st_coarse_row_nbytes(&coarse->kind);
    sqlite3_stmt *statement;
    lmc_status status = LMC_OK;
    if (coarse->id == 0)
        return LMC_OK;
    LMC_TRY(st_sql_begin(database, ST_SQL_COARSE_READ, range, LMC_COUNT(range), &statement, diag));
    for (uint64_t row = 0; row < coarse->row_count && status == LMC_OK;) {
        const place at = place_of(row);
        const size_t count = (size_t)lmc_min_u64(at.row_count, coarse->row_count - row);
        int has_row = 0;
        status = st_sql_step(database, statement, &has_row, diag);
        if (status != LMC_OK)
            break;
        const unsigned char *const rows =
            has_row && sqlite3_column_int64(statement, 0) == blob_id(coarse, at.blob)
                ? st_sql_blob(statement, 1, at.row_count * row_nbytes)
                : NULL;
        status = rows ? visit(user, rows, count) : fail_damaged(diag);
        row += count;
    }
    st_sql_end(statement);
    return status;
}

/* ---- dead rows ---- */

/* 1 if the file is there; the rows of one file are often neighbours. */
typedef struct living {
    uint32_t file;
    int is_known, is_alive;
} living;

static lmc_status look_for_file(st_database *database, uint32_t file, living *last, lmc_st_diag *diag)
{
    const int64_t key = file;
    sqlite3_stmt *statement;
    if (last->is_known && last->file == file)
        return LMC_OK;
    LMC_TRY(st_sql_begin(database, ST_SQL_FILE_MODEL, &key, 1, &statement, diag));
    const lmc_status status = st_sql_step(database, statement, &last->is_alive, diag);
    st_sql_end(statement);
    last->file = file;
    last->is_known = status == LMC_OK;
    return status;
}

/* Copies the rows of one blob. */
static lmc_status read_blob(st_database *database, const st_coarse *coarse, place at, unsigned char *rows,
                            lmc_st_diag *diag)
{
    const int64_t range[] = {blob_id(coarse, at.blob), blob_id(coarse, at.blob) + 1};
    const size_t nbytes = at.row_count * st_coarse_row_nbytes(&coarse->kind);
    sqlite3_stmt *statement;
    int has_row = 0;
    LMC_TRY(st_sql_begin(database, ST_SQL_COARSE_READ, range, LMC_COUNT(range), &statement, diag));
    lmc_status status = st_sql_step(database, statement, &has_row, diag);
    if (status == LMC_OK) {
        const unsigned char *const found = has_row ? st_sql_blob(statement, 1, nbytes) : NULL;
        if (found)
            memcpy(rows, found, nbytes);
        else
            status = fail_damaged(diag);
    }
    st_sql_end(statement);
    return status;
}

/* Rows move to a place at or before their own, whose blob has been read. */
static lmc_status compact(st_database *database, st_coarse *coarse, unsigned char *rows, lmc_st_diag *diag)
{
    const size_t row_nbytes = st_coarse_row_nbytes(&coarse->kind);
    uint64_t kept_count = 0;
    living last = {0};
    for (uint64_t row = 0; row < coarse->row_count;) {
        const place from = place_of(row);
        const size_t count = (size_t)lmc_min_u64(from.row_count, coarse->row_count - row);
        size_t kept = 0;
        LMC_TRY(read_blob(database, coarse, from, rows, diag));
        for (size_t i = 0; i < count; i++) {
            LMC_TRY(look_for_file(database, lmc_load32(rows + i * row_nbytes), &last, diag));
            if (last.is_alive)
                memmove(rows + kept++ * row_nbytes, rows + i * row_nbytes, row_nbytes);
        }
        for (size_t done = 0; done < kept;) {
            const place to = place_of(kept_count);
            const size_t now = lmc_min_size(kept - done, to.row_count - to.row);
            LMC_TRY(write_rows(database, coarse, to, rows + done * row_nbytes, now, diag));
            kept_count += now;
            done += now;
        }
        row += count;
    }
    const place end = place_of(kept_count);
    const int64_t range[] = {blob_id(coarse, end.blob + (end.row > 0)), blob_id(coarse, UINT32_MAX)};
    coarse->row_count = kept_count;
    coarse->dead_count = 0;
    return st_sql_execute(database, ST_SQL_COARSE_CUT, range, LMC_COUNT(range), diag);
}

lmc_status st_coarse_add_dead(st_database *database, const st_kind *kind, size_t count,
                              const lmc_allocator *memory, lmc_st_diag *diag)
{
    st_coarse coarse;
    LMC_TRY(st_coarse_find(database, kind, &coarse, diag));
    if (coarse.id == 0 || count > coarse.row_count - coarse.dead_count)
        return fail_damaged(diag);
    coarse.dead_count += count;
    if (coarse.dead_count == coarse.row_count ||
        (coarse.row_count >= COMPACT_ROW_COUNT_MIN && coarse.dead_count > coarse.row_count / 2)) {
        unsigned char *const rows = st_allocate(memory, MOST_ROW_COUNT * st_coarse_row_nbytes(kind));
        const lmc_status status = rows ? compact(database, &coarse, rows, diag) : st_fail_nomem(diag);
        st_release(memory, rows);
        LMC_TRY(status);
    }
    return set_counts(database, &coarse, diag);
}
