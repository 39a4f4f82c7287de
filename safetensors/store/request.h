/*
 * request.h - what a call on a store or a run was given beside the options of a conversion.
 */
#ifndef LMC_SAFETENSORS_STORE_REQUEST_H
#define LMC_SAFETENSORS_STORE_REQUEST_H

#include "safetensors/store/session.h"

/* What a call does not have is 0. */
typedef struct st_store_request {
    st_store_kind kind;
    int dry_run;
    unsigned key_every; /* of a run; 0: as it is */
    unsigned depth;     /* of a store: how many models one may need, one below the other */
    /* In a run: a plain copy of step `base_step`, which is read as the base. NULL: that step is decoded. */
    const char *base_snapshot;
    uint64_t base_step;
    /* Tells what was done with a model; may be NULL. The numbers of the events are those of lmc_run.h, too. */
    void (*model_done)(void *user, lmc_store_event event, const st_model *model);
    void *user;
} st_store_request;

static inline void st_store_tell(const st_store_request *request, lmc_store_event event,
                                 const st_model *model)
{
    if (request->model_done)
        request->model_done(request->user, event, model);
}

/* What a rule of lmc_run_keep() keeps; all 0: no rule. */
typedef struct st_keep_rule {
    uint64_t last, every;
} st_keep_rule;

/* The calls, which lmc_run.h and lmc_store.h explain. Models are named, also those of a run. */

/* *added: an entry of the model; free it with st_model_free(), in every case. */
lmc_status st_store_add(const char *store, const char *path, const char *name,
                        const st_store_request *request, const st_options *options, st_model *added,
                        lmc_st_diag *diag);

/* names: NULL: by the rule. */
lmc_status st_store_drop(const char *store, const char *const *names, size_t name_count,
                         const st_keep_rule *rule, const st_store_request *request, const st_options *options,
                         lmc_st_diag *diag);

/* Fails with CORRUPT if a file of the model is missing, as far as the run's list or the store's index tells. */
lmc_status st_store_check_whole(const st_store_session *store, const st_model *model);

lmc_status st_store_restore(const char *store, const char *name, const char *out_path,
                            const st_store_request *request, const st_options *options, lmc_st_result *result,
                            lmc_st_diag *diag);
lmc_status st_store_compare(const char *store, const char *name, const char *path,
                            const st_store_request *request, const st_options *options, lmc_st_diag *diag);

/* name_count 0: all. */
lmc_status st_store_verify(const char *store, const char *const *names, size_t name_count,
                           const st_store_request *request, const st_options *options, lmc_st_result *result,
                           lmc_st_diag *diag);
lmc_status st_store_open_tensor(const char *store, const char *name, const char *tensor,
                                const st_store_request *request, const st_options *options,
                                lmc_st_file **file, uint64_t *index, lmc_st_diag *diag);

#endif
