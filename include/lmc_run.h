/*
 * lmc_run.h - training runs: a directory that keeps the snapshots of a run. Part of liblmc_st.
 *
 * EXPERIMENTAL: calls may change in any minor version.
 *
 * A snapshot is a file with tensors or a checkpoint directory: weights, optimizer state and all else that belongs to a
 * step. A run directory has a folder for each step, named by it in decimal: RUN_DIR/3010. It holds ordinary archives
 * (lmc_st.h): that of the file, or those of the directory with copies of its other files. Most steps are based on an
 * earlier one and hold what has changed since. A key frame needs no other step. RUN_DIR/run.json lists the steps
 * (docs/run.md).
 *
 *     lmc_st_diag diag = LMC_INIT(lmc_st_diag);           // error handling omitted
 *     lmc_run_add("run", "checkpoint-3010", NULL, NULL, &diag);
 *     lmc_run_restore("run", 3010, "back", NULL, NULL, &diag);
 *
 * Conventions of every call, in addition to those of lmc_st.h
 *  - The progress of lmc_run_add() is that of the conversion. That of lmc_run_drop() and lmc_run_keep() counts the
 *    steps that are rewritten; it is not called if there are none.
 *  - Calls that change a run take its lock, and wait for it; *cancel ends the wait. The system releases the lock of a
 *    process that ends, however it ends. Calls that read a run only block the removal of steps. A callback must not
 *    change the run that its call works on: it would wait forever.
 *  - A step appears, is replaced and is removed as a whole. A call that ends early, or is killed, leaves a valid run.
 *    Unfinished work is then in RUN_DIR under names that start with ".lmc-"; the next call that changes the run
 *    removes it, and brings run.json up to date.
 *  - Bases are found automatically, also by the calls of lmc_st.h on the files and folders of a run.
 *  - Memory is bounded as docs/library.md says ("Memory"), regardless of the number of steps; the list takes at most
 *    400 bytes a step.
 */
#ifndef LMC_RUN_H
#define LMC_RUN_H

#include "lmc_st.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LMC_RUN_KEY_EVERY_MAX 63
#define LMC_RUN_KEY_EVERY_DEFAULT 8
#define LMC_RUN_STEP_MAX ((uint64_t)1 << 63)

/* Stands for an unknown base, or an unknown length of a chain, if a base is not in the run. */
#define LMC_RUN_UNKNOWN UINT64_MAX

/* Version of the run.json that this library writes and reads. */
#define LMC_RUN_VERSION 1

/* ---- steps -------------------------------------------------------------------------------------- */

/* One step of a run. */
typedef struct lmc_run_step {
    size_t struct_size; /* sizeof(lmc_run_step); set by LMC_INIT() */
    uint64_t step;
    int is_directory;    /* 1: the snapshot was a directory; 0: a single file */
    int has_base;        /* 0: a key frame */
    uint64_t base;       /* the step that it is based on, an earlier one; 0 without; may be unknown */
    uint64_t chain;      /* how many steps it needs: 0 for a key frame; unknown if one of them is missing */
    uint64_t file_count; /* of the snapshot */
    uint64_t original_nbytes; /* of all its files */
    uint64_t stored_nbytes;   /* of its folder's files */
    int64_t time_s;           /* when file or directory was last modified; seconds since 1970, UTC */
} lmc_run_step;

/* The steps of a run as they were when it was opened. Immutable. */
typedef struct lmc_run lmc_run;

/* Reads run.json. Steps that it lacks are added and steps that are gone are left out, in memory; nothing is written.
 * allocator: as for lmc_st_open(). Errors: LMC_ERR_IO (no such directory), LMC_ERR_ARG (not a run: there is no
 * run.json), LMC_ERR_CORRUPT (a run.json that breaks the rules), LMC_ERR_UNSUPPORTED (a newer one), LMC_ERR_LIMIT (one
 * of more than 256 MiB), LMC_ERR_NOMEM. Close it with lmc_run_close(). */
LMC_NODISCARD LMC_API lmc_status lmc_run_open(const char *run_dir, const lmc_allocator *allocator,
                                              lmc_run **run, lmc_st_diag *diag);

/* NULL is allowed. */
LMC_API void lmc_run_close(lmc_run *run);

/* Steps are numbered 0 .. count-1, by rising step. */
LMC_API uint64_t lmc_run_step_count(const lmc_run *run);

