/*
 * name_table.h - a hash table over strings that live elsewhere: finds duplicates and looks names up in
 * constant time. It holds numbers of strings, never copies.
 */
#ifndef LMC_SAFETENSORS_HEADER_NAME_TABLE_H
#define LMC_SAFETENSORS_HEADER_NAME_TABLE_H

#include "safetensors/common/memory.h"
#include "safetensors/common/st_common.h"

#include <string.h>

typedef struct st_string {
    const char *bytes;
    size_t nbytes;
} st_string;

static inline int st_string_equals(st_string a, st_string b)
{
    return a.nbytes == b.nbytes && memcmp(a.bytes, b.bytes, a.nbytes) == 0;
}

/* `seed` should not be foreseeable: strings come from untrusted files. */
uint64_t st_string_hash(st_string string, uint64_t seed);

/* Gives string `index` of `owner`. */
typedef st_string (*st_string_at)(const void *owner, size_t index);

/* Strings that a table may have: more than keys or names fit a header. */
#define ST_NAMES_COUNT_MAX 0xfffffe

typedef struct st_names {
    uint32_t *slots; /* below, the number of a string plus one; above, 8 bits of its hash. 0: empty */
    size_t capacity;
    uint64_t seed;
    const lmc_allocator *memory;
} st_names;

#define ST_NO_DUPLICATE SIZE_MAX

/* Builds the table of strings 0 .. count-1. *duplicate becomes the number of the first string that
 * equals an earlier one, or ST_NO_DUPLICATE; with a duplicate, the table is not to be used. It takes 8 bytes a
 * string. count is at most ST_NAMES_COUNT_MAX. Error: NOMEM.
 * Free with st_names_free() in every case. */
lmc_status st_names_build(st_names *names, const lmc_allocator *memory, st_string_at at, const void *owner,
                          size_t count, uint64_t seed, size_t *duplicate);
void st_names_free(st_names *names);

/* Returns 1 and sets *index, or returns 0. */
int st_names_find(const st_names *names, st_string_at at, const void *owner, st_string name, size_t *index);

#endif
