/*
 * describe.h - what a model's folder tells of it: all that a list says of it, but for its depth.
 */
#ifndef LMC_SAFETENSORS_STORE_DESCRIBE_H
#define LMC_SAFETENSORS_STORE_DESCRIBE_H

#include "safetensors/common/options.h"
#include "safetensors/store/models.h"

/* Where a folder is, and how to look for the bases of its archives. */
typedef struct st_model_folder {
    const char *root; /* of the store, without links: bases are models of it */
    int is_run;
    const char *path;     /* of the folder */
    const char *base_dir; /* where bases are looked for first; may be NULL */
    const char *name;     /* of the model */
    int is_thorough;      /* compare bases whole, not by a sample: the result is recorded */
} st_model_folder;

/* Fills all but the depth. What cannot be read of an archive makes its base unknown, and is not a failure. A base that
 * is not in the store is unknown too; in a run, also one that is no earlier step, and one that differs from archive to
 * archive. schema: a hash of files, names, dtypes and shapes; may be NULL. Free *model with st_model_free(), in every
 * case. Errors: IO, NOMEM, CORRUPT (the list of copies), CANCELLED. */
lmc_status st_model_describe(const st_model_folder *folder, const st_options *options, st_model *model,
                             uint64_t *schema, lmc_st_diag *diag);

/* *path: that of the one archive of a model that was a file; to be released. Errors: IO, NOMEM, CORRUPT. */
lmc_status st_model_find_archive(const lmc_allocator *memory, const char *folder, char **path,
                                 lmc_st_diag *diag);

#endif
