/*
 * hash_impl.h - XXH3-64, compiled into a kernel set. Include it after kernels.h. The including file may define
 * XXH_VECTOR before, and pushes the target attributes that it needs.
 */
#ifndef LMC_CODEC_KERNELS_SHARED_HASH_IMPL_H
#define LMC_CODEC_KERNELS_SHARED_HASH_IMPL_H

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The state is raw memory of the caller, aligned to 64. */
_Static_assert(sizeof(XXH3_state_t) <= LMC_HASH_STATE_NBYTES, "LMC_HASH_STATE_NBYTES");

static void hash_xxh3_begin(void *state)
{
    XXH3_64bits_reset(state);
}

static void hash_xxh3_update(void *state, const void *data, size_t nbytes)
{
    XXH3_64bits_update(state, data, nbytes);
}

static uint64_t hash_xxh3_end(const void *state)
{
    return XXH3_64bits_digest(state);
}

static uint64_t hash_xxh3(const void *data, size_t nbytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, nbytes, seed);
}

#endif
