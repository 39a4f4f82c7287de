/*
 * skeleton.h - what is no tensor of a file, read anywhere, from a plain file or an archive.
 */
#ifndef LMC_SAFETENSORS_READ_SKELETON_H
#define LMC_SAFETENSORS_READ_SKELETON_H

#include "safetensors/archive/skeleton.h"

/* Bytes [offset, offset + nbytes) of the skeleton. Errors: ARG (there are not so many), and as st_skeleton_open(). */
lmc_status st_read_skeleton(const lmc_st_file *file, uint64_t offset, size_t nbytes, void *dst,
                            lmc_st_diag *diag);

#endif
