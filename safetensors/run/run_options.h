/*
 * run_options.h - what a call on a run was given, complete; and steps as lmc_run.h describes them.
 */
#ifndef LMC_SAFETENSORS_RUN_RUN_OPTIONS_H
#define LMC_SAFETENSORS_RUN_RUN_OPTIONS_H

#include "lmc_run.h"

#include "safetensors/store/request.h"

typedef struct st_run_call {
    st_call call;
    st_store_request request;
    int has_step;
    uint64_t step;
    lmc_run_step_fn step_done;
} st_run_call;

/* As st_call_begin(); each ends with st_call_end(&call->call, status). The call must stay where it is. Error: ARG. */
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

/* What a request on a run without options of its own is. */
st_store_request st_run_request(void);

/* A model of a run as a step. */
lmc_run_step st_run_step_of(const st_model *model);

#endif
