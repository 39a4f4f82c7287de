/*
 * store_plan.h - which models of a store should be based on which others: predicted from sketches for all pairs that
 * are near (store/relatives.h), arranged (store/arrange.h), and applied.
 */
#ifndef LMC_SAFETENSORS_STORE_STORE_PLAN_H
#define LMC_SAFETENSORS_STORE_STORE_PLAN_H

#include "safetensors/store/request.h"

/* Plans, and applies the plan if `apply` is 1. Tells of each model as it should be (LMC_STORE_PLANNED), with the bytes
 * that are predicted, then of each that was stored again. Errors: as lmc_store_plan(). */
lmc_status st_store_plan(const char *store, int apply, const st_store_request *request,
                         const st_options *options, lmc_store_plan_result *result, lmc_st_diag *diag);

#endif
