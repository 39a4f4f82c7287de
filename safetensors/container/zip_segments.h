/*
 * zip_segments.h - makes segments of the entries of a ZIP: arrays, and pieces of what is large. Names are those of the
 * entries, behind INDEX/ if the file has several ZIPs.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_ZIP_SEGMENTS_H
#define LMC_SAFETENSORS_CONTAINER_ZIP_SEGMENTS_H

#include "safetensors/container/segments.h"
#include "safetensors/container/zip_directory.h"

typedef struct st_zip_segments {
    const st_reading *reading;
    st_segments *segments;
    st_zip zip;
    char prefix[24]; /* of names; empty in a file of one ZIP */
    st_buffer name, head;
} st_zip_segments;

/* Adds a segment under this name. Errors: NOMEM, LIMIT. */
lmc_status st_zip_add(st_zip_segments *zip, st_string name, st_segment *segment, lmc_st_diag *diag);

/* The same with the dtype that its bytes look like, and without shape. Errors: also IO. */
lmc_status st_zip_add_guessed(st_zip_segments *zip, st_string name, uint64_t offset, uint64_t nbytes,
                              lmc_st_diag *diag);

/* Adds all plain entries that are not done. Errors: IO, NOMEM, LIMIT, CANCELLED. */
lmc_status st_zip_add_entries(st_zip_segments *zip, lmc_st_diag *diag);

static inline int st_string_begins(st_string string, st_string begin)
{
    return string.nbytes >= begin.nbytes && memcmp(string.bytes, begin.bytes, begin.nbytes) == 0;
}

static inline int st_string_ends(st_string string, const char *end)
{
    const size_t nbytes = strlen(end);
    return string.nbytes >= nbytes && memcmp(string.bytes + string.nbytes - nbytes, end, nbytes) == 0;
}

#endif
