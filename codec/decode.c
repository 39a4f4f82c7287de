/* decode.c - the decoding half of the public interface: parsed frames, pieces, and whole frames over them. */
#include <pthread.h>

#include "base_values.h"
#include "block.h"
#include "checked.h"
#include "ctx.h"
#include "delta.h"
#include "delta_coding.h"
#include "frame.h"
#include "pool.h"

struct lmc_frame {
    lmc_allocator allocator;
    lmc_info info;
    uint64_t content_hash;
    uint64_t base_hash;       /* delta, else 0 */
    uint64_t *offsets;        /* coded: of each block, and of the tail */
    lmc_block_entry *entries; /* coded: the index */
    lmc_delta delta;
    lmc_coding coding;
    lmc_table tables[]; /* coded: one for each plane */
};

/* ---- opening ---- */

static lmc_status read_index(lmc_frame *frame, const uint8_t *index, uint64_t frame_nbytes, lmc_diag *diag)
{
    const lmc_info *const info = &frame->info;
    const size_t entry_nbytes = lmc_entry_nbytes(info);
    uint64_t offset = info->head_nbytes;
    for (uint64_t i = 0; i < info->block_count; i++) {
        const uint8_t *const entry = index + i * entry_nbytes;
        frame->entries[i].stored_nbytes = lmc_load32(entry);
        frame->entries[i].content_hash = lmc_load64(entry + 4);
        frame->entries[i].base_hash =
            info->mode == LMC_FRAME_DELTA ? lmc_load64(entry + LMC_FMT_INDEX_ENTRY_NBYTES) : 0;
        frame->offsets[i] = offset;
        if (frame->entries[i].stored_nbytes == 0 ||
            frame->entries[i].stored_nbytes > lmc_block_content_nbytes(info, i) + 1)
            return lmc_fail(diag, LMC_ERR_CORRUPT, frame_nbytes - info->tail_nbytes + i * entry_nbytes,
                            "index: block %llu has %u bytes", (unsigned long long)i,
                            frame->entries[i].stored_nbytes);
        offset += frame->entries[i].stored_nbytes;
    }
    frame->offsets[info->block_count] = offset;
    if (offset != frame_nbytes - info->tail_nbytes)
        return lmc_fail(diag, LMC_ERR_CORRUPT, frame_nbytes - info->tail_nbytes,
                        "index: the blocks are not as long as the frame");
    frame->content_hash = lmc_content_hash(frame->entries, info->block_count);
    if (info->mode == LMC_FRAME_DELTA)
        frame->base_hash = lmc_base_hash(frame->entries, info->block_count);
    return LMC_OK;
}

/* The check over head and tail. */
static lmc_status verify_check(const lmc_frame *frame, const uint8_t *head, const uint8_t *tail,
                               lmc_diag *diag)
{
    const lmc_info *const info = &frame->info;
    const size_t body_nbytes = (size_t)lmc_tail_body_nbytes(info);
    const lmc_kernels *const kernels = lmc_kernels_get();
    if (lmc_frame_check(kernels, head, info->head_nbytes, tail, body_nbytes) ==
        lmc_load64(tail + body_nbytes))
        return LMC_OK;
    return lmc_fail(diag, LMC_ERR_CHECKSUM, 0, "frame: head and index do not match their checksum");
}

/* Smallest frame with this head: blocks take a byte at least. */
static uint64_t least_nbytes(const lmc_info *info)
{
    const uint64_t blocks = lmc_is_coded(info) ? info->block_count : info->content_nbytes;
    return info->head_nbytes + info->tail_nbytes + blocks;
}

static lmc_status check_sizes(const lmc_info *info, size_t head_nbytes, size_t tail_nbytes,
                              uint64_t frame_nbytes, lmc_diag *diag)
{
    if (frame_nbytes < least_nbytes(info))
        return lmc_fail(diag, LMC_ERR_TRUNCATED, frame_nbytes, "frame: %llu bytes where %llu are the least",
                        (unsigned long long)frame_nbytes, (unsigned long long)least_nbytes(info));
    if (!lmc_is_coded(info) && frame_nbytes != least_nbytes(info))
        return lmc_fail(diag, LMC_ERR_CORRUPT, least_nbytes(info), "frame: bytes after its end");
    if (head_nbytes != info->head_nbytes || tail_nbytes != info->tail_nbytes)
        return lmc_fail(diag, LMC_ERR_ARG, 0, "a head of %zu and a tail of %zu bytes were wanted",
                        info->head_nbytes, (size_t)info->tail_nbytes);
    return LMC_OK;
}

