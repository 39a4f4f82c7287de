/*
 * run_list.h - the list of a run's steps, run.json (docs/run.md): its entries in memory, and the reading of the file.
 */
#ifndef LMC_SAFETENSORS_BASE_RUN_LIST_H
#define LMC_SAFETENSORS_BASE_RUN_LIST_H

#include "lmc_run.h"

#include "common/own_files.h"
#include "safetensors/common/memory.h"
#include "safetensors/common/st_common.h"

/* All zero but for `memory`: no steps. */
typedef struct st_run_list {
    const lmc_allocator *memory;
    unsigned key_every;
    lmc_run_step *steps; /* by rising step */
    size_t count, capacity;
} st_run_list;

/* Reads run.json of the directory `run`. The chains of the steps are not set. Errors: ARG with os_errno ENOENT
 * (there is none), IO, NOMEM, CORRUPT, UNSUPPORTED, LIMIT. Free with st_run_list_free() in every case. */
lmc_status st_run_list_read(st_run_list *list, const lmc_allocator *memory, const char *run,
                            lmc_st_diag *diag);
void st_run_list_free(st_run_list *list);

/* Reads what one entry of run.json says of its base, in a time that hardly grows with the list: entries of other steps
 * are not looked at, and the entry may be one that no list should have. Returns 0 if it does not tell. */
int st_run_list_read_base(const lmc_allocator *memory, const char *run, uint64_t step, uint64_t *base);
/* Fails with ARG and os_errno ENOENT: the directory is no run. */
lmc_status st_run_list_fail_missing(const char *run, lmc_st_diag *diag);

#endif
