/*
 * torch.h - archives of torch.save() and torch.jit.save(): a folder with a pickle, and a folder with the storages that
 * it names.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_TORCH_H
#define LMC_SAFETENSORS_CONTAINER_TORCH_H

#include "safetensors/container/segments.h"
#include "safetensors/container/zip_directory.h"

/* Adds the storages if the ZIP is such an archive. Their entries are done then. Errors: IO, NOMEM, LIMIT, CANCELLED. */
lmc_status st_torch_add(st_segments *segments, st_zip *zip, lmc_st_diag *diag);

#endif
