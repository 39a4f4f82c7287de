/*
 * directories.h - directories: listing a tree, making one beside its place and putting it there in one step, removing
 * one.
 */
#ifndef LMC_SAFETENSORS_FILES_DIRECTORIES_H
#define LMC_SAFETENSORS_FILES_DIRECTORIES_H

#include "os/path.h"
#include "safetensors/files/file.h"

/* ---- paths ---- */

/* The path without links, "." and ".."; its last component need not exist. To be released. NULL with errno
 * set: no such directory, out of memory. */
char *st_true_path(const lmc_allocator *memory, const char *path);

/* The same, but a link that is the last component stays as it is. */
char *st_true_name(const lmc_allocator *memory, const char *path);

/* 1 if the path, with links followed, is `outer` or in it; 0 also if one of them is not there. -1: out of
 * memory. */
int st_is_within(const lmc_allocator *memory, const char *path, const char *outer);

/* Most bytes that a name in the folder of `path` may have; SIZE_MAX if the system does not tell. */
size_t st_name_max(const lmc_allocator *memory, const char *path);

/* ---- trees ---- */

typedef struct st_dir_entry {
    char *path; /* relative to the tree's root */
    int is_directory;
    uint64_t nbytes;
    os_state state; /* of the name itself: of a link, not of what it leads to */
    st_attributes attributes;
} st_dir_entry;

typedef struct st_listing {
    st_dir_entry *entries; /* sorted by path, so that a directory comes before what is in it */
    size_t count, capacity;
    st_attributes root; /* of the root itself */
    os_state root_state;
    const lmc_allocator *memory;
} st_listing;

/* Lists everything below `root`. Links to files stand for the files. Errors: IO (a link that leads nowhere),
 * NOMEM; ARG for a link to a directory, a pipe, a socket, a device; LIMIT for 100 levels.
 * Free with st_listing_free() in every case. */
lmc_status st_listing_read(st_listing *tree, const lmc_allocator *memory, const char *root,
                           lmc_st_diag *diag);

/* 1 if the names are equal but for the digits in their runs: runs of digits stand for each other. */
int st_is_similar_name(const char *a, const char *b);

/* *found: the path of the one folder in `directory` whose name differs from `name` only in its digits: runs of digits
 * stand for each other. To be released; NULL: there is none, or more than one, or the directory cannot be listed. A
 * link to a folder is one. Returns 0 if memory ran out. */
int st_find_similar_folder(const lmc_allocator *memory, const char *directory, const char *name,
                           char **found);

/* Lists everything below an open directory as it stands: links are entries, and no kind is refused. root: for
 * messages. Errors: IO, NOMEM, LIMIT. */
lmc_status st_listing_read_as_it_stands(st_listing *tree, const lmc_allocator *memory, int fd,
                                        const char *root, lmc_st_diag *diag);
void st_listing_free(st_listing *tree);

/* The entry with this path, or NULL. _original: with the path without its last `suffix_nbytes` bytes. */
const st_dir_entry *st_listing_find(const st_listing *tree, const char *path);
const st_dir_entry *st_listing_find_original(const st_listing *tree, const char *path, size_t suffix_nbytes);

/* ---- removing (folder.c) ---- */

/* Removes a name in an open directory: a file, or a directory and everything in it, whatever that is. Links are
 * removed, not followed. Returns 0 or an errno. */
int st_remove_name(int folder_fd, const char *name);

/* Removes everything in an open directory. Returns 0 or an errno. */
int st_remove_contents(int fd);

/* ---- a directory that is being written (staging.c) ---- */

/* It grows as ".NAME.lmc-st-partial" beside NAME. It is reached from its descriptor alone, and no link is followed on
 * the way: whoever may write in the folder around it can neither put another one in its place nor lead out of it. */
typedef struct st_staging {
    int fd;        /* of the directory, which is locked; -1: not open */
    int parent_fd; /* of the one that it and the target are in */
    int old_fd;    /* of the one that it has replaced, locked until that is gone; -1: none */
    int has_old;   /* there is one that it is to replace */
    os_state old;
    char *target, *path;
    const lmc_allocator *memory;
} st_staging;

/* Creates the directory for an output at `target`, or takes over the one that an earlier run of this user left, and
 * locks it. Errors: ARG: the target exists and is not an empty directory (unless `force`), is no directory, or
 * holds `source` or the working directory, or is in `source`, or is a mount point; another process is writing it; the
 * unfinished directory is somebody else's, or others may write in it; IO; NOMEM.
 * Ends with st_staging_commit(), _discard() or _leave(). */
lmc_status st_staging_open(st_staging *staging, const lmc_allocator *memory, const char *target,
                           const char *source, int force, lmc_st_diag *diag);

/* 1 where two names that differ in case are one name. */
int st_staging_folds_case(const st_staging *staging);

/* Gives the directory its attributes and its name; with `force`, the directory that was there when it was opened is
 * removed then. What cannot be removed of that stays, as ".NAME.lmc-st-partial" if it is this user's, else with "-old"
 * and a number behind that. Errors: IO; ARG if something has appeared there meanwhile. After a failure it is still to
 * be discarded or left. */
lmc_status st_staging_commit(st_staging *staging, const st_attributes *attributes, int force, int no_fsync,
                             lmc_st_diag *diag);

/* Removes it. */
void st_staging_discard(st_staging *staging);

/* Closes it and leaves it to a later run. */
void st_staging_leave(st_staging *staging);

/* ---- what is in it; paths are relative to it ---- */

/* Opens the folder that `path` is in. Ends with st_staged_place_close(), in every case. Errors: IO, NOMEM. */
lmc_status st_staged_place(const st_staging *staging, const char *path, st_place *place, lmc_st_diag *diag);
void st_staged_place_close(const st_staging *staging, st_place *place);

/* Opens a regular file of this user for reading; -1: it is none. */
int st_staged_open(const st_place *place);

/* Gives the file `path` a second name at `place`, if it is a regular file of this user that has no other name. Returns
 * 1 if that was done. */
int st_staged_link(const st_place *place, const char *path);

/* Removes the name of a file again. */
void st_staged_unlink(const st_place *place);

/* Creates a directory; one that is there, and this user's, is made writable. */
lmc_status st_staged_make_directory(const st_staging *staging, const char *path, lmc_st_diag *diag);

/* Removes what has this name, a directory with all that is in it. Error: IO. */
lmc_status st_staged_remove(const st_staging *staging, const char *path, lmc_st_diag *diag);

/* Sets permissions and time of a directory and, unless no_fsync, makes its entries durable. */
lmc_status st_staged_finish_directory(const st_staging *staging, const char *path,
                                      const st_attributes *attributes, int no_fsync, lmc_st_diag *diag);

/* The same for an open file, or directory; returns 0 or an errno. */
int st_finish(int fd, const st_attributes *attributes, int no_fsync);

#endif