static lmc_frame *allocate_frame(const lmc_allocator *allocator, const lmc_info *info)
{
    const unsigned tables = info->mode == LMC_FRAME_CODED ? LMC_FMT_PLANE_COUNT_MAX : 0;
    lmc_frame *const frame = lmc_allocate(allocator, sizeof *frame + tables * sizeof frame->tables[0]);
    if (!frame)
        return NULL;
    memset(frame, 0, sizeof *frame);
    frame->allocator = *allocator;
    frame->info = *info;
    if (!lmc_is_coded(info))
        return frame;
    frame->entries = lmc_allocate(allocator, (size_t)info->block_count * sizeof *frame->entries);
    frame->offsets = lmc_allocate(allocator, (size_t)(info->block_count + 1) * sizeof *frame->offsets);
    if (frame->entries && frame->offsets)
        return frame;
    lmc_frame_free(frame);
    return NULL;
}

static lmc_status fill_frame(lmc_frame *frame, const uint8_t *head, const uint8_t *tail,
                             uint64_t frame_nbytes, lmc_diag *diag)
{
    lmc_status status = verify_check(frame, head, tail, diag);
    if (status != LMC_OK)
        return status;
    if (!lmc_is_coded(&frame->info)) {
        frame->content_hash = lmc_load64(tail);
        return LMC_OK;
    }
    const uint8_t *const section = head + LMC_FMT_HEAD_NBYTES;
    const size_t section_nbytes = lmc_section_nbytes(&frame->info);
    const unsigned unit_nbytes = frame->info.element_nbytes;
    if (frame->info.mode == LMC_FRAME_DELTA)
        status = lmc_delta_read(section, section_nbytes, unit_nbytes, &frame->delta, diag);
    else
        status = lmc_coding_read(section, section_nbytes, unit_nbytes, frame->tables, &frame->coding, diag);
    if (status != LMC_OK)
        return lmc_diag_shift(diag, status, LMC_FMT_HEAD_NBYTES);
    return read_index(frame, tail, frame_nbytes, diag);
}

lmc_status lmc_frame_open(lmc_ctx *ctx, const void *head, size_t head_nbytes, const void *tail,
                          size_t tail_nbytes, uint64_t frame_nbytes, lmc_frame **frame)
{
    lmc_info info;
    if (frame)
        *frame = NULL;
    if (!ctx)
        return LMC_ERR_ARG;
    lmc_ctx_begin(ctx);
    if (!head || !tail || !frame)
        return lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    lmc_status status = lmc_head_read(head, head_nbytes, &info, &ctx->diag);
    if (status == LMC_OK)
        status = check_sizes(&info, head_nbytes, tail_nbytes, frame_nbytes, &ctx->diag);
    if (status != LMC_OK)
        return status;
    lmc_frame *const made = allocate_frame(&ctx->allocator, &info);
    if (!made)
        return lmc_fail(&ctx->diag, LMC_ERR_NOMEM, 0, "no memory for an index of %llu blocks",
                        (unsigned long long)info.block_count);
    status = fill_frame(made, head, tail, frame_nbytes, &ctx->diag);
    if (status != LMC_OK)
        lmc_frame_free(made);
    else
        *frame = made;
    return status;
}

void lmc_frame_free(lmc_frame *frame)
{
    if (!frame)
        return;
    const lmc_allocator allocator = frame->allocator;
    lmc_release(&allocator, frame->entries);
    lmc_release(&allocator, frame->offsets);
    lmc_release(&allocator, frame);
}

void lmc_frame_info(const lmc_frame *frame, lmc_info *info)
{
    *info = frame->info;
}

