/*
 * hash.h - XXH3-64 compiled into a kernel set. The including file may define XXH_VECTOR first and must
 * hold the target attributes in force that it needs.
 */
#ifndef LMC_KERNELS_HASH_H
#define LMC_KERNELS_HASH_H

#define XXH_INLINE_ALL
#include <xxhash.h>

static uint64_t hash_xxh3(const void *data, size_t nbytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, nbytes, seed);
}

#endif
