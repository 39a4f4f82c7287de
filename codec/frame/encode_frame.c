/* encode_frame.c - encodes whole frames: blocks on one thread or several, each placed where the blocks before it
 * end. */
#include <pthread.h>

#include "codec/common/checked.h"
#include "codec/frame/encode.h"
#include "codec/frame/index.h"
#include "codec/plain/block.h"

/* Content that is copied between two looks at the caller's cancel flag. memcpy() writes so much past the caches. */
#define COPY_NBYTES ((size_t)256 << 20)

lmc_status lmc_encode_bound(const lmc_params *params, size_t src_nbytes, size_t *bound)
{
    if (!bound)
        return LMC_ERR_ARG;
    *bound = 0;
    lmc_params known;
    LMC_TRY(lmc_params_read(params, &known, NULL));
    lmc_info info;
    lmc_params_start_info(&known, src_nbytes, LMC_FRAME_DELTA, &info); /* the larger index */
    lmc_info_complete(&info, lmc_section_nbytes_max(lmc_params_column_count(&known, src_nbytes)));
    /* a block takes at most a byte more than its content; encoding the last one asks for its bound */
    uint64_t sum;
    if (lmc_add_overflows(src_nbytes, info.head_nbytes + info.block_count + lmc_block_bound(0), &sum) ||
        lmc_add_overflows(sum, info.tail_nbytes, &sum) || sum > SIZE_MAX / 2)
        return LMC_ERR_LIMIT;
    *bound = (size_t)sum;
    return LMC_OK;
}

/* Content and base in memory, as the planning of a frame reads them: at level max all of it. */
typedef struct memory_input {
    const lmc_ctx *ctx;
    const uint8_t *src, *base;
} memory_input;

static lmc_status copy_unless_cancelled(const memory_input *input, void *dst, const uint8_t *src,
                                        size_t nbytes)
{
    if (lmc_ctx_is_cancelled(input->ctx))
        return LMC_ERR_CANCELLED;
    memcpy(dst, src, nbytes);
    return LMC_OK;
}

static lmc_status read_memory(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const memory_input *const input = user;
    return copy_unless_cancelled(input, dst, input->src + offset, nbytes);
}

static lmc_status read_base_memory(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const memory_input *const input = user;
    return copy_unless_cancelled(input, dst, input->base + offset, nbytes);
}

/* The state that the threads which encode one frame share. Blocks are taken in order. A block gets its place once
 * all blocks before it have theirs. */
typedef struct encode_job {
    const lmc_kernels *kernels;
    lmc_ctx *ctx;
    const lmc_plan *plan;
    const uint8_t *src;
    const uint8_t *base; /* NULL without a base */
    uint8_t *dst;        /* where the blocks begin */
    lmc_block_entry *entries;
    pthread_mutex_t mutex;
    pthread_cond_t placed_more;
    uint64_t taken;  /* blocks that some thread works on or has finished */
    uint64_t placed; /* blocks whose place is known */
    size_t used;     /* bytes of the placed blocks */
    lmc_status status;
} encode_job;

static size_t largest_block(const lmc_plan *plan)
{
    return (size_t)lmc_min_u64(plan->info.block_nbytes, plan->info.content_nbytes);
}

static lmc_content_block block_at(const encode_job *job, uint64_t i)
{
    const lmc_info *const info = &job->plan->info;
    return (lmc_content_block){.index = i,
                               .src = job->src + i * info->block_nbytes,
                               .src_nbytes = lmc_block_content_nbytes(info, i),
                               .base = job->base ? job->base + i * info->base_block_nbytes : NULL};
}

static lmc_status encode_in_place(encode_job *job)
{
    const lmc_info *const info = &job->plan->info;
    for (uint64_t i = 0; i < info->block_count; i++) {
        if (lmc_ctx_is_cancelled(job->ctx))
            return LMC_ERR_CANCELLED;
        lmc_content_block block = block_at(job, i);
        if (i + 1 < info->block_count)
            block.ahead_nbytes = lmc_block_content_nbytes(info, i + 1);
        LMC_TRY(lmc_plan_encode_block(job->ctx, job->plan, &block, job->dst + job->used, &job->entries[i]));
        job->used += job->entries[i].stored_nbytes;
    }
    return LMC_OK;
}

static int take_next_block(encode_job *job, uint64_t *index)
{
    pthread_mutex_lock(&job->mutex);
    if (job->status == LMC_OK && lmc_ctx_is_cancelled(job->ctx))
        job->status = LMC_ERR_CANCELLED;
    const int any = job->status == LMC_OK && job->taken < job->plan->info.block_count;
    if (any)
        *index = job->taken++;
    pthread_mutex_unlock(&job->mutex);
    return any;
}

