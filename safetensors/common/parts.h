/*
 * parts.h - the progress of a call that is made of several: the files of a directory, the passes of a
 * salvage. To the caller it never falls and ends at its total.
 */
#ifndef LMC_SAFETENSORS_COMMON_PARTS_H
#define LMC_SAFETENSORS_COMMON_PARTS_H

#include "safetensors/common/options.h"

typedef struct st_parts {
    const st_options *options; /* the caller's */
    uint64_t done_nbytes, total_nbytes;
    uint64_t part_nbytes; /* of the part that is being done */
} st_parts;

/* The options for a part: the caller's, with callbacks that know of the others. They refer to *parts. */
st_options st_parts_options(st_parts *parts);

/* Before and after a part that counts for `nbytes` of the total. */
void st_parts_begin(st_parts *parts, uint64_t nbytes);
void st_parts_end(st_parts *parts);

#endif
