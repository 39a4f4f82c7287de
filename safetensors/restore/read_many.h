/*
 * read_many.h - whole tensors of an open file, read to memory by several threads.
 */
#ifndef LMC_SAFETENSORS_RESTORE_READ_MANY_H
#define LMC_SAFETENSORS_RESTORE_READ_MANY_H

#include "safetensors/base/base_file.h"

/* Tensor indices[i] is to go to dsts[i], which has room for it. */
typedef struct st_wanted_tensors {
    const uint64_t *indices;
    void *const *dsts;
    size_t count;
} st_wanted_tensors;

/* Errors: as lmc_st_read_many(). */
lmc_status st_read_many(const lmc_st_file *file, const st_wanted_tensors *wanted,
                        const lmc_st_options *options, lmc_st_diag *diag);

#endif
