/* encode.c - encodes whole frames: blocks on one thread or several, each placed where the blocks before it end. */
#include <pthread.h>

#include "codec/delta/delta.h"
#include "codec/frame/encode.h"
#include "codec/plain/block.h"
#include "common/checked.h"

/* Content that is copied between two looks at the caller's cancel flag. memcpy() writes so much past the caches. */
#define COPY_NBYTES ((size_t)256 << 20)

lmc_status lmc_encode_bound(const lmc_params *params, size_t src_nbytes, size_t *bound)
{
    if (!bound)
        return LMC_ERR_ARG;
    *bound = 0;
    lmc_params known;
    LMC_TRY(lmc_params_read(params, &known, NULL));
    const lmc_content content = lmc_params_content(&known, src_nbytes);
    lmc_info info;
    lmc_params_start_info(&known, src_nbytes, LMC_FRAME_DELTA, &info); /* the larger index */
    lmc_info_complete(&info, lmc_section_nbytes_max(content.column_count));
    /* a block takes at most a byte more than its content; encoding the last one asks for its bound */
    uint64_t sum;
    if (lmc_add_overflows(src_nbytes, info.head_nbytes + info.block_count + lmc_block_bound(0), &sum) ||
        lmc_add_overflows(sum, info.tail_nbytes, &sum) || sum > SIZE_MAX / 2)
        return LMC_ERR_LIMIT;
    *bound = (size_t)sum;
    return LMC_OK;
}

/* One call, as the threads that encode its blocks share it. Blocks are taken in order. A block gets its place once all
 * blocks before it have theirs. */
typedef struct encode_job {
    const lmc_kernels *kernels;
    lmc_ctx *ctx;
    lmc_content content; /* whole in memory */
    uint8_t *dst;
    const lmc_plan *plan;
    lmc_block_entry *entries;
    pthread_mutex_t mutex;
    pthread_cond_t placed_more;
    uint64_t taken;  /* blocks that some thread works on or has finished */
    uint64_t placed; /* blocks whose place is known */
    size_t used;     /* bytes of the head and of the placed blocks */
    lmc_status status;
} encode_job;

/* Planning reads content and base; at level max all of it. */
static lmc_status copy_unless_cancelled(const encode_job *job, void *dst, const uint8_t *src, size_t nbytes)
{
    if (lmc_ctx_is_cancelled(job->ctx))
        return LMC_ERR_CANCELLED;
    memcpy(dst, src, nbytes);
    return LMC_OK;
}

static lmc_status read_src(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const encode_job *const job = user;
    return copy_unless_cancelled(job, dst, job->content.src + offset, nbytes);
}

static lmc_status read_base(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const encode_job *const job = user;
    return copy_unless_cancelled(job, dst, job->content.base + offset, nbytes);
}

/* ---- blocks ---- */

static lmc_content_block block_at(const encode_job *job, uint64_t i)
{
    const lmc_info *const info = &job->plan->info;
    const lmc_content *const content = &job->content;
    return (lmc_content_block){.first = i << info->block_log2,
                               .src = content->src + i * info->block_nbytes,
                               .nbytes = lmc_block_content_nbytes(info, i),
                               .base = content->base ? content->base + i * info->base_block_nbytes : NULL};
}

/* Takes blocks until there are none, encodes each to the block buffer, and copies it once it has its place. */
static void encode_worker(void *shared, unsigned worker)
{
    encode_job *const job = shared;
    lmc_ctx *const ctx = worker == 0 ? job->ctx : job->ctx->workers[worker - 1];
    for (;;) {
        pthread_mutex_lock(&job->mutex);
        if (job->status == LMC_OK && lmc_ctx_is_cancelled(job->ctx))
            job->status = LMC_ERR_CANCELLED;
        const uint64_t i = job->taken;
        const int any = job->status == LMC_OK && i < job->plan->info.block_count;
        job->taken += any ? 1 : 0;
        pthread_mutex_unlock(&job->mutex);
        if (!any)
            break;
        const lmc_content_block block = block_at(job, i);
        const lmc_status status = lmc_plan_encode_block(ctx, job->plan, &block, ctx->block, &job->entries[i]);
        uint8_t *place = NULL;
        pthread_mutex_lock(&job->mutex);
        if (status != LMC_OK && job->status == LMC_OK)
            job->status = status;
        while (job->placed != i && job->status == LMC_OK)
            pthread_cond_wait(&job->placed_more, &job->mutex);
        if (job->status == LMC_OK) {
            place = job->dst + job->used;
            job->used += job->entries[i].stored_nbytes;
            job->placed++;
        }
        pthread_cond_broadcast(&job->placed_more);
        pthread_mutex_unlock(&job->mutex);
        if (place)
            job->kernels->copy_past_cache(place, ctx->block, job->entries[i].stored_nbytes);
    }
    job->kernels->end_past_cache();
}

