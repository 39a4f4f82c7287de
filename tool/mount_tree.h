/*
 * mount_tree.h - what a mounted source shows: its folders and files as they were before they were converted, each a
 * node that never changes. What changes in the source gets other nodes.
 */
#ifndef LMC_TOOL_MOUNT_TREE_H
#define LMC_TOOL_MOUNT_TREE_H

#include "os/mount.h"
#include "tool/args.h"

#include "lmc_st_experimental.h"

typedef struct mount_tree mount_tree;

/* path: of an archive, or of a directory. mountpoint: where it is to be shown. Both are real paths, and so are base and
 * base_dirs of the options; they must outlive the tree. log: gets the faults of files that are read, of several threads
 * at once. Errors: LMC_ERR_ARG (a plain file), as lmc_st_open() of an archive, and as lmc_st_visit_entries() of a
 * directory. */
lmc_status mount_tree_create(const char *path, const char *mountpoint, const lmc_st_compare_options *options,
                             void (*log)(const lmc_st_diag *diag), mount_tree **tree, lmc_st_diag *diag);

/* Before anything is asked: where blocks are decoded. */
void mount_tree_use(mount_tree *tree, lmc_st_cache *cache);
void mount_tree_free(mount_tree *tree);

/* The answers of a tree, which is their user. */
extern const os_mount_answers mount_tree_answers;

#endif
