/* decode_pieces.c - opens frames and decodes single blocks: the decoding pieces of the public interface. */
#include "codec/frame/decode.h"

#include "codec/delta/delta.h"
#include "codec/delta/delta_plan.h"

/* ---- opening ---- */

lmc_status lmc_frame_check_sizes(const lmc_info *info, size_t head_nbytes, size_t tail_nbytes,
                                 uint64_t frame_nbytes, lmc_diag *diag)
{
    if (frame_nbytes < info->frame_nbytes_min)
        return lmc_fail(diag, LMC_ERR_TRUNCATED, frame_nbytes, "frame: %llu bytes where %llu are the least",
                        (unsigned long long)frame_nbytes, (unsigned long long)info->frame_nbytes_min);
    if (!lmc_is_coded(info) && frame_nbytes != info->frame_nbytes_min)
        return lmc_corrupt(diag, info->frame_nbytes_min, "frame: bytes after its end");
    if (head_nbytes != info->head_nbytes || tail_nbytes != info->tail_nbytes)
        return lmc_fail(diag, LMC_ERR_ARG, 0, "a head of %zu and a tail of %llu bytes were wanted",
                        info->head_nbytes, (unsigned long long)info->tail_nbytes);
    return LMC_OK;
}

/* Reads the plan section of a coded frame. */
static lmc_status read_coding(lmc_ctx *ctx, lmc_frame *frame, const uint8_t *head)
{
    const uint8_t *const section = head + LMC_FMT_HEAD_NBYTES;
    lmc_offsets *const offsets = &frame->coding.offsets;
    lmc_status status = LMC_OK;
    const uint32_t features = lmc_head_features(&frame->info, head);
    if (features & LMC_FMT_FEATURE_RANS) {
        frame->rans = lmc_ctx_allocate(ctx, sizeof *frame->rans);
        if (!frame->rans)
            return lmc_fail(&ctx->diag, LMC_ERR_NOMEM, 0, "no memory for a rANS code");
    }
    LMC_TRY(lmc_section_read(section, lmc_section_nbytes(&frame->info), features, frame->info.element_nbytes,
                             &frame->narrow, frame->tables, frame->rans, &frame->coding, &ctx->diag));
    if (!offsets->packed)
        return LMC_OK;
    frame->columns =
        lmc_allocate_array(ctx, offsets->column_count, sizeof *frame->columns, "columns", &status);
    if (!frame->columns)
        return status;
    lmc_offsets_unpack(offsets, frame->columns);
    offsets->columns = frame->columns;
    offsets->packed = NULL; /* the head may go */
    return LMC_OK;
}

/* Allocates and fills what head and tail hold. */
static lmc_status fill_frame(lmc_ctx *ctx, lmc_frame *frame, const uint8_t *head, const uint8_t *tail,
                             uint64_t frame_nbytes)
{
    lmc_diag *const diag = &ctx->diag;
    const lmc_info *const info = &frame->info;
    const uint64_t count = info->block_count;
    lmc_status status = LMC_OK;
    if (!lmc_is_coded(info)) {
        LMC_TRY(lmc_tail_check(info, head, tail, diag));
        frame->content_hash = lmc_load64(tail);
        return LMC_OK;
    }
    frame->entries = lmc_allocate_array(ctx, count, sizeof *frame->entries, "blocks", &status);
    if (frame->entries)
        frame->offsets = lmc_allocate_array(ctx, count + 1, sizeof *frame->offsets, "blocks", &status);
    LMC_TRY(status);
    LMC_TRY(lmc_tail_check(info, head, tail, diag));
    if (info->mode == LMC_FRAME_DELTA)
        status = lmc_delta_read(head + LMC_FMT_HEAD_NBYTES, lmc_section_nbytes(info), info->element_nbytes,
                                &frame->delta, diag);
    else
        status = read_coding(ctx, frame, head);
    LMC_TRY(lmc_diag_shift(diag, status, LMC_FMT_HEAD_NBYTES));
    LMC_TRY(lmc_index_read(info, tail, frame_nbytes, frame->entries, frame->offsets, diag));
    frame->content_hash = lmc_content_hash(frame->entries, count);
    if (info->mode == LMC_FRAME_DELTA)
        frame->base_hash = lmc_base_hash(frame->entries, count);
    return LMC_OK;
}

