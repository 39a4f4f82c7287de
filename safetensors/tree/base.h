/*
 * base.h - the bases of a directory's files: where the base of each of them is, by its name.
 */
#ifndef LMC_SAFETENSORS_TREE_BASE_H
#define LMC_SAFETENSORS_TREE_BASE_H

#include "safetensors/common/common.h"

/* Where the base of a directory's file is. */
typedef struct st_tree_base {
    char *path; /* NULL: none was named, or there is none for this file */
    char **
        dirs; /* to look in: of each of the options' directories the folder that the file is in, and itself */
    size_t dir_count;
} st_tree_base;

/* For `path` (relative; of a file, or of its archive): the file of its name in the options' base directory, or of that
 * with ".lmc". A folder on the way that is not there may have another number in its name (os_find_similar_folder()).
 * Puts it into *inner, for calls on this file; *base must outlive those. Free with st_tree_base_free() in every case.
 * Error: NOMEM. */
lmc_status st_tree_base_find(st_tree_base *base, const lmc_st_options *options, const char *path,
                             int is_archive, lmc_st_options *inner, lmc_st_diag *diag);
void st_tree_base_free(st_tree_base *base, const lmc_allocator *memory);

/* ARG if the options' base is not a directory. */
lmc_status st_tree_base_check(const lmc_st_options *options, lmc_st_diag *diag);

#endif