/* Waits until all blocks before block `index` are placed, and places it. NULL after a failure. */
static uint8_t *place_block(encode_job *job, uint64_t index, lmc_status status)
{
    uint8_t *place = NULL;
    pthread_mutex_lock(&job->mutex);
    if (status != LMC_OK && job->status == LMC_OK)
        job->status = status;
    while (job->placed != index && job->status == LMC_OK)
        pthread_cond_wait(&job->placed_more, &job->mutex);
    if (job->status == LMC_OK) {
        place = job->dst + job->used;
        job->used += job->entries[index].stored_nbytes;
        job->placed++;
    }
    pthread_cond_broadcast(&job->placed_more);
    pthread_mutex_unlock(&job->mutex);
    return place;
}

static void encode_worker(void *shared, unsigned worker)
{
    encode_job *const job = shared;
    uint64_t i;
    while (take_next_block(job, &i)) {
        const lmc_content_block block = block_at(job, i);
        lmc_ctx *const ctx = worker == 0 ? job->ctx : job->ctx->workers[worker - 1];
        const lmc_status status = lmc_plan_encode_block(ctx, job->plan, &block, ctx->block, &job->entries[i]);
        uint8_t *const place = place_block(job, i, status);
        if (place)
            job->kernels->copy_past_cache(place, ctx->block, job->entries[i].stored_nbytes);
    }
    job->kernels->end_past_cache();
}

/* Gives a worker all its memory before it takes a block, with room for a block that has no place yet. */
static int prepare_worker(void *shared, unsigned worker)
{
    const encode_job *const job = shared;
    const size_t nbytes = largest_block(job->plan);
    lmc_ctx *const ctx = lmc_ctx_worker(job->ctx, worker);
    return ctx && lmc_plan_reserve(ctx, job->plan, nbytes) == LMC_OK &&
           lmc_ctx_reserve_block(ctx, lmc_block_bound(nbytes)) == LMC_OK;
}

/* The calling thread has memory to encode in place; as one of several it also needs a block buffer. */
static unsigned workers_wanted(const encode_job *job, unsigned thread_count)
{
    const uint64_t block_count = job->plan->info.block_count;
    const unsigned wanted =
        block_count > 1 ? (unsigned)lmc_min_u64(lmc_resolve_thread_count(thread_count), block_count) : 1;
    const size_t bound = lmc_block_bound(largest_block(job->plan));
    return wanted > 1 && lmc_ctx_reserve_block(job->ctx, bound) == LMC_OK ? wanted : 1;
}

static lmc_status encode_blocks(encode_job *job, unsigned thread_count)
{
    LMC_TRY(lmc_plan_reserve(job->ctx, job->plan, largest_block(job->plan)));
    const unsigned wanted = workers_wanted(job, thread_count);
    if (wanted <= 1) {
        lmc_ctx_clear_diag(job->ctx); /* of memory that could not be reserved */
        return encode_in_place(job);
    }
    pthread_mutex_init(&job->mutex, NULL);
    pthread_cond_init(&job->placed_more, NULL);
    lmc_ctx_run_workers(job->ctx, wanted, prepare_worker, encode_worker, job);
    pthread_cond_destroy(&job->placed_more);
    pthread_mutex_destroy(&job->mutex);
    return job->status;
}

static lmc_status hash_blocks(const lmc_ctx *ctx, const lmc_info *info, const uint8_t *src,
                              lmc_block_entry *entries)
{
    const lmc_kernels *const kernels = lmc_kernels_get();
    for (uint64_t i = 0; i < info->block_count; i++) {
        if (lmc_ctx_is_cancelled(ctx))
            return LMC_ERR_CANCELLED;
        entries[i].content_hash =
            kernels->hash(src + i * info->block_nbytes, lmc_block_content_nbytes(info, i), 0);
    }
    return LMC_OK;
}

static lmc_status copy_content(const lmc_ctx *ctx, const uint8_t *src, size_t nbytes, uint8_t *dst)
{
    for (size_t done = 0; done < nbytes; done += COPY_NBYTES) {
        if (lmc_ctx_is_cancelled(ctx))
            return LMC_ERR_CANCELLED;
        memcpy(dst + done, src + done, (size_t)lmc_min_u64(COPY_NBYTES, nbytes - done));
    }
    return LMC_OK;
}

/* Writes a frame that stores its content. */
static lmc_status write_stored(const lmc_ctx *ctx, lmc_info info, const lmc_block_entry *entries,
                               const uint8_t *src, uint8_t *dst, size_t *dst_nbytes)
{
    const uint64_t entry_count = info.block_count;
    if (lmc_is_coded(&info)) {
        info.mode = LMC_FRAME_STORED;
        lmc_info_complete(&info, 0);
    }
    lmc_head_write(&info, 0, dst);
    LMC_TRY(copy_content(ctx, src, (size_t)info.content_nbytes, dst + info.head_nbytes));
    const size_t before_tail = info.head_nbytes + (size_t)info.content_nbytes;
    lmc_tail_write(&info, dst, entries, entry_count, dst + before_tail);
    *dst_nbytes = before_tail + (size_t)info.tail_nbytes;
    return LMC_OK;
}

