/*
 * lmc_store.h - stores of models: a directory that keeps models, and finds for each the models that it is based on.
 * Part of liblmc_st.
 *
 * EXPERIMENTAL: calls may change in any minor version.
 *
 * A model is a file with tensors, or a directory of files. It has a name, as "org/model@revision". The store has a
 * folder for it, STORE/org/model@revision.lmc, with ordinary archives (lmc_st.h): that of the file, or those of the
 * directory with copies of its other files. Tensors that are equal or similar to tensors of models in the store are
 * stored as changes; such tensors are found by their values. STORE/index.sqlite is a cache for that search
 * (docs/store.md).
 *
 * A run (lmc_run.h) is also a store: its models are its steps, named in decimal. Calls here work on runs as they do on
 * stores, except lmc_store_add() and lmc_store_plan().
 *
 *     lmc_st_diag diag = LMC_INIT(lmc_st_diag);           // error handling omitted
 *     lmc_store_add("store", "Qwen2.5-7B", NULL, &diag);
 *     lmc_store_add("store", "Qwen2.5-7B-Instruct", NULL, &diag);
 *     lmc_store_restore("store", "Qwen2.5-7B-Instruct", "back", NULL, NULL, &diag);
 *
 * Conventions of every call, in addition to those of lmc_st.h
 *  - Calls that change a store take its lock, and wait for it; *cancel ends the wait. The system releases the lock of a
 *    process that ends, however it ends. Calls that read a store only block the removal of models. A callback must not
 *    change the store that its call works on: it would wait forever.
 *  - A model appears, is replaced and is removed as a whole. A call that ends early, or is killed, leaves a valid
 *    store. Unfinished work is then in the store under names that start with a dot; the next call that changes the
 *    store removes it.
 *  - Bases are found automatically, also by the calls of lmc_st.h on the files and folders of a store.
 *  - Memory is bounded as docs/library.md says ("Memory"), plus the list of models, and the sketches of tensors of the
 *    same type and size as those of the model that is added.
 */
#ifndef LMC_STORE_H
#define LMC_STORE_H

#include "lmc_st.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits for the number of other models in a model's chain of bases. */
#define LMC_STORE_DEPTH_MAX 62
#define LMC_STORE_DEPTH_DEFAULT 1

/* The depth of a model with a base that is not in the store. */
#define LMC_STORE_UNKNOWN UINT64_MAX

/* A segment of a name has at most this many bytes, a name at most LMC_STORE_NAME_NBYTES_MAX. */
#define LMC_STORE_SEGMENT_NBYTES_MAX 200
#define LMC_STORE_NAME_NBYTES_MAX 1000

/* ---- what a directory is ------------------------------------------------------------------------ */

typedef enum lmc_store_kind LMC_OF_INT {
    LMC_STORE_NONE = 0,
    LMC_STORE_RUN = 1,   /* its file run.json is the list of a run */
    LMC_STORE_MODELS = 2 /* its file store.json is the mark of a store */
} lmc_store_kind;

/* Finds the nearest run or store that a path is in. Other programs' files of these names do not count, nor do the
 * copies in a converted directory; a file that cannot be read does.
 *  path: of a file or directory; its last component need not exist. Links to directories are followed; a link to a file
 *    is where its name is.
 *  *kind: LMC_STORE_NONE if there is none.
 *  *depth: 0: the path is the run or store itself; 1: it is in its top directory; and so on.
 * Error: LMC_ERR_NOMEM. */
LMC_NODISCARD LMC_API lmc_status lmc_store_locate(const char *path, lmc_store_kind *kind, unsigned *depth);

/* ---- models ------------------------------------------------------------------------------------- */

/* One model of a store. */
typedef struct lmc_store_model {
    size_t struct_size; /* sizeof(lmc_store_model); set by LMC_INIT() */
    /* UTF-8, NUL-terminated. Valid until lmc_store_close(), or until the callback returns. */
    const char *name;
    int is_directory;         /* 1: the model was a directory; 0: a single file */
    const char *const *bases; /* names of the models that it is based on, by bytes; valid as `name` is */
    size_t base_count;
    int has_unknown_base; /* 1: it needs a file that is not in the store, or has an archive that cannot be read */
    /* Length of the longest chain of models that this one needs, itself included: 1 if it needs no other. Bases that
     * are used for equal tensors only do not count. LMC_STORE_UNKNOWN if one is missing. */
    uint64_t depth;
    uint64_t file_count;      /* of the model */
    uint64_t original_nbytes; /* of all its files */
    uint64_t stored_nbytes;   /* of its folder's files */
    int64_t time_s;           /* when file or directory was last modified; seconds since 1970, UTC */
} lmc_store_model;

