/* ctx.c - creates contexts, reserves their memory and runs their threads. The codec allocates only here. Threads
 * start and end within one call, so that fork, dlclose and exit never meet them. */
#include "codec/frame/ctx.h"

#include "common/allocator.h"
#include "common/checked.h"
#include "lmc_experimental.h"
#include "os/thread.h"

#include <string.h>

void *lmc_allocate(const lmc_allocator *allocator, size_t nbytes)
{
    return nbytes ? allocator->allocate(allocator->user, nbytes) : NULL;
}

/* Frees the contexts of workers i >= first. Returns how many there were. */
static unsigned free_workers(lmc_ctx *ctx, unsigned first)
{
    unsigned count = 0;
    for (unsigned i = first; i <= LMC_COUNT(ctx->workers); i++) {
        count += ctx->workers[i - 1] != NULL;
        lmc_ctx_free(ctx->workers[i - 1]);
        ctx->workers[i - 1] = NULL;
    }
    return count;
}

void *lmc_ctx_allocate(lmc_ctx *ctx, size_t nbytes)
{
    void *const memory = lmc_allocate(&ctx->allocator, nbytes);
    if (memory || ctx->is_shared)
        return memory;
    int any = free_workers(ctx, 1) > 0; /* what the call at work does not use goes first */
    if (ctx->block && !ctx->is_block_used) {
        lmc_release(&ctx->allocator, ctx->block);
        ctx->block = NULL;
        ctx->block_capacity = 0;
        any = 1;
    }
    return any ? lmc_allocate(&ctx->allocator, nbytes) : NULL;
}

void *lmc_allocate_array(lmc_ctx *ctx, uint64_t count, size_t element_nbytes, const char *what,
                         lmc_status *status)
{
    size_t nbytes;
    if (lmc_size_overflows(count, element_nbytes, &nbytes)) {
        *status = lmc_fail(&ctx->diag, LMC_ERR_LIMIT, 0, "%llu %s are too many for this machine",
                           (unsigned long long)count, what);
        return NULL;
    }
    void *const array = lmc_ctx_allocate(ctx, nbytes);
    if (!array)
        *status =
            lmc_fail(&ctx->diag, LMC_ERR_NOMEM, 0, "no memory for %llu %s", (unsigned long long)count, what);
    return array;
}

void lmc_release(const lmc_allocator *allocator, void *pointer)
{
    if (pointer)
        allocator->release(allocator->user, pointer);
}

lmc_status lmc_ctx_create(const lmc_allocator *allocator, lmc_ctx **ctx)
{
    if (!ctx)
        return LMC_ERR_ARG;
    *ctx = NULL;
    if (!allocator)
        allocator = &lmc_memory_default;
    if (!allocator->allocate || !allocator->release)
        return LMC_ERR_ARG;
    lmc_ctx *const made = lmc_allocate(allocator, sizeof *made);
    if (!made)
        return LMC_ERR_NOMEM;
    memset(made, 0, sizeof *made);
    made->allocator = *allocator;
    made->diag.struct_size = sizeof made->diag;
    made->thread_count = 1;
    *ctx = made;
    return LMC_OK;
}

void lmc_ctx_free(lmc_ctx *ctx)
{
    if (!ctx)
        return;
    assert(!ctx->is_busy);
    (void)free_workers(ctx, 1);
    lmc_release(&ctx->allocator, ctx->scratch_memory);
    lmc_release(&ctx->allocator, ctx->plan_work);
    lmc_release(&ctx->allocator, ctx->block);
    lmc_release(&ctx->allocator, ctx->bucket_code);
    lmc_release(&ctx->allocator, ctx->base_values);
    const lmc_allocator allocator = ctx->allocator;
    lmc_release(&allocator, ctx);
}

const lmc_diag *lmc_ctx_diag(const lmc_ctx *ctx)
{
    return &ctx->diag;
}

void lmc_ctx_clear_diag(lmc_ctx *ctx)
{
    ctx->diag.status = LMC_OK;
    ctx->diag.offset = 0;
    ctx->diag.text[0] = '\0';
}

int lmc_ctx_begin(lmc_ctx *ctx)
{
    if (!ctx || ctx->is_busy)
        return 0;
    ctx->is_busy = 1;
    lmc_ctx_clear_diag(ctx);
    return 1;
}

lmc_status lmc_ctx_end(lmc_ctx *ctx, lmc_status status)
{
    if (status == LMC_ERR_CANCELLED)
        (void)lmc_fail(&ctx->diag, status, 0, "cancelled");
    ctx->is_busy = 0;
    ctx->is_block_used = 0;
    return status;
}

lmc_status lmc_ctx_set_thread_count(lmc_ctx *ctx, unsigned thread_count)
{
    if (!lmc_ctx_begin(ctx))
        return LMC_ERR_ARG;
    lmc_status status = LMC_OK;
    if (thread_count > LMC_THREAD_COUNT_MAX)
        status = lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "%u threads", thread_count);
    else
        ctx->thread_count = thread_count != 0 ? thread_count : lmc_core_count();
    return lmc_ctx_end(ctx, status);
}

