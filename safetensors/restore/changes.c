/*
 * changes.c - finds what an archive changes of the tensors that it was coded against, and lists it. All is decoded and
 * verified before anything is given out.
 */
#include "safetensors/restore/changes.h"
#include "safetensors/archive/table.h"

#include <string.h>

/* A block with more changes than one in so many elements is decoded again when they are applied. So what is kept takes
 * at most 5/8 of the bytes of the tensors if elements have one byte, 3/8 if they have two, less for wider ones. */
#define KEPT_STEP 8

/* ---- frames ---- */

static void close_changing(st_changing *tensor)
{
    st_frame_close(&tensor->frame);
    st_content_free(&tensor->base);
    st_release(tensor->memory, tensor->entries);
    st_release(tensor->memory, tensor);
}

lmc_status st_changing_open(const lmc_st_changes *changes, size_t number, lmc_ctx *ctx, st_changing **opened,
                            lmc_st_diag *diag)
{
    const lmc_st_file *const file = changes->file;
    const size_t index = (size_t)changes->indices[number];
    const st_link *const link = st_bases_find(&file->bases, index);
    st_changing *const tensor = st_allocate_zeroed(&changes->memory, 1, sizeof *tensor);
    *opened = NULL;
    if (!tensor)
        return st_fail_nomem(diag);
    tensor->memory = &changes->memory;
    lmc_status status = st_frame_open(&tensor->frame, file, NULL, ctx, index, diag);
    const lmc_info *const info = &tensor->frame.info;
    const int is_delta = status == LMC_OK && info->mode == LMC_FRAME_DELTA;
    if (is_delta && link && link->place == LMC_ST_BASE_SELF)
        status =
            st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                    "was coded against another tensor of the same file: it can be read, but not applied");
    else if (is_delta && info->base_form != LMC_BASE_PLAIN)
        status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                         "was coded against a base of dtype %s: it can be read, but not applied",
                         lmc_dtype_name(lmc_base_rounding(info->base_form)->base_dtype));
    status = st_file_blame(file, index, status, diag);
    if (status == LMC_OK && is_delta && !changes->tensors[number].base)
        status = st_content_blame(
            file, index, st_content_open_base(&tensor->base, &tensor->frame, ctx, &changes->memory, diag),
            diag);
    if (status == LMC_OK && !st_frame_has_index(info)) {
        tensor->entries =
            st_allocate_zeroed(&changes->memory, info->block_count + 1, sizeof *tensor->entries);
        status = tensor->entries ? LMC_OK : st_fail_nomem(diag);
    }
    if (status == LMC_OK)
        *opened = tensor;
    else
        close_changing(tensor);
    return status;
}

lmc_status st_changing_finish(void *user, st_worker *worker, st_slot *slot)
{
    const st_changing *const tensor = slot->item;
    (void)user;
    return tensor && tensor->entries ? st_frame_check_entries(&tensor->frame, tensor->entries, &worker->diag)
                                     : LMC_OK;
}

void st_changing_release(void *user, st_slot *slot)
{
    (void)user;
    if (slot->item)
        close_changing(slot->item);
    slot->item = NULL;
}

lmc_status st_changes_check_memory(const lmc_st_changes *changes, size_t number, const unsigned char *memory,
                                   lmc_st_diag *diag)
{
    const st_tensor_changes *const tensor = &changes->tensors[number];
    const lmc_info *const info = &tensor->info;
    st_hasher hasher;
    st_hasher_init(&hasher);
    for (uint64_t at = 0; at < info->content_nbytes; at += info->block_nbytes) {
        const uint64_t left = info->content_nbytes - at;
        unsigned char word[8];
        lmc_store64(word,
                    st_hash(memory + at, left < info->block_nbytes ? (size_t)left : info->block_nbytes));
        st_hasher_add(&hasher, word, sizeof word);
    }
    const uint64_t hash = st_hasher_finish(&hasher);
    if (hash == tensor->base_hash)
        return LMC_OK;
    st_fail(diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET,
            hash == tensor->content_hash
                ? "the changes were applied before: the tensor in memory is what they lead to"
                : "the tensor in memory is not the one that the changes were made against");
    return st_file_blame(changes->file, (size_t)changes->indices[number], LMC_ERR_BASE, diag);
}