/* The models of a store as they were when it was opened. Immutable. */
typedef struct lmc_store lmc_store;

/* Lists the models from their folders: the header of each archive is read, and no index. allocator: as for
 * lmc_st_open(). Errors: LMC_ERR_IO (no such directory), LMC_ERR_ARG (neither a store nor a run), LMC_ERR_NOMEM; of a
 * run, as lmc_run_open(). Close it with lmc_store_close(). */
LMC_NODISCARD LMC_API lmc_status lmc_store_open(const char *store_dir, const lmc_allocator *allocator,
                                                lmc_store **store, lmc_st_diag *diag);

/* NULL is allowed. */
LMC_API void lmc_store_close(lmc_store *store);

/* Models are numbered 0 .. count-1: in a store by the bytes of their names, in a run by rising step. */
LMC_API uint64_t lmc_store_model_count(const lmc_store *store);

/* Describes model `index`. Error: LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_store_model_info(const lmc_store *store, uint64_t index,
                                                      lmc_store_model *model);

/* Finds a model by its name. Returns 1 and sets *index, or returns 0. */
LMC_API int lmc_store_find_model(const lmc_store *store, const char *name, uint64_t *index);

/* 1: the directory is a run. */
LMC_API int lmc_store_is_run(const lmc_store *store);

/* 1 if a model of a store can have the name: UTF-8; 1 to 32 segments of 1 to LMC_STORE_SEGMENT_NBYTES_MAX bytes with
 * "/" between them; at most LMC_STORE_NAME_NBYTES_MAX bytes in all. No segment begins with a dot, none but the last has
 * the end ".lmc", and the first of several is not "store.json", "index.sqlite" or "run.json". Names are compared byte
 * by byte. */
LMC_API int lmc_store_name_is_valid(const char *name);

/* ---- changing a store --------------------------------------------------------------------------- */

/* What was done with a model. */
typedef enum lmc_store_event LMC_OF_INT {
    LMC_STORE_ADDED = 0,   /* also: replaced one with other content */
    LMC_STORE_PRESENT = 1, /* it was there already, with equal content */
    LMC_STORE_REBASED = 2, /* rewritten with other bases */
    LMC_STORE_DROPPED = 3,
    LMC_STORE_VERIFIED = 4,
    LMC_STORE_PLANNED = 5 /* what it should be based on, and would take then; nothing was done */
} lmc_store_event;

/* "added", "already there", "re-based", "dropped", "verified", "planned"; NULL for other numbers. Static storage. */
LMC_API const char *lmc_store_event_name(lmc_store_event event);

/* Called once a model is done. A reported model remains valid even if the call fails later. */
typedef void (*lmc_store_model_fn)(void *user, lmc_store_event event, const lmc_store_model *model);

/* Fields of several structs. Those that lmc_st.h explains mean the same here.
 *  model_done  may be NULL. */
typedef struct lmc_store_add_options {
    size_t struct_size; /* sizeof(lmc_store_add_options); set by LMC_INIT(), as in the structs below */
    lmc_st_common common;
    const char *name; /* NULL: the last component of the path */
    /* Other models in the chain of the new one, at most: its depth will be at most one more. 1 to LMC_STORE_DEPTH_MAX;
     * 0: LMC_STORE_DEPTH_DEFAULT. */
    unsigned depth;
    lmc_level level;
    int force; /* 1: replace a model with other content */
    int no_fsync;
    const char *const *excludes;
    size_t exclude_count;
    lmc_store_model_fn model_done;
    lmc_st_file_fn file_done;
    lmc_st_fault_fn warning;
} lmc_store_add_options;

typedef struct lmc_store_drop_options { /* also of lmc_store_repair() */
    size_t struct_size;
    lmc_st_common common;
    int no_fsync;
    lmc_store_model_fn model_done;
} lmc_store_drop_options;

typedef struct lmc_store_restore_options {
    size_t struct_size;
    lmc_st_common common;
    int force;
    int no_fsync;
    lmc_st_file_fn file_done;
} lmc_store_restore_options;

typedef struct lmc_store_verify_options {
    size_t struct_size;
    lmc_st_common common;
    lmc_store_model_fn model_done;
    lmc_st_fault_fn damage;
    lmc_st_file_fn file_done;
} lmc_store_verify_options;

