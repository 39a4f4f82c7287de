/*
 * convert_file.h - safetensors file -> archive, within liblmc_st. Options are complete (common/options.h), result
 * and diag are there.
 */
#ifndef LMC_SAFETENSORS_CONVERT_CONVERT_FILE_H
#define LMC_SAFETENSORS_CONVERT_CONVERT_FILE_H

#include "safetensors/convert/source.h"

/* One file; lmc_st_convert() without directories. */
lmc_status st_convert_file(const char *in_path, const st_place *out, const st_options *options,
                           lmc_st_result *result, lmc_st_diag *diag);

/* Calls `visit` with the file as st_convert_file() would take it. Errors: what opening gives, what `visit` returns. */
lmc_status st_convert_visit_file(const char *in_path, const st_options *options, st_source_fn visit,
                                 void *user, lmc_st_diag *diag);

/* Any source. */
lmc_status st_convert_source(const st_source *source, const st_place *out, const st_options *options,
                             lmc_st_result *result, lmc_st_diag *diag);

#endif
