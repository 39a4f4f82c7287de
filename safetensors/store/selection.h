/*
 * selection.h - which models the tensors of a file should be based on, given how many bytes each would take on which:
 * models that save most are taken, one after another. Numbers in memory only.
 */
#ifndef LMC_SAFETENSORS_STORE_SELECTION_H
#define LMC_SAFETENSORS_STORE_SELECTION_H

#include "safetensors/common/memory.h"
#include "safetensors/common/st_common.h"

/* A tensor of the store that a tensor of the file may be based on. Of one model, a tensor has one relative at most. */
typedef struct st_relative {
    uint32_t wanted; /* the tensor of the file */
    uint32_t model;
    uint32_t file, tensor; /* of the store */
    lmc_base_form form;
    int has_other_length;
    int is_equal;  /* the sketches are */
    double nbytes; /* that the tensor takes on it, as predicted */
} st_relative;

/* What each tensor takes alone, and on its relatives. */
typedef struct st_selection {
    const lmc_allocator *memory;
    const double *alone_nbytes; /* per tensor of the file */
    size_t wanted_count;
    const st_relative *relatives; /* by rising `model` */
    size_t relative_count;
    size_t model_count;
    const unsigned char *is_allowed; /* per model */
    const unsigned *rank; /* per model: of two that save as much, the one with the lower rank is taken */
} st_selection;

/* What the file takes on one model alone, for each model; of one that is not allowed, what it takes alone. */
void st_selection_totals(const st_selection *selection, double *total_nbytes);

/* chosen[i]: the relative of tensor i; SIZE_MAX: none. Models that save little beside others are left out. Error:
 * NOMEM. */
lmc_status st_selection_choose(const st_selection *selection, size_t *chosen);

#endif
