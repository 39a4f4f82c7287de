/*
 * drop.h - steps whose base goes are stored again on another one, or as key frames.
 */
#ifndef LMC_SAFETENSORS_RUN_DROP_H
#define LMC_SAFETENSORS_RUN_DROP_H

#include "safetensors/common/parts.h"
#include "safetensors/run/run_options.h"
#include "safetensors/run/session.h"

/* What is to become of the steps of a run, by their numbers in the list. */
typedef struct st_rebase_plan {
    const lmc_allocator *memory;
    size_t count;
    unsigned char *goes;       /* the caller's choice: 1 for a step that goes, or gets another content */
    unsigned char *is_rebased; /* 1: it is stored again */
    size_t *base; /* of one that is stored again: a step that stays, or SIZE_MAX for a key frame */
} st_rebase_plan;

/* A plan in which no step goes. Error: NOMEM. Free with st_rebase_plan_free() in every case. */
lmc_status st_rebase_plan_init(st_rebase_plan *plan, const st_run_session *run);
void st_rebase_plan_free(st_rebase_plan *plan);

/* Decides, for `goes`, which steps are stored again and on what: on the nearest earlier step that stays and has the
 * same key frame, if there is one. No chain gets longer than it was or than key_every allows. The list of the run may
 * be an old one: the archives of steps that stay say what they are based on, and the list is put right. Errors: NOMEM,
 * IO, CANCELLED; ARG: the base of a step that stays is not known, so that it may be one that goes. */
lmc_status st_rebase_plan_make(st_rebase_plan *plan, st_run_session *run);

/* Stores the steps again: restores each, converts it, compares the two, and replaces its folder. dry_run: only calls
 * step_done for what it would do. options: as the
 * session's, with the callbacks that are wanted. Errors: as lmc_st_restore(), lmc_st_convert(), lmc_st_compare(). */
lmc_status st_rebase_do(const st_rebase_plan *plan, st_run_session *run, const st_run_options *run_options,
                        const st_options *options);

#endif