/* Leaves *dst_nbytes 0 if the base turns out to be of no use. */
static lmc_status encode_frame(lmc_ctx *ctx, const lmc_plan *plan, unsigned thread_count, const uint8_t *src,
                               const uint8_t *base, lmc_block_entry *entries, uint8_t *dst,
                               size_t *dst_nbytes)
{
    const lmc_info *const info = &plan->info;
    if (info->mode == LMC_FRAME_DELTA || (info->mode == LMC_FRAME_CODED && !plan->decision.is_raw)) {
        encode_job job = {.kernels = lmc_kernels_get(),
                          .ctx = ctx,
                          .plan = plan,
                          .src = src,
                          .base = base,
                          .dst = dst + info->head_nbytes,
                          .entries = entries};
        LMC_TRY(encode_blocks(&job, thread_count));
        const size_t before_tail = info->head_nbytes + job.used;
        if (before_tail + info->tail_nbytes < info->content_nbytes + LMC_FRAME_OVERHEAD_MAX) {
            memcpy(dst, plan->head, info->head_nbytes);
            lmc_tail_write(info, dst, entries, info->block_count, dst + before_tail);
            *dst_nbytes = before_tail + (size_t)info->tail_nbytes;
            return LMC_OK;
        }
        if (info->mode == LMC_FRAME_DELTA)
            return LMC_OK;
    } else {
        LMC_TRY(hash_blocks(ctx, info, src, entries));
    }
    return write_stored(ctx, *info, entries, src, dst, dst_nbytes);
}

/* Checks that the base has the right length, and that nothing that is read lies in the `bound` bytes that may be
 * written. */
static lmc_status check_buffers(const lmc_params *params, const void *src, size_t src_nbytes,
                                const void *base, size_t base_nbytes, const void *dst, size_t bound,
                                lmc_diag *diag)
{
    LMC_TRY(lmc_check_apart("the content", src, src_nbytes, dst, bound, diag));
    if (!base)
        return LMC_OK;
    return lmc_base_check(params->base_form, src_nbytes, base, base_nbytes, dst, bound, diag);
}

static lmc_status check_encode(lmc_ctx *ctx, const lmc_params *params, const void *src, size_t src_nbytes,
                               const void *base, size_t base_nbytes, const void *dst, size_t dst_capacity,
                               const size_t *dst_nbytes)
{
    size_t bound = 0;
    if (!dst || !dst_nbytes || (!src && src_nbytes > 0))
        return lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (lmc_encode_bound(params, src_nbytes, &bound) != LMC_OK)
        return lmc_fail(&ctx->diag, LMC_ERR_LIMIT, 0, "content of %zu bytes is too large", src_nbytes);
    if (dst_capacity < bound)
        return lmc_fail(&ctx->diag, LMC_ERR_DST_SMALL, 0, "encoding %zu bytes asks for %zu bytes of room",
                        src_nbytes, bound);
    return check_buffers(params, src, src_nbytes, base, base_nbytes, dst, bound, &ctx->diag);
}

/* Plans and encodes; *dst_nbytes as with encode_frame(). */
static lmc_status plan_and_encode(lmc_ctx *ctx, const lmc_params *params, const void *src, size_t src_nbytes,
                                  const void *base, void *dst, size_t *dst_nbytes)
{
    lmc_plan *plan = NULL;
    memory_input input = {ctx, src, base};
    lmc_status status = LMC_OK;
    LMC_TRY(
        lmc_plan_make(ctx, params, src_nbytes, read_memory, base ? read_base_memory : NULL, &input, &plan));
    lmc_block_entry *const entries =
        lmc_allocate_array(ctx, plan->info.block_count + 1, sizeof *entries, "blocks", &status);
    if (entries)
        status = encode_frame(ctx, plan, params->thread_count, src, base, entries, dst, dst_nbytes);
    lmc_release(&ctx->allocator, entries);
    lmc_plan_free(plan);
    return status;
}

lmc_status lmc_encode(lmc_ctx *ctx, const lmc_params *params, const void *src, size_t src_nbytes,
                      const void *base, size_t base_nbytes, void *dst, size_t dst_capacity,
                      size_t *dst_nbytes)
{
    if (dst_nbytes)
        *dst_nbytes = 0;
    if (!lmc_ctx_begin(ctx))
        return LMC_ERR_ARG;
    lmc_params known;
    lmc_status status = lmc_params_read(params, &known, &ctx->diag);
    if (status == LMC_OK)
        status = check_encode(ctx, &known, src, src_nbytes, base, base_nbytes, dst, dst_capacity, dst_nbytes);
    if (status == LMC_OK)
        status = plan_and_encode(ctx, &known, src, src_nbytes, base, dst, dst_nbytes);
    if (status == LMC_OK && *dst_nbytes == 0)
        status = plan_and_encode(ctx, &known, src, src_nbytes, NULL, dst, dst_nbytes);
    return lmc_ctx_end(ctx, status);
}
