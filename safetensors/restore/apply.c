/*
 * apply.c - puts changes into memory that holds the bases. All is verified before anything is written, so nothing is
 * left that can fail but the memory itself.
 */
#include "safetensors/restore/changes.h"

#include <stdlib.h> /* qsort */
#include <string.h>

typedef struct applying {
    const lmc_st_changes *changes;
    void *const *dsts;
} applying;

/* The memory of one tensor. */
typedef struct extent {
    uintptr_t begin, end;
    size_t number;
} extent;

static int compare_extents(const void *left, const void *right)
{
    const extent *const a = left, *const b = right;
    return a->begin != b->begin ? (a->begin > b->begin) - (a->begin < b->begin)
                                : (a->number > b->number) - (a->number < b->number);
}

/* Tensors may share memory only if they have the same content, too: aliases. */
static lmc_status check_memory(const lmc_st_changes *changes, void *const *dsts, lmc_st_diag *diag)
{
    const lmc_st_file *const file = changes->file;
    extent *const extents =
        st_allocate_array(&changes->memory, changes->tensor_count + (uint64_t)1, sizeof *extents);
    size_t count = 0;
    lmc_status status = extents ? LMC_OK : st_fail_nomem(diag);
    for (size_t i = 0; i < changes->tensor_count && status == LMC_OK; i++) {
        const size_t index = (size_t)changes->indices[i];
        const uint64_t nbytes = st_file_tensor_nbytes(file, index);
        if (nbytes == 0)
            continue;
        const uintptr_t begin = (uintptr_t)dsts[i];
        if (!dsts[i])
            status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "has no memory");
        else if (changes->tensors[i].owner == changes->tensor_count)
            status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "equals another tensor, which is left out");
        else
            extents[count++] = (extent){begin, begin + (size_t)nbytes, i};
        status = st_file_blame(file, index, status, diag);
    }
    if (status == LMC_OK)
        qsort(extents, count, sizeof *extents, compare_extents);
    for (size_t i = 1; i < count && status == LMC_OK; i++) {
        const extent *const a = &extents[i - 1], *const b = &extents[i];
        const int is_one = a->begin == b->begin && a->end == b->end &&
                           changes->tensors[a->number].owner == changes->tensors[b->number].owner;
        if (b->begin < a->end && !is_one)
            status = st_file_blame(file, (size_t)changes->indices[b->number],
                                   st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                                           "shares memory with another tensor, but is to differ from it"),
                                   diag);
    }
    st_release(&changes->memory, extents);
    return status;
}

/* Memory that was not verified when the changes were found, because the base was read from elsewhere, is now. */
static lmc_status check_base(void *user, st_worker *worker, st_slot *slot, const st_part *part)
{
    const applying *const applying = user;
    const st_tensor_changes *const tensor = &applying->changes->tensors[slot->index];
    const void *const dst = applying->dsts[slot->index];
    (void)part;
    return !tensor->blocks || dst == tensor->base
               ? LMC_OK
               : st_changes_check_memory(applying->changes, slot->index, dst, &worker->diag);
}

static const st_engine_ops checking_ops = {.do_part = check_base};

/* Puts the elements in their places. element_nbytes is a constant wherever this is used. */
static inline void scatter(const st_block_changes *changes, const size_t element_nbytes, unsigned char *dst)
{
    for (size_t i = 0; i < changes->count; i++)
        memcpy(dst + changes->places[i] * element_nbytes, changes->values + i * element_nbytes,
               element_nbytes);
}

