/* decode.c - decodes whole frames and ranges of their content: blocks on one thread or several. */
#include <pthread.h>

#include "codec/frame/decode.h"

/* Output of this size and more is written past the caches: it is larger than a core's share of the last cache. */
#define PAST_CACHE_NBYTES_MIN (UINT64_C(32) << 20)

/* The state that the threads which decode one range share. */
typedef struct decode_job {
    lmc_ctx *ctx;
    const lmc_frame *frame;
    const lmc_stored *stored;    /* the whole frame */
    uint64_t first_byte, nbytes; /* the wanted range of the content */
    uint8_t *dst;
    lmc_block_entry *entries; /* of stored frames: the hashes found; else NULL */
    uint64_t next, end;       /* blocks that no thread has taken yet */
    pthread_mutex_t mutex;
    uint64_t failed_block; /* the first one, if status is not LMC_OK */
    lmc_status status;
    lmc_diag diag;
} decode_job;

/* Decodes block i to its part of the wanted range. A block that is wanted in part goes through the context's block
 * buffer. */
static lmc_status decode_part(const decode_job *job, lmc_ctx *ctx, uint64_t i, lmc_diag *diag)
{
    const lmc_info *const info = &job->frame->info;
    const uint64_t block_first = i * info->block_nbytes;
    const uint64_t block_end = block_first + lmc_block_content_nbytes(info, i);
    const uint64_t end = lmc_min_u64(job->first_byte + job->nbytes, block_end);
    const uint64_t first = job->first_byte > block_first ? job->first_byte : block_first;
    const int whole = first == block_first && end == block_end;
    /* with one thread, the block behind is decoded next */
    const int next_follows = job->ctx->thread_count == 1 && i + 1 < job->end;
    uint8_t *const dst = whole ? job->dst + (first - job->first_byte) : ctx->block;
    const uint8_t *const base = job->stored->base;
    lmc_stored block = {.bytes = job->stored->bytes + lmc_frame_block_offset(job->frame, i),
                        .nbytes = lmc_frame_block_stored_nbytes(job->frame, i),
                        .base = base ? base + i * info->base_block_nbytes : NULL,
                        .ahead_nbytes = next_follows ? lmc_frame_block_stored_nbytes(job->frame, i + 1) : 0,
                        .past_cache = whole && job->nbytes >= PAST_CACHE_NBYTES_MIN};
    uint64_t hash;
    LMC_TRY(lmc_frame_decode_block(ctx, job->frame, i, &block, dst, &hash, diag));
    if (!whole && first < end)
        memcpy(job->dst + (first - job->first_byte), dst + (first - block_first), (size_t)(end - first));
    if (job->entries)
        job->entries[i].content_hash = hash;
    return LMC_OK;
}

/* Takes blocks until there are none. Of all failures that of the first block is kept, so that the result does not
 * depend on the threads. */
static void decode_worker(void *shared, unsigned worker)
{
    decode_job *const job = shared;
    lmc_ctx *const ctx = worker == 0 ? job->ctx : job->ctx->workers[worker - 1];
    lmc_diag diag = LMC_INIT(lmc_diag);
    for (;;) {
        pthread_mutex_lock(&job->mutex);
        if (job->status == LMC_OK && lmc_ctx_is_cancelled(job->ctx))
            job->status = LMC_ERR_CANCELLED;
        const uint64_t i = job->next;
        const int any = job->status == LMC_OK && i < job->end;
        job->next += any ? 1 : 0;
        pthread_mutex_unlock(&job->mutex);
        if (!any)
            break;
        const lmc_status status = decode_part(job, ctx, i, &diag);
        if (status == LMC_OK)
            continue;
        pthread_mutex_lock(&job->mutex);
        if (job->status == LMC_OK || i < job->failed_block) {
            job->status = status;
            job->failed_block = i;
            job->diag = diag;
        }
        pthread_mutex_unlock(&job->mutex);
    }
    lmc_kernels_get()->end_past_cache();
}

/* Memory of a thread, with the block buffer if some block is wanted only in part. */
static lmc_status reserve_for_job(const decode_job *job, lmc_ctx *ctx)
{
    const lmc_info *const info = &job->frame->info;
    const size_t nbytes = lmc_largest_block_nbytes(info);
    const uint64_t end = job->first_byte + job->nbytes;
    LMC_TRY(lmc_frame_reserve(ctx, job->frame, nbytes));
    const int has_parts = lmc_is_coded(info)
                              ? job->first_byte % info->block_nbytes != 0 ||
                                    (end % info->block_nbytes != 0 && end != info->content_nbytes)
                              : job->nbytes < info->content_nbytes; /* all blocks are decoded */
    return has_parts ? lmc_ctx_reserve_block(ctx, nbytes) : LMC_OK;
}

/* Gives a worker all its memory before it takes a block. */
static int prepare_worker(void *shared, unsigned worker)
{
    const decode_job *const job = shared;
    lmc_ctx *const ctx = lmc_ctx_worker(job->ctx, worker);
    return ctx && reserve_for_job(job, ctx) == LMC_OK;
}

/* Decodes blocks [job->next, job->end). */
static lmc_status decode_blocks(decode_job *job)
{
    LMC_TRY(reserve_for_job(job, job->ctx));
    const unsigned wanted = (unsigned)lmc_min_u64(job->ctx->thread_count, job->end - job->next);
    pthread_mutex_init(&job->mutex, NULL);
    if (wanted > 1)
        lmc_ctx_run_workers(job->ctx, wanted, prepare_worker, decode_worker, job);
    else
        decode_worker(job, 0);
    pthread_mutex_destroy(&job->mutex);
    if (job->status != LMC_OK)
        job->ctx->diag = job->diag;
    return job->status;
}

