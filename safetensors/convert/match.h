/*
 * match.h - before anything is encoded: against which other tensor each tensor of a source might be coded.
 * A few values of each are looked at; whether it helps is decided later, tensor by tensor.
 */
#ifndef LMC_SAFETENSORS_CONVERT_MATCH_H
#define LMC_SAFETENSORS_CONVERT_MATCH_H

#include "safetensors/convert/alias.h"

typedef struct st_match {
    int is_there;
    st_link link; /* to the base, or for LMC_ST_BASE_SELF to a tensor of the source that is no alias */
    lmc_base_form form;
} st_match;

typedef struct st_matches {
    st_match *list; /* one per tensor of the source; NULL if there are none at all */
    size_t count;   /* that are there */
    const lmc_allocator *memory;
} st_matches;

/* The base files of a conversion. */
typedef struct st_base_file {
    lmc_st_file *file;
    char *path; /* to be recorded (archive/links.h) */
} st_base_file;

typedef struct st_base_set {
    st_base_file *list;
    size_t count;
    const lmc_allocator *memory;
} st_base_set;

/* Adds an open file, which belongs to the set from then on, after a failure too. Errors: NOMEM; ARG: the path cannot be
 * recorded, or is there already. */
lmc_status st_base_set_add(st_base_set *set, lmc_st_file *file, const char *path, size_t path_nbytes,
                           const lmc_allocator *memory, lmc_st_diag *diag);
void st_base_set_free(st_base_set *set);

/* For each tensor that is no alias, the first that applies:
 *   - BF16, F16: a wider tensor of the source with the same shape whose rounding it seems to be;
 *   - a tensor of the base with its name, dtype and shape;
 *   - a tensor of the base with its dtype and size that seems to be equal;
 *   - BF16, F16: a wider tensor of the base, as in the source;
 *   - a tensor of the base with its dtype and shape, whose values are near: the nearest of those with its name but for
 *     parts that wrappers add, or that stand where it stands in its file. Small ones are found by their names alone;
 *   - a file of another container: a tensor of the base with its place and size.
 * With options->opened_base, only the second one counts.
 * base: NULL, or an open file. Free with st_matches_free() in every case. Errors: IO, NOMEM, CANCELLED, what the
 * source's read returned, what reading the base gives. */
lmc_status st_matches_find(st_matches *matches, const st_source *source, const st_aliases *aliases,
                           const lmc_st_file *base, const st_options *options, lmc_st_diag *diag);
void st_matches_free(st_matches *matches);

/* Adds a match for a tensor that has none. */
void st_matches_set(st_matches *matches, const st_match *match);

#endif