/* Gives a worker all its memory before it takes a block, with room for a block that has no place yet. */
static int prepare_worker(void *shared, unsigned worker)
{
    const encode_job *const job = shared;
    const size_t nbytes = lmc_largest_block_nbytes(&job->plan->info);
    lmc_ctx *const ctx = lmc_ctx_worker(job->ctx, worker);
    return ctx && lmc_plan_reserve(ctx, job->plan, nbytes) == LMC_OK &&
           lmc_ctx_reserve_block(ctx, lmc_block_bound(nbytes)) == LMC_OK;
}

/* The calling thread has memory to encode in place; as one of several it also needs a block buffer. */
static lmc_status encode_blocks(encode_job *job)
{
    const lmc_info *const info = &job->plan->info;
    const size_t largest = lmc_largest_block_nbytes(info);
    LMC_TRY(lmc_plan_reserve(job->ctx, job->plan, largest));
    const unsigned wanted =
        info->block_count > 1 ? (unsigned)lmc_min_u64(job->ctx->thread_count, info->block_count) : 1;
    if (wanted > 1 && lmc_ctx_reserve_block(job->ctx, lmc_block_bound(largest)) == LMC_OK) {
        pthread_mutex_init(&job->mutex, NULL);
        pthread_cond_init(&job->placed_more, NULL);
        lmc_ctx_run_workers(job->ctx, wanted, prepare_worker, encode_worker, job);
        pthread_cond_destroy(&job->placed_more);
        pthread_mutex_destroy(&job->mutex);
        return job->status;
    }
    lmc_ctx_clear_diag(job->ctx); /* of memory that could not be reserved */
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

/* ---- frames ---- */

/* Writes a frame that stores its content. has_hashes: its blocks were encoded in vain, and hashed. */
static lmc_status store_frame(encode_job *job, int has_hashes, size_t *dst_nbytes)
{
    lmc_info info = job->plan->info;
    const uint64_t entry_count = info.block_count;
    for (uint64_t i = 0; !has_hashes && i < entry_count; i++) {
        const lmc_content_block block = block_at(job, i);
        if (lmc_ctx_is_cancelled(job->ctx))
            return LMC_ERR_CANCELLED;
        job->entries[i].content_hash = job->kernels->hash(block.src, block.nbytes, 0);
    }
    if (lmc_is_coded(&info)) {
        info.mode = LMC_FRAME_STORED;
        lmc_info_complete(&info, 0);
    }
    lmc_head_write(&info, 0, job->dst);
    for (size_t done = 0; done < job->content.nbytes; done += COPY_NBYTES) {
        if (lmc_ctx_is_cancelled(job->ctx))
            return LMC_ERR_CANCELLED;
        memcpy(job->dst + info.head_nbytes + done, job->content.src + done,
               (size_t)lmc_min_u64(COPY_NBYTES, job->content.nbytes - done));
    }
    const size_t before_tail = info.head_nbytes + (size_t)job->content.nbytes;
    lmc_tail_write(&info, job->dst, job->entries, entry_count, job->dst + before_tail);
    *dst_nbytes = before_tail + (size_t)info.tail_nbytes;
    return LMC_OK;
}

/* Writes a frame by its plan. Leaves *dst_nbytes 0 if the base turns out to be of no use. */
static lmc_status write_frame(encode_job *job, size_t *dst_nbytes)
{
    const lmc_plan *const plan = job->plan;
    const lmc_info *const info = &plan->info;
    const int has_codes =
        info->mode == LMC_FRAME_DELTA || (info->mode == LMC_FRAME_CODED && !plan->decision.is_raw);
    if (has_codes) {
        job->used = info->head_nbytes;
        LMC_TRY(encode_blocks(job));
        if (job->used + info->tail_nbytes < info->content_nbytes + LMC_FRAME_OVERHEAD_MAX) {
            memcpy(job->dst, plan->head, info->head_nbytes);
            lmc_tail_write(info, job->dst, job->entries, info->block_count, job->dst + job->used);
            *dst_nbytes = job->used + (size_t)info->tail_nbytes;
            return LMC_OK;
        }
        if (info->mode == LMC_FRAME_DELTA)
            return LMC_OK;
    }
    return store_frame(job, has_codes, dst_nbytes);
}

/* Plans and writes a frame; *dst_nbytes as with write_frame(). */
static lmc_status plan_and_write(lmc_ctx *ctx, const lmc_params *params, const lmc_content *content,
                                 uint8_t *dst, size_t *dst_nbytes)
{
    encode_job job = {.kernels = lmc_kernels_get(), .ctx = ctx, .content = *content, .dst = dst};
    lmc_plan *plan = NULL;
    lmc_status status = LMC_OK;
    job.content.read = read_src;
    job.content.read_base = content->base ? read_base : NULL;
    job.content.user = &job;
    LMC_TRY(lmc_plan_make(ctx, params, &job.content, &plan));
    job.plan = plan;
    job.entries = lmc_allocate_array(ctx, plan->info.block_count + 1, sizeof *job.entries, "blocks", &status);
    if (job.entries)
        status = write_frame(&job, dst_nbytes);
    lmc_release(&ctx->allocator, job.entries);
    lmc_plan_free(plan);
    return status;
}

/* Checks the arguments of lmc_encode_delta(): pointers and sizes, the base's length, and that nothing that is read lies
 * where this call may write. */
static lmc_status check_arguments(lmc_ctx *ctx, const lmc_params *params, const lmc_content *content,
                                  size_t base_nbytes, const uint8_t *dst, size_t dst_capacity,
                                  const size_t *dst_nbytes)
{
    const size_t src_nbytes = (size_t)content->nbytes;
    size_t bound = 0;
    if (!dst || !dst_nbytes || (!content->src && src_nbytes > 0))
        return lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (lmc_encode_bound(params, src_nbytes, &bound) != LMC_OK)
        return lmc_fail(&ctx->diag, LMC_ERR_LIMIT, 0, "content of %zu bytes is too large", src_nbytes);
    if (dst_capacity < bound)
        return lmc_fail(&ctx->diag, LMC_ERR_DST_SMALL, 0, "encoding %zu bytes asks for %zu bytes of room",
                        src_nbytes, bound);
    LMC_TRY(lmc_check_apart("the content", content->src, src_nbytes, dst, bound, &ctx->diag));
    if (!content->base)
        return LMC_OK;
    return lmc_base_check(params->base_form, src_nbytes, content->base, base_nbytes, dst, bound, &ctx->diag);
}

lmc_status lmc_encode(lmc_ctx *ctx, const lmc_params *params, const void *src, size_t src_nbytes, void *dst,
                      size_t dst_capacity, size_t *dst_nbytes)
{
    return lmc_encode_delta(ctx, params, src, src_nbytes, NULL, 0, dst, dst_capacity, dst_nbytes);
}

lmc_status lmc_encode_delta(lmc_ctx *ctx, const lmc_params *params, const void *src, size_t src_nbytes,
                            const void *base, size_t base_nbytes, void *dst, size_t dst_capacity,
                            size_t *dst_nbytes)
{
    if (dst_nbytes)
        *dst_nbytes = 0;
    if (!lmc_ctx_begin(ctx))
        return LMC_ERR_ARG;
    lmc_params known;
    lmc_content content;
    lmc_status status = lmc_params_read(params, &known, &ctx->diag);
    if (status == LMC_OK) {
        content = lmc_params_content(&known, src_nbytes);
        content.src = src;
        content.base = base;
        status = check_arguments(ctx, &known, &content, base_nbytes, dst, dst_capacity, dst_nbytes);
    }
    if (status == LMC_OK)
        status = plan_and_write(ctx, &known, &content, dst, dst_nbytes);
    if (status == LMC_OK && *dst_nbytes == 0) {
        content.base = NULL;
        status = plan_and_write(ctx, &known, &content, dst, dst_nbytes);
    }
    return lmc_ctx_end(ctx, status);
}
