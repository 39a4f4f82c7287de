/*
 * check.h - directories that are read only: verified, compared with the one they were made from, or visited. Options
 * are complete, result and diag are there.
 */
#ifndef LMC_SAFETENSORS_TREE_CHECK_H
#define LMC_SAFETENSORS_TREE_CHECK_H

#include "safetensors/common/options.h"

lmc_status st_tree_verify(const char *in_path, const st_options *options, lmc_st_result *result,
                          lmc_st_diag *diag);
lmc_status st_tree_compare(const char *archive_path, const char *plain_path, const st_options *options,
                           lmc_st_diag *diag);

/* Calls visit() with each archive, until it returns 1. is_strict: fails at one that cannot be opened, which else is
 * passed over. */
lmc_status st_tree_visit(const char *in_path, const st_options *options, int is_strict,
                         int (*visit)(void *user, const lmc_st_file *file), void *user, lmc_st_diag *diag);

#endif
