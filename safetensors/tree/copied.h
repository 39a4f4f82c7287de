/*
 * copied.h - the list of a converted directory's files that are named as archives and are none of its own: copies,
 * which must come back as they are. It is a file in the root of the directory, with a path on each line, and is there
 * only if there are such files.
 */
#ifndef LMC_SAFETENSORS_TREE_COPIED_H
#define LMC_SAFETENSORS_TREE_COPIED_H

#include "common/own_files.h"
#include "safetensors/files/directories.h"

/* The most bytes that the list may have. */
#define ST_COPIED_NBYTES_MAX ((size_t)16 << 20)

/* 1 if the entry is the list of the converted directory that it is in. */
int st_copied_is_list(const st_dir_entry *entry);

/* 1 if a copy of this file, which is not converted, must be on the list. */
int st_copied_is_to_be_listed(const st_dir_entry *entry);

/* Makes the list of the files of `tree` that are not converted: *text has *nbytes bytes, 0 if there are none. To be
 * released. is_converted: of each entry. root: for messages. Errors: ARG (a path with a line break), LIMIT, NOMEM. */
lmc_status st_copied_list(const st_listing *tree, const unsigned char *is_converted, const char *root,
                          char **text, size_t *nbytes, lmc_st_diag *diag);

/* *is_archive: 1 for each entry of the converted directory `root` that is an archive: named as one, and not on the
 * list. To be released, after a failure too. Errors: IO, NOMEM, LIMIT; CORRUPT: the list does not fit the directory. */
lmc_status st_copied_find_archives(const st_listing *tree, const char *root, unsigned char **is_archive,
                                   lmc_st_diag *diag);

#endif
