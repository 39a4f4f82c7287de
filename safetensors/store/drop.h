/*
 * drop.h - models that must be stored again, because what they are based on goes or gets other content.
 */
#ifndef LMC_SAFETENSORS_STORE_DROP_H
#define LMC_SAFETENSORS_STORE_DROP_H

#include "safetensors/common/parts.h"
#include "safetensors/store/request.h"

/* A model that is stored again is read and written this often: restored, converted, compared. */
#define ST_REBASE_PASSES 3

/* How a model is stored again. */
typedef struct st_rebase {
    const char *base;          /* of a run: the step that it is based on; NULL: a key frame */
    const unsigned char *goes; /* of a store, per model: it can be no base; NULL: all can */
    const unsigned char
        *allowed; /* of a store, per model: it can be one, whatever it needs itself; or NULL */
    const unsigned char *has_equals; /* with `allowed`: it can serve for equal tensors */
    uint64_t *new_nbytes; /* not NULL: only what it would take is found out; the list of models is as it
                                        would be then, and nothing else changes */
} st_rebase;

/* Restores a model, converts it, compares the two, and replaces its folder. parts: of a call whose total counts the
 * model ST_REBASE_PASSES times. options: with the callbacks that are wanted. Errors: as lmc_st_restore(),
 * lmc_st_convert(), lmc_st_compare(). */
lmc_status st_rebase_model(st_store_session *store, const char *name, const st_rebase *how,
                           const st_store_request *request, st_parts *parts, const st_options *options);

/* For each model of the session's list. All zero: nothing to free. */
typedef struct st_rebase_plan {
    const lmc_allocator *memory;
    unsigned char *goes;       /* it is to lose its content; set by the caller */
    unsigned char *is_rebased; /* it is stored again, ... */
    size_t *base;              /* ... in a run, on this one; SIZE_MAX: as a key frame */
    size_t count;
} st_rebase_plan;

/* Makes a plan in which nothing goes. Error: NOMEM. Free with st_rebase_plan_free() in every case. */
lmc_status st_rebase_plan_init(st_rebase_plan *plan, const st_store_session *store);
void st_rebase_plan_free(st_rebase_plan *plan);

/* Decides, for `goes`, which models are stored again; in a run, on what: on the nearest earlier step that stays and has
 * the same key frame, if there is one, so that no chain gets longer than it was or than key_every allows. The list may
 * be an old one: the archives of models that stay say what they are based on, and the list is put right. Errors: NOMEM,
 * IO, CANCELLED; ARG: the base of a model that stays is not known, so that it may be one that goes. */
lmc_status st_rebase_plan_make(st_rebase_plan *plan, st_store_session *store);

/* Stores the models again: restores each, converts it, compares the two, and replaces its folder. dry_run: only tells
 * what it would do. options: as the session's, with the callbacks that are wanted. Errors: as lmc_st_restore(),
 * lmc_st_convert(), lmc_st_compare(). */
lmc_status st_rebase_do(const st_rebase_plan *plan, st_store_session *store, const st_store_request *request,
                        const st_options *options);

#endif
