/*
 * options.h - the options of the calls on whole files, checked and with every field set.
 */
#ifndef LMC_SAFETENSORS_COMMON_OPTIONS_H
#define LMC_SAFETENSORS_COMMON_OPTIONS_H

#include "safetensors/common/st_common.h"

/* What a call on whole files was given, complete, and the library's own result and diagnostic. */
typedef struct st_call {
    lmc_st_options options;
    lmc_st_result *result; /* of this struct */
    lmc_st_diag *diag;
    lmc_st_result own_result;
    lmc_st_diag own_diag;
    lmc_st_result *given_result; /* NULL: not wanted */
    lmc_st_diag *given_diag;
} st_call;

/* Completes the options, and notes where result and diag are wanted; both may be NULL. Error: ARG. */
lmc_status st_call_begin(st_call *call, const char *path, const lmc_st_options *options,
                         lmc_st_result *result, lmc_st_diag *diag);

/* Gives the caller what the caller's structs hold, after every st_call_begin(), and returns status. */
lmc_status st_call_end(st_call *call, lmc_status status);

#endif
