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

/* A tensor: bytes of the file that are coded as one. */
typedef struct st_segment {
    uint64_t offset, nbytes;
    lmc_dtype dtype;
    /* rank 0 with shape not NULL: a scalar. shape NULL: one dimension with all elements. */
    const uint64_t *shape;
    size_t rank;
    const char *name; /* any bytes */
    size_t name_nbytes;
} st_segment;

typedef struct st_kept_segment {
    uint64_t offset, nbytes;
    uint64_t name_at;  /* in the names */
    uint64_t shape_at; /* in the dimensions */
    uint32_t name_nbytes;
    uint32_t order; /* in which it was added */
    uint16_t rank;
    uint16_t dtype;
} st_kept_segment;

/* A list that grows. */
typedef struct st_segments {
    const st_reading *reading;
    st_buffer list, names, dims; /* of st_kept_segment, bytes, uint64_t */
    size_t count, names_nbytes, dim_count;
} st_segments;

void st_segments_init(st_segments *segments, const st_reading *reading);
void st_segments_free(st_segments *segments);

/* Adds a tensor; everything is copied. Segments may come in any order. One that leaves the file is not added. If dtype
 * and shape do not give `nbytes`, it has one dimension; if nbytes is not a whole number of elements, it is U8.
 * Errors: NOMEM, LIMIT (more tensors than a header may have). */
lmc_status st_segments_add(st_segments *segments, const st_segment *segment, lmc_st_diag *diag);

/* What dtype the bytes look like (lmc_dtype_guess() of samples of them). Errors: IO, NOMEM. */
lmc_status st_segments_guess(const st_reading *reading, uint64_t offset, uint64_t nbytes, lmc_dtype *dtype,
                             lmc_st_diag *diag);

/* Makes the contents of the list: sorts by place, leaves out a tensor that begins before the end of one in front of
 * it, makes names unlike, and writes the header. Errors: NOMEM, LIMIT. */
lmc_status st_segments_finish(st_segments *segments, lmc_st_container kind, st_contents *contents,
                              lmc_st_diag *diag);

#endif
