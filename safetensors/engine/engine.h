/*
 * engine.h - worker threads over the tensors of a file, in bounded memory. It knows order, threads and failure; what is
 * done to a tensor is the caller's (convert, restore, verify). Each large tensor is first prepared (one job), a few
 * tensors ahead of the others, and then done in parts of some blocks each (a job a part). Small tensors that follow one
 * another are a batch: one job does all that there is to do to them. Jobs are handed out in the order of the file; a
 * part or batch that must write behind all earlier ones waits for its order. So the output does not depend on the
 * number of threads, and the first fault in the order of the file is the one that is reported.
 */
#ifndef LMC_SAFETENSORS_ENGINE_ENGINE_H
#define LMC_SAFETENSORS_ENGINE_ENGINE_H

#include "safetensors/common/memory.h"
#include "safetensors/common/options.h"
#include "safetensors/files/file.h"

/* ---- what a thread owns ---- */

/* Content of a part or a batch: long enough that locks and system calls do not show, short enough that what is
 * read, coded and written stays in a core's own cache, and that files of a few MiB keep several threads busy. */
#define ST_PART_NBYTES ((size_t)512 << 10)

typedef struct st_engine st_engine;

/* What the buffer `base` holds of a base that had to be decoded: a plan reads it first, and then the part. */
typedef struct st_base_window {
    const void *owner; /* whose base it is; NULL: nothing */
    uint64_t begin, end;
    const unsigned char *bytes;
} st_base_window;

typedef struct st_worker {
    st_engine *engine;
    const lmc_allocator *memory;
    lmc_ctx *ctx;
    lmc_ctx *plan_ctx; /* of plans, whose reads may decode with ctx; NULL until st_worker_plan_ctx() */
    st_buffer content;
    st_buffer stored;
    st_buffer base; /* content of the tensor that this one was coded against */
    st_base_window held;
    int is_batch;       /* do_part() is called for a tensor of a batch */
    st_window ahead;    /* what was read for all tensors of the batch; may be empty */
    st_buffer gathered; /* what its tensors have given so far */
    size_t gathered_nbytes;
    uint64_t gathered_offset; /* the caller's, as the next */
    size_t first_gathered;    /* tensor of the batch */
    st_buffer window;         /* room of `ahead` */
    lmc_st_diag diag;
} st_worker;

/* NULL: out of memory, diag is set. */
lmc_ctx *st_worker_plan_ctx(st_worker *worker);

/* Makes the worker's buffer at least nbytes large; its bytes are lost. NULL: out of memory, diag is set. */
unsigned char *st_worker_content(st_worker *worker, size_t nbytes);
unsigned char *st_worker_stored(st_worker *worker, size_t nbytes);

/* Room for nbytes behind what is gathered, which stays. The caller adds to gathered_nbytes what it uses. */
unsigned char *st_worker_gather(st_worker *worker, size_t nbytes);

/* Reads ahead what stands in the input from places[first] to places[first + count], if it is there and no more
 * than a batch should hold. Errors: IO, with *index the tensor at whose place reading failed. */
lmc_status st_worker_read_ahead(st_worker *worker, const st_input *input, const uint64_t *places,
                                size_t first, size_t count, size_t *index);

/* ---- what is done to tensors ---- */

/* A tensor that is being worked on. prepare() sets what is marked so. */
typedef struct st_slot {
    size_t index;
    void *item;              /* set: the caller's */
    uint64_t block_count;    /* set */
    size_t block_nbytes;     /* set: content of a block */
    uint64_t content_nbytes; /* set */

    /* the engine's */
    int is_ready;
    lmc_status status; /* of prepare(); the fault is reported when its parts are due */
    lmc_st_diag diag;
    uint64_t next_block;
    uint64_t parts_taken, parts_done;
    int is_all_taken, is_complete;
} st_slot;

typedef struct st_part {
    uint64_t number;                   /* of the part, counted over the whole file */
    uint64_t first_block, block_count; /* a tensor without blocks has one part of none */
    int is_last;                       /* of its tensor */
    size_t content_nbytes;
} st_part;

/* Each function fails with a status after filling worker->diag. */
typedef struct st_engine_ops {
    /* NULL: the tensors are one part each, and need neither preparation nor release. */
    lmc_status (*prepare)(void *user, st_worker *worker, st_slot *slot);
    lmc_status (*do_part)(void *user, st_worker *worker, st_slot *slot, const st_part *part);
    /* After all parts of a tensor have succeeded. May be NULL. */
    lmc_status (*finish)(void *user, st_worker *worker, st_slot *slot);
    /* Frees slot->item, after success and after failure: one tensor at a time, in their order, while other
     * threads work. */
    void (*release)(void *user, st_slot *slot);

    /* The last three are NULL if there are to be no batches. Content bytes of a tensor: */
    uint64_t (*nbytes)(void *user, size_t index);
    /* Before and after prepare(), do_part() and finish() of each tensor of a batch. `part` is all of it: end_batch()
     * waits for its order if anybody does. After a failure end_batch() is not called. */
    lmc_status (*begin_batch)(void *user, st_worker *worker, size_t first, size_t count);
    lmc_status (*end_batch)(void *user, st_worker *worker, const st_part *part);
} st_engine_ops;

/* Does tensors 0 .. tensor_count-1 and returns when all threads have ended. total_nbytes is for the
 * progress callback alone. Errors: NOMEM, CANCELLED, what ops returned. */
lmc_status st_engine_run(const st_engine_ops *ops, void *user, size_t tensor_count, uint64_t total_nbytes,
                         const st_options *options, lmc_st_diag *diag);

/* Within end_batch(), or do_part() outside of batches: waits until every earlier part has let the next one go on.
 * Returns 0 if one of them failed: then the caller returns CANCELLED and nothing else. */
int st_engine_wait_for_order(st_worker *worker, const st_part *part);
void st_engine_let_next_part_go_on(st_worker *worker);

#endif
