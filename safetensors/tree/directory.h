/*
 * directory.h - directories of models that are converted or restored: every file in them whose container is known
 * becomes an archive, or back; the rest is copied. The rules are in lmc_st.h. Options are complete, result and diag are
 * there.
 */
#ifndef LMC_SAFETENSORS_TREE_DIRECTORY_H
#define LMC_SAFETENSORS_TREE_DIRECTORY_H

#include "safetensors/convert/source.h"

/* 1 if the call's input is a directory. */
int st_is_directory(const char *path, const st_options *options);

/* keeps_unfinished: what is finished is left to a later call if this one cannot go on. */
lmc_status st_tree_convert(const char *in_path, const char *out_path, int keeps_unfinished,
                           const st_options *options, lmc_st_result *result, lmc_st_diag *diag);
/* Calls `visit` with each file of the directory that would be converted, as conversion would take it. Errors: as
 * converting the directory; what `visit` returns. */
lmc_status st_tree_visit_sources(const char *in_path, const st_options *options, st_source_fn visit,
                                 void *user, lmc_st_diag *diag);

lmc_status st_tree_restore(const char *in_path, const char *out_path, const st_options *options,
                           lmc_st_result *result, lmc_st_diag *diag);

#endif
