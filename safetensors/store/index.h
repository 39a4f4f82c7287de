/*
 * index.h - the index of a store: the sketches of the tensors of all its archives, and the search among them. It is a
 * cache in one SQLite file, and untrusted: damage gives CORRUPT, upon which the caller makes it again, or a worse
 * choice of a base. One thread at a time may use an open index; several processes may have one file open.
 */
#ifndef LMC_SAFETENSORS_STORE_INDEX_H
#define LMC_SAFETENSORS_STORE_INDEX_H

#include "safetensors/store/records.h"

#define ST_INDEX_HIT_COUNT_MAX 8

typedef struct st_index {
    st_database database;
    const lmc_allocator *memory;
    int is_writing; /* between st_index_begin() and what ends it */
} st_index;

/* How an index is used. */
typedef struct st_index_how {
    const lmc_allocator *memory; /* must outlive the index */
    const volatile int *cancel;  /* likewise; ends a wait for another process; may be NULL */
    st_database_access access;
} st_index_how;

/* Opens the index at `path`; NULL: one in memory. The directory must exist; the file may not be a link. *index must
 * stay where it is. *is_new: it was made and is empty. st_index_close() follows, even after a failure.
 * Errors: CORRUPT if the file is damaged, of another version or no index; IO; NOMEM; CANCELLED. */
lmc_status st_index_open(st_index *index, const char *path, const st_index_how *how, int *is_new,
                         lmc_st_diag *diag);

/* A change that was not committed is rolled back. */
void st_index_close(st_index *index);

/* All changes are made between these two calls. begin waits for another process for 10 seconds; then it fails with IO.
 * Errors of all calls below: CORRUPT, IO, NOMEM, CANCELLED. After a failure of a change: st_index_rollback(). */
lmc_status st_index_begin(st_index *index, lmc_st_diag *diag);
lmc_status st_index_commit(st_index *index, lmc_st_diag *diag);
void st_index_rollback(st_index *index);

/* ---- files ---- */

typedef struct st_index_file {
    uint32_t id; /* never used again for another file */
    const char *model;
    const char *path; /* in the store, as it was added: text of an untrusted file */
    uint64_t nbytes;
    int64_t mtime_ns;
    uint32_t tensor_count;
} st_index_file;

/* A failure ends the list. The file and its texts are valid during the call, which must not use the index. */
typedef lmc_status (*st_index_file_fn)(void *user, const st_index_file *file);

/* All files, in the order in which they were added. Errors also: what `visit` returned. */
lmc_status st_index_list(st_index *index, st_index_file_fn visit, void *user, lmc_st_diag *diag);

/* Adds a file. One that has the path is replaced. id: may be NULL. Error: also LIMIT: count is above
 * ST_INDEX_TENSOR_COUNT_MAX. */
#define ST_INDEX_TENSOR_COUNT_MAX ((size_t)1 << 20)
lmc_status st_index_add_file(st_index *index, const char *model, const char *path, uint64_t nbytes,
                             int64_t mtime_ns, const st_index_tensor *tensors, size_t count, uint32_t *id,
                             lmc_st_diag *diag);

/* Removes one file, or all of a model. That there is none is no error. */
lmc_status st_index_remove_file(st_index *index, const char *path, lmc_st_diag *diag);
lmc_status st_index_remove_model(st_index *index, const char *model, lmc_st_diag *diag);

/* All tensors of a file, as they were added; to be released even after a failure. Error: also CORRUPT if there is no
 * such file. */
lmc_status st_index_load_file(st_index *index, uint32_t id, st_index_tensor **tensors, size_t *count,
                              lmc_st_diag *diag);

/* ---- search ---- */

/* A tensor that may be the base of a wanted one. */
typedef struct st_index_hit {
    uint32_t file;
    uint32_t tensor; /* its number in the file */
    uint32_t distance;
    uint16_t pair_count; /* elements of `sketch` that say something */
    uint8_t form;        /* lmc_base_form */
    uint8_t is_head;     /* the number of rows may differ: `sketch` is the head sketch */
    uint8_t is_equal;    /* all of the sketch is equal: so is the tensor, probably */
    uint64_t nbytes, content_hash;
    st_sketch sketch; /* in the form of the wanted tensor */
} st_index_hit;

typedef struct st_index_hits {
    uint32_t count;
    uint32_t spread; /* distance of tensors that have nothing to do with each other */
    st_index_hit list[ST_INDEX_HIT_COUNT_MAX]; /* the nearest first */
} st_index_hits;

/* 1 if a file may be used as a base. It is called for files that are near, and must not use the index. */
typedef int (*st_index_allowed_fn)(void *user, uint32_t file, const char *model);

/* Finds the nearest tensors of each of `count` wanted ones, which are of one file. Those that have nothing to do with
 * the tensor are left out. hits: `count` of them. is_allowed: NULL: all files are. The search is exact where a kind has
 * so few rows that all can be compared; else the files that are nearest in a few large tensors are compared in full. */
lmc_status st_index_search(st_index *index, const st_index_tensor *wanted, size_t count,
                           st_index_allowed_fn is_allowed, void *user, st_index_hits *hits,
                           lmc_st_diag *diag);

/* Compares a tensor with a wanted one. Returns 1 and fills in *hit, but for the file and the number in it; or returns 0
 * and leaves *hit as it is: they are of kinds that cannot be compared, or their distance is no less than `limit`. */
int st_index_compare(const st_index_tensor *wanted, const st_index_tensor *tensor, uint32_t limit,
                     st_index_hit *hit);

/* Bits that an element of the wanted tensor takes as a delta to the hit, predicted. */
double st_index_predict(const st_index_tensor *wanted, const st_index_hit *hit);

#endif