/* ---- finding: the engine's jobs ---- */

/* Keeps the changes of one block, unless they are too many. Its stored bytes and its base are there. */
static lmc_status find_in_block(const lmc_st_changes *changes, st_worker *worker, const st_changing *tensor,
                                const st_blocks *block, st_block_changes *found)
{
    const size_t element_nbytes = tensor->frame.info.element_nbytes;
    const size_t element_count = tensor->frame.info.block_nbytes / element_nbytes;
    const size_t capacity =
        changes->use == LMC_ST_CHANGES_TO_LIST ? element_count : element_count / KEPT_STEP;
    unsigned char *const room =
        st_worker_content(worker, capacity * (sizeof *found->places + element_nbytes));
    if (!room)
        return LMC_ERR_NOMEM;
    lmc_changes listed = {.places = (uint32_t *)(void *)room,
                          .values = room + capacity * sizeof *found->places,
                          .capacity = capacity};
    LMC_TRY(st_frame_decode_changes(&tensor->frame, worker->ctx, block, &listed, &worker->diag));
    found->count = listed.count;
    found->is_kept = listed.count <= capacity;
    if (listed.count == 0 || !found->is_kept)
        return LMC_OK;
    found->places = st_allocate(&changes->memory, listed.count * (sizeof *found->places + element_nbytes));
    if (!found->places)
        return st_fail_nomem(&worker->diag);
    found->values = (unsigned char *)(found->places + listed.count);
    memcpy(found->places, listed.places, listed.count * sizeof *found->places);
    memcpy(found->values, listed.values, listed.count * element_nbytes);
    return LMC_OK;
}

static lmc_status prepare_finding(void *user, st_worker *worker, st_slot *slot)
{
    lmc_st_changes *const changes = user;
    st_tensor_changes *const found = &changes->tensors[slot->index];
    st_changing *tensor = NULL;
    if (found->owner != slot->index)
        return LMC_OK;
    LMC_TRY(st_changing_open(changes, slot->index, worker->ctx, &tensor, &worker->diag));
    slot->item = tensor;
    found->info = tensor->frame.info;
    found->base_hash = lmc_frame_base_hash(tensor->frame.coded);
    found->content_hash = lmc_frame_content_hash(tensor->frame.coded);
    if (found->info.mode == LMC_FRAME_DELTA)
        found->blocks = st_allocate_zeroed(&changes->memory, found->info.block_count, sizeof *found->blocks);
    if (found->info.mode == LMC_FRAME_DELTA && !found->blocks)
        return st_fail_nomem(&worker->diag);
    slot->content_nbytes = found->info.content_nbytes;
    slot->block_nbytes = st_content_part_nbytes(&tensor->base, &found->info);
    slot->block_count = (slot->content_nbytes + slot->block_nbytes - 1) / slot->block_nbytes;
    return LMC_OK;
}

lmc_status st_changing_read_stored(const st_changing *tensor, st_worker *worker, const st_slot *slot,
                                   const st_part *part, st_blocks *blocks)
{
    const size_t block_nbytes = tensor->frame.info.block_nbytes;
    *blocks = (st_blocks){.first = part->first_block * (slot->block_nbytes / block_nbytes),
                          .count = (part->content_nbytes + block_nbytes - 1) / block_nbytes,
                          .dst_nbytes = part->content_nbytes};
    blocks->entries = !tensor->entries ? NULL : &tensor->entries[blocks->first];
    return st_frame_read_stored(&tensor->frame, worker->memory, &worker->stored, blocks, &worker->diag);
}

lmc_status st_changing_decode(const st_changing *tensor, st_worker *worker, st_blocks *blocks)
{
    blocks->dst = st_worker_content(worker, blocks->dst_nbytes);
    return blocks->dst ? st_frame_decode(&tensor->frame, worker->ctx, blocks, &worker->diag) : LMC_ERR_NOMEM;
}

