/*
 * torch_tensor.h - how torch writes tensors and storages into a pickle: calls of its rebuilding functions, persistent
 * ids, and globals that tell element types.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_TORCH_TENSOR_H
#define LMC_SAFETENSORS_CONTAINER_TORCH_TENSOR_H

#include "safetensors/container/pickle.h"
#include "safetensors/header/name_table.h"

typedef enum st_torch_form {
    ST_TORCH_ONE,  /* an element is one of the dtype */
    ST_TORCH_PAIR, /* it is two of them, which a last dimension of 2 holds: real and imaginary part */
    ST_TORCH_PACKED, /* it is two of them, which the last dimension counts twice: as safetensors files have it */
    ST_TORCH_DENSE /* several elements of torch are one of the dtype */
} st_torch_form;

typedef struct st_torch_dtype {
    lmc_dtype dtype;
    st_torch_form form;
} st_torch_dtype;

/* The element type of a storage class (FloatStorage), or of a dtype (float8_e5m2). Return 1, or 0: it is not known. */
int st_torch_storage_dtype(st_string name, st_torch_dtype *dtype);
int st_torch_find_dtype(st_string name, st_torch_dtype *dtype);

/* ---- tensors ---- */

/* torch allows 64. */
#define ST_TORCH_RANK_MAX 64u

/* A tensor on a storage, or a storage alone. */
typedef struct st_torch_tensor {
    st_string key;
    int has_dtype;
    int is_typed; /* 1: the storage has the dtype: only then torch swaps the bytes of a big-endian file */
    st_torch_dtype type;
    int is_alone;   /* 1: a storage alone */
    int is_changed; /* 1: torch changes the values when it loads them (conjugates) */
    st_value offset, size, stride;
} st_torch_tensor;

/* Where the elements of a tensor stand in its storage. */
typedef struct st_torch_shape {
    uint64_t dims[ST_TORCH_RANK_MAX + 1];
    uint64_t strides[ST_TORCH_RANK_MAX + 1];
    size_t rank;
    uint64_t offset;
} st_torch_shape;

/* Reads a persistent id: ('storage', class, key, location, number of elements). Returns 1, or 0: it is none. */
int st_torch_storage_read(const st_pickle *pickle, st_value value, st_torch_tensor *tensor);

/* Tensors of subclasses, and those with attributes, are made by a call of (function, type, arguments, state): makes it
 * the call of that function. *state: what is set besides, or OTHER. */
void st_torch_unwrap(const st_pickle *pickle, st_object *object, st_value *state);

/* Finds the tensor that an object is, also within the calls that make it a parameter or an object of a subclass.
 * Returns 1, or 0: it is none. */
int st_torch_tensor_find(const st_pickle *pickle, st_value value, st_torch_tensor *tensor);

/* Reads a call that makes a tensor from a storage. Returns 1, or 0: it is none; what is in its arguments may be. */
int st_torch_tensor_read(const st_pickle *pickle, const st_object *object, st_torch_tensor *tensor);

/* Reads the shape of a tensor whose storage has `nbytes` bytes, in elements of type.dtype. Returns NULL, or why it is
 * none (static storage). Nothing says that it stays in the storage. */
const char *st_torch_tensor_shape(const st_pickle *pickle, const st_torch_tensor *tensor, uint64_t nbytes,
                                  st_torch_shape *shape);

/* 1 if a tensor of this shape and type has all `nbytes` of its storage in C order. */
int st_torch_shape_covers(const st_torch_shape *shape, st_torch_dtype type, uint64_t nbytes);

#endif
