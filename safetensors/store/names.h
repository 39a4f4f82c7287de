/*
 * names.h - names in a store: those of models, of the folders that they have, and of the store's own files.
 */
#ifndef LMC_SAFETENSORS_STORE_NAMES_H
#define LMC_SAFETENSORS_STORE_NAMES_H

#include "lmc_store.h"

#include "common/own_files.h"
#include "safetensors/common/st_common.h"

#define ST_STORE_SEGMENT_COUNT_MAX 32

/* The version that the mark of a store states. */
#define ST_STORE_VERSION 1

/* Why a text cannot be the name of a model, as the end of a sentence: "has an empty segment". NULL: it can. */
const char *st_store_name_fault(const char *name);

/* Bytes of the name of the model whose folder a path leads through: `path` is relative to a store, or to a run. 0 if it
 * leads through none. */
size_t st_store_model_of_path(int is_run, const char *path);

/* Verifies the mark of a store. Errors: ARG with os_errno ENOENT (there is none), CORRUPT, UNSUPPORTED, IO, NOMEM. */
lmc_status st_store_read_mark(const lmc_allocator *memory, const char *store, lmc_st_diag *diag);

/* Fails with ARG and os_errno ENOENT: the directory is no run, or no store. */
lmc_status st_store_fail_missing(const char *path, int is_run, lmc_st_diag *diag);

#endif
