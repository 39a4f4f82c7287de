/* prepare.c - adds a frame to a batch: opens it, which verifies head, plan and tail, and makes descriptors of its
 * blocks. */
#include "gpu/host/prepare.h"

#include "codec/frame/decode.h"
#include "common/abi.h"
#include "gpu/host/plan_descriptor.h"

/* Descriptors of blocks take less than 4 GiB. So thread blocks count them in 32 bits, whatever their steps. */
#define BLOCK_COUNT_MAX (UINT32_MAX / sizeof(lmc_cuda_block))

static lmc_status read_frame(lmc_cuda_batch *batch, const lmc_cuda_frame *given, lmc_cuda_frame *frame)
{
    memset(frame, 0, sizeof *frame);
    if (!given || !lmc_struct_is_known(given, sizeof *frame))
        return lmc_cuda_fail(&batch->diag, LMC_ERR_ARG, 0, "a frame's struct_size is not known");
    lmc_struct_copy(frame, given, lmc_struct_size(given));
    if (!frame->frame)
        return lmc_cuda_fail(&batch->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (frame->device_content % LMC_CUDA_ALIGNMENT != 0)
        return lmc_cuda_fail(&batch->diag, LMC_ERR_ARG, 0, "content on the device begins at a multiple of %u",
                             LMC_CUDA_ALIGNMENT);
    return LMC_OK;
}

lmc_status lmc_cuda_open(lmc_cuda_batch *batch, const lmc_cuda_frame *frame, lmc_frame **opened)
{
    const uint8_t *const bytes = frame->frame;
    lmc_info info = LMC_INIT(lmc_info);
    size_t head_nbytes = frame->frame_nbytes, tail_nbytes = 0; /* of a frame that is cut short */
    LMC_TRY(lmc_frame_read_info(bytes, frame->frame_nbytes, &info, &batch->diag));
    if (head_nbytes >= info.head_nbytes && head_nbytes - info.head_nbytes >= info.tail_nbytes) {
        head_nbytes = info.head_nbytes;
        tail_nbytes = (size_t)info.tail_nbytes;
    }
    const uint8_t *const tail = bytes + frame->frame_nbytes - tail_nbytes;
    const lmc_status status =
        lmc_frame_create(batch->ctx, bytes, head_nbytes, tail, tail_nbytes, frame->frame_nbytes, opened);
    return status == LMC_OK ? LMC_OK : lmc_cuda_fail_as_ctx(batch, status);
}

static lmc_status check_places(lmc_cuda_batch *batch, const lmc_cuda_frame *frame, const lmc_info *info)
{
    if (frame->content_capacity < info->content_nbytes)
        return lmc_cuda_fail(&batch->diag, LMC_ERR_DST_SMALL, 0, "the content takes %llu bytes",
                             (unsigned long long)info->content_nbytes);
    if (info->mode != LMC_FRAME_DELTA)
        return LMC_OK;
    if (!frame->base || frame->base_nbytes != info->base_nbytes)
        return lmc_cuda_fail(&batch->diag, LMC_ERR_BASE, 0, "the base is missing or has a wrong length");
    return LMC_OK;
}

_Static_assert(LMC_FMT_SHORT_HEAD_NBYTES >= sizeof(uint32_t) &&
                   2 * LMC_FMT_HASH_NBYTES >= LMC_CUDA_READ_AHEAD &&
                   LMC_FMT_INDEX_ENTRY_NBYTES + LMC_FMT_HASH_NBYTES >= LMC_CUDA_READ_AHEAD,
               "the least head and tail have what kernels touch beside a block");

/* Describes block i. Its sizes and its place were verified when the frame was opened. */
static void describe_block(const lmc_cuda_frame *given, const lmc_frame *frame, uint64_t i, uint32_t plan_at,
                           lmc_cuda_block *block)
{
    const lmc_offsets *const offsets = &frame->coding.offsets;
    uint64_t offset;
    size_t stored_nbytes, content_nbytes;
    if (lmc_frame_block(frame, i, &offset, &stored_nbytes, &content_nbytes) != LMC_OK)
        return;
    *block = (lmc_cuda_block){.src = given->device_frame + offset,
                              .dst = given->device_content + i * frame->info.block_nbytes,
                              .hash = frame->entries ? frame->entries[i].content_hash : 0,
                              .stored_nbytes = (uint32_t)stored_nbytes,
                              .content_nbytes = (uint32_t)content_nbytes,
                              .plan_at = plan_at};
    if (offsets->column_count != 0)
        block->first_column = (uint32_t)((i << frame->info.block_log2) % offsets->column_count);
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void extend(lmc_cuda_extent *extent, const lmc_frame *frame, const lmc_cuda_block *block)
{
    extent->content_nbytes = max_u64(extent->content_nbytes, block->content_nbytes);
    if (frame->info.mode != LMC_FRAME_CODED)
        return;
    extent->stored_nbytes = max_u64(extent->stored_nbytes, block->stored_nbytes);
    extent->value_count = max_u64(extent->value_count, block->content_nbytes / frame->info.element_nbytes);
    extent->plane_count = (unsigned)max_u64(extent->plane_count, frame->coding.plane_count);
}

static lmc_status add_blocks(lmc_cuda_batch *batch, const lmc_cuda_frame *given, const lmc_frame *frame)
{
    const uint64_t count = frame->info.block_count;
    uint32_t plan_at;
    LMC_TRY(lmc_cuda_describe_plan(batch, frame, &plan_at));
    if (count > BLOCK_COUNT_MAX - lmc_cuda_descriptor_count(batch))
        return lmc_cuda_fail(&batch->diag, LMC_ERR_LIMIT, 0,
                             "the descriptors of a batch take less than 4 GiB");
    if (count == 0)
        return LMC_OK;
    lmc_cuda_block *const blocks = lmc_cuda_append(batch, &batch->blocks, (size_t)count * sizeof *blocks);
    if (!blocks)
        return lmc_cuda_fail(&batch->diag, LMC_ERR_NOMEM, 0, "no memory for descriptors");
    const lmc_cuda_plan *const plan = (const lmc_cuda_plan *)(const void *)(batch->data.bytes + plan_at);
    batch->extent.kernels |= UINT32_C(1) << plan->kernel | UINT32_C(1) << LMC_CUDA_KERNEL_ANY;
    for (uint64_t i = 0; i < count; i++) {
        describe_block(given, frame, i, plan_at, &blocks[i]);
        extend(&batch->extent, frame, &blocks[i]);
    }
    return LMC_OK;
}

/* Why no kernel decodes the frame; 0 if one does. */
static unsigned host_reason_of(const lmc_frame *frame)
{
    if (frame->info.mode == LMC_FRAME_DELTA)
        return LMC_CUDA_REASON_DELTA;
    const int has_form = frame->narrow.is_used || frame->coding.rans;
    return frame->info.mode == LMC_FRAME_CODED && has_form ? LMC_CUDA_REASON_FORM : 0;
}

/* Adds an opened frame. The member comes last: without it, descriptors of the frame are cut off again. */
static lmc_status add_frame(lmc_cuda_batch *batch, const lmc_cuda_frame *given, const lmc_frame *frame)
{
    const lmc_info *const info = &frame->info;
    const uint64_t first_block = lmc_cuda_descriptor_count(batch);
    const unsigned host_reason = host_reason_of(frame);
    LMC_TRY(check_places(batch, given, info));
    if (host_reason == 0)
        LMC_TRY(add_blocks(batch, given, frame));
    lmc_cuda_member *const member = lmc_cuda_append(batch, &batch->members, sizeof *member);
    if (!member)
        return lmc_cuda_fail(&batch->diag, LMC_ERR_NOMEM, 0, "no memory for a frame");
    *member = (lmc_cuda_member){*given, *info, lmc_frame_content_hash(frame), first_block, host_reason};
    batch->block_count += info->block_count;
    batch->content_nbytes += info->content_nbytes;
    batch->host_block_count += host_reason != 0 ? info->block_count : 0;
    return LMC_OK;
}

lmc_status lmc_cuda_prepare(lmc_cuda_batch *batch, const lmc_cuda_frame *frame)
{
    lmc_cuda_frame given;
    lmc_frame *opened;
    if (!batch)
        return LMC_ERR_ARG;
    const size_t blocks_nbytes = batch->blocks.nbytes, data_nbytes = batch->data.nbytes;
    const lmc_cuda_extent extent = batch->extent;
    batch->diag.status = LMC_OK;
    LMC_TRY(read_frame(batch, frame, &given));
    LMC_TRY(lmc_cuda_open(batch, &given, &opened));
    const lmc_status status = add_frame(batch, &given, opened);
    lmc_frame_free(opened);
    if (status != LMC_OK) {
        batch->blocks.nbytes = blocks_nbytes;
        batch->data.nbytes = data_nbytes;
        batch->extent = extent;
    }
    return status;
}
