/*
 * options.h - the options of the calls on whole files, checked and with every field set.
 */
#ifndef LMC_SAFETENSORS_COMMON_OPTIONS_H
#define LMC_SAFETENSORS_COMMON_OPTIONS_H

#include "safetensors/common/common.h"

/* Copies the caller's options, or the defaults for NULL. Fields that a caller built against an older
 * header does not have keep their defaults. Error: ARG. */
lmc_status st_options_copy(lmc_st_options *options, const lmc_st_options *from, lmc_st_diag *diag);

/* What a call on whole files was given, with nothing missing. */
typedef struct st_call {
    lmc_st_options options;
    lmc_st_result *result;
    lmc_st_diag *diag;
    lmc_st_result unused_result;
    lmc_st_diag unused_diag;
} st_call;

/* Clears result and diag, which may be NULL, and completes the options. Error: ARG. */
lmc_status st_call_begin(st_call *call, const char *path, const lmc_st_options *options,
                         lmc_st_result *result, lmc_st_diag *diag);

#endif
