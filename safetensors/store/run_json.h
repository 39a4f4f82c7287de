/*
 * run_json.h - the list of a run's steps, run.json (docs/run.md), as models, and back.
 */
#ifndef LMC_SAFETENSORS_STORE_RUN_JSON_H
#define LMC_SAFETENSORS_STORE_RUN_JSON_H

#include "safetensors/common/options.h"
#include "safetensors/store/models.h"

/* Reads the list of the directory `run`; the depths are those of the list. Errors: as st_run_list_read(). */
lmc_status st_run_json_read(st_models *models, unsigned *key_every, const char *run, lmc_st_diag *diag);

/* Writes it. Errors: IO, NOMEM. */
lmc_status st_run_json_write(const st_models *models, unsigned key_every, const char *run,
                             const st_options *options, lmc_st_diag *diag);

#endif
