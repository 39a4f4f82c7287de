/*
 * st_names.c - see st_names.h: open addressing, at most half full.
 */
#include "st_names.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static int is_equal(st_string a, st_string b)
{
    return a.nbytes == b.nbytes && memcmp(a.bytes, b.bytes, a.nbytes) == 0;
}

/* The slot that holds `name`, or the empty one where it belongs. */
static st_name_slot *locate(const st_names *names, st_string_at at, const void *owner, st_string name,
                            uint32_t *tag)
{
    const uint64_t hash = XXH3_64bits_withSeed(name.bytes, name.nbytes, names->seed);
    *tag = (uint32_t)(hash >> 32);
    for (size_t i = (size_t)hash & names->mask;; i = (i + 1) & names->mask) {
        st_name_slot *const slot = &names->slots[i];
        if (slot->number == 0 || (slot->tag == *tag && is_equal(at(owner, slot->number - 1), name))) {
            return slot;
        }
    }
}

lmc_status st_names_build(st_names *names, const lmc_allocator *memory, st_string_at at, const void *owner,
                          size_t count, uint64_t seed, size_t *duplicate)
{
    size_t capacity = 8;
    while (capacity < 2 * count) {
        capacity *= 2;
    }
    *duplicate = ST_NO_DUPLICATE;
    names->seed = seed;
    names->mask = capacity - 1;
    names->memory = memory;
    names->slots = st_allocate_zeroed(memory, capacity, sizeof(*names->slots));
    if (names->slots == NULL) {
        return LMC_ERR_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t tag = 0;
        st_name_slot *const slot = locate(names, at, owner, at(owner, i), &tag);
        if (slot->number != 0) {
            *duplicate = i;
            return LMC_OK;
        }
        slot->number = (uint32_t)i + 1;
        slot->tag = tag;
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
    const st_name_slot *const slot = locate(names, at, owner, name, &tag);
    if (slot->number == 0) {
        return 0;
    }
    *index = slot->number - 1;
    return 1;
}
