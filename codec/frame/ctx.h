/*
 * ctx.h - the context: allocator, scratch, diagnostics, and a context for each worker thread. All memory of
 * the codec is allocated here.
 */
#ifndef LMC_CODEC_FRAME_CTX_H
#define LMC_CODEC_FRAME_CTX_H

#include "codec/bitset/buckets.h"
#include "codec/delta/delta_sample.h"
#include "codec/frame/pool.h"
#include "codec/plain/plan.h"
#include "codec/prefix/scratch.h"
#include "lmc.h"

/* Working memory of planning a frame. A delta and a plan without a base are weighed one after the other: the buffer of
 * the plain plan holds the pairs of the delta before that. */
typedef struct lmc_ctx_plan_work {
    lmc_plan_work plain;
    lmc_delta_sample delta_sample;
} lmc_ctx_plan_work;
_Static_assert(LMC_SAMPLE_BUFFER_NBYTES >= LMC_PAIRS_BUFFER_NBYTES, "pairs are read to the same buffer");

struct lmc_ctx {
    lmc_allocator allocator;
    lmc_diag diag;
    int is_busy;           /* a public call is at work; of a worker's context never */
    int is_shared;         /* threads are at work with the workers' contexts */
    unsigned thread_count; /* of decoding; resolved, at least 1 */
    uint8_t *scratch_memory;
    size_t scratch_nbytes;
    lmc_scratch scratch;
    lmc_ctx_plan_work *plan_work;
    lmc_bucket_code *bucket_code; /* made with the first scratch that serves deltas */
    uint8_t *base_values;         /* of one block, where they must be made */
    size_t base_values_capacity;
    uint8_t *block; /* one block, content or stored, with slack */
    size_t block_capacity;
    int is_block_used; /* by the call that is at work */
    struct lmc_ctx *workers[LMC_THREAD_COUNT_MAX - 1];
};

/* NULL when the allocator has none left, or for 0 bytes. */
void *lmc_allocate(const lmc_allocator *allocator, size_t nbytes);
void lmc_release(const lmc_allocator *allocator, void *pointer);

/* The same from the context's allocator. Where that has no more, what an earlier call has left for workers
 * and the block is released first. */
void *lmc_ctx_allocate(lmc_ctx *ctx, size_t nbytes);

/* `count` elements from the context's allocator, not set to anything. NULL: LIMIT if they do not fit a size_t, else
 * NOMEM; it stands in *status and in ctx->diag. `what` names the elements. */
void *lmc_allocate_array(lmc_ctx *ctx, uint64_t count, size_t element_nbytes, const char *what,
                         lmc_status *status);

/* The first and the last thing that every public call with a context does. begin returns 0 for a context that is NULL,
 * or that a public call is at work with, which has called its caller back: such a call returns LMC_ERR_ARG at once and
 * leaves the context alone. Else it clears the diagnostic and marks the context as busy, until the end. */
LMC_NODISCARD int lmc_ctx_begin(lmc_ctx *ctx);
void lmc_ctx_clear_diag(lmc_ctx *ctx);
lmc_status lmc_ctx_end(lmc_ctx *ctx, lmc_status status);

/* Make the scratch serve blocks of this size; the plan's work exist; ctx->block hold nbytes. Error: NOMEM. */
LMC_NODISCARD lmc_status lmc_ctx_reserve_scratch(lmc_ctx *ctx, const lmc_scratch_size *size);
LMC_NODISCARD lmc_status lmc_ctx_reserve_plan_work(lmc_ctx *ctx);
LMC_NODISCARD lmc_status lmc_ctx_reserve_block(lmc_ctx *ctx, size_t nbytes);
LMC_NODISCARD lmc_status lmc_ctx_reserve_base_values(lmc_ctx *ctx, size_t nbytes);

/* The context of worker i >= 1 (worker 0 is ctx itself), created when missing; NULL when out of memory. */
lmc_ctx *lmc_ctx_worker(lmc_ctx *ctx, unsigned i);

/* Runs work on `wanted` threads by lmc_pool_run(), thread i with the context of worker i. What was prepared for threads
 * that the system did not give is released. */
void lmc_ctx_run_workers(lmc_ctx *ctx, unsigned wanted, lmc_pool_prepare prepare, lmc_pool_work work,
                         void *shared);

/* Resolves a thread_count parameter: 0 becomes lmc_core_count(), which reads files. */
unsigned lmc_resolve_thread_count(unsigned thread_count);

#endif