uint64_t lmc_frame_content_hash(const lmc_frame *frame)
{
    return frame->content_hash;
}

uint64_t lmc_frame_base_hash(const lmc_frame *frame)
{
    return frame->base_hash;
}

/* ---- pieces ---- */

static uint64_t block_offset(const lmc_frame *frame, uint64_t i)
{
    return lmc_is_coded(&frame->info) ? frame->offsets[i]
                                      : frame->info.head_nbytes + i * frame->info.block_nbytes;
}

static size_t block_stored_nbytes(const lmc_frame *frame, uint64_t i)
{
    return lmc_is_coded(&frame->info) ? frame->entries[i].stored_nbytes
                                      : lmc_block_content_nbytes(&frame->info, i);
}

lmc_status lmc_frame_block(const lmc_frame *frame, uint64_t block_index, uint64_t *offset,
                           size_t *stored_nbytes, size_t *content_nbytes)
{
    if (!frame || !offset || !stored_nbytes || !content_nbytes || block_index >= frame->info.block_count)
        return LMC_ERR_ARG;
    *offset = block_offset(frame, block_index);
    *stored_nbytes = block_stored_nbytes(frame, block_index);
    *content_nbytes = lmc_block_content_nbytes(&frame->info, block_index);
    return LMC_OK;
}

/* Where a block comes from. */
typedef struct stored_block {
    const uint8_t *stored;
    const uint8_t *base; /* delta: the base's part */
    lmc_block_memory memory;
} stored_block;

/* A block of a delta frame: its base is verified before anything is done with it. */
static lmc_status decode_delta(lmc_ctx *ctx, const lmc_frame *frame, uint64_t i, const stored_block *block,
                               uint8_t *dst, uint64_t *hash, lmc_diag *diag)
{
    const size_t content_nbytes = lmc_block_content_nbytes(&frame->info, i);
    const unsigned unit_nbytes = frame->info.element_nbytes;
    lmc_status status = LMC_OK;
    if (frame->info.base_form != LMC_BASE_PLAIN)
        status = lmc_ctx_reserve_base_values(ctx, content_nbytes);
    if (status == LMC_OK)
        status = lmc_ctx_reserve_scratch(
            ctx, &(lmc_scratch_size){lmc_div_ceil(content_nbytes, unit_nbytes), unit_nbytes, 1});
    if (status != LMC_OK)
        return status;
    const lmc_delta_job job = {.kernels = lmc_kernels_get(),
                               .delta = &frame->delta,
                               .ladder = ctx->ladder,
                               .scratch = &ctx->scratch,
                               .unit_nbytes = unit_nbytes,
                               .base_form = frame->info.base_form,
                               .base_values = ctx->base_values,
                               .past_cache = block->memory.past_cache};
    const lmc_delta_stored stored = {block->stored, block_stored_nbytes(frame, i), block->base,
                                     frame->entries[i].base_hash};
    status = lmc_delta_decode(&job, &stored, dst, content_nbytes, hash, diag);
    if (status == LMC_ERR_BASE)
        return lmc_fail(diag, LMC_ERR_BASE, 0, "block %llu was encoded against another base",
                        (unsigned long long)i);
    return status;
}

/* A block of a frame with an index. */
static lmc_status decode_coded(lmc_ctx *ctx, const lmc_frame *frame, uint64_t i, const stored_block *block,
                               uint8_t *dst, uint64_t *hash, lmc_diag *diag)
{
    if (frame->info.mode == LMC_FRAME_DELTA)
        return decode_delta(ctx, frame, i, block, dst, hash, diag);
    const size_t content_nbytes = lmc_block_content_nbytes(&frame->info, i);
    const unsigned unit_nbytes = frame->info.element_nbytes;
    const lmc_status status = lmc_ctx_reserve_scratch(
        ctx, &(lmc_scratch_size){lmc_div_ceil(content_nbytes, unit_nbytes), unit_nbytes, 0});
    if (status != LMC_OK)
        return status;
    return lmc_block_decode(lmc_kernels_get(), &frame->coding, &ctx->scratch, block->stored,
                            block_stored_nbytes(frame, i), block->memory, dst, content_nbytes, hash, diag);
}

