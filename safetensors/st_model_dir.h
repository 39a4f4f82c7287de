/*
 * st_model_dir.h - directories of models: every safetensors file in them becomes an archive, or back; the
 * rest is copied. The rules are in lmc_st.h. Options are complete, result and diag are there.
 */
#ifndef LMC_ST_MODEL_DIR_H
#define LMC_ST_MODEL_DIR_H

#include "st_base.h"

/* What an archive's name adds to that of its original. */
#define ST_ARCHIVE_SUFFIX ".lmc"

/* 1 for "NAME.safetensors", and for "NAME.safetensors.lmc": NAME is not empty. */
int st_is_plain_name(const char *path);
int st_is_archive_name(const char *path);

/* 1 if the call's input is a directory. */
int st_is_directory(const char *path, const lmc_st_options *options);

/* Which base a directory's file has: for `path` (relative; of a file, or of its archive) the file of its name
 * in the options' base directory, or of that with ".lmc"; NULL if neither is there, or no base was given.
 * *base is to be released. Error: NOMEM. */
lmc_status st_model_dir_base(const lmc_st_options *options, const char *path, char **base, lmc_st_diag *diag);

/* ARG if the options' base is not a directory. */
lmc_status st_model_dir_check_base(const lmc_st_options *options, lmc_st_diag *diag);

lmc_status st_model_dir_convert(const char *in_path, const char *out_path, const lmc_st_options *options,
                                lmc_st_result *result, lmc_st_diag *diag);
lmc_status st_model_dir_restore(const char *in_path, const char *out_path, const lmc_st_options *options,
                                lmc_st_result *result, lmc_st_diag *diag);
lmc_status st_model_dir_verify(const char *in_path, const lmc_st_options *options, lmc_st_result *result,
                               lmc_st_diag *diag);
lmc_status st_model_dir_compare(const char *archive_path, const char *plain_path,
                                const lmc_st_options *options, lmc_st_diag *diag);

#endif
