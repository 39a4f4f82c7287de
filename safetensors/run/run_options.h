/*
 * run_options.h - what a call on a run was given, complete.
 */
#ifndef LMC_SAFETENSORS_RUN_RUN_OPTIONS_H
#define LMC_SAFETENSORS_RUN_RUN_OPTIONS_H

#include "lmc_run.h"

#include "safetensors/common/options.h"

/* The fields of the structs of lmc_run.h that other calls do not have. What a call does not have is 0. */
typedef struct st_run_options {
    int has_step;
    uint64_t step;
    unsigned key_every;
    int dry_run;
    lmc_run_step_fn step_done;
} st_run_options;

typedef struct st_run_call {
    st_call call;
    st_run_options options;
} st_run_call;

/* As st_call_begin(); each ends with st_call_end(&call->call, status). Error: ARG. */
lmc_status st_run_call_begin_add(st_run_call *call, const char *run_dir, const lmc_run_add_options *given,
                                 lmc_st_diag *diag);
lmc_status st_run_call_begin_drop(st_run_call *call, const char *run_dir, const lmc_run_drop_options *given,
                                  lmc_st_diag *diag);
lmc_status st_run_call_begin_restore(st_run_call *call, const char *run_dir,
                                     const lmc_run_restore_options *given, lmc_st_result *result,
                                     lmc_st_diag *diag);
lmc_status st_run_call_begin_verify(st_run_call *call, const char *run_dir,
                                    const lmc_run_verify_options *given, lmc_st_result *result,
                                    lmc_st_diag *diag);

#endif