/* Adds a model to a store, which is made if `store_dir` is not there or empty. The model is never changed. Its bases
 * are chosen by the values of its tensors. An existing model is compared: equal content is a success
 * (LMC_STORE_PRESENT). Different content is refused (LMC_ERR_ARG, os_errno EEXIST) unless options->force is set. Then
 * models based on the old content are re-based first. The model is added once it has its name in the store, before
 * model_done is called.
 * Errors: as lmc_st_convert() and lmc_store_open(). LMC_ERR_ARG: the name is not valid; depth out of its range; the
 * model is in the store or holds it; `store_dir` is a run, or neither a store nor empty. */
LMC_NODISCARD LMC_API lmc_status lmc_store_add(const char *store_dir, const char *path,
                                               const lmc_store_add_options *options, lmc_st_diag *diag);

/* Removes models. Models based on them are re-based first. Errors: LMC_ERR_ARG (no names, or no such model: then none
 * is removed), and as lmc_st_restore() and lmc_st_convert() of what is re-based; models that were reported to
 * model_done before a failure are done. */
LMC_NODISCARD LMC_API lmc_status lmc_store_drop(const char *store_dir, const char *const *names,
                                                size_t name_count, const lmc_store_drop_options *options,
                                                lmc_st_diag *diag);

/* Removes unfinished work, and rebuilds what can be derived from the archives: the index, the mark that makes a
 * directory a store; for a run, run.json. Nothing else changes; damaged archives stay. Errors: LMC_ERR_IO,
 * LMC_ERR_NOMEM, LMC_ERR_CANCELLED, LMC_ERR_ARG (the directory has no model and is no store). */
LMC_NODISCARD LMC_API lmc_status lmc_store_repair(const char *store_dir,
                                                  const lmc_store_drop_options *options, lmc_st_diag *diag);

typedef struct lmc_store_plan_options {
    size_t struct_size;
    lmc_st_common common;
    int apply;      /* 1: models are re-encoded as planned; 0: nothing changes */
    unsigned depth; /* as in lmc_store_add_options */
    int no_fsync;
    lmc_store_model_fn model_done;
} lmc_store_plan_options;

/* What a plan saves and costs. */
typedef struct lmc_store_plan_result {
    size_t struct_size;      /* sizeof(lmc_store_plan_result); set by LMC_INIT() */
    uint64_t stored_nbytes;  /* that all models take, before anything was applied */
    uint64_t planned_nbytes; /* that they would take, as predicted; once it was applied, that they take */
    uint64_t changed_count;  /* models that would be, or were, re-encoded */
    /* of these models, before compression: each is read, and written, up to six times */
    uint64_t changed_nbytes;
} lmc_store_plan_result;

/* Looks at the whole store, and finds which models should stand alone and which bases the others should have, so that
 * all together take the least space. model_done gets every model in the order of the store as LMC_STORE_PLANNED, with
 * the base that it should have and its predicted size. With options->apply, models that change are then re-encoded, but
 * only if that saves space in total, which is determined before anything is replaced. A call that ends early leaves a
 * valid store; the same call continues where it ended. result: may be NULL. Errors: LMC_ERR_ARG (a run, depth out of
 * its range, a base that is not in the store), as lmc_store_open() and lmc_store_drop(). */
LMC_NODISCARD LMC_API lmc_status lmc_store_plan(const char *store_dir, const lmc_store_plan_options *options,
                                                lmc_store_plan_result *result, lmc_st_diag *diag);

/* ---- reading a store ---------------------------------------------------------------------------- */

/* Writes a model to `out_path`, which is its name: a file if it was one, else a directory. Errors: LMC_ERR_ARG (no such
 * model, out_path is in the store), as lmc_store_open() and lmc_st_restore(). result: may be NULL. */
LMC_NODISCARD LMC_API lmc_status lmc_store_restore(const char *store_dir, const char *name,
                                                   const char *out_path,
                                                   const lmc_store_restore_options *options,
                                                   lmc_st_result *result, lmc_st_diag *diag);

/* Verifies models as lmc_st_verify() does; name_count 0: all. A model without archives whose name says that it was a
 * file is damaged. The call continues after damage; the status is that of the first fault. result: sums; may be NULL.
 * Errors: LMC_ERR_ARG (no such model), as lmc_store_open() and lmc_st_verify(). */
LMC_NODISCARD LMC_API lmc_status lmc_store_verify(const char *store_dir, const char *const *names,
                                                  size_t name_count, const lmc_store_verify_options *options,
                                                  lmc_st_result *result, lmc_st_diag *diag);