/* Decodes block i to its content's size and hashes it; a coded one is verified. */
static lmc_status decode_block(lmc_ctx *ctx, const lmc_frame *frame, uint64_t i, const stored_block *block,
                               uint8_t *dst, uint64_t *hash, lmc_diag *diag)
{
    const size_t content_nbytes = lmc_block_content_nbytes(&frame->info, i);
    if (!lmc_is_coded(&frame->info)) {
        memcpy(dst, block->stored, content_nbytes);
        *hash = lmc_kernels_get()->hash(dst, content_nbytes, 0);
        return LMC_OK;
    }
    const lmc_status status = decode_coded(ctx, frame, i, block, dst, hash, diag);
    if (status != LMC_OK)
        return lmc_diag_shift(diag, status, block_offset(frame, i));
    if (*hash != frame->entries[i].content_hash)
        return lmc_fail(diag, LMC_ERR_CHECKSUM, block_offset(frame, i),
                        "block %llu does not match its checksum", (unsigned long long)i);
    return LMC_OK;
}

lmc_status lmc_decode_block(lmc_ctx *ctx, const lmc_frame *frame, uint64_t block_index, const void *stored,
                            size_t stored_nbytes, const void *base, void *dst, size_t dst_capacity,
                            lmc_block_entry *entry)
{
    if (entry)
        memset(entry, 0, sizeof *entry);
    if (!ctx)
        return LMC_ERR_ARG;
    lmc_ctx_begin(ctx);
    if (!frame || !stored || !dst || (!entry && !lmc_is_coded(&frame->info)))
        return lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (block_index >= frame->info.block_count || stored_nbytes != block_stored_nbytes(frame, block_index))
        return lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "no block %llu of %zu stored bytes",
                        (unsigned long long)block_index, stored_nbytes);
    if (dst_capacity < lmc_block_content_nbytes(&frame->info, block_index))
        return lmc_fail(&ctx->diag, LMC_ERR_DST_SMALL, 0, "a block decodes to %zu bytes",
                        lmc_block_content_nbytes(&frame->info, block_index));
    if (frame->info.mode == LMC_FRAME_DELTA && !base)
        return lmc_fail(&ctx->diag, LMC_ERR_BASE, 0, "the frame was encoded against a base");
    uint64_t hash;
    const stored_block block = {.stored = stored, .base = base};
    const lmc_status status = decode_block(ctx, frame, block_index, &block, dst, &hash, &ctx->diag);
    if (status == LMC_OK && entry)
        *entry = (lmc_block_entry){(uint32_t)stored_nbytes, hash,
                                   lmc_is_coded(&frame->info) ? frame->entries[block_index].base_hash : 0};
    return status;
}

/* ---- whole frames and ranges ---- */

/* Output from this size on is written past the caches: it is larger than a core's share of the last one. */
#define PAST_CACHE_NBYTES_MIN (UINT64_C(32) << 20)

/* What the threads that decode one range share. */
typedef struct decode_job {
    lmc_ctx *ctx;
    const lmc_frame *frame;
    const uint8_t *stored;       /* the frame's first byte */
    const uint8_t *base;         /* the base's first byte, or NULL */
    uint64_t first_byte, nbytes; /* of the content, wanted */
    uint8_t *dst;
    lmc_block_entry *entries; /* stored frames: the hashes found; else NULL */
    uint64_t next, end;       /* blocks not taken yet */
    pthread_mutex_t mutex;
    uint64_t failed_block; /* the first one, if status is not LMC_OK */
    lmc_status status;
    lmc_diag diag;
} decode_job;

/* With one thread the next block is the one behind. */
static lmc_block_memory memory_around(const decode_job *job, uint64_t i, int whole)
{
    const int next_follows = job->ctx->thread_count == 1 && i + 1 < job->end;
    return (lmc_block_memory){.ahead_nbytes = next_follows ? block_stored_nbytes(job->frame, i + 1) : 0,
                              .past_cache = whole && job->nbytes >= PAST_CACHE_NBYTES_MIN};
}

