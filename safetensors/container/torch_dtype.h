/*
 * torch_dtype.h - the element types of torch, told by the globals that stand in its pickles.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_TORCH_DTYPE_H
#define LMC_SAFETENSORS_CONTAINER_TORCH_DTYPE_H

#include "safetensors/header/name_table.h"

typedef enum st_torch_form {
    ST_TORCH_ONE,  /* an element is one of the dtype */
    ST_TORCH_PAIR, /* it is two of them, which a last dimension of 2 holds: real and imaginary part */
    ST_TORCH_PACKED /* it is two of them, which the last dimension counts twice: as safetensors files have it */
} st_torch_form;

typedef struct st_torch_dtype {
    lmc_dtype dtype;
    st_torch_form form;
} st_torch_dtype;

/* Of a storage class (FloatStorage), or of a dtype (float8_e5m2). Return 1, or 0: it is none, or is not told. */
int st_torch_storage_dtype(st_string name, st_torch_dtype *dtype);
int st_torch_find_dtype(st_string name, st_torch_dtype *dtype);

/* Bytes of an element of torch. */
static inline uint64_t st_torch_dtype_nbytes(st_torch_dtype dtype)
{
    return lmc_dtype_nbits(dtype.dtype) * (dtype.form == ST_TORCH_ONE ? 1 : 2) / 8;
}

#endif