static lmc_status find_in_part(void *user, st_worker *worker, st_slot *slot, const st_part *part)
{
    lmc_st_changes *const changes = user;
    const st_changing *const tensor = slot->item;
    if (!tensor || part->content_nbytes == 0)
        return LMC_OK;
    if (changes->use == LMC_ST_CHANGES_UNCHECKED && !tensor->entries)
        return LMC_OK; /* each block can be verified when it is decoded */
    st_tensor_changes *const found = &changes->tensors[slot->index];
    const lmc_info *const info = &tensor->frame.info;
    const unsigned char *const memory = found->base;
    const st_content_room room = {worker->memory, worker->ctx, &worker->base, &worker->content,
                                  &worker->stored};
    st_blocks blocks;
    const unsigned char *base = NULL;
    const uint64_t first = part->first_block * (slot->block_nbytes / info->block_nbytes);
    if (tensor->base.step_count > 0)
        LMC_TRY(st_content_read_base(&tensor->base, &room, &tensor->frame, first,
                                     (part->content_nbytes + info->block_nbytes - 1) / info->block_nbytes,
                                     &base, &worker->diag));
    else if (found->blocks)
        base = memory + first * info->block_nbytes;
    LMC_TRY(st_changing_read_stored(tensor, worker, slot, part, &blocks));
    if (!found->blocks)
        return st_changing_decode(tensor, worker, &blocks);
    lmc_status status = LMC_OK;
    for (size_t at = 0; blocks.count > 0 && status == LMC_OK; blocks.first++, blocks.count--) {
        uint64_t offset = 0;
        st_blocks block = {.first = blocks.first, .count = 1, .base = base + at, .stored = blocks.stored};
        block.dst_nbytes =
            blocks.dst_nbytes - at < info->block_nbytes ? blocks.dst_nbytes - at : info->block_nbytes;
        status =
            st_frame_extent(&tensor->frame, block.first, 1, &offset, &block.stored_nbytes, &worker->diag);
        if (status == LMC_OK)
            status = find_in_block(changes, worker, tensor, &block, &found->blocks[block.first]);
        blocks.stored += block.stored_nbytes;
        at += block.dst_nbytes;
    }
    if (status == LMC_ERR_BASE && memory)
        (void)st_changes_check_memory(changes, slot->index, memory, &worker->diag);
    else if (status == LMC_ERR_BASE)
        (void)st_file_fail_base(changes->file, tensor->base.steps[0].number, tensor->base.steps[0].frame.file,
                                &worker->diag);
    return status;
}

static const st_engine_ops finding_ops = {.prepare = prepare_finding,
                                          .do_part = find_in_part,
                                          .finish = st_changing_finish,
                                          .release = st_changing_release};

/* ---- finding: the call ---- */

/* Checks the list, notes the bases, and finds the owners of aliases: they must be in the list, too, unless it is a
 * listing, where aliases have no changes. */