/* Decodes block i to its part of the wanted range; a part goes through the context's block buffer. */
static lmc_status decode_part(const decode_job *job, lmc_ctx *ctx, uint64_t i, lmc_diag *diag)
{
    const lmc_info *const info = &job->frame->info;
    const uint64_t block_first = i * info->block_nbytes;
    const uint64_t block_end = block_first + lmc_block_content_nbytes(info, i);
    const uint64_t end = lmc_min_u64(job->first_byte + job->nbytes, block_end);
    const uint64_t first = job->first_byte > block_first ? job->first_byte : block_first;
    uint64_t hash;
    lmc_status status = LMC_OK;
    const int whole = first == block_first && end == block_end;
    if (!whole)
        status = lmc_ctx_reserve_block(ctx, (size_t)(block_end - block_first));
    uint8_t *const dst = whole ? job->dst + (first - job->first_byte) : ctx->block;
    const stored_block block = {.stored = job->stored + block_offset(job->frame, i),
                                .base = job->base ? job->base + i * info->base_block_nbytes : NULL,
                                .memory = memory_around(job, i, whole)};
    if (status == LMC_OK)
        status = decode_block(ctx, job->frame, i, &block, dst, &hash, diag);
    if (status != LMC_OK)
        return status;
    if (!whole && first < end)
        memcpy(job->dst + (first - job->first_byte), dst + (first - block_first), (size_t)(end - first));
    if (job->entries)
        job->entries[i].content_hash = hash;
    return LMC_OK;
}

static int take_block(decode_job *job, uint64_t *index)
{
    pthread_mutex_lock(&job->mutex);
    const int any = job->status == LMC_OK && job->next < job->end;
    if (any)
        *index = job->next++;
    pthread_mutex_unlock(&job->mutex);
    return any;
}

/* The failure of the first block wins, so that the answer does not depend on the threads. */
static void report_failure(decode_job *job, uint64_t block, lmc_status status, const lmc_diag *diag)
{
    pthread_mutex_lock(&job->mutex);
    if (job->status == LMC_OK || block < job->failed_block) {
        job->status = status;
        job->failed_block = block;
        job->diag = *diag;
    }
    pthread_mutex_unlock(&job->mutex);
}

static void decode_worker(void *shared, unsigned worker)
{
    decode_job *const job = shared;
    lmc_ctx *const ctx = worker == 0 ? job->ctx : job->ctx->workers[worker - 1];
    lmc_diag diag = {LMC_OK, 0, ""};
    uint64_t i;
    while (take_block(job, &i)) {
        const lmc_status status = decode_part(job, ctx, i, &diag);
        if (status == LMC_ERR_NOMEM) /* that is said of a context, not of the frame */
            diag = ctx->diag;
        if (status != LMC_OK)
            report_failure(job, i, status, &diag);
    }
}

/* Decodes blocks [job->next, job->end). */
static lmc_status decode_blocks(decode_job *job)
{
    unsigned workers = (unsigned)lmc_min_u64(job->ctx->thread_count, job->end - job->next);
    for (unsigned i = 1; i < workers; i++)
        if (!lmc_ctx_worker(job->ctx, i))
            workers = i;
    pthread_mutex_init(&job->mutex, NULL);
    if (workers > 1)
        lmc_pool_run(workers, decode_worker, job);
    else
        decode_worker(job, 0);
    pthread_mutex_destroy(&job->mutex);
    if (job->status != LMC_OK)
        job->ctx->diag = job->diag;
    return job->status;
}

/* A stored frame has one hash over all blocks: all are hashed, whatever part is wanted. */
static lmc_status decode_stored(decode_job *job)
{
    const uint64_t block_count = job->frame->info.block_count;
    const lmc_allocator *const allocator = &job->ctx->allocator;
    job->entries = lmc_allocate(allocator, (size_t)(block_count + 1) * sizeof *job->entries);
    if (!job->entries)
        return lmc_fail(&job->ctx->diag, LMC_ERR_NOMEM, 0, "no memory for %llu hashes",
                        (unsigned long long)block_count);
    lmc_status status = decode_blocks(job);
    if (status == LMC_OK && lmc_content_hash(job->entries, block_count) != job->frame->content_hash)
        status = lmc_fail(&job->ctx->diag, LMC_ERR_CHECKSUM, 0, "the content does not match its checksum");
    lmc_release(allocator, job->entries);
    return status;
}

