/*
 * read.h - the content of single tensors; lmc_st_read_range() and lmc_st_read() say what can fail.
 */
#ifndef LMC_SAFETENSORS_READ_READ_H
#define LMC_SAFETENSORS_READ_READ_H

#include "safetensors/archive/file.h"

lmc_status st_read_range(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, uint64_t first_byte,
                         size_t nbytes, void *dst, lmc_st_diag *diag);
lmc_status st_read(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, void *dst, size_t dst_capacity,
                   lmc_st_diag *diag);

#endif
