/*
 * engine.h - worker threads over the tensors of a file, in bounded memory. It knows order, threads and
 * failure; what is done to a tensor is the caller's (convert, restore, verify).
 *
 * Each large tensor is first prepared (one job), a few tensors ahead of the others, and then done in runs of
 * blocks (a job each). Small tensors that follow one another are a batch: one job does all that there is to do
 * to them. Jobs are handed out in the order of the file; a run or batch that must write behind all earlier ones
 * waits for its turn. So the output does not depend on the number of threads, and the first fault in the order
 * of the file is the one that is reported.
 */
#ifndef LMC_SAFETENSORS_ENGINE_ENGINE_H
#define LMC_SAFETENSORS_ENGINE_ENGINE_H

#include "safetensors/common/common.h"
#include "safetensors/common/memory.h"
#include "safetensors/os/file.h"

typedef struct st_engine st_engine;

/* What one thread owns. Buffers grow on demand and stay. */
typedef struct st_worker {
    st_engine *engine;
    const lmc_allocator *memory;
    lmc_ctx *ctx;
    lmc_ctx *plan_ctx; /* of plans, whose reads may decode with ctx; NULL until st_worker_plan_ctx() */
    st_buffer content;
    st_buffer stored;
    st_buffer base;     /* content of the tensor that this one was coded against */
    int is_batch;       /* run() is called for a tensor of a batch */
    os_window ahead;    /* what was read for all tensors of the batch; may be empty */
    st_buffer gathered; /* what its tensors have given so far */
    size_t gathered_nbytes;
    uint64_t gathered_offset; /* the caller's */
    st_buffer window;         /* room of `ahead` */
    lmc_st_diag diag;
} st_worker;

/* A tensor that is being worked on. prepare() sets what is marked so. */
typedef struct st_slot {
    size_t index;
    void *item;              /* set: the caller's */
    uint64_t block_count;    /* set */
    size_t block_nbytes;     /* set: content of a block */
    uint64_t content_nbytes; /* set */

    /* the engine's */
    int is_ready;
    lmc_status status; /* of prepare(); the fault is reported when the tensor's turn comes */
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
    /* Before and after prepare(), run() and finish() of each tensor of a batch. `run` is all of it: the turn is
     * taken in end_batch() if at all. After a failure end_batch() is not called. */
    lmc_status (*begin_batch)(void *user, st_worker *worker, size_t first, size_t count);
    lmc_status (*end_batch)(void *user, st_worker *worker, const st_run *run);
} st_engine_ops;

/* Does tensors 0 .. tensor_count-1 and returns when all threads have ended. total_nbytes is for the
 * progress callback alone. Errors: NOMEM, CANCELLED, what ops returned. */
lmc_status st_engine_run(const st_engine_ops *ops, void *user, size_t tensor_count, uint64_t total_nbytes,
                         const lmc_st_options *options, lmc_st_diag *diag);

/* Within end_batch(), or run() outside of batches: waits until every earlier run has passed its turn on. Returns
 * 0 if one of them failed: then the caller returns CANCELLED and nothing else. */
int st_engine_take_turn(st_worker *worker, const st_run *run);
void st_engine_pass_turn(st_worker *worker);

/* NULL: out of memory, diag is set. */
lmc_ctx *st_worker_plan_ctx(st_worker *worker);

/* Makes the worker's buffer at least nbytes large; its bytes are lost. NULL: out of memory, diag is set. */
unsigned char *st_worker_content(st_worker *worker, size_t nbytes);
unsigned char *st_worker_stored(st_worker *worker, size_t nbytes);

/* Room for nbytes behind what is gathered, which stays. The caller adds to gathered_nbytes what it uses. */
unsigned char *st_worker_gather(st_worker *worker, size_t nbytes);

/* Reads ahead what stands in the input from places[first] to places[first + count], if it is there and no more
 * than a batch should hold. Errors: IO, with *index the tensor at whose place reading failed. */
lmc_status st_worker_read_ahead(st_worker *worker, const os_input *input, const uint64_t *places,
                                size_t first, size_t count, size_t *index);

#endif