static lmc_status prepare_applying(void *user, st_worker *worker, st_slot *slot)
{
    const applying *const applying = user;
    const st_tensor_changes *const tensor = &applying->changes->tensors[slot->index];
    st_changing *opened = NULL;
    int is_decoded_again = !tensor->blocks;
    if (tensor->owner != slot->index)
        return LMC_OK;
    for (uint64_t b = 0; b < tensor->info.block_count && !is_decoded_again; b++)
        is_decoded_again = !tensor->blocks[b].is_kept;
    if (is_decoded_again)
        LMC_TRY(st_changing_open(applying->changes, slot->index, worker->ctx, &opened, &worker->diag));
    slot->item = opened;
    slot->content_nbytes = tensor->info.content_nbytes;
    slot->block_nbytes = tensor->info.block_nbytes;
    slot->block_count = tensor->info.block_count;
    return LMC_OK;
}

static lmc_status apply_part(void *user, st_worker *worker, st_slot *slot, const st_part *part)
{
    const applying *const applying = user;
    const st_tensor_changes *const tensor = &applying->changes->tensors[slot->index];
    for (uint64_t b = part->first_block; b < part->first_block + part->block_count; b++) {
        unsigned char *const dst = (unsigned char *)applying->dsts[slot->index] + b * slot->block_nbytes;
        const st_block_changes *const kept =
            tensor->blocks && tensor->blocks[b].is_kept ? &tensor->blocks[b] : NULL;
        switch (kept ? tensor->info.element_nbytes : 0) {
        case 1: scatter(kept, 1, dst); continue;
        case 2: scatter(kept, 2, dst); continue;
        case 4: scatter(kept, 4, dst); continue;
        case 8: scatter(kept, 8, dst); continue;
        default: break; /* the block is decoded again */
        }
        const uint64_t left = slot->content_nbytes - b * slot->block_nbytes;
        const st_part block = {.first_block = b,
                               .content_nbytes =
                                   left < slot->block_nbytes ? (size_t)left : slot->block_nbytes};
        st_blocks blocks;
        LMC_TRY(st_changing_read_stored(slot->item, worker, slot, &block, &blocks));
        blocks.base = tensor->blocks ? dst : NULL;
        LMC_TRY(st_changing_decode(slot->item, worker, &blocks));
        memcpy(dst, blocks.dst, blocks.dst_nbytes);
    }
    return LMC_OK;
}

static const st_engine_ops applying_ops = {.prepare = prepare_applying,
                                           .do_part = apply_part,
                                           .finish = st_changing_finish,
                                           .release = st_changing_release};

lmc_status lmc_st_changes_apply(const lmc_st_changes *changes, void *const *dsts,
                                const lmc_st_options *options, lmc_st_diag *diag)
{
    st_call call;
    applying applying = {changes, dsts};
    lmc_status status = st_call_begin_plain(&call, changes->file->path, options, diag);
    if (!call.has_allocator)
        call.options.allocator = &changes->memory;
    call.options.cancel = NULL; /* what has begun to be written must be finished */
    if (status == LMC_OK)
        status = check_memory(changes, dsts, call.diag);
    st_options silent = call.options;
    silent.progress = NULL;
    int is_other = 0; /* than the memory that was verified */
    for (size_t i = 0; i < changes->tensor_count; i++)
        is_other |= dsts[i] != changes->tensors[i].base;
    if (status == LMC_OK && is_other && changes->use != LMC_ST_CHANGES_UNCHECKED)
        status = st_engine_run(&checking_ops, &applying, changes->tensor_count, changes->nbytes, &silent,
                               call.diag);
    if (status == LMC_OK)
        status = st_engine_run(&applying_ops, &applying, changes->tensor_count, changes->nbytes,
                               &call.options, call.diag);
    for (size_t i = 0; i < changes->tensor_count && status == LMC_OK; i++) {
        const size_t owner = changes->tensors[i].owner;
        const uint64_t nbytes = st_file_tensor_nbytes(changes->file, (size_t)changes->indices[i]);
        if (nbytes > 0 && owner != i && dsts[i] != dsts[owner]) /* without bytes, the owner may be left out */
            memcpy(dsts[i], dsts[owner], (size_t)nbytes);
    }
    return st_call_end(&call, status);
}