static lmc_status decode_range(lmc_ctx *ctx, const lmc_frame *frame, const uint8_t *stored,
                               const uint8_t *base, uint64_t first_byte, uint64_t nbytes, uint8_t *dst)
{
    const lmc_info *const info = &frame->info;
    if (info->mode == LMC_FRAME_DELTA && !base)
        return lmc_fail(&ctx->diag, LMC_ERR_BASE, 0, "the frame was encoded against a base");
    decode_job job = {.ctx = ctx,
                      .frame = frame,
                      .stored = stored,
                      .base = base,
                      .first_byte = first_byte,
                      .nbytes = nbytes,
                      .dst = dst,
                      .end = info->block_count};
    if (!lmc_is_coded(info))
        return decode_stored(&job);
    if (nbytes == 0)
        return LMC_OK;
    job.next = first_byte / info->block_nbytes;
    job.end = (first_byte + nbytes - 1) / info->block_nbytes + 1;
    return decode_blocks(&job);
}

/* Opens a frame that lies in memory as a whole. */
static lmc_status open_whole(lmc_ctx *ctx, const uint8_t *bytes, size_t nbytes, lmc_frame **frame)
{
    lmc_info info;
    lmc_ctx_begin(ctx);
    *frame = NULL;
    if (!bytes)
        return lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    lmc_status status = lmc_head_read(bytes, nbytes, &info, &ctx->diag);
    if (status != LMC_OK)
        return status;
    if (nbytes < least_nbytes(&info))
        return check_sizes(&info, info.head_nbytes, (size_t)info.tail_nbytes, nbytes, &ctx->diag);
    return lmc_frame_open(ctx, bytes, info.head_nbytes, bytes + nbytes - info.tail_nbytes,
                          (size_t)info.tail_nbytes, nbytes, frame);
}

lmc_status lmc_decode(lmc_ctx *ctx, const void *frame, size_t frame_nbytes, const void *base, void *dst,
                      size_t dst_capacity, size_t *dst_nbytes)
{
    lmc_frame *opened;
    if (dst_nbytes)
        *dst_nbytes = 0;
    if (!ctx)
        return LMC_ERR_ARG;
    if (!dst_nbytes)
        return lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    lmc_status status = open_whole(ctx, frame, frame_nbytes, &opened);
    if (status != LMC_OK)
        return status;
    const uint64_t content_nbytes = opened->info.content_nbytes;
    if (dst_capacity < content_nbytes)
        status = lmc_fail(&ctx->diag, LMC_ERR_DST_SMALL, 0, "the frame decodes to %llu bytes",
                          (unsigned long long)content_nbytes);
    else if (!dst && content_nbytes > 0)
        status = lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    else
        status = decode_range(ctx, opened, frame, base, 0, content_nbytes, dst);
    lmc_frame_free(opened);
    if (status == LMC_OK)
        *dst_nbytes = (size_t)content_nbytes;
    return status;
}

lmc_status lmc_decode_range(lmc_ctx *ctx, const void *frame, size_t frame_nbytes, const void *base,
                            uint64_t first_byte, size_t nbytes, void *dst)
{
    lmc_frame *opened;
    if (!ctx)
        return LMC_ERR_ARG;
    lmc_status status = open_whole(ctx, frame, frame_nbytes, &opened);
    if (status != LMC_OK)
        return status;
    const uint64_t content_nbytes = opened->info.content_nbytes;
    if (first_byte > content_nbytes || nbytes > content_nbytes - first_byte)
        status = lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "the range leaves the content of %llu bytes",
                          (unsigned long long)content_nbytes);
    else if (!dst && nbytes > 0)
        status = lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    else
        status = decode_range(ctx, opened, frame, base, first_byte, nbytes, dst);
    lmc_frame_free(opened);
    return status;
}
