/* batch.c - creates, describes and frees batches; their memory and their diagnostic. */
#include "gpu/host/batch.h"

#include "common/abi.h"
#include "common/allocator.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- diagnostics ---- */

lmc_status lmc_cuda_fail(lmc_diag *diag, lmc_status status, uint64_t offset, const char *format, ...)
{
    va_list arguments;
    diag->status = status;
    diag->offset = offset;
    va_start(arguments, format);
    vsnprintf(diag->text, sizeof diag->text, format, arguments);
    va_end(arguments);
    return status;
}

lmc_status lmc_cuda_fail_as_ctx(lmc_cuda_batch *batch, lmc_status status)
{
    batch->diag = *lmc_ctx_diag(batch->ctx);
    return status;
}

const lmc_diag *lmc_cuda_diag(const lmc_cuda_batch *batch)
{
    return &batch->diag;
}

const char *lmc_cuda_reason_text(lmc_cuda_reason reason)
{
    switch (reason) {
    case LMC_CUDA_REASON_DELTA: return "a delta";
    case LMC_CUDA_REASON_PENDING: return "not decoded by the device";
    case LMC_CUDA_REASON_FORM: return "a form that only the host decodes";
    }
    return "unknown reason";
}

/* ---- memory ---- */

void *lmc_cuda_allocate(lmc_cuda_batch *batch, size_t nbytes)
{
    return batch->allocator.allocate(batch->allocator.user, nbytes);
}

void lmc_cuda_release(lmc_cuda_batch *batch, void *pointer)
{
    if (pointer)
        batch->allocator.release(batch->allocator.user, pointer);
}

static int grow(lmc_cuda_batch *batch, lmc_cuda_bytes *bytes, size_t nbytes)
{
    if (nbytes <= bytes->capacity)
        return 1;
    const size_t capacity = nbytes < SIZE_MAX / 2 ? 2 * nbytes : nbytes;
    uint8_t *const larger = lmc_cuda_allocate(batch, capacity);
    if (!larger)
        return 0;
    if (bytes->nbytes > 0)
        memcpy(larger, bytes->bytes, bytes->nbytes);
    lmc_cuda_release(batch, bytes->bytes);
    bytes->bytes = larger;
    bytes->capacity = capacity;
    return 1;
}

void *lmc_cuda_append(lmc_cuda_batch *batch, lmc_cuda_bytes *bytes, size_t nbytes)
{
    if (nbytes > SIZE_MAX - bytes->nbytes || !grow(batch, bytes, bytes->nbytes + nbytes))
        return NULL;
    uint8_t *const appended = bytes->bytes + bytes->nbytes;
    memset(appended, 0, nbytes);
    bytes->nbytes += nbytes;
    return appended;
}

uint64_t lmc_cuda_member_count(const lmc_cuda_batch *batch)
{
    return batch->members.nbytes / sizeof(lmc_cuda_member);
}

const lmc_cuda_member *lmc_cuda_member_at(const lmc_cuda_batch *batch, uint64_t i)
{
    return (const lmc_cuda_member *)(const void *)batch->members.bytes + i;
}

uint64_t lmc_cuda_descriptor_count(const lmc_cuda_batch *batch)
{
    return batch->blocks.nbytes / sizeof(lmc_cuda_block);
}

/* ---- batches ---- */

lmc_status lmc_cuda_batch_create(const lmc_allocator *allocator, lmc_cuda_batch **batch)
{
    const lmc_allocator chosen = allocator ? *allocator : lmc_memory_default;
    if (!batch)
        return LMC_ERR_ARG;
    *batch = NULL;
    if (!chosen.allocate || !chosen.release)
        return LMC_ERR_ARG;
    lmc_cuda_batch *const made = chosen.allocate(chosen.user, sizeof *made);
    if (!made)
        return LMC_ERR_NOMEM;
    memset(made, 0, sizeof *made);
    made->allocator = chosen;
    made->diag.struct_size = sizeof made->diag;
    const lmc_status status = lmc_ctx_create(allocator, &made->ctx);
    if (status != LMC_OK)
        chosen.release(chosen.user, made);
    else
        *batch = made;
    return status;
}

