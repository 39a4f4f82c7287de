/*
 * database.h - the SQLite file of an index: opened as a file that anyone may have written, with our schema or not at
 * all; its statements, and SQLite's results as statuses.
 */
#ifndef LMC_SAFETENSORS_STORE_DATABASE_H
#define LMC_SAFETENSORS_STORE_DATABASE_H

#include "safetensors/common/memory.h"
#include "safetensors/common/st_common.h"

#include <sqlite3.h>

/* The statements, each prepared when it is first used. */
typedef enum st_sql {
    ST_SQL_BEGIN,
    ST_SQL_COMMIT,
    ST_SQL_ROLLBACK,
    ST_SQL_FILE_LIST,
    ST_SQL_FILE_MODEL,
    ST_SQL_FILE_TENSORS,
    ST_SQL_FILE_OF_PATH,
    ST_SQL_FILE_OF_MODEL,
    ST_SQL_FILE_ADD,
    ST_SQL_FILE_REMOVE,
    ST_SQL_KIND_FIND,
    ST_SQL_KIND_ADD,
    ST_SQL_KIND_SET,
    ST_SQL_COARSE_READ,
    ST_SQL_COARSE_ADD,
    ST_SQL_COARSE_CUT,
    ST_SQL_EQUAL_FIND,
    ST_SQL_EQUAL_ADD,
    ST_SQL_EQUAL_REMOVE,
    ST_SQL_COUNT
} st_sql;

typedef struct st_database {
    sqlite3 *handle;
    int has_vfs;                /* it uses the VFS of this library */
    const volatile int *cancel; /* ends a wait for another process; may be NULL */
    sqlite3_stmt *statements[ST_SQL_COUNT];
    unsigned progress_count,
        progress_max; /* how often SQLite said in one step that it is at work, and may say so */
} st_database;

/* What may be done with the file. */
typedef enum st_database_access {
    ST_DATABASE_MAKE,   /* it is made if there is none */
    ST_DATABASE_CHANGE, /* it must be there: what a killed process left half done is undone in it */
    ST_DATABASE_READ    /* it must be there, and stays as it is */
} st_database_access;

/* Opens the file; path NULL: a database in memory. A link is not followed, a journal is only read if it is for this
 * file. Nothing but SQLite opens the file: to close any other descriptor of it would end the locks that this process
 * has. *is_new: it was made. *database must stay where it is until st_database_close(), which follows even after a
 * failure.
 * Another process that changes the file is waited for, in every call, for 10 seconds at most.
 * Errors: CORRUPT if it is no index of this version, whatever else it is; IO, NOMEM, CANCELLED. */
lmc_status st_database_open(st_database *database, const char *path, st_database_access access,
                            const volatile int *cancel, int *is_new, lmc_st_diag *diag);
void st_database_close(st_database *database);

/* Fails with what SQLite's result means: CORRUPT, NOMEM, IO or CANCELLED. */
lmc_status st_database_fail(const st_database *database, int result, lmc_st_diag *diag);

/* Gets a statement ready, with the first `count` of its parameters set to these integers. It must be reset with
 * st_sql_end() before it serves again. Errors: as st_database_fail(). */
lmc_status st_sql_begin(st_database *database, st_sql sql, const int64_t *parameters, int count,
                        sqlite3_stmt **statement, lmc_st_diag *diag);

/* Steps to the next row. *has_row: 0 at the end. Errors: as st_database_fail(). */
lmc_status st_sql_step(st_database *database, sqlite3_stmt *statement, int *has_row, lmc_st_diag *diag);
void st_sql_end(sqlite3_stmt *statement);

/* Runs a statement that gives no rows. Errors: as st_database_fail(). */
lmc_status st_sql_execute(st_database *database, st_sql sql, const int64_t *parameters, int count,
                          lmc_st_diag *diag);

/* A blob of the row, or NULL if it is none or has other than nbytes bytes. It is valid until the next step. */
const unsigned char *st_sql_blob(sqlite3_stmt *statement, int column, size_t nbytes);

#endif
