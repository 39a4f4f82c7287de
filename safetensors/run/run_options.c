/*
 * run_options.c - completes what a call on a run was given.
 */
#include "safetensors/run/run_options.h"

#include <string.h>

st_store_request st_run_request(void)
{
    return (st_store_request){.kind = ST_STORE_OF_STEPS};
}

lmc_run_step st_run_step_of(const st_model *model)
{
    lmc_run_step step = LMC_INIT(lmc_run_step);
    step.step = model->step;
    step.is_directory = model->is_directory;
    step.has_base = model->base_count > 0 || model->has_unknown_base;
    if (model->has_unknown_base)
        step.base = LMC_RUN_UNKNOWN;
    else if (model->base_count > 0)
        (void)!st_step_is_name(model->bases[0].name, strlen(model->bases[0].name), &step.base);
    step.chain = model->depth;
    step.file_count = model->file_count;
    step.original_nbytes = model->original_nbytes;
    step.stored_nbytes = model->stored_nbytes;
    step.time_s = model->time_s;
    return step;
}

/* Passes the step on to the caller. */
static void tell_step(void *user, lmc_store_event event, const st_model *model)
{
    const st_run_call *const call = user;
    const lmc_run_step step = st_run_step_of(model);
    call->step_done(call->call.options.user, (lmc_run_event)event, &step);
}

static void set_step_done(st_run_call *call, lmc_run_step_fn step_done)
{
    call->step_done = step_done;
    call->request.model_done = step_done ? tell_step : NULL;
    call->request.user = call;
}

/* The callers' structs go no further than this file. */
static lmc_status begin(st_run_call *call, const char *run_dir, const void *given, void *own,
                        const lmc_st_common *common, lmc_st_result *result, lmc_st_diag *diag)
{
    *call = (st_run_call){.request = st_run_request()};
    LMC_TRY(st_call_begin(&call->call, run_dir, result, diag));
    LMC_TRY(st_call_copy(&call->call, given, own));
    return st_call_set_common(&call->call, common);
}

lmc_status st_run_call_begin_add(st_run_call *call, const char *run_dir, const lmc_run_add_options *given,
                                 lmc_st_diag *diag)
{
    st_options *const options = &call->call.options;
    lmc_run_add_options own = LMC_INIT(lmc_run_add_options);
    LMC_TRY(begin(call, run_dir, given, &own, &own.common, NULL, diag));
    call->has_step = own.has_step;
    call->step = own.step;
    call->request.key_every = own.key_every;
    call->request.dry_run = own.dry_run;
    call->request.base_snapshot = own.base_snapshot;
    call->request.base_step = own.base_step;
    set_step_done(call, own.step_done);
    options->force = own.force;
    options->no_fsync = own.no_fsync;
    options->excludes = own.excludes;
    options->exclude_count = own.exclude_count;
    options->file_done = own.file_done;
    options->warning = own.warning;
    return st_call_set_level(&call->call, own.level);
}

lmc_status st_run_call_begin_drop(st_run_call *call, const char *run_dir, const lmc_run_drop_options *given,
                                  lmc_st_diag *diag)
{
    lmc_run_drop_options own = LMC_INIT(lmc_run_drop_options);
    LMC_TRY(begin(call, run_dir, given, &own, &own.common, NULL, diag));
    call->request.dry_run = own.dry_run;
    set_step_done(call, own.step_done);
    call->call.options.no_fsync = own.no_fsync;
    return LMC_OK;
}

lmc_status st_run_call_begin_restore(st_run_call *call, const char *run_dir,
                                     const lmc_run_restore_options *given, lmc_st_result *result,
                                     lmc_st_diag *diag)
{
    st_options *const options = &call->call.options;
    lmc_run_restore_options own = LMC_INIT(lmc_run_restore_options);
    LMC_TRY(begin(call, run_dir, given, &own, &own.common, result, diag));
    options->force = own.force;
    options->no_fsync = own.no_fsync;
    options->file_done = own.file_done;
    return LMC_OK;
}

lmc_status st_run_call_begin_verify(st_run_call *call, const char *run_dir,
                                    const lmc_run_verify_options *given, lmc_st_result *result,
                                    lmc_st_diag *diag)
{
    lmc_run_verify_options own = LMC_INIT(lmc_run_verify_options);
    LMC_TRY(begin(call, run_dir, given, &own, &own.common, result, diag));
    set_step_done(call, own.step_done);
    call->call.options.damage = own.damage;
    call->call.options.file_done = own.file_done;
    return LMC_OK;
}
