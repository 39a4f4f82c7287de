/*
 * describe.h - what a step's folder tells of it: all that its entry in the list has.
 */
#ifndef LMC_SAFETENSORS_RUN_DESCRIBE_H
#define LMC_SAFETENSORS_RUN_DESCRIBE_H

#include "lmc_run.h"

#include "safetensors/common/options.h"

/* Where a folder is, and how to look for the bases of its archives. */
typedef struct st_run_folder {
    const char *run;      /* without links: bases are steps of it */
    const char *path;     /* of the folder */
    const char *base_dir; /* where bases are looked for first; may be NULL */
    uint64_t step;
} st_run_folder;

/* Fills all but the chain. What cannot be read of an archive makes its base unknown, and is not a failure. A base that
 * is no earlier step of the run, or differs from archive to archive, is unknown too. schema: a hash of files, names,
 * dtypes and shapes; may be NULL. Errors: IO, NOMEM, CORRUPT (the list of copies), CANCELLED. */
lmc_status st_run_describe(const st_run_folder *folder, const st_options *options, lmc_run_step *step,
                           uint64_t *schema, lmc_st_diag *diag);

/* *path: that of the one archive of a step that was a file; to be released. Errors: IO, NOMEM, CORRUPT. */
lmc_status st_run_find_archive(const lmc_allocator *memory, const char *folder, char **path,
                               lmc_st_diag *diag);

#endif
