/*
 * database.c - opens an SQLite file that may be damaged or hostile, and runs the statements of an index.
 *
 * The schema, its version in user_version:
 *
 *   file    one archive: the model that it is of, its path in the store, its size and time, and its tensors. The blob
 *           has tensor_count records, then as many sketches, then the coarse parts of the head sketches that there are.
 *   kind    dtype and size of tensors, whose coarse rows are together. row_nbytes 0: sketches; else head sketches of
 *           matrices with such rows. row_count counts the rows, dead_count those of files that are gone.
 *   coarse  rows of a kind, many in a blob: u32 file, u32 tensor, 32 elements. id is the kind times 2^32 and the number
 *           of the blob. Blob n has room for 8 x 2^n rows, at most 512. A row whose file is gone is dead.
 *   equal   the hash of dtype, size and sketch of each tensor, to find equal ones.
 */
#include "safetensors/store/database.h"

#include "os/os.h"

#include <pthread.h>
#include <string.h>

#define VFS_NAME "lmc-store"

/* A damaged tree may have a page many times, and has no end then. Each step may take so many thousand instructions of
 * SQLite's machine, and all of the opening together. */
#define PROGRESS_INSTRUCTION_COUNT 1000
#define STEP_PROGRESS_MAX 50000
#define OPEN_PROGRESS_MAX 1000

/* How long another process's change is waited for, and after how long it is looked at again. */
#define BUSY_MS 10000
#define BUSY_STEP_MS 20

/* A blob, a text or a statement is never longer; a file with so many tensors is none. */
#define VALUE_NBYTES_MAX (1 << 30)

/* "LMCi", and the version of the schema. */
#define APPLICATION_ID "1280131945"
#define SCHEMA_VERSION "1"

/* Newer versions of SQLite have other names for some; the values are part of its interface. */
#define OPEN_SUPER_JOURNAL 0x00004000
#define OPEN_WAL 0x00080000

static const char schema_sql[] =
    "CREATE TABLE file(id INTEGER PRIMARY KEY AUTOINCREMENT, model TEXT NOT NULL, path TEXT NOT NULL UNIQUE, "
    "nbytes INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, tensor_count INTEGER NOT NULL, tensors BLOB NOT "
    "NULL);"
    "CREATE INDEX file_model ON file(model);"
    "CREATE TABLE kind(id INTEGER PRIMARY KEY, dtype INTEGER NOT NULL, nbytes INTEGER NOT NULL, "
    "row_nbytes INTEGER NOT NULL, row_count INTEGER NOT NULL, dead_count INTEGER NOT NULL, "
    "UNIQUE(dtype, nbytes, row_nbytes));"
    "CREATE TABLE coarse(id INTEGER PRIMARY KEY, rows BLOB NOT NULL);"
    "CREATE TABLE equal(hash INTEGER NOT NULL, file INTEGER NOT NULL, tensor INTEGER NOT NULL, "
    "PRIMARY KEY(hash, file, tensor)) WITHOUT ROWID;"
    "PRAGMA application_id = " APPLICATION_ID ";"
    "PRAGMA user_version = " SCHEMA_VERSION ";";

static const char *const statement_sql[ST_SQL_COUNT] = {
    [ST_SQL_BEGIN] = "BEGIN IMMEDIATE",
    [ST_SQL_COMMIT] = "COMMIT",
    [ST_SQL_ROLLBACK] = "ROLLBACK",
    [ST_SQL_FILE_LIST] = "SELECT id, model, path, nbytes, mtime_ns, tensor_count FROM file ORDER BY id",
    [ST_SQL_FILE_MODEL] = "SELECT model FROM file WHERE id = ?1",
    [ST_SQL_FILE_TENSORS] = "SELECT tensor_count, tensors FROM file WHERE id = ?1",
    [ST_SQL_FILE_OF_PATH] = "SELECT id FROM file WHERE path = ?1",
    [ST_SQL_FILE_OF_MODEL] = "SELECT id FROM file WHERE model = ?1 LIMIT 1",
    [ST_SQL_FILE_ADD] =
        "INSERT INTO file(nbytes, mtime_ns, tensor_count, model, path, tensors) VALUES(?1,?2,?3,?4,?5,?6)",
    [ST_SQL_FILE_REMOVE] = "DELETE FROM file WHERE id = ?1",
    [ST_SQL_KIND_FIND] =
        "SELECT id, row_count, dead_count FROM kind WHERE dtype = ?1 AND nbytes = ?2 AND row_nbytes = ?3",
    [ST_SQL_KIND_ADD] =
        "INSERT INTO kind(dtype, nbytes, row_nbytes, row_count, dead_count) VALUES(?1, ?2, ?3, 0, 0)",
    [ST_SQL_KIND_SET] = "UPDATE kind SET row_count = ?2, dead_count = ?3 WHERE id = ?1",
    [ST_SQL_COARSE_READ] = "SELECT id, rows FROM coarse WHERE id >= ?1 AND id < ?2 ORDER BY id",
    [ST_SQL_COARSE_ADD] = "INSERT INTO coarse(id, rows) VALUES(?1, zeroblob(?2))",
    [ST_SQL_COARSE_CUT] = "DELETE FROM coarse WHERE id >= ?1 AND id < ?2",
    [ST_SQL_EQUAL_FIND] = "SELECT file, tensor FROM equal WHERE hash = ?1 LIMIT ?2",
    [ST_SQL_EQUAL_ADD] = "INSERT OR IGNORE INTO equal(hash, file, tensor) VALUES(?1, ?2, ?3)",
    [ST_SQL_EQUAL_REMOVE] = "DELETE FROM equal WHERE hash = ?1 AND file = ?2 AND tensor = ?3",
};

