/*
 * os_dir.h - the operating system's directories: listing a tree, making one beside its place and putting it
 * there in one step, removing one.
 */
#ifndef LMC_ST_OS_DIR_H
#define LMC_ST_OS_DIR_H

#include "os_file.h"

/* ---- paths ---- */

/* "directory/name" and then `suffix`; to be released. NULL: out of memory. */
char *os_path_join(const lmc_allocator *memory, const char *directory, const char *name, const char *suffix);

/* The path without links, "." and ".."; its last component need not exist. To be released. NULL with errno
 * set: no such directory, out of memory. */
char *os_true_path(const lmc_allocator *memory, const char *path);

/* 1 if the path, with links followed, is a directory. */
int os_is_directory(const char *path);

/* 1 if it is one whose last component is its own name: no link, "." or "..". */
int os_is_own_directory(const lmc_allocator *memory, const char *path);

/* 1 if the path, with links followed, is `outer` or in it; 0 also if one of them is not there. -1: out of
 * memory. */
int os_is_within(const lmc_allocator *memory, const char *path, const char *outer);

/* 1 if the path, with links followed, is a regular file. */
int os_is_file(const char *path);

/* 1 if the path is a regular file itself, not a link to one. */
int os_is_own_file(const char *path);

/* A second name for a file. Returns 0 or an errno. */
int os_link(const char *path, const char *new_path);

/* Removes a file's name. Error: IO. */
lmc_status os_remove_file(const char *path, lmc_st_diag *diag);

/* ---- trees ---- */

typedef struct os_entry {
    char *path; /* relative to the tree's root */
    int is_directory;
    uint64_t nbytes;
    os_attributes attributes;
} os_entry;

typedef struct os_tree {
    os_entry *entries; /* sorted by path, so that a directory comes before what is in it */
    size_t count, capacity;
    os_attributes root; /* of the root itself */
    const lmc_allocator *memory;
} os_tree;

/* Lists everything below `root`. Links to files stand for the files. Errors: IO (a link that leads nowhere),
 * NOMEM; ARG for a link to a directory, a pipe, a socket, a device; LIMIT for 100 levels.
 * Free with os_tree_free() in every case. */
lmc_status os_tree_read(os_tree *tree, const lmc_allocator *memory, const char *root, lmc_st_diag *diag);
void os_tree_free(os_tree *tree);

/* The entry with this path, or NULL. */
const os_entry *os_tree_find(const os_tree *tree, const char *path);

/* Removes a directory and everything in it; links are removed, not followed. Returns 0 or an errno. */
int os_tree_remove(const lmc_allocator *memory, const char *root);

/* Removes the files and directories of a list made earlier, and the root; what has come since stays.
 * Returns 0 or an errno. */
int os_tree_remove_listed(const os_tree *tree, const char *root);

/* ---- a directory that is being written ---- */

/* It grows as ".NAME.lmc-st-partial" beside NAME. */
typedef struct os_staging {
    int lock_fd; /* -1: not open */
    char *target;
    char *path;
    const lmc_allocator *memory;
} os_staging;

/* Creates the directory for an output at `target`, or takes over the one that an earlier run left, and
 * locks it. Errors: ARG: the target exists and is not an empty directory (unless `force`), is no directory, or
 * holds `source` or the working directory, or is in `source`; another process is writing it; IO; NOMEM.
 * Ends with os_staging_commit(), _discard() or _leave(). */
lmc_status os_staging_open(os_staging *staging, const lmc_allocator *memory, const char *target,
                           const char *source, int force, lmc_st_diag *diag);

/* Gives the directory its name; with `force`, what had it is removed then. Errors: IO; ARG if something has
 * appeared there meanwhile. On failure it is discarded. */
lmc_status os_staging_commit(os_staging *staging, int force, int no_fsync, lmc_st_diag *diag);

/* Removes it. */
void os_staging_discard(os_staging *staging);

/* Closes it and leaves it to a later run. */
void os_staging_leave(os_staging *staging);

/* Creates a directory in it; one that is there is made writable. */
lmc_status os_make_directory(const char *path, lmc_st_diag *diag);

/* Sets permissions and time of a directory and, unless no_fsync, makes its entries durable. */
lmc_status os_finish_directory(const char *path, const os_attributes *attributes, int no_fsync,
                               lmc_st_diag *diag);

/* The same for a file that an earlier run had written. */
lmc_status os_finish_file(const char *path, const os_attributes *attributes, int no_fsync, lmc_st_diag *diag);

#endif
