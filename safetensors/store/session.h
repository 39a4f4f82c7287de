/*
 * session.h - a store, or a run, that a call works on: its directory, its lock, its models. What an earlier call left
 * half done is removed when a session begins that may write.
 */
#ifndef LMC_SAFETENSORS_STORE_SESSION_H
#define LMC_SAFETENSORS_STORE_SESSION_H

#include "safetensors/base/folders.h"
#include "safetensors/common/options.h"
#include "safetensors/files/directories.h"
#include "safetensors/store/models.h"

/* Names in a store beside those of models: whatever begins so is no model, and is removed by the next writer. */
#define ST_STORE_PREFIX ".lmc-"
#define ST_STORE_TEMPORARY ST_STORE_PREFIX "st-" /* and digits: a list that is being written */
#define ST_STORE_STAGED ST_STORE_PREFIX "new"    /* the model that is being written */
#define ST_STORE_PLAIN ST_STORE_PREFIX "plain"   /* a model on its way from one base to another */
#define ST_STORE_OLD ST_STORE_PREFIX "old-"      /* and a folder: it comes back if nothing took its place */
#define ST_STORE_GONE ST_STORE_PREFIX "gone-"    /* and a number: it goes */

/* What a directory must be. */
typedef enum st_store_kind { ST_STORE_OF_MODELS, ST_STORE_OF_STEPS, ST_STORE_OF_EITHER } st_store_kind;

typedef struct st_store_session {
    const char *path; /* as the caller has it */
    const st_options *options;
    lmc_st_diag *diag;
    int fd;      /* of the directory; -1: not open */
    int lock_fd; /* -1: this session reads */
    int is_new;  /* this session has made the store, and perhaps the directory */
    int is_own_folder;
    char *true_path;
    unsigned key_every; /* of a run */
    st_models models;
} st_store_session;

/* How a session begins. */
typedef enum st_store_access {
    ST_STORE_READ,    /* removal of models is kept out */
    ST_STORE_PREVIEW, /* the same; a directory that can become a run is one without steps */
    ST_STORE_WRITE,   /* other writers are kept out */
    ST_STORE_CREATE,  /* the same; the store is made if there is none */
    ST_STORE_REPAIR   /* the same as ST_STORE_WRITE; lists are not read */
} st_store_access;

/* Opens the store, locks it, and lists its models: those of a store by their folders, those of a run by run.json, whose
 * entries are put right if folders contradict them. options and diag must outlive the session. Ends with
 * st_store_end(), in every case. Errors: as lmc_store_open(), CANCELLED, ARG (`path` is another kind of directory). */
lmc_status st_store_begin(st_store_session *store, const char *path, st_store_kind kind,
                          st_store_access access, const st_options *options, lmc_st_diag *diag);

/* status: of the session. A store that it has made and that is still empty is removed after a failure. */
void st_store_end(st_store_session *store, lmc_status status);

/* Writes run.json; a store has no such list. Errors: IO, NOMEM. */
lmc_status st_store_save(const st_store_session *store);

/* Removes the index of a store. */
void st_store_remove_index(const st_store_session *store);

/* Path of a name in the store, or of a model's folder; to be released. NULL: out of memory. */
char *st_store_path(const st_store_session *store, const char *name);
char *st_store_model_path(const st_store_session *store, const char *name);

/* Describes the folder of a model. expected: the model on which it should be based; it is looked for there first (NULL:
 * none is expected). Free *found with st_model_free(). Errors: as st_model_describe(). */
lmc_status st_store_describe(const st_store_session *store, const char *name, const char *expected,
                             st_model *found);

/* The model with this name. Error: ARG. */
lmc_status st_store_find(const st_store_session *store, const char *name, const st_model **found);

#endif
