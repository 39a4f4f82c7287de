/*
 * model_dir.h - directories of models: every safetensors file in them becomes an archive, or back; the
 * rest is copied. The rules are in lmc_st.h. Options are complete, result and diag are there.
 */
#ifndef LMC_SAFETENSORS_TREE_MODEL_DIR_H
#define LMC_SAFETENSORS_TREE_MODEL_DIR_H

#include "safetensors/common/common.h"
#include "safetensors/common/names.h"

/* 1 if the call's input is a directory. */
int st_is_directory(const char *path, const lmc_st_options *options);

/* Where the base of a directory's file is. */
typedef struct st_model_base {
    char *path; /* NULL: none was named, or there is none for this file */
    char **
        dirs; /* to look in: of each of the options' directories the folder that the file is in, and itself */
    size_t dir_count;
} st_model_base;

/* For `path` (relative; of a file, or of its archive): the file of its name in the options' base directory, or
 * of that with ".lmc". Puts it into *inner, for calls on this file; *base must outlive those. Free with
 * st_model_base_free() in every case. Error: NOMEM. */
lmc_status st_model_base_find(st_model_base *base, const lmc_st_options *options, const char *path,
                              lmc_st_options *inner, lmc_st_diag *diag);
void st_model_base_free(st_model_base *base, const lmc_allocator *memory);

/* ARG if the options' base is not a directory. */
lmc_status st_model_base_check(const lmc_st_options *options, lmc_st_diag *diag);

lmc_status st_model_dir_convert(const char *in_path, const char *out_path, const lmc_st_options *options,
                                lmc_st_result *result, lmc_st_diag *diag);
lmc_status st_model_dir_restore(const char *in_path, const char *out_path, const lmc_st_options *options,
                                lmc_st_result *result, lmc_st_diag *diag);
lmc_status st_model_dir_verify(const char *in_path, const lmc_st_options *options, lmc_st_result *result,
                               lmc_st_diag *diag);
lmc_status st_model_dir_compare(const char *archive_path, const char *plain_path,
                                const lmc_st_options *options, lmc_st_diag *diag);

#endif
