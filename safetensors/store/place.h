/*
 * place.h - how models get and lose their folders: what is to be a model stands in the store under ST_STORE_STAGED
 * first.
 */
#ifndef LMC_SAFETENSORS_STORE_PLACE_H
#define LMC_SAFETENSORS_STORE_PLACE_H

#include "safetensors/store/session.h"

/* Writes the archives of a file or a directory to ST_STORE_STAGED, where nothing is. base: the name of the model that
 * it is based on, which is read from options->base if that is set; NULL: none, or the options choose. *model: all but
 * the depth; free it in every case. schema: as st_model_describe(). Errors: as lmc_st_convert(). */
lmc_status st_store_stage(const st_store_session *store, const char *path, const char *name, const char *base,
                          const st_options *options, st_model *model, uint64_t *schema);

/* Restores a model to `out`. Errors: as lmc_st_restore(). */
lmc_status st_store_restore_model(const st_store_session *store, const st_model *model, const char *out,
                                  const st_options *options, lmc_st_result *result);

/* Compares the model in `folder` with what it was made from. Errors: as lmc_st_compare(). */
lmc_status st_store_compare_model(const st_store_session *store, const st_model *model, const char *folder,
                                  const char *path, const st_options *options);

/* Removes a name of ours, with all that is in it. A name that is not there is no error. Error: IO. */
lmc_status st_store_clear(const st_store_session *store, const char *name);

/* What is staged becomes the model and replaces a folder that has its name; then the list has it. A crash leaves the
 * old folder or the new one, and no entry that is wrong. model: moved into the list. Errors: IO, NOMEM, CANCELLED;
 * BASE: the new archives are based on a model that needs this one. Nothing is replaced then. */
lmc_status st_store_put(st_store_session *store, st_model *model);

/* The folders of the models, each behind those that it needs, lose their names, the last one first; then they are
 * removed, and the list is without them. Errors: IO, NOMEM, CANCELLED. */
lmc_status st_store_remove(st_store_session *store, const char *const *names, size_t name_count);

#endif
