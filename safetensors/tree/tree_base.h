/*
 * tree_base.h - the bases of a directory's files: where the base of each of them is, by its name; or, since shards have
 * other names once there are more of them, by its tensors: the file of the same folder that has most of them.
 */
#ifndef LMC_SAFETENSORS_TREE_TREE_BASE_H
#define LMC_SAFETENSORS_TREE_TREE_BASE_H

#include "safetensors/common/memory.h"
#include "safetensors/common/options.h"

/* Where the base of a directory's file is. */
typedef struct st_tree_base {
    char *path; /* NULL: none was named, or there is none for this file */
    /* in the base directory, which belongs to the one that the file is in; NULL: there is none */
    char *folder;
    /* to look in: that folder; of each of the options' directories the one that the file is in, and itself */
    char **dirs;
    size_t dir_count;
} st_tree_base;

/* For `path` (relative; of a file, or of its archive): the file of its name in the options' base directory, or of that
 * with ".lmc". A folder on the way that is not there may have another number in its name (st_find_similar_folder()).
 * Puts it into *inner, for calls on this file; *base must outlive those. Free with st_tree_base_free() in every case.
 * Error: NOMEM. */
lmc_status st_tree_base_find(st_tree_base *base, const st_options *options, const char *path, int is_archive,
                             st_options *inner, lmc_st_diag *diag);
void st_tree_base_free(st_tree_base *base, const lmc_allocator *memory);

/* ARG if the options' base is not a directory. */
lmc_status st_tree_base_check(const st_options *options, lmc_st_diag *diag);

/* ---- by its tensors ---- */

/* A tensor of a file in the folder. */
typedef struct st_named_tensor {
    uint64_t key; /* of its name, dtype and size */
    uint64_t file;
} st_named_tensor;

/* The tensors of a folder's files. All zero: of none yet. */
typedef struct st_folder_names {
    char *folder; /* NULL: none */
    char **paths; /* of files, in the order of their names */
    size_t path_count;
    st_buffer tensors; /* by key, then file */
    size_t tensor_count;
    uint64_t *votes; /* room: for each file, bytes of tensors that it has */
} st_folder_names;

/* Sets *found to the path of the file in `folder` that has most of the content of the file `path`, to be released; NULL
 * if no tensor of that is there. Wrappers' parts of names do not count. Only headers are read; those of a folder are
 * kept for the next call. A file that cannot be read is none. Errors: NOMEM, CANCELLED.
 * Free *names with st_folder_names_free() in every case. */
lmc_status st_renamed_find(st_folder_names *names, const st_options *options, const char *folder,
                           const char *path, char **found, lmc_st_diag *diag);
void st_folder_names_free(st_folder_names *names, const lmc_allocator *memory);

#endif
