/*
 * session.h - a run that a call works on: its directory, its lock, its list of steps. What an earlier call left half
 * done is removed when a session begins that may write.
 */
#ifndef LMC_SAFETENSORS_RUN_SESSION_H
#define LMC_SAFETENSORS_RUN_SESSION_H

#include "safetensors/base/folders.h"
#include "safetensors/base/run_list.h"
#include "safetensors/os/dir.h"

/* Names in a run beside those of steps: whatever begins so is no step, and is removed by the next writer. */
#define ST_RUN_PREFIX ".lmc-"
#define ST_RUN_LOCK ST_RUN_PREFIX "lock"
#define ST_RUN_TEMPORARY ST_RUN_PREFIX "st-" /* and digits: run.json that is being written */
#define ST_RUN_STAGED ST_RUN_PREFIX "new"    /* the step that is being written */
#define ST_RUN_PLAIN ST_RUN_PREFIX "plain"   /* a snapshot on its way from one base to another */
#define ST_RUN_OLD ST_RUN_PREFIX "old-"      /* and a step: it comes back if nothing took its place */
#define ST_RUN_GONE ST_RUN_PREFIX "gone-"    /* and a step: it goes */
#define ST_RUN_NAME_NBYTES (sizeof ST_RUN_GONE + ST_STEP_NAME_NBYTES)

typedef struct st_run_session {
    const char *path; /* as the caller has it */
    const st_options *options;
    lmc_st_diag *diag;
    int fd;      /* of the directory; -1: not open */
    int lock_fd; /* -1: this session reads */
    int is_new;  /* this session has made the run, and perhaps the directory */
    int is_own_folder;
    char *true_path;
    st_run_list list;
} st_run_session;

/* How a session begins. */
typedef enum st_run_access {
    ST_RUN_READ,   /* removal of steps is kept out */
    ST_RUN_PLAN,   /* the same; a directory that can become a run is one without steps */
    ST_RUN_WRITE,  /* other writers are kept out */
    ST_RUN_CREATE, /* the same; the run is made if there is none */
    ST_RUN_REPAIR  /* the same as ST_RUN_WRITE; run.json is not read */
} st_run_access;

/* Opens the run, locks it, and reads the list; entries that the folders contradict are put right. options and diag must
 * outlive the session. Ends with st_run_end(), in every case. Errors: as lmc_run_open(), CANCELLED, ARG (`path` is
 * no run and not empty). */
lmc_status st_run_begin(st_run_session *run, const char *path, st_run_access access,
                        const st_options *options, lmc_st_diag *diag);

/* status: of the session. A run that it has made and that is still empty is removed after a failure. */
void st_run_end(st_run_session *run, lmc_status status);

/* Writes run.json. Errors: IO, NOMEM. */
lmc_status st_run_save(const st_run_session *run);

/* Path of a name in the run, of a step's folder; to be released. NULL: out of memory. */
char *st_run_path(const st_run_session *run, const char *name);
char *st_run_step_path(const st_run_session *run, uint64_t step);

/* st_run_describe() for a step of the run, whose base is looked for first in step `expected` (LMC_RUN_UNKNOWN: none
 * is expected). */
lmc_status st_run_describe_step(const st_run_session *run, uint64_t step, uint64_t expected,
                                lmc_run_step *found);

/* The entry of a step. Error: ARG. */
lmc_status st_run_find_step(const st_run_session *run, uint64_t step, const lmc_run_step **found);

#endif
