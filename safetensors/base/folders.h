/*
 * folders.h - folders in which the base of an archive may be: that of a relative path in another directory, and those
 * of the earlier steps of the run that the archive is in (docs/run.md).
 */
#ifndef LMC_SAFETENSORS_BASE_FOLDERS_H
#define LMC_SAFETENSORS_BASE_FOLDERS_H

#include "safetensors/common/common.h"
#include "safetensors/common/memory.h"

#define ST_STEP_NAME_NBYTES 20 /* the longest name of a step, and a NUL */

/* The name of a step's folder. */
void st_step_name(char name[ST_STEP_NAME_NBYTES], uint64_t step);

/* 1 if the bytes are a step as folders of a run are named: decimal, without leading zeros. */
int st_step_is_name(const char *name, size_t nbytes, uint64_t *step);

/* *place: the folder of `root` that belongs to the relative path `folder`, which is cut for moments. A folder on the
 * way that is not there may have other digits in its name (os_find_similar_folder()). NULL if there is none. To be
 * released. Returns 0 if memory ran out. */
int st_find_folder(const lmc_allocator *memory, const char *root, char *folder, char **place);

/* Where a file stands in a run: RUN/STEP/inner/NAME. */
typedef struct st_run_place {
    char *run;       /* without links; NULL: the file is in no run */
    uint64_t *steps; /* where its base may be: the one that run.json names, then the nearest earlier ones */
    size_t step_count;
    int is_first_known; /* run.json has named the first */
    char *inner;        /* the folder below that of the step; "" if there is none */
} st_run_place;

/* Looks whether the file `path` is in a run. What cannot be found out counts as no. Returns 0 if memory ran out. Free
 * with st_run_place_free() in every case. */
int st_run_place_find(const lmc_allocator *memory, const char *path, st_run_place *place);
void st_run_place_free(const lmc_allocator *memory, st_run_place *place);

/* *folder: that of earlier step `index` which corresponds to the file's; NULL if there is none. To be released. Returns
 * 0 if memory ran out. */
int st_run_place_folder(const lmc_allocator *memory, const st_run_place *place, size_t index, char **folder);

#endif
