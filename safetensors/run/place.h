/*
 * place.h - how steps get and lose their folders: what is to be a step stands beside them under ST_RUN_STAGED first.
 */
#ifndef LMC_SAFETENSORS_RUN_PLACE_H
#define LMC_SAFETENSORS_RUN_PLACE_H

#include "safetensors/run/session.h"

/* Writes the archives of a snapshot, a file or a directory, to ST_RUN_STAGED, where nothing is. base: a step, or NULL.
 * step: all but the chain; schema: as st_run_describe(). Errors: as lmc_st_convert(). */
lmc_status st_run_stage(const st_run_session *run, const char *snapshot, const lmc_run_step *base,
                        const st_options *options, lmc_run_step *step, uint64_t *schema);

/* Restores a step to `out`. Errors: as lmc_st_restore(). */
lmc_status st_run_restore_step(const st_run_session *run, const lmc_run_step *step, const char *out,
                               const st_options *options, lmc_st_result *result);

/* Compares the step in `folder` with its snapshot. Errors: as lmc_st_compare(). */
lmc_status st_run_compare_step(const st_run_session *run, const lmc_run_step *step, const char *folder,
                               const char *snapshot, const st_options *options);

/* Removes a name of ours, with all that is in it. A name that is not there is no error. Error: IO. */
lmc_status st_run_clear(const st_run_session *run, const char *name);

/* What is staged becomes the step and replaces a folder that has its name; then run.json has it. A crash leaves the
 * old folder or the new one, and no entry that is wrong. Errors: IO, NOMEM, CANCELLED. */
lmc_status st_run_put(st_run_session *run, const lmc_run_step *step);

/* The folders of the steps, which rise, lose their names, the last one first; then they are removed, and run.json is
 * without them. Errors: IO, NOMEM, CANCELLED. */
lmc_status st_run_remove(st_run_session *run, const uint64_t *steps, size_t step_count);

#endif