/* ---- the files that SQLite may open ---- */

static sqlite3_vfs vfs;
static sqlite3_vfs *vfs_below;
static size_t vfs_user_count; /* open indexes */
static pthread_mutex_t vfs_mutex = PTHREAD_MUTEX_INITIALIZER;

/* A journal can name a second one, which SQLite then deletes: a hostile journal could name any file. A write-ahead log
 * would be mapped into memory. An index has neither. */
static int open_file(sqlite3_vfs *self, const char *name, sqlite3_file *file, int flags, int *flags_out)
{
    if (flags & (OPEN_SUPER_JOURNAL | OPEN_WAL)) {
        file->pMethods = NULL;
        return SQLITE_CANTOPEN;
    }
    return vfs_below->xOpen(self, name, file, flags, flags_out);
}

/* The VFS is registered as long as an index is open: SQLite may outlast this code, and would go on asking it. */
static lmc_status take_vfs(st_database *database, lmc_st_diag *diag)
{
    (void)pthread_mutex_lock(&vfs_mutex);
    int result = SQLITE_OK;
    if (vfs_user_count == 0) {
        result = sqlite3_initialize();
        vfs_below = result == SQLITE_OK ? sqlite3_vfs_find(NULL) : NULL;
        if (vfs_below) {
            vfs = *vfs_below;
            vfs.pNext = NULL;
            vfs.zName = VFS_NAME;
            vfs.xOpen = open_file;
            result = sqlite3_vfs_register(&vfs, 0);
        }
    }
    database->has_vfs = result == SQLITE_OK && vfs_below;
    vfs_user_count += (size_t)database->has_vfs;
    (void)pthread_mutex_unlock(&vfs_mutex);
    return database->has_vfs ? LMC_OK : st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "SQLite does not start");
}

static void give_back_vfs(void)
{
    (void)pthread_mutex_lock(&vfs_mutex);
    if (--vfs_user_count == 0)
        (void)sqlite3_vfs_unregister(&vfs);
    (void)pthread_mutex_unlock(&vfs_mutex);
}

/* ---- opening ---- */

lmc_status st_database_fail(const st_database *database, int result, lmc_st_diag *diag)
{
    const char *const text = database->handle ? sqlite3_errmsg(database->handle) : sqlite3_errstr(result);
    switch (result & 0xff) {
    case SQLITE_NOMEM: return st_fail_nomem(diag);
    case SQLITE_BUSY:
        if (st_is_cancelled(database->cancel))
            return st_fail_cancelled(diag);
        return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "the index of the store: %s", text);
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
    case SQLITE_FULL:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "the index of the store: %s", text);
    default: return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "the index of the store: %s", text);
    }
}

static int count_progress(void *user)
{
    st_database *const database = user;
    return ++database->progress_count > database->progress_max;
}

/* Returns 1 to try again. */
static int wait_while_busy(void *user, int count)
{
    const st_database *const database = user;
    if (count >= BUSY_MS / BUSY_STEP_MS || st_is_cancelled(database->cancel))
        return 0;
    os_sleep_ms(BUSY_STEP_MS);
    return 1;
}