/* Decodes a range within the content of an opened frame. */
static lmc_status decode_opened(lmc_ctx *ctx, const lmc_frame *frame, const lmc_stored *stored,
                                uint64_t first_byte, size_t nbytes, uint8_t *dst)
{
    const lmc_info *const info = &frame->info;
    decode_job job = {.ctx = ctx,
                      .frame = frame,
                      .stored = stored,
                      .first_byte = first_byte,
                      .nbytes = nbytes,
                      .dst = dst,
                      .end = info->block_count,
                      .diag = LMC_INIT(lmc_diag)};
    if (!dst && nbytes > 0)
        return lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    LMC_TRY(lmc_frame_check_stored(info, info->content_nbytes, stored, dst, nbytes, &ctx->diag));
    if (lmc_is_coded(info)) {
        if (nbytes == 0)
            return LMC_OK;
        job.next = first_byte / info->block_nbytes;
        job.end = (first_byte + nbytes - 1) / info->block_nbytes + 1;
        return decode_blocks(&job);
    }
    /* a stored frame has one hash over all blocks, so all are hashed, whatever the range */
    lmc_status status = LMC_OK;
    job.entries = lmc_allocate_array(ctx, info->block_count + 1, sizeof *job.entries, "hashes", &status);
    if (!job.entries)
        return status;
    status = decode_blocks(&job);
    if (status == LMC_OK && lmc_content_hash(job.entries, info->block_count) != frame->content_hash)
        status = lmc_fail(&ctx->diag, LMC_ERR_CHECKSUM, 0, "the content does not match its checksum");
    lmc_release(&ctx->allocator, job.entries);
    return status;
}

/* Opens a frame that is whole in memory. */
static lmc_status open_whole(lmc_ctx *ctx, const lmc_stored *stored, lmc_frame **frame)
{
    const uint8_t *const bytes = stored->bytes;
    lmc_info info;
    *frame = NULL;
    if (!bytes)
        return lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    LMC_TRY(lmc_head_read(bytes, stored->nbytes, &info, &ctx->diag));
    if (stored->nbytes < info.frame_nbytes_min)
        return lmc_frame_check_sizes(&info, info.head_nbytes, (size_t)info.tail_nbytes, stored->nbytes,
                                     &ctx->diag);
    return lmc_frame_parse(ctx, bytes, info.head_nbytes, bytes + stored->nbytes - info.tail_nbytes,
                           (size_t)info.tail_nbytes, stored->nbytes, frame);
}

lmc_status lmc_decode(lmc_ctx *ctx, const void *frame, size_t frame_nbytes, void *dst, size_t dst_capacity,
                      size_t *dst_nbytes)
{
    return lmc_decode_delta(ctx, frame, frame_nbytes, NULL, 0, dst, dst_capacity, dst_nbytes);
}

lmc_status lmc_decode_delta(lmc_ctx *ctx, const void *frame, size_t frame_nbytes, const void *base,
                            size_t base_nbytes, void *dst, size_t dst_capacity, size_t *dst_nbytes)
{
    const lmc_stored stored = {
        .bytes = frame, .nbytes = frame_nbytes, .base = base, .base_nbytes = base_nbytes};
    lmc_frame *opened = NULL;
    if (dst_nbytes)
        *dst_nbytes = 0;
    if (!lmc_ctx_begin(ctx))
        return LMC_ERR_ARG;
    lmc_status status = dst_nbytes ? open_whole(ctx, &stored, &opened)
                                   : lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (status == LMC_OK) {
        const uint64_t content_nbytes = opened->info.content_nbytes;
        if (dst_capacity < content_nbytes)
            status = lmc_fail(&ctx->diag, LMC_ERR_DST_SMALL, 0, "the frame decodes to %llu bytes",
                              (unsigned long long)content_nbytes);
        else
            status = decode_opened(ctx, opened, &stored, 0, (size_t)content_nbytes, dst);
        if (status == LMC_OK)
            *dst_nbytes = (size_t)content_nbytes;
    }
    lmc_frame_free(opened);
    return lmc_ctx_end(ctx, status);
}

lmc_status lmc_decode_range(lmc_ctx *ctx, const void *frame, size_t frame_nbytes, uint64_t first_byte,
                            size_t nbytes, void *dst)
{
    return lmc_decode_delta_range(ctx, frame, frame_nbytes, NULL, 0, first_byte, nbytes, dst);
}

lmc_status lmc_decode_delta_range(lmc_ctx *ctx, const void *frame, size_t frame_nbytes, const void *base,
                                  size_t base_nbytes, uint64_t first_byte, size_t nbytes, void *dst)
{
    const lmc_stored stored = {
        .bytes = frame, .nbytes = frame_nbytes, .base = base, .base_nbytes = base_nbytes};
    lmc_frame *opened = NULL;
    if (!lmc_ctx_begin(ctx))
        return LMC_ERR_ARG;
    lmc_status status = open_whole(ctx, &stored, &opened);
    if (status == LMC_OK) {
        const uint64_t content_nbytes = opened->info.content_nbytes;
        if (first_byte > content_nbytes || nbytes > content_nbytes - first_byte)
            status = lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "the range leaves the content of %llu bytes",
                              (unsigned long long)content_nbytes);
        else
            status = decode_opened(ctx, opened, &stored, first_byte, nbytes, dst);
    }
    lmc_frame_free(opened);
    return lmc_ctx_end(ctx, status);
}
