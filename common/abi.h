/*
 * abi.h - public structs that gain fields in later versions (lmc.h, "Structs that grow"). A program that was built with
 * an older header has a shorter struct; its length stands in its first member, struct_size.
 */
#ifndef LMC_COMMON_ABI_H
#define LMC_COMMON_ABI_H

#include "common/compiler.h"

/* The struct_size of a caller's struct. */
LMC_INLINE size_t lmc_struct_size(const void *given)
{
    size_t nbytes;
    memcpy(&nbytes, given, sizeof nbytes);
    return nbytes;
}

/* 1 if a struct of this library, of `known_nbytes` bytes, holds every field of the caller's struct. A program that was
 * built with a newer header has fields that this library would ignore. */
LMC_INLINE int lmc_struct_is_known(const void *given, size_t known_nbytes)
{
    return lmc_struct_size(given) >= sizeof(size_t) && lmc_struct_size(given) <= known_nbytes;
}

/* Copies the fields that both have, in either direction, and leaves struct_size of *dst alone. nbytes: struct_size of
 * the caller's struct, which is the shorter one. */
LMC_INLINE void lmc_struct_copy(void *dst, const void *src, size_t nbytes)
{
    memcpy((uint8_t *)dst + sizeof(size_t), (const uint8_t *)src + sizeof(size_t), nbytes - sizeof(size_t));
}

#endif
