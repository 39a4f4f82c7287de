/*
 * header.h - the header of a safetensors file: strict reading of its JSON into a table of tensors.
 *
 * The scanner of header/json.h reads everything that the layout depends on. cJSON could not: it turns
 * integers into doubles, cuts names at a NUL, compares keys without case and makes a node of 64 bytes out
 * of every "0,". So nothing is built before a first pass has checked the whole text and counted what it
 * holds; a second pass fills arrays of exactly that size, which with the text take less than four times its
 * bytes, whatever it says. cJSON is handed `__metadata__` alone, once that was found to be a small map
 * of strings without repeated keys.
 */
#ifndef LMC_SAFETENSORS_HEADER_HEADER_H
#define LMC_SAFETENSORS_HEADER_HEADER_H

#include "safetensors/common/st_common.h"
#include "safetensors/files/file.h"
#include "safetensors/header/name_table.h"
#include "safetensors/header/views.h"

/* About the least that an entry takes of a header that is written: a tensor without a name 50 bytes, a view 39. */
#define ST_HEADER_ENTRY_NBYTES_MIN 40

typedef struct st_header {
    unsigned char *text;
    size_t text_nbytes;
    st_tensor *tensors; /* in the order of their data: by begin, end, place in the text */
    size_t tensor_count;
    uint64_t *dims; /* of shapes of at most ST_RANK_KEPT */
    char *names;    /* unescaped, each with a NUL behind it */
    st_names index;
    st_span metadata; /* the object `__metadata__`; nbytes 0 if there is none */
    /* where its keys and values begin in metadata_bytes, in turn, and where the last one ends */
    uint32_t *metadata_at;
    char *metadata_bytes;  /* unescaped, each with a NUL behind it */
    size_t metadata_count; /* pairs */
    uint64_t data_nbytes;
    st_views views; /* of the header of another file than a safetensors file */
    const lmc_allocator *memory;
    int has_views; /* 1: they were looked for */
    int is_shared; /* what it points to belongs to another one */
} st_header;

/* A header that is to be read. */
typedef struct st_header_text {
    unsigned char *text; /* of the parser's memory */
    size_t nbytes;
    uint64_t offset;      /* of the text in its file: offsets of faults count from here */
    uint64_t data_nbytes; /* the data region, which the tensors must cover without hole or overlap */
    int may_be_short;     /* 1: it may end before the tensors do, or after them */
    int has_views;        /* 1: the key "views" of an entry is read; 0: it means nothing */
} st_header_text;

/* Reads a header; the text's ownership passes to *header in every case. Errors: HEADER, LIMIT, TRUNCATED
 * (the data ends early), NOMEM. Free with st_header_free() in every case. */
lmc_status st_header_parse(st_header *header, const lmc_allocator *memory, const st_header_text *source,
                           lmc_st_diag *diag);
void st_header_free(st_header *header);

/* Makes *header the same as `other`, which must outlive it, if that was read from the same text for data of the same
 * size, without leave to be short. The source's text is then released. Returns 1, or 0: nothing was done. */
int st_header_share(st_header *header, const lmc_allocator *memory, const st_header_text *source,
                    const st_header *other);

/* The unescaped name of a tensor. */
st_string st_header_name(const st_header *header, size_t index);

/* Key (even numbers) or value of the pair number / 2 of `__metadata__`, unescaped. */
st_string st_header_metadata(const st_header *header, size_t number);

/* The dimensions of a tensor, which st_shape_next() gives one after the other: as many as its rank. */
typedef struct st_shape {
    const uint64_t *kept; /* the next one; NULL: it stands in the text */
    st_json json;
} st_shape;

st_shape st_header_shape(const st_header *header, const st_tensor *tensor);
uint64_t st_shape_next(st_shape *shape);

/* Bytes of a row of the tensor, as lmc_params.row_nbytes wants them: of the last dimension, and of dimensions before it
 * as long as these have few values. 0: the tensor has no rows. */
uint32_t st_header_row_nbytes(const st_header *header, const st_tensor *tensor);

/* 1 if tensor a_index of a has the dimensions of tensor b_index of b. */
int st_header_same_shape(const st_header *a, size_t a_index, const st_header *b, size_t b_index);

/* Returns 1 and sets *index, or returns 0. */
int st_header_find(const st_header *header, st_string name, size_t *index);

/* The listing: what a file has for those who read it. It begins with the tensors, which have their numbers there. */
static inline size_t st_header_listed_count(const st_header *header)
{
    return header->tensor_count + header->views.named_count;
}

/* A tensor of the listing. */
typedef struct st_listed {
    size_t tensor;       /* the stored one */
    const st_view *view; /* NULL: it is just that */
    st_string name;
} st_listed;

/* index: below st_header_listed_count(). */
st_listed st_header_listed(const st_header *header, size_t index);

/* Finds a tensor of the listing by its name. Returns 1 and sets *index, or returns 0. */
int st_header_find_listed(const st_header *header, st_string name, size_t *index);

/* The marks of an archive, entries of `__metadata__`: "format", and the version. */
#define ST_MARK_FORMAT "lmc"
#define ST_MARK_KEY "lmc_archive"
#define ST_MARK_VERSION "1"

#define ST_METADATA_VERSION_NBYTES 16

/* 1 if `__metadata__` has the marks of an archive, as no large map has, and none with a NUL in a key or value. version
 * gets the value of `lmc_archive`, NUL-terminated, cut to its ST_METADATA_VERSION_NBYTES. Error: NOMEM as *status. */
int st_metadata_is_marked(const st_header *header, char *version, lmc_status *status);

/* ---- writing ---- */

/* The entry of a tensor stands behind its name and a colon: between the two calls, the caller puts the dimensions, and
 * at the end its bracket. */
void st_header_put_dtype(st_json_out *out, lmc_dtype dtype);
void st_header_put_place(st_json_out *out, uint64_t begin, uint64_t end);

/* Ends the header, with spaces so that its length is a multiple of 8. */
void st_header_put_end(st_json_out *out);

/* Writes the length of a header and its text to the start of an output. Error: as st_output_write(). */
lmc_status st_header_write(const st_output *output, const void *text, size_t nbytes, lmc_st_diag *diag);

#endif
