/*
 * probe.h - a look at a few tensors of a file, whether it can be the base of another one.
 */
#ifndef LMC_SAFETENSORS_BASE_PROBE_H
#define LMC_SAFETENSORS_BASE_PROBE_H

#include "safetensors/base/file.h"

/* By rising preference. */
typedef enum st_base_fit {
    ST_BASE_DIFFERS, /* it is not the base */
    ST_BASE_UNKNOWN, /* it could not be read, or not be looked at on trial */
    ST_BASE_PARTLY,  /* it fits where that could be done */
    ST_BASE_FITS     /* wherever it was looked at */
} st_base_fit;

/* Looks at up to nine tensors that `file` has coded against a file, the first, the last and the one of the largest
 * frame among them, whether
 * their bases in `base` hold the right content: by the hash of all of it if `base` has one for blocks of the same
 * size, else by their first and last block. is_trial: not at tensors of `base` that need another tensor themselves.
 * Error: NOMEM. */
lmc_status st_base_probe(const lmc_st_file *file, const lmc_st_file *base, int is_trial, st_base_fit *fit);

#endif
