/*
 * torch_tensor.h - how torch writes tensors and storages into a pickle: calls of its rebuilding functions, and
 * persistent ids.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_TORCH_TENSOR_H
#define LMC_SAFETENSORS_CONTAINER_TORCH_TENSOR_H

#include "safetensors/container/pickle.h"
#include "safetensors/container/torch_dtype.h"

/* torch allows 64. */
#define ST_TORCH_RANK_MAX 64u

/* A tensor on a storage, or a storage alone. */
typedef struct st_torch_tensor {
    st_string key;
    int has_dtype;
    st_torch_dtype type;
    st_value offset, size, stride; /* OTHER: a storage alone */
} st_torch_tensor;

/* Reads a persistent id: ('storage', class, key, location, number of elements). Returns 1, or 0: it is none. */
int st_torch_storage_read(const st_pickle *pickle, st_value value, st_torch_tensor *tensor);

/* Tensors of subclasses, and those with attributes, are made by a call of (function, type, arguments, state): makes it
 * the call of that function. *state: what is set besides, or OTHER. */
void st_torch_unwrap(const st_pickle *pickle, st_object *object, st_value *state);

/* Reads a call that makes a tensor from a storage. Returns 1, or 0: it is none; what is in its arguments may be. */
int st_torch_tensor_read(const st_pickle *pickle, const st_object *object, st_torch_tensor *tensor);

/* 1 if the tensor has all `nbytes` of its storage in C order. dims: ST_TORCH_RANK_MAX + 1 numbers; *rank: of elements
 * of type.dtype. */
int st_torch_tensor_covers(const st_pickle *pickle, const st_torch_tensor *tensor, uint64_t nbytes,
                           uint64_t *dims, size_t *rank);

#endif
