/*
 * dir.h - the operating system's directories: listing a tree, making one beside its place and putting it
 * there in one step, removing one.
 */
#ifndef LMC_SAFETENSORS_OS_DIR_H
#define LMC_SAFETENSORS_OS_DIR_H

#include "common/open_folder.h"
#include "common/path.h"
#include "safetensors/os/file.h"

/* ---- paths ---- */

/* The path without links, "." and ".."; its last component need not exist. To be released. NULL with errno
 * set: no such directory, out of memory. */
char *os_true_path(const lmc_allocator *memory, const char *path);

/* 1 if the path, with links followed, is `outer` or in it; 0 also if one of them is not there. -1: out of
 * memory. */
int os_is_within(const lmc_allocator *memory, const char *path, const char *outer);

/* 1 if the pattern fits the path, by the rules of fnmatch(3); a '*' stops at a '/'. */
int os_path_matches(const char *pattern, const char *path);

/* For two paths from os_true_path(): 1 if `inner` is `outer` or below it. */
int os_true_is_within(const char *inner, const char *outer);

/* Most bytes that a name in the folder of `path` may have; SIZE_MAX if the system does not tell. */
size_t os_name_max(const lmc_allocator *memory, const char *path);

/* As lmc_open_own_folder(), with all permissions for this user, as far as it may give them. */
int os_open_writable_folder(int folder_fd, const char *name);

/* ---- trees ---- */

typedef struct os_entry {
    char *path; /* relative to the tree's root */
    int is_directory;
    uint64_t nbytes;
    os_identity identity; /* of the name itself: of a link, not of what it leads to */
    os_attributes attributes;
} os_entry;

typedef struct os_tree {
    os_entry *entries; /* sorted by path, so that a directory comes before what is in it */
    size_t count, capacity;
    os_attributes root; /* of the root itself */
    os_identity root_identity;
    const lmc_allocator *memory;
} os_tree;

/* Lists everything below `root`. Links to files stand for the files. Errors: IO (a link that leads nowhere),
 * NOMEM; ARG for a link to a directory, a pipe, a socket, a device; LIMIT for 100 levels.
 * Free with os_tree_free() in every case. */
lmc_status os_tree_read(os_tree *tree, const lmc_allocator *memory, const char *root, lmc_st_diag *diag);

/* 1 if the names are equal but for the digits in their runs: runs of digits stand for each other. */
int os_is_similar_name(const char *a, const char *b);

/* *found: the path of the one folder in `directory` whose name differs from `name` only in its digits: runs of digits
 * stand for each other. To be released; NULL: there is none, or more than one, or the directory cannot be listed. A
 * link to a folder is one. Returns 0 if memory ran out. */
int os_find_similar_folder(const lmc_allocator *memory, const char *directory, const char *name,
                           char **found);

/* Lists everything below an open directory as it stands: links are entries, and no kind is refused. root: for
 * messages. Errors: IO, NOMEM, LIMIT. */
lmc_status os_tree_read_as_it_stands(os_tree *tree, const lmc_allocator *memory, int fd, const char *root,
                                     lmc_st_diag *diag);
void os_tree_free(os_tree *tree);

/* The entry with this path, or NULL. _original: with the path without its last `suffix_nbytes` bytes. */
const os_entry *os_tree_find(const os_tree *tree, const char *path);
const os_entry *os_tree_find_original(const os_tree *tree, const char *path, size_t suffix_nbytes);

/* ---- removing (os/folder.c) ---- */

/* Removes a name in an open directory: a file, or a directory and everything in it, whatever that is. Links are
 * removed, not followed. Returns 0 or an errno. */
int os_remove_name(int folder_fd, const char *name);

/* Removes everything in an open directory. Returns 0 or an errno. */
int os_remove_contents(int fd);

/* ---- a directory that is being written (os/staging.c) ---- */

/* It grows as ".NAME.lmc-st-partial" beside NAME. It is reached from its descriptor alone, and no link is followed on
 * the way: whoever may write in the folder around it can neither put another one in its place nor lead out of it. */
typedef struct os_staging {
    int fd;        /* of the directory, which is locked; -1: not open */
    int parent_fd; /* of the one that it and the target are in */
    int old_fd;    /* of the one that it has replaced, locked until that is gone; -1: none */
    int has_old;   /* there is one that it is to replace */
    os_identity old;
    char *target, *path;
    const lmc_allocator *memory;
} os_staging;

/* Creates the directory for an output at `target`, or takes over the one that an earlier run of this user left, and
 * locks it. Errors: ARG: the target exists and is not an empty directory (unless `force`), is no directory, or
 * holds `source` or the working directory, or is in `source`, or is a mount point; another process is writing it; the
 * unfinished directory is somebody else's, or others may write in it; IO; NOMEM.
 * Ends with os_staging_commit(), _discard() or _leave(). */
lmc_status os_staging_open(os_staging *staging, const lmc_allocator *memory, const char *target,
                           const char *source, int force, lmc_st_diag *diag);

/* Gives the directory its attributes and its name; with `force`, the directory that was there when it was opened is
 * removed then. What cannot be removed of that stays, as ".NAME.lmc-st-partial" if it is this user's, else with "-old"
 * and a number behind that. Errors: IO; ARG if something has appeared there meanwhile. After a failure it is still to
 * be discarded or left. */
lmc_status os_staging_commit(os_staging *staging, const os_attributes *attributes, int force, int no_fsync,
                             lmc_st_diag *diag);

/* Removes it. */
void os_staging_discard(os_staging *staging);

/* Closes it and leaves it to a later run. */
void os_staging_leave(os_staging *staging);

/* ---- what is in it; paths are relative to it ---- */

/* Opens the folder that `path` is in. Ends with os_staged_place_close(), in every case. Errors: IO, NOMEM. */
lmc_status os_staged_place(const os_staging *staging, const char *path, os_place *place, lmc_st_diag *diag);
void os_staged_place_close(const os_staging *staging, os_place *place);

/* Opens a regular file of this user for reading; -1: it is none. */
int os_staged_open(const os_place *place);

/* Gives the file `path` a second name at `place`, if it is a regular file of this user that has no other name. Returns
 * 1 if that was done. */
int os_staged_link(const os_place *place, const char *path);

/* Removes the name of a file again. */
void os_staged_unlink(const os_place *place);

/* Creates a directory; one that is there, and this user's, is made writable. */
lmc_status os_staged_make_directory(const os_staging *staging, const char *path, lmc_st_diag *diag);

/* Removes what has this name, a directory with all that is in it. Error: IO. */
lmc_status os_staged_remove(const os_staging *staging, const char *path, lmc_st_diag *diag);

/* Sets permissions and time of a directory and, unless no_fsync, makes its entries durable. */
lmc_status os_staged_finish_directory(const os_staging *staging, const char *path,
                                      const os_attributes *attributes, int no_fsync, lmc_st_diag *diag);

/* The same for an open file, or directory; returns 0 or an errno. */
int os_finish(int fd, const os_attributes *attributes, int no_fsync);

#endif
