/*
 * models.h - the models of a store in memory: what each is, and which others it is based on. The steps of a run are
 * models whose names are numbers.
 */
#ifndef LMC_SAFETENSORS_STORE_MODELS_H
#define LMC_SAFETENSORS_STORE_MODELS_H

#include "lmc_store.h"

#include "safetensors/common/memory.h"

#define ST_DEPTH_UNKNOWN UINT64_MAX

/* A model that another one is based on. */
typedef struct st_model_base {
    char *name;
    int is_equal_only; /* it is needed for tensors that are equal to its own alone */
} st_model_base;

typedef struct st_model {
    char *name;
    uint64_t step;        /* of a run: the number that the name is */
    int is_directory;     /* 0: a single file */
    int has_unknown_base; /* it needs a file that was not found in the store, or an archive cannot be read */
    st_model_base *bases; /* by the bytes of their names */
    size_t base_count;
    uint64_t depth; /* models that it needs one below the other, itself not counted; may be unknown */
    uint64_t reach; /* the same with those that are needed for equal tensors only */
    uint64_t file_count;
    uint64_t original_nbytes, stored_nbytes;
    int64_t time_s;
} st_model;

/* All zero but for `memory` and `is_run`: no models. */
typedef struct st_models {
    const lmc_allocator *memory;
    int is_run;     /* names are numbers and are ordered as such; else they are ordered by their bytes */
    st_model *list; /* in that order */
    size_t count, capacity;
} st_models;

void st_models_free(st_models *models);

/* Frees what belongs to a model that is in no list. */
void st_model_free(st_model *model, const lmc_allocator *memory);

/* *copy: an independent copy. Returns 0 if memory ran out; then there is nothing to free. */
int st_model_copy(st_model *copy, const st_model *model, const lmc_allocator *memory);

/* Notes a base, once by its name. Returns 0 if memory ran out. */
int st_model_add_base(st_model *model, const char *name, int is_equal_only, const lmc_allocator *memory);

/* The base with this name, or NULL. */
const st_model_base *st_model_find_base(const st_model *model, const char *name);

/* The model with this name, or NULL. */
st_model *st_models_find(const st_models *models, const char *name);

/* Moves a model into the list, where it replaces one with its name. Returns 0 if memory ran out: then it is freed. */
int st_models_put(st_models *models, st_model *model);

/* Removes a model if it is there. */
void st_models_remove(st_models *models, const char *name);

/* Sets depth and reach of all models by their bases. That of a model whose base is not there is unknown, and so is
 * that of one that needs itself. */
void st_models_set_depths(st_models *models);

/* needs[i] = 1 for each model that needs model `index` directly or not, and for itself. needs: one byte a model. */
void st_models_mark_dependents(const st_models *models, size_t index, unsigned char *needs);

#endif
