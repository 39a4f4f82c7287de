/*
 * run_steps.h - the calls of lmc_run.h that work on steps. Options are complete (common/options.h), results and diag
 * are there.
 */
#ifndef LMC_SAFETENSORS_RUN_RUN_STEPS_H
#define LMC_SAFETENSORS_RUN_RUN_STEPS_H

#include "safetensors/run/session.h"

/* run/add.c */
lmc_status st_run_add(const char *path, const char *snapshot, const lmc_run_options *run_options,
                      const lmc_st_options *options, lmc_run_step *added, lmc_st_diag *diag);

/* run/drop.c */
lmc_status st_run_drop(const char *path, const uint64_t *steps, size_t step_count,
                       const lmc_run_options *run_options, const lmc_st_options *options, lmc_st_diag *diag);
lmc_status st_run_keep(const char *path, uint64_t last, uint64_t every, const lmc_run_options *run_options,
                       const lmc_st_options *options, lmc_st_diag *diag);

/* run/read.c */
lmc_status st_run_restore(const char *path, uint64_t step, const char *out_path,
                          const lmc_st_options *options, lmc_st_result *result, lmc_st_diag *diag);
lmc_status st_run_verify(const char *path, const uint64_t *steps, size_t step_count,
                         const lmc_run_options *run_options, const lmc_st_options *options,
                         lmc_st_result *result, lmc_st_diag *diag);
lmc_status st_run_compare(const char *path, uint64_t step, const char *snapshot,
                          const lmc_st_options *options, lmc_st_diag *diag);
lmc_status st_run_open_tensor(const char *path, uint64_t step, const char *name,
                              const lmc_st_options *options, lmc_st_file **file, uint64_t *index,
                              lmc_st_diag *diag);

#endif
