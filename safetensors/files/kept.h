/*
 * kept.h - which paths are in a run or a store, or are one: nothing but the calls on runs and stores replaces these.
 */
#ifndef LMC_SAFETENSORS_FILES_KEPT_H
#define LMC_SAFETENSORS_FILES_KEPT_H

#include "lmc_store.h"
#include "safetensors/files/file.h"

typedef struct st_kept {
    lmc_store_kind kind;
    unsigned depth; /* as lmc_store_locate() gives it */
    char *root;     /* path of the run or store, without links; to be released. NULL: the path is in none */
} st_kept;

/* As lmc_store_locate(). Returns 0 if memory ran out. */
int st_kept_find(const lmc_allocator *memory, const char *path, st_kept *kept);

/* With options->force, an output takes the place of what has its name. Refuses that for a run, a store, and what is in
 * one. Errors: ARG, NOMEM. */
lmc_status st_kept_check_output(const st_options *options, const char *out_path, lmc_st_diag *diag);

/* Refuses to replace a directory that holds one, at any depth. Errors: ARG, IO (a directory that cannot be listed),
 * LIMIT (100 levels), NOMEM. */
lmc_status st_kept_check_below(const lmc_allocator *memory, const char *directory, lmc_st_diag *diag);

#endif
