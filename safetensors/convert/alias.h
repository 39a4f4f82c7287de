/*
 * alias.h - finds the tensors of a source that are equal to an earlier one (tied embeddings, zeros, ones),
 * before anything is encoded. Equal means dtype, size and every byte: hashes only say where to look.
 */
#ifndef LMC_SAFETENSORS_CONVERT_ALIAS_H
#define LMC_SAFETENSORS_CONVERT_ALIAS_H

#include "safetensors/archive/table.h"
#include "safetensors/convert/source.h"

typedef struct st_aliases {
    st_alias *list; /* by rising `alias`; NULL if there are none */
    size_t count;
    uint64_t nbytes; /* content of all aliases together */
    const lmc_allocator *memory;
} st_aliases;

/* Free with st_aliases_free() in every case. Errors: IO, NOMEM, CANCELLED, what the source's read returned. */
lmc_status st_aliases_find(st_aliases *aliases, const st_source *source, const st_options *options,
                           lmc_st_diag *diag);
void st_aliases_free(st_aliases *aliases);

/* The tensor whose frame `index` uses: itself if it is no alias. */
size_t st_aliases_owner(const st_aliases *aliases, size_t index);

#endif
