/*
 * tree_work.h - a directory that is being converted or restored: what tree/directory.c, which writes it, shares with
 * tree/tree_work.c, which says beforehand what becomes of each file, and what cannot be done.
 */
#ifndef LMC_SAFETENSORS_TREE_TREE_WORK_H
#define LMC_SAFETENSORS_TREE_TREE_WORK_H

#include "safetensors/common/parts.h"
#include "safetensors/files/directory.h"
#include "safetensors/tree/tree_base.h"

typedef enum st_direction { ST_TO_ARCHIVES, ST_FROM_ARCHIVES } st_direction;

typedef struct st_tree_work {
    const char *in_path;
    const char *out_path;
    st_direction direction;
    int keeps_unfinished;
    const st_options *options;  /* the caller's */
    st_options inner;           /* for single files */
    st_tree_base base;          /* of the one that is worked on */
    st_folder_names base_names; /* of the folder in the base directory that was looked at last */
    lmc_st_result *result;
    lmc_st_diag *diag;
    st_listing tree;
    unsigned char *is_worked; /* of each entry of the tree: 1 if it is converted or restored */
    char *copied;             /* convert: the list of tree/copied.h */
    size_t copied_nbytes;
    st_staging staging;
    st_parts parts;
    size_t name_nbytes_max;  /* of a name in the output */
    uint64_t finished_count; /* archives */
    uint64_t found_count;    /* what may be archives of an earlier run */
} st_tree_work;

/* 1 for files that are converted or restored, 0 for those that are copied, and for directories. */
int st_tree_is_worked_on(const st_tree_work *work, const st_dir_entry *entry);

/* Path of an entry in the output `root` ("": relative to it); to be released. NULL: out of memory. */
char *st_tree_output_path(const st_tree_work *work, const st_dir_entry *entry, const char *root);

/* Makes work->base and work->inner those of this entry. Errors: NOMEM, CANCELLED. */
lmc_status st_tree_choose_base(st_tree_work *work, const st_dir_entry *entry);

/* Fails with this status and text, naming `path`. */
lmc_status st_tree_refuse(const st_tree_work *work, const char *path, lmc_status status, const char *text);

/* Decides what becomes of each file, and refuses what cannot be done, before anything is written; sums the bytes of the
 * files up. Errors: ARG, HEADER, and what opening a file or its base gives. */
lmc_status st_tree_check(st_tree_work *work);

#endif
