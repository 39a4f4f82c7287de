/*
 * skeleton.h - what is no tensor goes where the tensors go: to an output, a hash, a comparison.
 */
#ifndef LMC_SAFETENSORS_RESTORE_SKELETON_H
#define LMC_SAFETENSORS_RESTORE_SKELETON_H

#include "safetensors/archive/skeleton.h"
#include "safetensors/restore/restoration.h"

/* A skeleton on its way. One thread at a time. */
typedef struct st_skeleton_delivery {
    const st_restoration *restoration;
    st_skeleton skeleton;
    uint64_t at; /* bytes of it that were delivered */
    st_buffer expected;
} st_skeleton_delivery;

/* Opens the skeleton if it is to go along. Ends with st_skeleton_end() in every case. */
lmc_status st_skeleton_begin(st_skeleton_delivery *delivery, const st_restoration *restoration,
                             lmc_st_diag *diag);
void st_skeleton_end(st_skeleton_delivery *delivery);

/* Delivers all of the skeleton that stands before tensor `index` and was not delivered yet; what stands behind the last
 * one, too, if index is the number of tensors. Errors: IO, NOMEM, CANCELLED, damage; CHECKSUM if the original has other
 * bytes there. */
lmc_status st_skeleton_deliver(st_skeleton_delivery *delivery, size_t index, lmc_st_diag *diag);

/* Reads and verifies all of the skeleton. Errors: IO, NOMEM, damage. */
lmc_status st_skeleton_check(const lmc_st_file *source, lmc_st_diag *diag);

#endif
