/*
 * run_options.c - completes what a call on a run was given.
 */
#include "safetensors/run/run_options.h"

/* The callers' structs go no further than this file. */
static lmc_status begin(st_run_call *call, const char *run_dir, const void *given, void *own,
                        const lmc_st_common *common, lmc_st_result *result, lmc_st_diag *diag)
{
    call->options = (st_run_options){0};
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
    call->options = (st_run_options){own.has_step, own.step, own.key_every, own.dry_run, own.step_done};
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
    call->options.dry_run = own.dry_run;
    call->options.step_done = own.step_done;
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
    call->options.step_done = own.step_done;
    call->call.options.damage = own.damage;
    call->call.options.file_done = own.file_done;
    return LMC_OK;
}
