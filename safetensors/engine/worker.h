/*
 * worker.h - what one thread of the engine owns: contexts, buffers that grow on demand and stay, and its diagnostic.
 */
#ifndef LMC_SAFETENSORS_ENGINE_WORKER_H
#define LMC_SAFETENSORS_ENGINE_WORKER_H

#include "safetensors/common/common.h"
#include "safetensors/common/memory.h"
#include "safetensors/os/file.h"

/* Content of a run or a batch: long enough that locks and system calls do not show, short enough that what is
 * read, coded and written stays in a core's own cache, and that files of a few MiB keep several threads busy. */
#define ST_RUN_NBYTES ((size_t)512 << 10)

typedef struct st_engine st_engine;

/* What the buffer `base` holds of a base that had to be decoded: a plan reads it first, and then the run. */
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
    int is_batch;       /* run() is called for a tensor of a batch */
    os_window ahead;    /* what was read for all tensors of the batch; may be empty */
    st_buffer gathered; /* what its tensors have given so far */
    size_t gathered_nbytes;
    uint64_t gathered_offset; /* the caller's, as the next */
    size_t first_gathered;    /* tensor of the batch */
    st_buffer window;         /* room of `ahead` */
    lmc_st_diag diag;
} st_worker;

/* `blank` is a diagnostic without a fault. Error: NOMEM. */
lmc_status st_worker_open(st_worker *worker, st_engine *engine, const lmc_allocator *memory,
                          const lmc_st_diag *blank);
void st_worker_close(st_worker *worker);

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
