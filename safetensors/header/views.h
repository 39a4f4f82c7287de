/*
 * views.h - what a header that was made for another file than a safetensors file says of tensors that are not the bytes
 * of a stored tensor as they lie there: big-endian ones, other strides, parts, several names (docs/archive.md, section
 * 8.6). What it says comes from a file: all of it is checked here, so that whoever reads a view stays in its tensor.
 *
 * The listing of a header are its tensors, in their order, and then the views that have names of their own.
 */
#ifndef LMC_SAFETENSORS_HEADER_VIEWS_H
#define LMC_SAFETENSORS_HEADER_VIEWS_H

#include "safetensors/header/name_table.h"
#include "safetensors/header/scan.h"

/* What numpy and torch allow, and one for pairs of numbers. */
#define ST_VIEW_RANK_MAX 65

#define ST_VIEW_NOTE_NBYTES_MAX 255u

/* A tensor whose elements are picked from a stored tensor. */
typedef struct st_view {
    const char *name;      /* a NUL follows; NULL: that of the stored tensor */
    const char *note;      /* why the dtype is U8; NULL: it is the tensor's own */
    const uint64_t *shape; /* `rank` numbers; the strides follow, in elements */
    uint64_t offset;       /* of the first element, in elements */
    uint64_t nbytes;       /* of all elements */
    uint32_t name_nbytes;
    uint32_t tensor; /* the stored one */
    uint16_t rank;
    uint8_t dtype;
    uint8_t is_big_endian; /* where it is stored */
} st_view;

/* All zero: a header without views. */
typedef struct st_views {
    /* those with names of their own, in the order of their tensors, then the others, in that order */
    st_view *list;
    size_t named_count;
    size_t plain_count; /* at most one for each tensor */
    uint64_t *dims;
    char *text; /* names and notes */
    st_names index;
} st_views;

/* Why the views of a tensor were refused. */
typedef struct st_views_fault {
    const char *text; /* static storage */
    size_t tensor;
} st_views_fault;

/* Reads the views of the tensors of a text that was scanned. Errors: HEADER, with *fault; NOMEM. Whether names are
 * unlike is not checked. Free with st_views_free() in every case. */
lmc_status st_views_read(st_views *views, const lmc_allocator *memory, const st_scan *scanned,
                         st_views_fault *fault);
void st_views_free(st_views *views, const lmc_allocator *memory);

/* The view of tensor `tensor` that has the tensor's name, or NULL. */
const st_view *st_views_find(const st_views *views, size_t tensor);

static inline const uint64_t *st_view_strides(const st_view *view)
{
    return view->shape + view->rank;
}

/* Fills in the strides of C order, into room for `rank` numbers. */
void st_view_set_strides(const uint64_t *shape, size_t rank, uint64_t *strides);

/* Why a view of a tensor of `nbytes` bytes cannot be read (static storage), or NULL. Sets view->nbytes. */
const char *st_view_fault(st_view *view, uint64_t nbytes);

/* 1 if the view has its elements one behind the other, in C order. */
int st_view_is_in_order(const st_view *view);

/* 1 if the content of the view is that of a whole tensor of `nbytes` bytes as it is stored. */
int st_view_is_whole(const st_view *view, uint64_t nbytes);

/* Bytes that change their order in a big-endian number: a C64 is two. */
unsigned st_view_swapped_nbytes(const st_view *view);

#endif