lmc_status lmc_ctx_set_cancel(lmc_ctx *ctx, const volatile int *cancel)
{
    if (!lmc_ctx_begin(ctx))
        return LMC_ERR_ARG;
    ctx->cancel = cancel;
    return lmc_ctx_end(ctx, LMC_OK);
}

static lmc_status no_memory(lmc_ctx *ctx, size_t nbytes)
{
    return lmc_fail(&ctx->diag, LMC_ERR_NOMEM, 0, "no memory for %zu bytes", nbytes);
}

lmc_status lmc_ctx_reserve_scratch(lmc_ctx *ctx, const lmc_scratch_size *size)
{
    const size_t nbytes = lmc_scratch_nbytes(size) + LMC_SCRATCH_ALIGNMENT;
    if (nbytes > ctx->scratch_nbytes) {
        lmc_release(&ctx->allocator, ctx->scratch_memory);
        ctx->scratch_memory = NULL;
        ctx->scratch_nbytes = 0;
        ctx->scratch_memory = lmc_ctx_allocate(ctx, nbytes);
        if (!ctx->scratch_memory)
            return no_memory(ctx, nbytes);
        ctx->scratch_nbytes = nbytes;
    }
    const size_t to_align = -(uintptr_t)ctx->scratch_memory % LMC_SCRATCH_ALIGNMENT;
    lmc_scratch_place(&ctx->scratch, size, ctx->scratch_memory + to_align);
    if (!size->has_deltas || ctx->bucket_code)
        return LMC_OK;
    ctx->bucket_code = lmc_ctx_allocate(ctx, sizeof *ctx->bucket_code);
    if (!ctx->bucket_code)
        return no_memory(ctx, sizeof *ctx->bucket_code);
    lmc_bucket_code_init(ctx->bucket_code);
    return LMC_OK;
}

lmc_status lmc_ctx_reserve_plan_work(lmc_ctx *ctx)
{
    if (!ctx->plan_work)
        ctx->plan_work = lmc_ctx_allocate(ctx, sizeof *ctx->plan_work);
    return ctx->plan_work ? LMC_OK : no_memory(ctx, sizeof *ctx->plan_work);
}

/* Makes *buffer hold nbytes; its old content is lost. */
static lmc_status reserve_buffer(lmc_ctx *ctx, uint8_t **buffer, size_t *capacity, size_t nbytes)
{
    if (nbytes <= *capacity)
        return LMC_OK;
    lmc_release(&ctx->allocator, *buffer);
    *buffer = NULL;
    *capacity = 0;
    *buffer = lmc_ctx_allocate(ctx, nbytes);
    if (!*buffer)
        return no_memory(ctx, nbytes);
    *capacity = nbytes;
    return LMC_OK;
}

lmc_status lmc_ctx_reserve_block(lmc_ctx *ctx, size_t nbytes)
{
    ctx->is_block_used = 1;
    return reserve_buffer(ctx, &ctx->block, &ctx->block_capacity, nbytes);
}

lmc_status lmc_ctx_reserve_base_values(lmc_ctx *ctx, size_t nbytes)
{
    return reserve_buffer(ctx, &ctx->base_values, &ctx->base_values_capacity, nbytes);
}

lmc_ctx *lmc_ctx_worker(lmc_ctx *ctx, unsigned i)
{
    if (i == 0)
        return ctx;
    if (!ctx->workers[i - 1] && lmc_ctx_create(&ctx->allocator, &ctx->workers[i - 1]) != LMC_OK)
        return NULL;
    return ctx->workers[i - 1];
}

/* A thread of one call. */
typedef struct worker_thread {
    pthread_t id;
    lmc_worker_work work;
    void *shared;
    unsigned index;
} worker_thread;

static void *run_thread(void *argument)
{
    const worker_thread *const thread = argument;
    thread->work(thread->shared, thread->index);
    return NULL;
}

void lmc_ctx_run_workers(lmc_ctx *ctx, unsigned wanted, lmc_worker_prepare prepare, lmc_worker_work work,
                         void *shared)
{
    worker_thread threads[LMC_THREAD_COUNT_MAX];
    unsigned started = 1;
    ctx->is_shared = 1;
    for (; started < wanted; started++) {
        worker_thread *const thread = &threads[started];
        *thread = (worker_thread){.work = work, .shared = shared, .index = started};
        if (!prepare(shared, started) || lmc_thread_start(&thread->id, run_thread, thread) != 0)
            break;
    }
    work(shared, 0);
    for (unsigned i = 1; i < started; i++)
        pthread_join(threads[i].id, NULL);
    ctx->is_shared = 0;
    if (started < wanted)
        (void)free_workers(ctx, started);
}
