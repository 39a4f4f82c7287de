/*
 * fingerprint.h - fingerprints of tensors: hashes of a few values of each, which say before anything is encoded where
 * to look for aliases and matches. A candidate is a tensor, or what it becomes when its values are rounded.
 */
#ifndef LMC_SAFETENSORS_CONVERT_FINGERPRINT_H
#define LMC_SAFETENSORS_CONVERT_FINGERPRINT_H

#include "safetensors/convert/source.h"

typedef struct st_candidate {
    uint64_t nbytes; /* of the content that it gives */
    uint64_t fingerprint;
    unsigned char *excerpt; /* ST_EXCERPT_NBYTES, which the fingerprint leaves there; NULL: none wanted */
    uint32_t index;
    uint16_t dtype; /* of the content that it gives */
    uint8_t place;  /* lmc_st_base_place: a tensor of the source, or of the base */
    uint8_t form;   /* lmc_base_form: how the content comes from the tensor's own */
    uint8_t is_needed;
} st_candidate;

/* Smaller tensors gain nothing: an entry of a list or an index takes about as much as their frame. */
#define ST_CANDIDATE_NBYTES_MIN 64

/* Tensor `index` of the source, as it is. */
static inline st_candidate st_candidate_of(const st_source *source, size_t index)
{
    return (st_candidate){.nbytes = st_source_tensor_nbytes(source, index),
                          .index = (uint32_t)index,
                          .dtype = source->header->tensors[index].dtype,
                          .place = LMC_ST_BASE_SELF,
                          .form = LMC_BASE_PLAIN};
}

#define ST_FINGERPRINT_PLACE_COUNT_MAX 8

/* An excerpt: so many bytes of each place of a sampling that has all places, with so many bytes at each or more. */
#define ST_EXCERPT_PLACE_NBYTES 32
#define ST_EXCERPT_NBYTES (ST_FINGERPRINT_PLACE_COUNT_MAX * ST_EXCERPT_PLACE_NBYTES)

/* Where the values are that a fingerprint is made of. */
typedef struct st_sampling {
    size_t place_nbytes; /* at each place, or what is left of the content there */
    size_t (*list_places)(uint64_t content_nbytes, uint64_t *places); /* returns how many */
} st_sampling;

/* By size, then dtype: tensors of other kinds cannot be equal. */
int st_candidate_compare_kinds(const st_candidate *a, const st_candidate *b);

/* By kind, then fingerprint. */
int st_candidate_compare(const st_candidate *a, const st_candidate *b);

/* By kind, then fingerprint; of equal ones, the plain come first, then by their order in the file. */
void st_candidates_sort(st_candidate *candidates, size_t count);

/* Takes the fingerprints, and the excerpts, of those that are needed, with several threads. base: NULL if no candidate
 * is of the base.
 * Errors: IO, NOMEM, CANCELLED, what the source's read returned, what reading the base gives. */
lmc_status st_fingerprints_take(const st_sampling *sampling, const st_source *source, const lmc_st_file *base,
                                st_candidate *candidates, size_t count, const st_options *options,
                                lmc_st_diag *diag);

#endif