/* Describes step `index`. Error: LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_run_step_info(const lmc_run *run, uint64_t index, lmc_run_step *step);

/* Finds a step by its number. Returns 1 and sets *index, or returns 0. */
LMC_API int lmc_run_find_step(const lmc_run *run, uint64_t step, uint64_t *index);

/* The largest number of steps from one key frame to the next. */
LMC_API unsigned lmc_run_key_every(const lmc_run *run);

/* Finds the step in the name of a snapshot: the digits after "step", "checkpoint", "iter" or "epoch" (in this order;
 * "-", "_" or "=" may stand between; letters of either case), the last such place counts. Else the last integer of the
 * name without its suffixes (".bf16.safetensors") and shard numbers ("-00001-of-00002"). Returns 1 and sets *step, or
 * returns 0: the name has none, or one above LMC_RUN_STEP_MAX. Only the path's last component counts. */
LMC_API int lmc_run_step_of_name(const char *path, uint64_t *step);

/* ---- changing a run ----------------------------------------------------------------------------- */

/* What was done with a step. */
typedef enum lmc_run_event LMC_OF_INT {
    LMC_RUN_ADDED = 0,   /* also: replaced one with other content */
    LMC_RUN_PRESENT = 1, /* it was there already, with equal content */
    LMC_RUN_REBASED = 2, /* rewritten, because the step that it was based on is removed */
    LMC_RUN_DROPPED = 3,
    LMC_RUN_VERIFIED = 4
} lmc_run_event;

/* "added", "already there", "re-based", "dropped", "verified"; NULL for other numbers. Static storage. */
LMC_API const char *lmc_run_event_name(lmc_run_event event);

/* Called once a step is done. A reported step remains valid even if the call fails later. */
typedef void (*lmc_run_step_fn)(void *user, lmc_run_event event, const lmc_run_step *step);

/* Fields of several structs. Those that lmc_st.h explains mean the same here.
 *  dry_run     1: nothing is changed, and step_done gets what would be done, as far as the list of steps tells: a new
 *              snapshot is not opened, and each is planned as if it were the only one.
 *  step_done   may be NULL.
 *  base_snapshot  NULL, or a plain copy of the snapshot of step `base_step`. It is read instead of that step if this is
 *              the new step's base, which saves decoding its chain. The caller guarantees that it is equal: otherwise
 *              the new step cannot be restored. */
typedef struct lmc_run_add_options {
    size_t struct_size; /* sizeof(lmc_run_add_options); set by LMC_INIT(), as in the structs below */
    lmc_st_common common;
    int has_step; /* 1: `step` is the step, regardless of the name */
    uint64_t step;
    unsigned key_every; /* 1 to LMC_RUN_KEY_EVERY_MAX, remembered in the run; 0: as the run has it */
    int dry_run;
    lmc_level level;
    int force; /* 1: replace a step with other content */
    int no_fsync;
    const char *const *excludes;
    size_t exclude_count;
    lmc_run_step_fn step_done;
    lmc_st_file_fn file_done;
    lmc_st_fault_fn warning;
    const char *base_snapshot;
    uint64_t base_step;
} lmc_run_add_options;

typedef struct lmc_run_drop_options { /* also of lmc_run_keep() */
    size_t struct_size;
    lmc_st_common common;
    int dry_run;
    int no_fsync;
    lmc_run_step_fn step_done;
} lmc_run_drop_options;

typedef struct lmc_run_restore_options {
    size_t struct_size;
    lmc_st_common common;
    int force;
    int no_fsync;
    lmc_st_file_fn file_done;
} lmc_run_restore_options;

typedef struct lmc_run_verify_options {
    size_t struct_size;
    lmc_st_common common;
    lmc_run_step_fn step_done;
    lmc_st_fault_fn damage;
    lmc_st_file_fn file_done;
} lmc_run_verify_options;

/* Adds a snapshot to a run, which is made if `run_dir` is not there or empty. The snapshot is never changed. The base
 * is the newest step, if that is an earlier one. A key frame is stored instead
 *  - if the chain would reach key_every steps,
 *  - if files, names, dtypes or shapes differ from those in the newest step (but for the parts of names that wrappers
 *    add),
 *  - if the newest step shows that a delta no longer pays, or is a later one.
 * An existing step is compared: equal content is a success (LMC_RUN_PRESENT). Different content is refused
 * (LMC_ERR_ARG, os_errno EEXIST) unless options->force is set. Then steps based on the old content are re-based first.
 * The step is added once it has its name in the run and run.json has it, before step_done is called.
 *  added: may be NULL.
 * Errors: as lmc_st_convert() and lmc_run_open(). LMC_ERR_ARG: no step in the name, or one above LMC_RUN_STEP_MAX;
 * key_every out of its range; the snapshot is in the run; `run_dir` is not a run and not empty. */