/* Opens the archive of a model that has the tensor, and everything that it needs, and sets *index. "FILE:TENSOR" names
 * the file by its path in the model; it is needed if several files have the tensor. allocator: as for lmc_st_open().
 * Errors: LMC_ERR_ARG (no such model, no such tensor, or several), as lmc_store_open() and lmc_st_open_base(). Close
 * the file with lmc_st_close(). */
LMC_NODISCARD LMC_API lmc_status lmc_store_open_tensor(const char *store_dir, const char *name,
                                                       const char *tensor, const lmc_allocator *allocator,
                                                       lmc_st_file **file, uint64_t *index,
                                                       lmc_st_diag *diag);

/* ---- an index alone -----------------------------------------------------------------------------
 * For programs that add models from many machines: sketches are made there, one program merges them and determines the
 * bases of each model, and the models are converted where their bases have been copied. An index file is one like
 * STORE/index.sqlite (docs/store.md). The store that it describes need not be on this machine. The file is not trusted.
 * Another process that changes it is waited for, 10 seconds at most (LMC_ERR_IO then); *cancel ends the wait.
 * Errors of calls that take index_path: LMC_ERR_IO, LMC_ERR_CORRUPT (no index, or a damaged one; it is not made again),
 * LMC_ERR_NOMEM, LMC_ERR_CANCELLED. */

typedef struct lmc_store_index_options {
    size_t struct_size;
    lmc_st_common common;
    const char *const *excludes; /* lmc_store_index_add() */
    size_t exclude_count;
} lmc_store_index_options;

/* Adds the sketches of a model to an index, which is made if there is none. `path`: as for lmc_store_add(); it is not
 * stored anywhere. What the index had of `name` is replaced; it stays after a failure. The index is made and locked
 * after all sketches have been made. Errors also: LMC_ERR_ARG (the name is not valid), as lmc_st_convert(). */
LMC_NODISCARD LMC_API lmc_status lmc_store_index_add(const char *index_path, const char *name,
                                                     const char *path, const lmc_store_index_options *options,
                                                     lmc_st_diag *diag);

/* Copies the entries of the model `name` from another index to an index, which is created if there is none. They
 * replace the entries that it had of the model, even if there are none to copy, as for a model without tensors. NULL:
 * copies all models; files with equal paths are replaced. */
LMC_NODISCARD LMC_API lmc_status lmc_store_index_merge(const char *index_path, const char *other_path,
                                                       const char *name,
                                                       const lmc_store_index_options *options,
                                                       lmc_st_diag *diag);

/* Called with the predicted size of model `name` on each single base; first with base NULL: without a base. is_chosen:
 * of the models that are allowed, this one would be a base of it, with the others that are chosen. `name` is the
 * caller's, `base` is valid until the call returns. user: that of options->common. */
typedef void (*lmc_store_prediction_fn)(void *user, const char *name, const char *base, uint64_t nbytes,
                                        int is_chosen);

/* Predicts the stored size of models in the index when they are based on other models in it. For each model, the chosen
 * bases come first, then at most 32 others, the best first; a base that saves nothing is left out. allowed: names of
 * the models that may be a base; names that are not in the index are ignored; NULL: all. Error also: LMC_ERR_ARG (no
 * such model in the index). */
LMC_NODISCARD LMC_API lmc_status lmc_store_index_predict(const char *index_path, const char *const *names,
                                                         size_t name_count, const char *const *allowed,
                                                         size_t allowed_count,
                                                         const lmc_store_index_options *options,
                                                         lmc_store_prediction_fn predicted,
                                                         lmc_st_diag *diag);

/* The size of a model when it is based on another one. */
typedef struct lmc_store_cost {
    uint32_t model, base; /* numbers, 0 .. model_count-1 */
    uint64_t nbytes;
} lmc_store_cost;

#define LMC_STORE_NO_BASE SIZE_MAX

/* Finds what each model should be based on, so that all of them take the least space; lmc_store_plan() does the same.
 * alone_nbytes: the size of each without a base. costs: in ascending order of `model`. depth: 1 to LMC_STORE_DEPTH_MAX.
 * bases: of each model now, or LMC_STORE_NO_BASE, and as it should be afterwards. A model that is to keep its base has
 * no other cost, and an alone_nbytes above what all others take. Errors: LMC_ERR_ARG (a number out of its range, costs
 * in another order), LMC_ERR_NOMEM. */
LMC_NODISCARD LMC_API lmc_status lmc_store_arrange(size_t model_count, const uint64_t *alone_nbytes,
                                                   const lmc_store_cost *costs, size_t cost_count,
                                                   unsigned depth, size_t *bases);

#ifdef __cplusplus
}
#endif

#endif
