/*
 * source.h - what is converted: the tensors of an open file, or those that a program has handed to a
 * writer. Content is read by tensor and place; threads may share a source.
 */
#ifndef LMC_SAFETENSORS_CONVERT_SOURCE_H
#define LMC_SAFETENSORS_CONVERT_SOURCE_H

#include "safetensors/base/search.h"

typedef struct st_source st_source;

struct st_source {
    lmc_st_container container;
    const st_header *header;
    uint64_t original_nbytes; /* of the file that this is, or would be */
    const st_input *input;    /* the open file; NULL for a writer */
    const uint64_t *places;   /* where tensor i begins in the file, rising; NULL for a writer */
    const void *owner;        /* the lmc_st_file or the writer */
    /* Reads content bytes [offset, offset + nbytes) of tensor `index`. On failure the diagnostic names the
     * tensor. */
    lmc_status (*read)(const st_source *source, size_t index, uint64_t offset, void *dst, size_t nbytes,
                       lmc_st_diag *diag);
    /* Where these bytes lie in memory, or NULL. May itself be NULL. */
    const void *(*find)(const st_source *source, size_t index, uint64_t offset, size_t nbytes);
};

/* Names tensor `index` in a diagnostic and passes `status` on. */
static inline lmc_status st_source_blame(const st_source *source, size_t index, lmc_status status,
                                         lmc_st_diag *diag)
{
    const st_string name = st_header_name(source->header, index);
    st_diag_set_tensor(diag, name.bytes, name.nbytes);
    return status;
}

/* Called with a source, whose owner is an open lmc_st_file, while it is open. A failure ends the visit. */
typedef lmc_status (*st_source_fn)(void *user, const st_source *source, lmc_st_diag *diag);

static inline uint64_t st_source_tensor_nbytes(const st_source *source, size_t index)
{
    return source->header->tensors[index].end - source->header->tensors[index].begin;
}

#endif