lmc_status lmc_frame_parse(lmc_ctx *ctx, const uint8_t *head, size_t head_nbytes, const uint8_t *tail,
                           size_t tail_nbytes, uint64_t frame_nbytes, lmc_frame **frame)
{
    lmc_info info;
    *frame = NULL;
    LMC_TRY(lmc_head_read(head, head_nbytes, &info, &ctx->diag));
    LMC_TRY(lmc_frame_check_sizes(&info, head_nbytes, tail_nbytes, frame_nbytes, &ctx->diag));
    const unsigned tables = info.mode == LMC_FRAME_CODED ? LMC_FMT_PLANE_COUNT_MAX : 0;
    lmc_frame *const made = lmc_ctx_allocate(ctx, sizeof *made + tables * sizeof made->tables[0]);
    if (!made)
        return lmc_fail(&ctx->diag, LMC_ERR_NOMEM, 0, "no memory for a frame");
    memset(made, 0, sizeof *made);
    made->allocator = ctx->allocator;
    made->info = info;
    const lmc_status status = fill_frame(ctx, made, head, tail, frame_nbytes);
    if (status != LMC_OK)
        lmc_frame_free(made);
    else
        *frame = made;
    return status;
}

lmc_status lmc_frame_create(lmc_ctx *ctx, const void *head, size_t head_nbytes, const void *tail,
                            size_t tail_nbytes, uint64_t frame_nbytes, lmc_frame **frame)
{
    if (frame)
        *frame = NULL;
    if (!lmc_ctx_begin(ctx))
        return LMC_ERR_ARG;
    const lmc_status status =
        head && tail && frame
            ? lmc_frame_parse(ctx, head, head_nbytes, tail, tail_nbytes, frame_nbytes, frame)
            : lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    return lmc_ctx_end(ctx, status);
}

void lmc_frame_free(lmc_frame *frame)
{
    if (!frame)
        return;
    const lmc_allocator allocator = frame->allocator;
    lmc_release(&allocator, frame->entries);
    lmc_release(&allocator, frame->offsets);
    lmc_release(&allocator, frame->columns);
    lmc_release(&allocator, frame->rans);
    lmc_release(&allocator, frame);
}

