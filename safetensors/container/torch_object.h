/*
 * torch_object.h - what the pickled object of a torch archive says of the storages: which of them are tensors, where
 * in the object (the path), of which dtype and shape.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_TORCH_OBJECT_H
#define LMC_SAFETENSORS_CONTAINER_TORCH_OBJECT_H

#include "safetensors/container/pickle.h"
#include "safetensors/container/torch_dtype.h"

/* A key that is longer is replaced by its position, a tensor whose path is longer has none. */
#define ST_TORCH_KEY_NBYTES_MAX 256u
#define ST_TORCH_PATH_NBYTES_MAX 1024u

/* Bytes that tensors share. The first two fields are given, the others are found. */
typedef struct st_storage {
    st_string key;
    uint64_t nbytes;
    uint32_t number; /* of the entry: the caller's */
    uint32_t path_nbytes;
    uint64_t path_at; /* in the paths */
    uint64_t dims_at; /* in the dimensions */
    uint8_t rank;
    uint8_t is_found;    /* 1: the object has it */
    uint8_t has_dtype;   /* 1: its elements are known */
    uint8_t has_shape;   /* 1: a tensor covers it from its begin to its end, in C order */
    st_torch_dtype type; /* `form` is for the shape: that of the found dimensions is ST_TORCH_ONE */
} st_storage;

typedef struct st_storages {
    st_storage *list;
    size_t count;
    st_names index; /* by key; keys are unlike */
    const lmc_allocator *memory;
    st_buffer paths, dims; /* of bytes, uint64_t */
    size_t paths_nbytes, dim_count;
} st_storages;

/* Fills the storages from an object, whose path is `root` (may be empty). A storage gets the path of the first tensor
 * that covers it, in the order of the object, or of the first that has it if none does. Each part of the object is
 * visited once. Error: NOMEM. */
lmc_status st_storages_find(st_storages *storages, st_pickle *pickle, st_string root, lmc_st_diag *diag);

/* The dimensions of a storage that has a shape. */
const uint64_t *st_storage_dims(const st_storages *storages, const st_storage *storage);

/* The path; no bytes: the object is the tensor, or its path is too long. */
st_string st_storage_path(const st_storages *storages, const st_storage *storage);

/* Builds the index. *is_unlike becomes 0 if a key stands twice. Error: NOMEM. */
lmc_status st_storages_build_index(st_storages *storages, int *is_unlike, lmc_st_diag *diag);

void st_storages_free(st_storages *storages);

#endif
