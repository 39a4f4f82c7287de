/*
 * segments.h - the list of tensors that the reader of a container makes. What it says of a tensor is only believed as
 * far as it agrees with the tensor's size; names become UTF-8 and unlike each other; what overlaps is left out.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_SEGMENTS_H
#define LMC_SAFETENSORS_CONTAINER_SEGMENTS_H

#include "safetensors/container/container.h"

/* What is no tensor of a known form, and large, is cut into pieces of a fixed size: such a file may be the base of
 * another, whose pieces are compared with those at the same places. The last one ends at a multiple of the unit, so
 * that it is whole elements of whatever it is guessed to be. */
#define ST_PIECE_NBYTES ((uint64_t)1 << 20)
#define ST_PIECE_UNIT_NBYTES 8

/* What the container says of a tensor that is not simply a segment (header/views.h). */
typedef struct st_segment_view {
    const char *name; /* any bytes; of the first view, which has the segment's name, it says nothing */
    size_t name_nbytes;
    lmc_dtype dtype;
    const uint64_t *shape, *strides; /* `rank` numbers; strides NULL: C order */
    size_t rank;
    uint64_t offset; /* in elements, as the strides */
    int is_big_endian;
    const char *note; /* why the dtype is U8, or NULL; static storage, or copied before the next is added */
} st_segment_view;

/* A tensor: bytes of the file that are coded as one. */
typedef struct st_segment {
    uint64_t offset, nbytes;
    lmc_dtype dtype;
    /* rank 0 with shape not NULL: a scalar. shape NULL: one dimension with all elements. */
    const uint64_t *shape;
    size_t rank;
    const char *name; /* any bytes */
    size_t name_nbytes;
    const st_segment_view *views; /* NULL: the segment is listed as it is */
    size_t view_count;
} st_segment;

/* A name among the names. */
typedef struct st_kept_name {
    uint64_t at;
    uint32_t nbytes;
} st_kept_name;

typedef struct st_kept_segment {
    uint64_t offset, nbytes;
    uint64_t shape_at; /* in the dimensions */
    st_kept_name name;
    uint32_t order; /* in which it was added */
    uint16_t rank;
    uint16_t dtype;
    uint32_t first_view, view_count; /* in the views */
} st_kept_segment;

typedef struct st_kept_view {
    uint64_t offset;
    uint64_t shape_at; /* in the dimensions; the strides follow */
    st_kept_name name, note;
    uint16_t rank;
    uint8_t dtype, is_big_endian, has_note;
} st_kept_view;

/* A list that grows. */
typedef struct st_segments {
    const st_reading *reading;
    const char *prefix;                 /* of all names that are added; UTF-8 */
    st_buffer list, views, names, dims; /* of st_kept_segment, st_kept_view, bytes, uint64_t */
    size_t count, view_count, names_nbytes, dim_count;
    size_t view_names_nbytes; /* names of views, and notes, among the names */
    int has_too_many_views;   /* 1: a header cannot hold them, so it has none */
} st_segments;

void st_segments_init(st_segments *segments, const st_reading *reading);
void st_segments_free(st_segments *segments);

/* Adds a tensor; everything is copied. Segments may come in any order. One that leaves the file is not added. If dtype
 * and shape do not give `nbytes`, it has one dimension; if nbytes is not a whole number of elements, it is U8. A view
 * that leaves the segment becomes its bytes, with a note. What a file is never depends on its views: of too many, none
 * is kept.
 * Errors: NOMEM, LIMIT (more tensors than a header may have). */
lmc_status st_segments_add(st_segments *segments, const st_segment *segment, lmc_st_diag *diag);

/* What dtype the bytes look like (lmc_dtype_guess() of samples of them). Errors: IO, NOMEM. */
lmc_status st_segments_guess(const st_reading *reading, uint64_t offset, uint64_t nbytes, lmc_dtype *dtype,
                             lmc_st_diag *diag);

/* Adds pieces that fill the bytes but for what is less than a unit at the end, each of the dtype that it looks like.
 * name NULL: they are called piece/N. Errors: as st_segments_add(), IO, CANCELLED. */
lmc_status st_segments_add_pieces(st_segments *segments, const char *name, size_t name_nbytes,
                                  uint64_t offset, uint64_t nbytes, lmc_st_diag *diag);

/* Makes the contents of the list: sorts by place, leaves out a tensor that begins before the end of one in front of
 * it, makes names unlike, and writes the header. Errors: NOMEM, LIMIT. */
lmc_status st_segments_finish(st_segments *segments, lmc_st_container kind, st_contents *contents,
                              lmc_st_diag *diag);

#endif