static lmc_status take_list(lmc_st_changes *changes, const void *const *bases, lmc_st_diag *diag)
{
    const lmc_st_file *const file = changes->file;
    const size_t none = changes->tensor_count;
    size_t *const numbers =
        st_allocate_array(&changes->memory, file->header.tensor_count + 1, sizeof *numbers);
    lmc_status status = numbers ? LMC_OK : st_fail_nomem(diag);
    for (size_t i = 0; i < file->header.tensor_count && status == LMC_OK; i++)
        numbers[i] = none;
    for (size_t i = 0; i < changes->tensor_count && status == LMC_OK; i++)
        if (changes->indices[i] >= file->header.tensor_count)
            status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
        else if (numbers[changes->indices[i]] != none)
            status = st_file_blame(
                file, (size_t)changes->indices[i],
                st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is asked for more than once"), diag);
        else
            numbers[changes->indices[i]] = i;
    for (size_t i = 0; i < changes->tensor_count && status == LMC_OK; i++) {
        changes->tensors[i].base = bases ? bases[i] : NULL;
        changes->tensors[i].owner = numbers[st_file_owner(file, (size_t)changes->indices[i])];
    }
    st_release(&changes->memory, numbers);
    return status;
}

lmc_status lmc_st_changes_find(const lmc_st_file *file, const uint64_t *indices, const void *const *bases,
                               size_t count, lmc_st_changes_use use, const lmc_st_options *options,
                               lmc_st_changes **changes, lmc_st_diag *diag)
{
    st_call call;
    lmc_st_changes *made = NULL;
    *changes = NULL;
    lmc_status status = st_call_begin_plain(&call, file->path, options, diag);
    if (!call.has_allocator)
        call.options.allocator = &file->memory;
    const lmc_allocator *const memory = call.options.allocator;
    if (status == LMC_OK && (!file->is_archive || file->container != LMC_ST_CONTAINER_SAFETENSORS))
        status = st_fail(call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is not an archive of a safetensors file");
    if (status == LMC_OK && (unsigned)use > LMC_ST_CHANGES_UNCHECKED)
        status = st_fail(call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no such use of changes");
    if (status == LMC_OK) {
        made = st_allocate_zeroed(memory, 1, sizeof *made);
        status = made ? LMC_OK : st_fail_nomem(call.diag);
    }
    if (status == LMC_OK) {
        *made = (lmc_st_changes){.file = file,
                                 .memory = *memory,
                                 .tensor_count = count,
                                 .use = use,
                                 .indices = st_allocate_array(memory, count + (uint64_t)1, sizeof *indices),
                                 .tensors =
                                     st_allocate_zeroed(memory, count + (uint64_t)1, sizeof *made->tensors)};
        status = made->indices && made->tensors ? LMC_OK : st_fail_nomem(call.diag);
    }
    if (status == LMC_OK && count > 0)
        memcpy(made->indices, indices, count * sizeof *indices);
    if (status == LMC_OK)
        status = take_list(made, bases, call.diag);
    for (size_t i = 0; i < count && status == LMC_OK; i++)
        made->nbytes += made->tensors[i].owner == i ? st_file_tensor_nbytes(file, (size_t)indices[i]) : 0;
    if (status == LMC_OK)
        status = st_engine_run(&finding_ops, made, count, made->nbytes, &call.options, call.diag);
    if (status == LMC_OK)
        *changes = made;
    else
        lmc_st_changes_free(made);
    return st_call_end(&call, status);
}

void lmc_st_changes_free(lmc_st_changes *changes)
{
    if (!changes)
        return;
    const lmc_allocator memory = changes->memory;
    for (size_t i = 0; i < changes->tensor_count && changes->tensors; i++) {
        const st_tensor_changes *const tensor = &changes->tensors[i];
        for (uint64_t b = 0; b < tensor->info.block_count && tensor->blocks; b++)
            st_release(&memory, tensor->blocks[b].places);
        st_release(&memory, tensor->blocks);
    }
    st_release(&memory, changes->tensors);
    st_release(&memory, changes->indices);
    st_release(&memory, changes);
}

/* ---- listing ---- */

int lmc_st_changes_count(const lmc_st_changes *changes, size_t number, uint64_t *count)
{
    *count = 0;
    if (number >= changes->tensor_count || !changes->tensors[number].blocks ||
        changes->use == LMC_ST_CHANGES_UNCHECKED)
        return 0;
    for (uint64_t b = 0; b < changes->tensors[number].info.block_count; b++)
        *count += changes->tensors[number].blocks[b].count;
    return 1;
}

lmc_status lmc_st_changes_list(const lmc_st_changes *changes, size_t number, unsigned index_nbytes,
                               void *indices, void *values)
{
    uint64_t count = 0;
    if (!lmc_st_changes_count(changes, number, &count) || changes->use != LMC_ST_CHANGES_TO_LIST)
        return LMC_ERR_ARG;
    const st_tensor_changes *const tensor = &changes->tensors[number];
    const size_t element_nbytes = tensor->info.element_nbytes;
    const uint64_t last = tensor->info.content_nbytes / element_nbytes;
    unsigned char *next_index = indices, *next_value = values;
    if (index_nbytes != 8 && (index_nbytes != 4 || last > (uint64_t)INT32_MAX + 1))
        return LMC_ERR_ARG;
    for (uint64_t b = 0; b < tensor->info.block_count; b++) {
        const st_block_changes *const block = &tensor->blocks[b];
        const uint64_t first = b << tensor->info.block_log2;
        for (size_t i = 0; i < block->count; i++, next_index += index_nbytes) {
            const int64_t index = (int64_t)(first + block->places[i]);
            const int32_t narrow = (int32_t)index;
            memcpy(next_index, index_nbytes == 8 ? (const void *)&index : &narrow, index_nbytes);
        }
        if (block->count > 0)
            memcpy(next_value, block->values, block->count * element_nbytes);
        next_value += block->count * element_nbytes;
    }
    return LMC_OK;
}