/* Sets what makes SQLite careful, before it reads anything. */
static int set_up(st_database *database)
{
    sqlite3 *const handle = database->handle;
    static const int switches[][2] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},       {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},  {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_DQS_DML, 0},         {SQLITE_DBCONFIG_DQS_DDL, 0},
        {SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1}};
    for (size_t i = 0; i < LMC_COUNT(switches); i++)
        (void)sqlite3_db_config(handle, switches[i][0], switches[i][1], (int *)NULL);
    database->progress_max = OPEN_PROGRESS_MAX;
    sqlite3_progress_handler(handle, PROGRESS_INSTRUCTION_COUNT, count_progress, database);
    (void)sqlite3_extended_result_codes(handle, 1);
    (void)sqlite3_busy_handler(handle, wait_while_busy, database);
    (void)sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, VALUE_NBYTES_MAX);
    (void)sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0);
    (void)sqlite3_limit(handle, SQLITE_LIMIT_TRIGGER_DEPTH, 0);
    return sqlite3_exec(handle,
                        "PRAGMA mmap_size = 0; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF;"
                        "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384; PRAGMA page_size = 8192;"
                        "PRAGMA synchronous = OFF;",
                        NULL, NULL, NULL);
}

/* An integer that a pragma or a query gives, -1 if it gives none. */
static int query_number(sqlite3 *handle, const char *sql, int64_t *number)
{
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(handle, sql, -1, &statement, NULL);
    *number = -1;
    if (result == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
        *number = sqlite3_column_int64(statement, 0);
    const int ended = sqlite3_finalize(statement);
    return result == SQLITE_OK ? ended : result;
}

/* 1 if both have the same tables and indexes, made by the same words. */
static int has_same_schema(sqlite3 *handle, sqlite3 *own)
{
    static const char sql[] = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid";
    sqlite3_stmt *theirs = NULL, *ours = NULL;
    int is_same = sqlite3_prepare_v2(handle, sql, -1, &theirs, NULL) == SQLITE_OK &&
                  sqlite3_prepare_v2(own, sql, -1, &ours, NULL) == SQLITE_OK;
    int result = SQLITE_ROW;
    while (is_same && result == SQLITE_ROW) {
        result = sqlite3_step(ours);
        is_same = sqlite3_step(theirs) == result && (result == SQLITE_ROW || result == SQLITE_DONE);
        for (int column = 0; column < 4 && is_same && result == SQLITE_ROW; column++) {
            const char *const left = (const char *)sqlite3_column_text(theirs, column);
            const char *const right = (const char *)sqlite3_column_text(ours, column);
            is_same = !left || !right ? left == right : strcmp(left, right) == 0;
        }
    }
    (void)sqlite3_finalize(theirs);
    (void)sqlite3_finalize(ours);
    return is_same;
}

static lmc_status check_schema(const st_database *database, lmc_st_diag *diag)
{
    int64_t application = 0, version = 0;
    int result = query_number(database->handle, "PRAGMA application_id", &application);
    if (result == SQLITE_OK)
        result = query_number(database->handle, "PRAGMA user_version", &version);
    if (result != SQLITE_OK)
        return st_database_fail(database, result, diag);
    sqlite3 *own = NULL;
    result = sqlite3_open_v2(":memory:", &own, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_exec(own, schema_sql, NULL, NULL, NULL);
    int64_t own_application = 0, own_version = 0;
    if (result == SQLITE_OK)
        result = query_number(own, "PRAGMA application_id", &own_application);
    if (result == SQLITE_OK)
        result = query_number(own, "PRAGMA user_version", &own_version);
    const int is_ours = result == SQLITE_OK && application == own_application && version == own_version &&
                        has_same_schema(database->handle, own);
    (void)sqlite3_close(own);
    if (result != SQLITE_OK)
        return st_fail_nomem(diag); /* a database in memory fails for nothing else */
    return is_ours ? LMC_OK
                   : st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                             "the index of the store is of another version, or is something else");
}

/* Makes the tables, unless another process has done so meanwhile. */
static lmc_status make_schema(st_database *database, int *is_new, lmc_st_diag *diag)
{
    int64_t count = 0;
    int result = sqlite3_exec(database->handle, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (result == SQLITE_OK)
        result = query_number(database->handle, "SELECT count(*) FROM sqlite_master", &count);
    if (result == SQLITE_OK && count == 0)
        result = sqlite3_exec(database->handle, schema_sql, NULL, NULL, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_exec(database->handle, "COMMIT", NULL, NULL, NULL);
    if (result != SQLITE_OK)
        return st_database_fail(database, result, diag);
    *is_new = count == 0;
    return LMC_OK;
}

/* Refuses what is no file. SQLite knows links on POSIX systems alone, and would wait for a pipe. */
static lmc_status check_kind(const char *path, st_database_access access, lmc_st_diag *diag)
{
    os_state state;
    const int os_errno = os_lstat(OS_HERE, path, &state);
    if (os_errno != 0)
        return access == ST_DATABASE_MAKE && os_errno == ENOENT
                   ? LMC_OK
                   : st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot open");
    return state.kind == OS_FILE
               ? LMC_OK
               : st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "the index of the store is a %s",
                         state.kind == OS_LINK     ? "link"
                         : state.kind == OS_FOLDER ? "directory"
                                                   : "device or pipe");
}

lmc_status st_database_open(st_database *database, const char *path, st_database_access access,
                            const volatile int *cancel, int *is_new, lmc_st_diag *diag)
{
    static const int open_flags[] = {[ST_DATABASE_MAKE] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                     [ST_DATABASE_CHANGE] = SQLITE_OPEN_READWRITE,
                                     [ST_DATABASE_READ] = SQLITE_OPEN_READONLY};
    int64_t page_count = 0;
    memset(database, 0, sizeof *database);
    database->cancel = cancel;
    *is_new = 0;
    if (path)
        LMC_TRY(check_kind(path, access, diag));
    LMC_TRY(take_vfs(database, diag));
    int result = sqlite3_open_v2(
        path ? path : ":memory:", &database->handle,
        open_flags[access] | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_PRIVATECACHE, VFS_NAME);
    if (result != SQLITE_OK)
        return st_database_fail(database, result, diag);
    result = set_up(database);
    if (result == SQLITE_OK)
        result = query_number(database->handle, "PRAGMA page_count", &page_count);
    if ((result & 0xff) == SQLITE_CANTOPEN) /* the file is open: this is what open_file() refuses */
        return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                       "the index of the store has a foreign journal");
    if (result != SQLITE_OK)
        return st_database_fail(database, result, diag);
    if (page_count == 0 && access == ST_DATABASE_MAKE)
        LMC_TRY(make_schema(database, is_new, diag));
    LMC_TRY(check_schema(database, diag));
    database->progress_max = STEP_PROGRESS_MAX;
    return LMC_OK;
}

void st_database_close(st_database *database)
{
    for (size_t i = 0; i < ST_SQL_COUNT; i++)
        (void)sqlite3_finalize(database->statements[i]);
    (void)sqlite3_close(database->handle);
    if (database->has_vfs)
        give_back_vfs();
    memset(database, 0, sizeof *database);
}

/* ---- statements ---- */

lmc_status st_sql_begin(st_database *database, st_sql sql, const int64_t *parameters, int count,
                        sqlite3_stmt **statement, lmc_st_diag *diag)
{
    int result = SQLITE_OK;
    database->progress_count = 0;
    if (!database->statements[sql])
        result = sqlite3_prepare_v3(database->handle, statement_sql[sql], -1, SQLITE_PREPARE_PERSISTENT,
                                    &database->statements[sql], NULL);
    *statement = database->statements[sql];
    for (int i = 0; i < count && result == SQLITE_OK; i++)
        result = sqlite3_bind_int64(*statement, i + 1, parameters[i]);
    return result == SQLITE_OK ? LMC_OK : st_database_fail(database, result, diag);
}

lmc_status st_sql_step(st_database *database, sqlite3_stmt *statement, int *has_row, lmc_st_diag *diag)
{
    database->progress_count = 0;
    const int result = sqlite3_step(statement);
    *has_row = result == SQLITE_ROW;
    return result == SQLITE_ROW || result == SQLITE_DONE ? LMC_OK : st_database_fail(database, result, diag);
}

void st_sql_end(sqlite3_stmt *statement)
{
    (void)sqlite3_reset(statement);
}

lmc_status st_sql_execute(st_database *database, st_sql sql, const int64_t *parameters, int count,
                          lmc_st_diag *diag)
{
    sqlite3_stmt *statement;
    int has_row = 0;
    LMC_TRY(st_sql_begin(database, sql, parameters, count, &statement, diag));
    const lmc_status status = st_sql_step(database, statement, &has_row, diag);
    st_sql_end(statement);
    return status;
}

const unsigned char *st_sql_blob(sqlite3_stmt *statement, int column, size_t nbytes)
{
    if (sqlite3_column_type(statement, column) != SQLITE_BLOB)
        return NULL;
    const unsigned char *const bytes = sqlite3_column_blob(statement, column);
    return (size_t)sqlite3_column_bytes(statement, column) == nbytes ? bytes : NULL;
}
