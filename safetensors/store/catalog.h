/*
 * catalog.h - the archives of a store and their sketches: the index (store/index.h) is brought up to date by the
 * folders of models. A damaged index is made again, in memory if need be. One that is busy, or cannot be read or
 * written, is left alone, and the call fails. A session that only reads leaves every index alone, and makes one in
 * memory if it cannot use the one that is there.
 */
#ifndef LMC_SAFETENSORS_STORE_CATALOG_H
#define LMC_SAFETENSORS_STORE_CATALOG_H

#include "safetensors/convert/source.h"
#include "safetensors/store/index.h"
#include "safetensors/store/session.h"

/* A file of a model. */
typedef struct st_catalog_file {
    char *path;     /* in the store */
    size_t model;   /* its number in the session's list */
    int is_archive; /* 0: a copy, which has no tensors */
    uint64_t nbytes;
    int64_t mtime_ns;
    uint32_t id; /* in the index; 0: it has no sketches there, since it could not be read */
} st_catalog_file;

typedef struct st_catalog {
    st_store_session *store;
    st_index index;
    int is_open;
    int is_alone;           /* of an index without its archives: it cannot be made again */
    st_catalog_file *files; /* by the bytes of their paths */
    size_t count;
    const st_catalog_file **by_id; /* files that have an id, by rising id */
    size_t id_count;
} st_catalog;

/* Lists the archives of all models of the session, and makes the sketches that the index lacks. Free with
 * st_catalog_close() in every case. Errors: IO, NOMEM, CANCELLED. */
lmc_status st_catalog_open(st_catalog *catalog, st_store_session *store);
void st_catalog_close(st_catalog *catalog);

/* Makes the index of the session's store from its archives, whatever the old one is. Errors: as st_catalog_open(). */
lmc_status st_catalog_remake(st_store_session *store);

/* The files and models of an index alone, whose store need not be on this machine. The session has options and diag,
 * and gets the list of models: their names. Free with st_catalog_close(), and the models, in every case. Errors:
 * CORRUPT, IO, NOMEM. */
lmc_status st_catalog_open_alone(st_catalog *catalog, st_store_session *store, const char *index_path);

/* Makes the index again, since it has turned out to be damaged. Errors: as st_catalog_open(); CORRUPT: it is alone. */
lmc_status st_catalog_rebuild(st_catalog *catalog);

/* The file with this id, or NULL. */
const st_catalog_file *st_catalog_find(const st_catalog *catalog, uint32_t id);

/* Makes the sketches of the tensors of a source; *tensors: one for each, to be released. Errors: NOMEM, what reading
 * gives. */
lmc_status st_catalog_sketch(const st_source *source, const lmc_allocator *memory, st_index_tensor **tensors,
                             lmc_st_diag *diag);

/* The path in a model of a file of it, given those of the two: of a single file, its name. */
const char *st_catalog_inner_path(const char *model_path, const char *file_path);

/* Sketches of a file that a model was made from. */
typedef struct st_sketched_file {
    char *path; /* in the model, as it was */
    st_index_tensor *tensors;
    size_t tensor_count;
} st_sketched_file;

/* Finds files that the index has of models, and that their folders lack. paths: for each model of the session NULL,
 * which becomes the first such path, to be released. Without an index that can be read, none is found. Errors: NOMEM,
 * CANCELLED. */
lmc_status st_catalog_find_missing(const st_store_session *store, char **paths);

/* Forgets in the index what a model was, before it becomes another: what the index has of a model must be there. A
 * damaged index is removed. Errors: IO, NOMEM, CANCELLED. */
lmc_status st_catalog_forget(st_catalog *catalog, const char *name);

/* Notes in the index what a model that was stored just now has. */
lmc_status st_catalog_note(st_catalog *catalog, const char *name, const st_sketched_file *files,
                           size_t count);

#endif