lmc_status lmc_frame_info(const lmc_frame *frame, lmc_info *info)
{
    return lmc_info_give(info, &frame->info);
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

uint64_t lmc_frame_block_offset(const lmc_frame *frame, uint64_t i)
{
    return lmc_is_coded(&frame->info) ? frame->offsets[i]
                                      : frame->info.head_nbytes + i * frame->info.block_nbytes;
}

size_t lmc_frame_block_stored_nbytes(const lmc_frame *frame, uint64_t i)
{
    return lmc_is_coded(&frame->info) ? frame->entries[i].stored_nbytes
                                      : lmc_block_content_nbytes(&frame->info, i);
}

lmc_status lmc_frame_block(const lmc_frame *frame, uint64_t block_index, uint64_t *offset,
                           size_t *stored_nbytes, size_t *content_nbytes)
{
    if (offset)
        *offset = 0;
    if (stored_nbytes)
        *stored_nbytes = 0;
    if (content_nbytes)
        *content_nbytes = 0;
    if (!frame || !offset || !stored_nbytes || !content_nbytes || block_index >= frame->info.block_count)
        return LMC_ERR_ARG;
    *offset = lmc_frame_block_offset(frame, block_index);
    *stored_nbytes = lmc_frame_block_stored_nbytes(frame, block_index);
    *content_nbytes = lmc_block_content_nbytes(&frame->info, block_index);
    return LMC_OK;
}

lmc_status lmc_frame_check_stored(const lmc_info *info, uint64_t content_nbytes, const lmc_stored *stored,
                                  const uint8_t *dst, size_t dst_nbytes, lmc_diag *diag)
{
    LMC_TRY(lmc_check_apart("what is decoded", stored->bytes, stored->nbytes, dst, dst_nbytes, diag));
    if (info->mode != LMC_FRAME_DELTA)
        return LMC_OK;
    if (!stored->base)
        return lmc_fail(diag, LMC_ERR_BASE, 0, "the frame was encoded against a base");
    return lmc_base_check(info->base_form, content_nbytes, stored->base, stored->base_nbytes, dst, dst_nbytes,
                          diag);
}

lmc_status lmc_frame_reserve(lmc_ctx *ctx, const lmc_frame *frame, size_t content_nbytes)
{
    const lmc_info *const info = &frame->info;
    const int has_deltas = info->mode == LMC_FRAME_DELTA, has_narrow = frame->narrow.is_used;
    const size_t value_count = (size_t)lmc_div_ceil(content_nbytes, info->element_nbytes);
    if (!lmc_is_coded(info))
        return LMC_OK;
    if (has_deltas && info->base_form != LMC_BASE_PLAIN)
        LMC_TRY(lmc_ctx_reserve_base_values(ctx, content_nbytes));
    return lmc_ctx_reserve_scratch(
        ctx, &(lmc_scratch_size){value_count, info->element_nbytes, has_deltas, has_narrow});
}

lmc_status lmc_frame_decode_block(lmc_ctx *ctx, const lmc_frame *frame, uint64_t i, lmc_stored *block,
                                  uint8_t *dst, uint64_t *hash, lmc_diag *diag)
{
    const lmc_kernels *const kernels = lmc_kernels_get();
    const lmc_info *const info = &frame->info;
    const size_t content_nbytes = lmc_block_content_nbytes(info, i);
    lmc_status status;
    if (!lmc_is_coded(info)) {
        memcpy(dst, block->bytes, content_nbytes);
        *hash = kernels->hash(dst, content_nbytes, 0);
        return LMC_OK;
    }
    status = lmc_frame_reserve(ctx, frame, content_nbytes);
    block->first = i << info->block_log2;
    block->base_hash = frame->entries[i].base_hash;
    if (status == LMC_OK && info->mode == LMC_FRAME_DELTA) {
        const lmc_delta_job job = {.kernels = kernels,
                                   .delta = &frame->delta,
                                   .bucket_code = ctx->bucket_code,
                                   .scratch = &ctx->scratch,
                                   .element_nbytes = info->element_nbytes,
                                   .base_form = info->base_form,
                                   .base_values = ctx->base_values,
                                   .past_cache = block->past_cache,
                                   .changes = block->changes};
        status = lmc_delta_decode(&job, block, dst, content_nbytes, hash, diag);
        if (status == LMC_ERR_BASE)
            status = lmc_fail(diag, LMC_ERR_BASE, 0, "block %llu was encoded against another base",
                              (unsigned long long)i);
    } else if (status == LMC_OK) {
        const lmc_narrow_coder coder = {.plain = {kernels, &frame->coding, &ctx->scratch},
                                        .narrow = &frame->narrow};
        status = lmc_narrow_block_decode(&coder, block, dst, content_nbytes, hash, diag);
    }
    LMC_TRY(lmc_diag_shift(diag, status, lmc_frame_block_offset(frame, i)));
    if (*hash != frame->entries[i].content_hash)
        return lmc_fail(diag, LMC_ERR_CHECKSUM, lmc_frame_block_offset(frame, i),
                        "block %llu does not match its checksum", (unsigned long long)i);
    return LMC_OK;
}

/* The frame must have this block, of so many stored bytes. */
static lmc_status check_block(const lmc_frame *frame, uint64_t block_index, const lmc_stored *block,
                              lmc_diag *diag)
{
    if (!frame || !block->bytes)
        return lmc_fail(diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (block_index >= frame->info.block_count ||
        block->nbytes != lmc_frame_block_stored_nbytes(frame, block_index))
        return lmc_fail(diag, LMC_ERR_ARG, 0, "no block %llu of %zu stored bytes",
                        (unsigned long long)block_index, block->nbytes);
    return LMC_OK;
}

lmc_status lmc_decode_block(lmc_ctx *ctx, const lmc_frame *frame, uint64_t block_index, const void *stored,
                            size_t stored_nbytes, void *dst, size_t dst_capacity, lmc_block_entry *entry)
{
    return lmc_decode_delta_block(ctx, frame, block_index, stored, stored_nbytes, NULL, 0, dst, dst_capacity,
                                  entry);
}

lmc_status lmc_decode_delta_block(lmc_ctx *ctx, const lmc_frame *frame, uint64_t block_index,
                                  const void *stored, size_t stored_nbytes, const void *base,
                                  size_t base_nbytes, void *dst, size_t dst_capacity, lmc_block_entry *entry)
{
    lmc_stored block = {.bytes = stored, .nbytes = stored_nbytes, .base = base, .base_nbytes = base_nbytes};
    uint64_t hash;
    if (entry)
        memset(entry, 0, sizeof *entry);
    if (!lmc_ctx_begin(ctx))
        return LMC_ERR_ARG;
    lmc_status status = check_block(frame, block_index, &block, &ctx->diag);
    if (status == LMC_OK) {
        const size_t content_nbytes = lmc_block_content_nbytes(&frame->info, block_index);
        if (!dst || (!entry && !lmc_is_coded(&frame->info)))
            status = lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
        else if (dst_capacity < content_nbytes)
            status =
                lmc_fail(&ctx->diag, LMC_ERR_DST_SMALL, 0, "a block decodes to %zu bytes", content_nbytes);
        else
            status =
                lmc_frame_check_stored(&frame->info, content_nbytes, &block, dst, content_nbytes, &ctx->diag);
    }
    if (status == LMC_OK)
        status = lmc_frame_decode_block(ctx, frame, block_index, &block, dst, &hash, &ctx->diag);
    if (status == LMC_OK && entry)
        *entry = (lmc_block_entry){(uint32_t)stored_nbytes, hash,
                                   lmc_is_coded(&frame->info) ? frame->entries[block_index].base_hash : 0};
    return lmc_ctx_end(ctx, status);
}

/* The changes of a block can be told by their places and values, and its base is there. */
static lmc_status check_changes(const lmc_frame *frame, uint64_t block_index, const lmc_stored *block,
                                const lmc_changes *changes, lmc_diag *diag)
{
    LMC_TRY(check_block(frame, block_index, block, diag));
    const lmc_info *const info = &frame->info;
    if (changes->capacity > 0 && (!changes->places || !changes->values))
        return lmc_fail(diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (info->mode != LMC_FRAME_DELTA || info->base_form != LMC_BASE_PLAIN)
        return lmc_fail(diag, LMC_ERR_ARG, 0, "the frame was not encoded against a base of its dtype");
    if (info->content_nbytes % info->element_nbytes != 0)
        return lmc_fail(diag, LMC_ERR_ARG, 0, "the content is not whole elements");
    if (!block->base)
        return lmc_fail(diag, LMC_ERR_BASE, 0, "the frame was encoded against a base");
    const size_t content_nbytes = lmc_block_content_nbytes(info, block_index);
    LMC_TRY(lmc_base_check_nbytes(info->base_form, content_nbytes, block->base_nbytes, diag));
    const size_t most = lmc_min_size(changes->capacity, content_nbytes / info->element_nbytes);
    const void *const rooms[] = {changes->places, changes->values};
    const size_t nbytes[] = {most * sizeof *changes->places, most * info->element_nbytes};
    LMC_TRY(lmc_check_apart("the places", rooms[0], nbytes[0], rooms[1], nbytes[1], diag));
    for (size_t i = 0; i < LMC_COUNT(rooms); i++) {
        LMC_TRY(lmc_check_apart("the base", block->base, block->base_nbytes, rooms[i], nbytes[i], diag));
        LMC_TRY(lmc_check_apart("what is decoded", block->bytes, block->nbytes, rooms[i], nbytes[i], diag));
    }
    return LMC_OK;
}

lmc_status lmc_decode_delta_changes(lmc_ctx *ctx, const lmc_frame *frame, uint64_t block_index,
                                    const void *stored, size_t stored_nbytes, const void *base,
                                    size_t base_nbytes, lmc_changes *changes)
{
    lmc_stored block = {.bytes = stored,
                        .nbytes = stored_nbytes,
                        .base = base,
                        .base_nbytes = base_nbytes,
                        .changes = changes};
    uint64_t hash;
    if (changes)
        changes->count = 0;
    if (!lmc_ctx_begin(ctx))
        return LMC_ERR_ARG;
    lmc_status status = changes ? check_changes(frame, block_index, &block, changes, &ctx->diag)
                                : lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (status == LMC_OK)
        status = lmc_frame_decode_block(ctx, frame, block_index, &block, NULL, &hash, &ctx->diag);
    if (status != LMC_OK && changes)
        changes->count = 0;
    return lmc_ctx_end(ctx, status);
}