LMC_NODISCARD LMC_API lmc_status lmc_run_add(const char *run_dir, const char *snapshot,
                                             const lmc_run_add_options *options, lmc_run_step *added,
                                             lmc_st_diag *diag);

/* Removes steps. Steps based on them are re-based first. Errors: LMC_ERR_ARG (no steps, or no such step), and as
 * lmc_st_restore() and lmc_st_convert() of what is re-based; steps that were reported to step_done before a failure are
 * done. */
LMC_NODISCARD LMC_API lmc_status lmc_run_drop(const char *run_dir, const uint64_t *steps, size_t step_count,
                                              const lmc_run_drop_options *options, lmc_st_diag *diag);

/* Removes all steps but the newest `last` ones and those that `every` divides. 0 leaves one of the two out; the newest
 * step stays in any case. Errors: LMC_ERR_ARG (both are 0), and as lmc_run_drop(). */
LMC_NODISCARD LMC_API lmc_status lmc_run_keep(const char *run_dir, uint64_t last, uint64_t every,
                                              const lmc_run_drop_options *options, lmc_st_diag *diag);

/* Removes unfinished work, and rebuilds run.json from the names of folders, their archives and their times. run.json
 * may be missing or damaged; without one, key_every is the default. A step whose base is not there gets an unknown
 * base. Errors: LMC_ERR_IO, LMC_ERR_NOMEM, LMC_ERR_CANCELLED, LMC_ERR_ARG (the directory has neither run.json nor a
 * folder of a step). */
LMC_NODISCARD LMC_API lmc_status lmc_run_repair(const char *run_dir, const lmc_st_options *options,
                                                lmc_st_diag *diag);

/* ---- reading a run ------------------------------------------------------------------------------ */

/* Writes a step's snapshot to `out_path`, which is its name: a file if it was one, else a directory. Errors:
 * LMC_ERR_ARG (no such step, out_path is in the run), as lmc_run_open() and lmc_st_restore(). result: may be NULL. */
LMC_NODISCARD LMC_API lmc_status lmc_run_restore(const char *run_dir, uint64_t step, const char *out_path,
                                                 const lmc_run_restore_options *options,
                                                 lmc_st_result *result, lmc_st_diag *diag);

/* Verifies steps as lmc_st_verify() does; step_count 0: all. A step without archives is damaged, and so is one that has
 * other files or bytes than run.json says (LMC_ERR_CORRUPT). The call continues after damage; the status is that of the
 * first fault. result: sums; may be NULL. Errors: LMC_ERR_ARG (no such step), as lmc_run_open() and lmc_st_verify(). */
LMC_NODISCARD LMC_API lmc_status lmc_run_verify(const char *run_dir, const uint64_t *steps, size_t step_count,
                                                const lmc_run_verify_options *options, lmc_st_result *result,
                                                lmc_st_diag *diag);

/* Reads a step whole and compares it with a snapshot, as lmc_st_compare() does: a success proves that the snapshot may
 * be removed. Errors: LMC_ERR_ARG (no such step), LMC_ERR_CHECKSUM if they differ, as lmc_run_open() and
 * lmc_st_compare(). */
LMC_NODISCARD LMC_API lmc_status lmc_run_compare(const char *run_dir, uint64_t step, const char *snapshot,
                                                 const lmc_st_options *options, lmc_st_diag *diag);

/* Opens the archive of a step that has the tensor `name`, which ends in a NUL, and everything that it needs, and sets
 * *index. "FILE:NAME" names the file by its path in the snapshot; it is needed if several files have the name.
 * allocator: as for lmc_st_open(). Errors: LMC_ERR_ARG (no such step, no such tensor, or several), as lmc_run_open()
 * and lmc_st_open_base(). Close the file with lmc_st_close(). */
LMC_NODISCARD LMC_API lmc_status lmc_run_open_tensor(const char *run_dir, uint64_t step, const char *name,
                                                     const lmc_allocator *allocator, lmc_st_file **file,
                                                     uint64_t *index, lmc_st_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
