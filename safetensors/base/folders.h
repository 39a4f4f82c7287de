/*
 * folders.h - folders in which the base of an archive may be: that of a relative path in another directory, and those
 * that belong to the folder which the archive is in, as the steps of a run do (docs/run.md).
 */
#ifndef LMC_SAFETENSORS_BASE_FOLDERS_H
#define LMC_SAFETENSORS_BASE_FOLDERS_H

#include "common/own_files.h"
#include "safetensors/common/memory.h"
#include "safetensors/common/st_common.h"

#define ST_STEP_NAME_NBYTES 20 /* the longest name of a step, and a NUL */

/* The name of a step's folder. */
void st_step_name(char name[ST_STEP_NAME_NBYTES], uint64_t step);

/* 1 if the bytes are a step as folders of a run are named: decimal, without leading zeros. */
int st_step_is_name(const char *name, size_t nbytes, uint64_t *step);

/* *place: the folder of `root` that belongs to the relative path `folder`, which is cut for moments. A folder on the
 * way that is not there may have other digits in its name (st_find_similar_folder()). NULL if there is none. To be
 * released. Returns 0 if memory ran out. */
int st_find_folder(const lmc_allocator *memory, const char *root, char *folder, char **place);

/* *root: the nearest folder above the file `path` that is a store (LMC_STORE_MARK), without links; NULL if there is
 * none. To be released. Returns 0 if memory ran out. */
int st_find_store(const lmc_allocator *memory, const char *path, char **root);

/* Folders in which the base of an archive may be, since they belong to the one that it is in: the earlier steps of its
 * run, which may have lost its run.json; or, if it is in a directory NAME.lmc of archives, the directories beside that
 * whose names differ in digits only, with .lmc or without. A run may have many steps: it is listed only if the step
 * that run.json names is not enough. */
typedef struct st_neighbours {
    const lmc_allocator *memory;
    char *root;    /* that they are in, without links; NULL: there are none */
    char *own;     /* in the same memory: the name of the file's own folder, ... */
    char *inner;   /* ... and the folder below each that corresponds to the file's; "" if it is the same */
    uint64_t step; /* of the own folder, in a run */
    /* of the names, in the order in which they should be searched: the nearest earlier one first */
    st_buffer room;
    size_t count;
    int is_run;         /* they are the earlier steps of a run; else directories with similar names */
    int is_first_known; /* run.json has named the first */
    int is_listed, lacks_memory;
} st_neighbours;

/* Finds out what the neighbours of the file `path` are. What cannot be found out counts as none. Free with
 * st_neighbours_free() in every case. */
void st_neighbours_find(st_neighbours *neighbours, const lmc_allocator *memory, const char *path);
void st_neighbours_free(st_neighbours *neighbours);

/* Returns 0 if there is no neighbour `index`, or if memory ran out (lacks_memory). *folder: the folder in it that
 * corresponds to the file's; NULL if there is none. To be released. */
int st_neighbours_folder(st_neighbours *neighbours, size_t index, char **folder);

#endif
