/*
 * name_table.c - the hash table of names: open addressing, at most half full.
 */
#include "safetensors/header/name_table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define NUMBER_NBITS 24
#define NUMBER_MASK ((1u << NUMBER_NBITS) - 1)

_Static_assert(ST_NAMES_COUNT_MAX < NUMBER_MASK, "a number plus one must fit its bits");

uint64_t st_string_hash(st_string string, uint64_t seed)
{
    return XXH3_64bits_withSeed(string.bytes, string.nbytes, seed);
}

/* The slot that holds `name`, or the empty one where it belongs. *tag: bits of the hash, in their place in a slot, by
 * which few strings need to be compared. */
static uint32_t *locate(const st_names *names, st_string_at at, const void *owner, st_string name,
                        uint32_t *tag)
{
    const uint64_t hash = st_string_hash(name, names->seed);
    *tag = (uint32_t)(hash >> 32) & ~NUMBER_MASK;
    size_t i = (size_t)((hash & UINT32_MAX) * names->capacity >> 32);
    for (;; i = i + 1 == names->capacity ? 0 : i + 1) {
        const uint32_t slot = names->slots[i];
        if (slot == 0 ||
            ((slot & ~NUMBER_MASK) == *tag && st_string_equals(at(owner, (slot & NUMBER_MASK) - 1), name)))
            return &names->slots[i];
    }
}

lmc_status st_names_build(st_names *names, const lmc_allocator *memory, st_string_at at, const void *owner,
                          size_t count, uint64_t seed, size_t *duplicate)
{
    *duplicate = ST_NO_DUPLICATE;
    names->seed = seed;
    names->capacity = 2 * count + 8;
    names->memory = memory;
    names->slots = st_allocate_zeroed(memory, names->capacity, sizeof *names->slots);
    if (!names->slots)
        return LMC_ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        uint32_t tag = 0;
        uint32_t *const slot = locate(names, at, owner, at(owner, i), &tag);
        if (*slot != 0) {
            *duplicate = i;
            return LMC_OK;
        }
        *slot = tag | ((uint32_t)i + 1);
    }
    return LMC_OK;
}

void st_names_free(st_names *names)
{
    st_release(names->memory, names->slots);
    names->slots = NULL;
}

int st_names_find(const st_names *names, st_string_at at, const void *owner, st_string name, size_t *index)
{
    uint32_t tag = 0;
    const uint32_t slot = *locate(names, at, owner, name, &tag);
    if (slot == 0)
        return 0;
    *index = (slot & NUMBER_MASK) - 1;
    return 1;
}
