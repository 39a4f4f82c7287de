/*
 * engine.h - worker threads over the tensors of a file, in bounded memory. It knows order, threads and
 * failure; what is done to a tensor is the caller's (convert, restore, verify).
 *
 * Each large tensor is first prepared (one job), a few tensors ahead of the others, and then done in runs of
 * blocks (a job each). Small tensors that follow one another are a batch: one job does all that there is to do
 * to them. Jobs are handed out in the order of the file; a run or batch that must write behind all earlier ones
 * waits for its order. So the output does not depend on the number of threads, and the first fault in the order
 * of the file is the one that is reported.
 */
#ifndef LMC_SAFETENSORS_ENGINE_ENGINE_H
#define LMC_SAFETENSORS_ENGINE_ENGINE_H

#include "safetensors/engine/worker.h"

/* A tensor that is being worked on. prepare() sets what is marked so. */
typedef struct st_slot {
    size_t index;
    void *item;              /* set: the caller's */
    uint64_t block_count;    /* set */
    size_t block_nbytes;     /* set: content of a block */
    uint64_t content_nbytes; /* set */

    /* the engine's */
    int is_ready;
    lmc_status status; /* of prepare(); the fault is reported when its runs are due */
    lmc_st_diag diag;
    uint64_t next_block;
    uint64_t runs_taken, runs_done;
    int is_all_taken, is_complete;
} st_slot;

typedef struct st_run {
    uint64_t number;                   /* of the run, counted over the whole file */
    uint64_t first_block, block_count; /* a tensor without blocks has one run of none */
    int is_last;                       /* of its tensor */
    size_t content_nbytes;
} st_run;

/* Each function fails with a status after filling worker->diag. */
typedef struct st_engine_ops {
    /* NULL: the tensors are one run each, and need neither preparation nor release. */
    lmc_status (*prepare)(void *user, st_worker *worker, st_slot *slot);
    lmc_status (*run)(void *user, st_worker *worker, st_slot *slot, const st_run *run);
    /* After all runs of a tensor have succeeded. May be NULL. */
    lmc_status (*finish)(void *user, st_worker *worker, st_slot *slot);
    /* Frees slot->item, after success and after failure: one tensor at a time, in their order, while other
     * threads work. */
    void (*release)(void *user, st_slot *slot);

    /* The last three are NULL if there are to be no batches. Content bytes of a tensor: */
    uint64_t (*nbytes)(void *user, size_t index);
    /* Before and after prepare(), run() and finish() of each tensor of a batch. `run` is all of it: end_batch()
     * waits for its order if anybody does. After a failure end_batch() is not called. */
    lmc_status (*begin_batch)(void *user, st_worker *worker, size_t first, size_t count);
    lmc_status (*end_batch)(void *user, st_worker *worker, const st_run *run);
} st_engine_ops;

/* Does tensors 0 .. tensor_count-1 and returns when all threads have ended. total_nbytes is for the
 * progress callback alone. Errors: NOMEM, CANCELLED, what ops returned. */
lmc_status st_engine_run(const st_engine_ops *ops, void *user, size_t tensor_count, uint64_t total_nbytes,
                         const lmc_st_options *options, lmc_st_diag *diag);

/* Within end_batch(), or run() outside of batches: waits until every earlier run has let the next one go on. Returns
 * 0 if one of them failed: then the caller returns CANCELLED and nothing else. */
int st_engine_wait_for_order(st_worker *worker, const st_run *run);
void st_engine_let_next_run_go_on(st_worker *worker);

#endif
