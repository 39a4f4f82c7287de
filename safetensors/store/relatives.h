/*
 * relatives.h - the tensors of a store that those of a file may be based on, and how many bytes they would take there:
 * found in the index, predicted by sketches.
 */
#ifndef LMC_SAFETENSORS_STORE_RELATIVES_H
#define LMC_SAFETENSORS_STORE_RELATIVES_H

#include "safetensors/store/catalog.h"
#include "safetensors/store/selection.h"

/* The search for the relatives of a file's tensors. The first five are the caller's. */
typedef struct st_relatives {
    st_catalog *catalog;
    const unsigned char *is_allowed; /* per model: it may have relatives */
    const unsigned char
        *is_reachable; /* likewise, such as seem to be equal; NULL: no more models than these */
    const st_index_tensor *tensors;
    lmc_st_diag *diag;
    uint32_t *wanted; /* numbers of tensors that look for a base */
    size_t wanted_count;
    double *alone_nbytes; /* that each of these takes without one, as predicted */
    st_relative *list;    /* by model, then tensor: the best of each tensor in each model */
    size_t count;
    /* what the search works with */
    st_buffer room, files;
    size_t file_count;
} st_relatives;

/* Finds the relatives of those of `count` tensors that are wanted (NULL: all). What takes no less than alone is
 * none. An index that turns out to be damaged is made again. Free with st_relatives_free() in every case. Errors: IO,
 * NOMEM, CANCELLED. */
lmc_status st_relatives_find(st_relatives *relatives, size_t count, const unsigned char *is_wanted);
void st_relatives_free(st_relatives *relatives);

#endif