void lmc_cuda_batch_free(lmc_cuda_batch *batch)
{
    if (!batch)
        return;
    lmc_ctx_free(batch->ctx);
    lmc_cuda_release(batch, batch->members.bytes);
    lmc_cuda_release(batch, batch->blocks.bytes);
    lmc_cuda_release(batch, batch->data.bytes);
    lmc_cuda_release(batch, batch->failures.bytes);
    const lmc_allocator allocator = batch->allocator;
    allocator.release(allocator.user, batch);
}

void lmc_cuda_batch_clear(lmc_cuda_batch *batch)
{
    batch->members.nbytes = batch->blocks.nbytes = batch->data.nbytes = batch->failures.nbytes = 0;
    batch->extent = (lmc_cuda_extent){0};
    batch->block_count = batch->host_block_count = batch->content_nbytes = 0;
}

static uint64_t aligned(uint64_t nbytes)
{
    return (nbytes + LMC_CUDA_SLACK - 1) / LMC_CUDA_SLACK * LMC_CUDA_SLACK;
}

lmc_cuda_scratch lmc_cuda_scratch_layout(const lmc_cuda_batch *batch)
{
    const lmc_cuda_extent *const extent = &batch->extent;
    const uint64_t plane_nbytes = aligned(extent->value_count) + LMC_CUDA_SLACK;
    const uint64_t flags_nbytes = aligned(extent->value_count / 8) + LMC_CUDA_SLACK;
    lmc_cuda_scratch layout = {.plane_nbytes = plane_nbytes};
    uint64_t at = extent->plane_count * plane_nbytes;
    layout.list_at[0] = at;
    layout.list_at[1] = at += plane_nbytes;
    layout.exceptions_at = at += plane_nbytes;
    layout.bitset_at = at += plane_nbytes;
    layout.mask_at = at += flags_nbytes;
    layout.hierarchy_at = at += flags_nbytes;
    /* At each depth there are two bitsets of half the flags of the depth above. */
    at += aligned(extent->value_count / 4) + aligned(8 * LMC_CUDA_FLAGS_SLACK_WORDS * LMC_FMT_BLOCK_LOG2_MAX);
    layout.ranks_at = at;
    /* Unary planes take no more bits than the block has, and each may end within a group of 128 bits. */
    layout.rank_count = extent->stored_nbytes / 16 + LMC_FMT_GAP_UNARY_COUNT_MAX;
    layout.sums_at = at += aligned(4 * layout.rank_count);
    layout.nbytes = at + aligned(extent->content_nbytes / 1024 * 64);
    return layout;
}

lmc_status lmc_cuda_batch_info(const lmc_cuda_batch *batch, lmc_cuda_info *info)
{
    if (!lmc_struct_is_known(info, sizeof *info))
        return LMC_ERR_ARG;
    const lmc_cuda_info full = {.frame_count = lmc_cuda_member_count(batch),
                                .block_count = batch->block_count,
                                .content_nbytes = batch->content_nbytes,
                                .host_block_count = batch->host_block_count,
                                .image_nbytes = batch->blocks.nbytes + batch->data.nbytes,
                                .results_nbytes =
                                    (size_t)lmc_cuda_descriptor_count(batch) * sizeof(lmc_cuda_result),
                                .scratch_nbytes_least = (size_t)lmc_cuda_scratch_layout(batch).nbytes};
    lmc_struct_copy(info, &full, lmc_struct_size(info));
    return LMC_OK;
}

lmc_status lmc_cuda_write_image(lmc_cuda_batch *batch, void *dst, size_t dst_capacity)
{
    const size_t nbytes = batch->blocks.nbytes + batch->data.nbytes;
    batch->diag.status = LMC_OK;
    if (!dst && nbytes > 0)
        return lmc_cuda_fail(&batch->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (dst_capacity < nbytes)
        return lmc_cuda_fail(&batch->diag, LMC_ERR_DST_SMALL, 0, "the image takes %zu bytes", nbytes);
    if (batch->blocks.nbytes > 0)
        memcpy(dst, batch->blocks.bytes, batch->blocks.nbytes);
    if (batch->data.nbytes > 0)
        memcpy((uint8_t *)dst + batch->blocks.nbytes, batch->data.bytes, batch->data.nbytes);
    return LMC_OK;
}
