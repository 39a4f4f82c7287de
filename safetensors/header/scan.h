/*
 * scan.h - one pass over the JSON of a safetensors header. It checks the grammar and each entry by
 * itself, and records what it finds where the caller has given it arrays; without them it only counts.
 * It never allocates. What tensors must obey together is checked in header/header.c.
 */
#ifndef LMC_SAFETENSORS_HEADER_SCAN_H
#define LMC_SAFETENSORS_HEADER_SCAN_H

#include "safetensors/common/st_common.h"
#include "safetensors/header/json.h"

/* Dimensions that are kept as numbers. A shape of more stays in the text, where a dimension may take two bytes and not
 * the eight of a number: st_header_shape() reads both. */
#define ST_RANK_KEPT 16

typedef struct st_tensor {
    uint64_t begin, end;  /* in the data region */
    uint32_t name_offset; /* in the list of unescaped names */
    uint32_t name_nbytes;
    st_span raw_name;  /* as it stands in the text, with its quotes */
    uint32_t shape_at; /* in the list of dimensions; above ST_RANK_KEPT: of its '[' in the text */
    uint16_t rank;
    uint16_t dtype; /* lmc_dtype */
} st_tensor;

typedef struct st_scan {
    st_json json;      /* text and size are set by the caller */
    lmc_status status; /* what a fault is: HEADER (set by the caller) or LIMIT */

    /* filled where not NULL */
    st_tensor *tensors;
    uint64_t *dims;        /* with room for ST_RANK_KEPT more than were counted */
    char *names;           /* zeroed by the caller: each name gets a NUL behind it */
    uint32_t *metadata_at; /* where each key and each value begins in metadata_bytes */
    char *metadata_bytes;  /* zeroed by the caller: unescaped, with a NUL behind each */

    /* counted, from 0 */
    size_t tensor_count;
    size_t dim_count; /* that are kept */
    size_t name_nbytes;
    size_t metadata_string_count; /* keys and values */
    size_t metadata_nbytes;       /* of them, with their NULs */

    st_span faulty_entry; /* after a fault within a tensor's entry: its name, as it stands in the text */

    int has_metadata;
    st_span metadata; /* the object `__metadata__`; nbytes 0 if there is none */
} st_scan;

/* The name of a dtype, as an entry or a view has it. Returns 1, or 0 with json->at at it; `fault`: it is unknown. */
int st_scan_dtype(st_json *json, const char *fault, lmc_dtype *dtype);

/* Returns 1, or 0 with json.fault and json.at set. */
int st_scan_run(st_scan *scan);

#endif
