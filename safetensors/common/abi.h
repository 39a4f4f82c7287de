/*
 * abi.h - public structs that gain fields in later versions (lmc.h, "Structs that grow"), on the side of liblmc_st.
 */
#ifndef LMC_SAFETENSORS_COMMON_ABI_H
#define LMC_SAFETENSORS_COMMON_ABI_H

#include <stddef.h>
#include <string.h>

/* The struct_size of a caller's struct. */
static inline size_t st_struct_size(const void *given)
{
    size_t nbytes;
    memcpy(&nbytes, given, sizeof nbytes);
    return nbytes;
}

/* 1 if a struct of this library, of `known_nbytes` bytes, holds every field of the caller's struct. */
static inline int st_struct_is_known(const void *given, size_t known_nbytes)
{
    return st_struct_size(given) >= sizeof(size_t) && st_struct_size(given) <= known_nbytes;
}

/* Copies the fields that both structs have and leaves struct_size of *dst alone. nbytes: struct_size of the caller's
 * struct, which is the shorter one. */
static inline void st_struct_copy(void *dst, const void *src, size_t nbytes)
{
    memcpy((char *)dst + sizeof(size_t), (const char *)src + sizeof(size_t), nbytes - sizeof(size_t));
}

#endif
