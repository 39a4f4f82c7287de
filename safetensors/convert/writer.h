/*
 * writer.h - what a writer has been given, and its header (convert/writer_header.c).
 */
#ifndef LMC_SAFETENSORS_CONVERT_WRITER_H
#define LMC_SAFETENSORS_CONVERT_WRITER_H

#include "safetensors/header/header.h"

typedef struct st_writer_text {
    char *bytes; /* the writer's */
    size_t nbytes;
} st_writer_text;

typedef struct st_writer_tensor {
    st_writer_text name;
    lmc_dtype dtype;
    uint64_t *shape; /* the writer's */
    size_t rank;
    uint64_t nbytes;
    const void *data; /* the caller's; NULL: `read` supplies it */
    lmc_read_fn read;
    void *user;
} st_writer_tensor;

typedef struct st_writer_entry {
    st_writer_text key, value;
} st_writer_entry;

struct lmc_st_writer {
    lmc_allocator memory;
    st_writer_tensor *tensors;
    size_t tensor_count, tensor_capacity;
    st_writer_entry *metadata;
    size_t metadata_count, metadata_capacity;
};

/* The header of a safetensors file with the tensors of `order`, in that order. Errors: NOMEM; ARG for a
 * name or key that stands twice or metadata that mark an archive; LIMIT. Free with st_header_free() in every
 * case. */
lmc_status st_writer_make_header(const lmc_st_writer *writer, const st_writer_tensor *const *order,
                                 st_header *header, lmc_st_diag *diag);

#endif
