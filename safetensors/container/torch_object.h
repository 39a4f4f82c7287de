/*
 * torch_object.h - what the pickled object of a torch archive says of the storages: which of them are tensors, where
 * in the object (the path), of which dtype and shape.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_TORCH_OBJECT_H
#define LMC_SAFETENSORS_CONTAINER_TORCH_OBJECT_H

#include "safetensors/container/pickle.h"
#include "safetensors/container/torch_tensor.h"

/* A key that is longer is replaced by its position, a tensor whose path is longer has none. */
#define ST_TORCH_KEY_NBYTES_MAX 256u
#define ST_TORCH_PATH_NBYTES_MAX 1024u

/* A tensor on a storage, under one of its names. */
typedef struct st_storage_view {
    uint64_t path_at; /* in the paths */
    uint64_t dims_at; /* in the dimensions; the strides follow */
    uint64_t offset;
    const char *note; /* why there is no shape; NULL */
    uint32_t path_nbytes;
    uint32_t next;       /* of the same storage, plus one */
    st_torch_dtype type; /* `form` was for the shape */
    uint8_t rank;
    uint8_t is_typed, is_alone; /* as of the tensor */
} st_storage_view;

/* Bytes that tensors share. The first two fields are given, the others are found. */
typedef struct st_storage {
    st_string key;
    uint64_t nbytes;
    uint32_t number; /* of the entry: the caller's */
    uint32_t path_nbytes;
    uint64_t path_at;     /* in the paths */
    uint32_t first, last; /* of its views, plus one */
    uint32_t named;       /* the view that it has its name from */
    uint32_t covering;    /* the view that covers it from its start to its end, in C order: plus one */
    uint8_t is_found;     /* 1: the object has it */
    uint8_t has_dtype;    /* 1: its elements are known */
    st_torch_dtype type;
} st_storage;

typedef struct st_storages {
    st_storage *list;
    size_t count;
    st_names index; /* by key; keys are unlike */
    const lmc_allocator *memory;
    st_buffer paths, dims, views; /* of bytes, uint64_t, st_storage_view */
    size_t paths_nbytes, dim_count, view_count;
    int has_too_many_views; /* 1: the object names more than a list that takes 4 times its pickle can hold */
} st_storages;

/* Fills the storages from an object, whose path is `root` (may be empty). A storage gets the path of the first tensor
 * that covers it, in the order of the object, or of the first that has it if none does. Lists and dicts are visited
 * under each of their paths, other objects once; a tensor is seen in each place. Error: NOMEM. */
lmc_status st_storages_find(st_storages *storages, st_pickle *pickle, st_string root, lmc_st_diag *diag);

static inline const st_storage_view *st_storages_view(const st_storages *storages, uint32_t number)
{
    return (const st_storage_view *)(const void *)storages->views.bytes + number;
}

/* The dimensions of a view. */
static inline const uint64_t *st_storages_dims(const st_storages *storages, const st_storage_view *view)
{
    return (const uint64_t *)(const void *)storages->dims.bytes + view->dims_at;
}

/* A path; no bytes: the object is the tensor, or its path is too long. */
static inline st_string st_storages_path(const st_storages *storages, uint64_t path_at, uint32_t path_nbytes)
{
    return path_nbytes == 0 ? (st_string){"", 0}
                            : (st_string){(const char *)storages->paths.bytes + path_at, path_nbytes};
}

/* Builds the index. *is_unlike becomes 0 if a key stands twice. Error: NOMEM. */
lmc_status st_storages_build_index(st_storages *storages, int *is_unlike, lmc_st_diag *diag);

void st_storages_free(st_storages *storages);

#endif
