/*
 * ctx.h - the context: allocator, scratch, diagnostic, and a context for each worker thread. All memory of the codec is
 * allocated here.
 */
#ifndef LMC_CODEC_FRAME_CTX_H
#define LMC_CODEC_FRAME_CTX_H

#include "codec/bitset/buckets.h"
#include "codec/delta/delta_sample.h"
#include "codec/narrow/narrow_plan.h"
#include "codec/plain/plain_plan.h"
#include "codec/prefix/scratch.h"
#include "lmc.h"

/* Working memory of planning a frame. The delta is decided first and reads its pairs to the buffer of the plain
 * plan, which is decided after that. */
typedef struct lmc_ctx_plan_work {
    lmc_plan_work plain;
    lmc_narrow_work narrow;
    lmc_delta_sample delta_sample;
} lmc_ctx_plan_work;
_Static_assert(LMC_SAMPLE_BUFFER_NBYTES >= LMC_PAIRS_BUFFER_NBYTES, "pairs are read to the same buffer");
_Static_assert(LMC_SAMPLE_VALUES >= LMC_NARROW_SAMPLE_VALUES, "wide elements are read to the same buffer");

struct lmc_ctx {
    lmc_allocator allocator;
    lmc_diag diag;
    int is_busy;           /* a public call is at work; never set in a worker's context */
    int is_shared;         /* threads are at work with the workers' contexts */
    unsigned thread_count; /* at least 1 */
    /* the caller's, or NULL; never set in a worker's context */
    const volatile int *cancel;
    uint8_t *scratch_memory;
    size_t scratch_nbytes;
    lmc_scratch scratch;
    lmc_ctx_plan_work *plan_work;
    lmc_bucket_code *bucket_code; /* made with the first scratch that serves deltas */
    uint8_t *base_values;         /* of one block, if the base's bytes are not the values */
    size_t base_values_capacity;
    uint8_t *block; /* one block, content or stored, with slack */
    size_t block_capacity;
    int is_block_used; /* by the call that is at work */
    struct lmc_ctx *workers[LMC_THREAD_COUNT_MAX - 1];
};

/* Returns NULL when the allocator has no memory left, or for 0 bytes. */
void *lmc_allocate(const lmc_allocator *allocator, size_t nbytes);
void lmc_release(const lmc_allocator *allocator, void *pointer);

/* As lmc_allocate() with the context's allocator. If that has no memory left, the block and the workers' memory of
 * earlier calls are released first. */
void *lmc_ctx_allocate(lmc_ctx *ctx, size_t nbytes);

/* Allocates `count` elements, not initialised, from the context's allocator. On failure returns NULL and sets
 * *status and ctx->diag: LIMIT if they do not fit a size_t, else NOMEM. `what` names the elements. */
void *lmc_allocate_array(lmc_ctx *ctx, uint64_t count, size_t element_nbytes, const char *what,
                         lmc_status *status);

/* The first and the last step of every public call with a context. begin returns 0 for a context that is NULL, or
 * that another public call is at work with, which has called its caller back. Such a call returns LMC_ERR_ARG at
 * once and leaves the context alone. Otherwise begin clears the diagnostic and marks the context as busy until the
 * end. */
LMC_NODISCARD int lmc_ctx_begin(lmc_ctx *ctx);
void lmc_ctx_clear_diag(lmc_ctx *ctx);
lmc_status lmc_ctx_end(lmc_ctx *ctx, lmc_status status);

/* 1 once the caller wants the call to end: it returns LMC_ERR_CANCELLED then, and lmc_ctx_end() writes the
 * diagnostic. ctx: that of the call, in all of its threads. */
LMC_INLINE int lmc_ctx_is_cancelled(const lmc_ctx *ctx)
{
    return ctx->cancel && __atomic_load_n(ctx->cancel, __ATOMIC_RELAXED) != 0;
}

/* Make the scratch serve blocks of this size; make the plan's work exist; make ctx->block, or ctx->base_values, hold
 * nbytes. Error: NOMEM. */
LMC_NODISCARD lmc_status lmc_ctx_reserve_scratch(lmc_ctx *ctx, const lmc_scratch_size *size);
LMC_NODISCARD lmc_status lmc_ctx_reserve_plan_work(lmc_ctx *ctx);
LMC_NODISCARD lmc_status lmc_ctx_reserve_block(lmc_ctx *ctx, size_t nbytes);
LMC_NODISCARD lmc_status lmc_ctx_reserve_base_values(lmc_ctx *ctx, size_t nbytes);

/* The context of worker i >= 1 (worker 0 is ctx itself), created when missing; NULL when out of memory. */
lmc_ctx *lmc_ctx_worker(lmc_ctx *ctx, unsigned i);

/* The work of thread `index`; index 0 is the calling thread. All of the work must get done even if only that thread
 * runs. */
typedef void (*lmc_worker_work)(void *shared, unsigned index);

/* Takes the memory that thread `index` >= 1 needs. It is called in the calling thread, right before that thread
 * starts, so that no thread takes memory that another could use. Returns 0 if there is not enough. */
typedef int (*lmc_worker_prepare)(void *shared, unsigned index);

/* Runs work on `wanted` threads, or on fewer when prepare or the system gives no more, thread i with the context of
 * worker i, and waits for all of them. Memory that was prepared for threads that did not start is released. */
void lmc_ctx_run_workers(lmc_ctx *ctx, unsigned wanted, lmc_worker_prepare prepare, lmc_worker_work work,
                         void *shared);

#endif
