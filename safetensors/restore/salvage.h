/*
 * salvage.h - what is sound of a damaged archive, written as a safetensors file of its own.
 */
#ifndef LMC_SAFETENSORS_RESTORE_SALVAGE_H
#define LMC_SAFETENSORS_RESTORE_SALVAGE_H

#include "safetensors/base/file.h"

/* Writes the tensors that verify to the output: all of the original file if nothing is lost. Sets the result's counts
 * of tensors and the file's size, and with damage the first of it in *damage. Errors: IO, NOMEM, CANCELLED. */
lmc_status st_salvage_tensors(const lmc_st_file *source, os_output *output, const lmc_st_options *options,
                              lmc_st_result *result, lmc_st_diag *damage, lmc_st_diag *diag);

#endif
