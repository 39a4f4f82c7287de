/*
 * restore.c - decodes and verifies all tensors. The place of every block is known beforehand, so parts need no order
 * among themselves, unless the taker of the content does: a stream, a hash.
 */
#include "safetensors/restore/restore.h"

#include "safetensors/archive/archive_skeleton.h"
#include "safetensors/archive/table.h"
#include "safetensors/base/content.h"
#include "safetensors/engine/engine.h"

#include <pthread.h>
#include <string.h>

/* Bytes of the skeleton that are delivered at once. */
#define PART_NBYTES ((size_t)256 << 10)

/* CHECKSUM, with `fault` as its text, unless these bytes stand at `offset` of the original. room: for as many; NULL:
 * out of memory. */
static lmc_status compare_bytes(const st_restoration *restoration, unsigned char *room, uint64_t offset,
                                const unsigned char *bytes, size_t nbytes, const char *fault,
                                lmc_st_diag *diag)
{
    if (!room)
        return st_fail_nomem(diag);
    const lmc_status status = st_input_read(restoration->original, offset, room, nbytes, diag);
    if (status != LMC_OK) {
        st_diag_set_file(diag, restoration->original_path);
        return status;
    }
    return memcmp(room, bytes, nbytes) == 0 ? LMC_OK
                                            : st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET, "%s", fault);
}

/* ---- what is no tensor ---- */

/* A skeleton on its way. One thread at a time. */
typedef struct skeleton_delivery {
    const st_restoration *restoration;
    st_skeleton skeleton;
    uint64_t at; /* bytes of it that were delivered */
    st_buffer expected;
} skeleton_delivery;

/* Delivers all of the skeleton that stands before tensor `index` and was not delivered yet; what stands behind the last
 * one, too, if index is the number of tensors. Errors: IO, NOMEM, CANCELLED, damage; CHECKSUM if the original has other
 * bytes there. */
static lmc_status deliver_skeleton(skeleton_delivery *delivery, size_t index, lmc_st_diag *diag)
{
    const st_restoration *const restoration = delivery->restoration;
    if (!restoration->with_skeleton)
        return LMC_OK;
    const lmc_st_file *const source = restoration->source;
    const st_header *const header = &source->header;
    const uint64_t end = st_skeleton_before(source, index);
    const char *const fault = source->container == LMC_ST_CONTAINER_SAFETENSORS
                                  ? "the archive has another header than the file"
                                  : "the archive has other bytes between the tensors than the file";
    /* bytes of tensors that stand before it */
    const uint64_t data_nbytes =
        index < header->tensor_count ? header->tensors[index].begin : header->data_nbytes;
    while (delivery->at < end) {
        const unsigned char *bytes = NULL;
        size_t nbytes = end - delivery->at < PART_NBYTES ? (size_t)(end - delivery->at) : PART_NBYTES;
        LMC_TRY(st_skeleton_get(&delivery->skeleton, delivery->at, &bytes, &nbytes, diag));
        const uint64_t offset = delivery->at + data_nbytes;
        if (st_is_cancelled(restoration->options->cancel))
            return st_fail_cancelled(diag);
        if (restoration->sha256)
            st_sha256_update(restoration->sha256, bytes, nbytes);
        if (restoration->output)
            LMC_TRY(st_output_write(restoration->output, offset, bytes, nbytes, diag));
        if (restoration->original)
            LMC_TRY(compare_bytes(restoration,
                                  st_buffer_grow(&source->memory, &delivery->expected, PART_NBYTES), offset,
                                  bytes, nbytes, fault, diag));
        delivery->at += nbytes;
    }
    return LMC_OK;
}

/* ---- tensors ---- */

/* Disk space is asked for from this size on; smaller tensors come and go too fast for it. */
#define RESERVE_NBYTES_MIN ((uint64_t)1 << 20)

typedef struct restore_work {
    const st_restoration *restoration;
    pthread_mutex_t damage_lock; /* of every item's damage */
    unsigned char *base_hashes;  /* u64 per link of the file: what its frame wants of the base */
    skeleton_delivery skeleton;
} restore_work;

typedef struct restore_item {
    st_frame frame;           /* not open: left out or lost */
    st_content base;          /* what it was coded against; without steps if nothing */
    lmc_block_entry *entries; /* of a frame without an index: what its blocks hashed to; else NULL */
    int is_finished;
    st_damage damage;
} restore_item;

static uint64_t output_offset(const st_restoration *restoration, size_t index)
{
    return restoration->places ? restoration->places[index] : st_file_origin(restoration->source, index);
}

/* 1 for a tensor that nobody wants. */
static int is_left_out(const st_restoration *restoration, size_t index)
{
    return (restoration->places && restoration->places[index] == ST_NOWHERE) ||
           (restoration->dsts && !restoration->dsts[index]);
}

static int is_ordered(const st_restoration *restoration)
{
    return restoration->sha256 || (restoration->output && restoration->output->is_sequential);
}

/* ---- damage ---- */

/* A failed read is damage to whoever wants to save what can be read. */
static int is_to_be_noted(const st_restoration *restoration, lmc_status status)
{
    return restoration->log &&
           (st_is_damage(status) || (status == LMC_ERR_IO && restoration->options->salvage));
}

/* Moves the worker's fault to the item. Returns LMC_OK if the work can go on. */
static lmc_status note_damage(restore_work *work, st_worker *worker, restore_item *item, uint64_t block)
{
    lmc_status status = LMC_OK;
    pthread_mutex_lock(&work->damage_lock);
    if (block == UINT64_MAX) {
        st_damage_note(&item->damage, &worker->diag);
    } else {
        status = st_damage_note_block(&item->damage, worker->memory, block, item->frame.info.block_count,
                                      &worker->diag);
    }
    pthread_mutex_unlock(&work->damage_lock);
    st_diag_init(&worker->diag, work->restoration->source->path);
    return status == LMC_OK ? LMC_OK : st_fail_nomem(&worker->diag);
}

/* ---- prepare: open the frame ---- */

static lmc_status open_frame(restore_work *work, st_worker *worker, st_slot *slot)
{
    const st_restoration *const restoration = work->restoration;
    restore_item *const item = slot->item;
    const lmc_st_file *const source = restoration->source;
    LMC_TRY(st_frame_open(&item->frame, source, &worker->ahead, worker->ctx, slot->index, &worker->diag));
    const st_link *const link = st_bases_find(&source->bases, slot->index);
    if (link && link->place == LMC_ST_BASE_FILE)
        lmc_store64(work->base_hashes + 8 * (size_t)(link - source->bases.links),
                    lmc_frame_base_hash(item->frame.coded));
    lmc_status status =
        st_content_open_base(&item->base, &item->frame, worker->ctx, worker->memory, &worker->diag);
    if (restoration->without_base && (status == LMC_ERR_BASE || status == LMC_ERR_LIMIT)) {
        st_content_free(&item->base);
        st_diag_init(&worker->diag, source->path);
        status = LMC_OK;
    } else if (status != LMC_OK) {
        status = st_content_blame(source, slot->index, status, &worker->diag);
    }
    if (status != LMC_OK || (item->frame.info.mode == LMC_FRAME_DELTA && item->base.step_count == 0)) {
        st_frame_close(&item->frame);
        return status;
    }
    slot->block_nbytes = st_content_part_nbytes(&item->base, &item->frame.info);
    slot->block_count = (item->frame.info.content_nbytes + slot->block_nbytes - 1) / slot->block_nbytes;
    slot->content_nbytes = item->frame.info.content_nbytes;
    if (!st_frame_has_index(&item->frame.info)) {
        item->entries =
            st_allocate_zeroed(worker->memory, item->frame.info.block_count + 1, sizeof *item->entries);
        if (!item->entries)
            return st_fail_nomem(&worker->diag);
    }
    if (restoration->output && item->frame.info.content_nbytes >= RESERVE_NBYTES_MIN)
        return st_output_reserve(restoration->output, output_offset(restoration, slot->index),
                                 item->frame.info.content_nbytes, &worker->diag);
    return LMC_OK;
}

static lmc_status prepare_tensor(void *user, st_worker *worker, st_slot *slot)
{
    restore_work *const work = user;
    restore_item *const item = st_allocate_zeroed(worker->memory, 1, sizeof *item);
    if (!item)
        return st_fail_nomem(&worker->diag);
    slot->item = item;
    if (is_left_out(work->restoration, slot->index))
        return LMC_OK;
    const lmc_status status = open_frame(work, worker, slot);
    if (!item->frame.coded && is_to_be_noted(work->restoration, status))
        return note_damage(work, worker, item, UINT64_MAX);
    return status;
}

/* In the order of the file, one at a time. */
static void release_tensor(void *user, st_slot *slot)
{
    const restore_work *const work = user;
    const st_restoration *const restoration = work->restoration;
    const st_options *const options = restoration->options;
    restore_item *const item = slot->item;
    slot->item = NULL;
    if (!item)
        return;
    if (item->is_finished && item->damage.is_damaged) {
        st_damage_describe(&item->damage);
        st_damage_log_add(restoration->log, slot->index, &item->damage);
        if (options->damage)
            options->damage(options->user, &item->damage.diag);
    }
    st_frame_close(&item->frame);
    st_content_free(&item->base);
    st_release(options->allocator, item->entries);
    st_damage_free(&item->damage, options->allocator);
    st_release(options->allocator, item);
}

/* ---- parts: read blocks, decode and verify them ---- */

static lmc_status decode_blocks(st_worker *worker, const restore_item *item, st_blocks *blocks)
{
    blocks->entries = !item->entries ? NULL : &item->entries[blocks->first];
    const lmc_status status = st_frame_decode(&item->frame, worker->ctx, blocks, &worker->diag);
    return status == LMC_ERR_BASE ? st_file_fail_base(item->frame.file, item->base.steps[0].number,
                                                      item->base.steps[0].frame.file, &worker->diag)
                                  : status;
}

/* All blocks of a part are lost for one reason. */
static lmc_status note_lost_blocks(restore_work *work, st_worker *worker, restore_item *item,
                                   const st_blocks *blocks)
{
    const lmc_st_diag cause = worker->diag;
    lmc_status status = LMC_OK;
    for (uint64_t i = 0; i < blocks->count && status == LMC_OK; i++) {
        worker->diag = cause;
        status = note_damage(work, worker, item, blocks->first + i);
    }
    return status;
}

/* Reads the part's blocks into the worker's buffer. */
static lmc_status read_stored(const st_restoration *restoration, st_worker *worker, const st_slot *slot,
                              st_blocks *blocks)
{
    const lmc_st_file *const source = restoration->source;
    const restore_item *const item = slot->item;
    uint64_t offset = 0;
    LMC_TRY(st_frame_extent(&item->frame, blocks->first, blocks->count, &offset, &blocks->stored_nbytes,
                            &worker->diag));
    blocks->stored = st_window_find(&worker->ahead, offset, blocks->stored_nbytes);
    if (blocks->stored)
        return LMC_OK;
    unsigned char *const stored = st_worker_stored(worker, blocks->stored_nbytes);
    if (!stored)
        return LMC_ERR_NOMEM;
    blocks->stored = stored;
    lmc_status status = st_input_read(&source->input, offset, stored, blocks->stored_nbytes, &worker->diag);
    return status == LMC_OK ? LMC_OK : st_file_blame(source, slot->index, status, &worker->diag);
}

/* Looks for the damaged blocks of a job: reads and decodes one block at a time. */
static lmc_status find_damage(restore_work *work, st_worker *worker, const st_slot *slot,
                              const st_blocks *blocks)
{
    const st_restoration *const restoration = work->restoration;
    restore_item *const item = slot->item;
    const lmc_st_diag cause = worker->diag;
    int is_found = 0;
    st_diag_init(&worker->diag, restoration->source->path);
    for (uint64_t i = 0; i < blocks->count; i++) {
        st_blocks one = {
            .first = blocks->first + i, .count = 1, .dst = blocks->dst, .dst_nbytes = blocks->dst_nbytes};
        if (blocks->base)
            one.base = blocks->base + (size_t)i * item->frame.info.base_block_nbytes;
        lmc_status status = read_stored(restoration, worker, slot, &one);
        if (status == LMC_OK)
            status = decode_blocks(worker, item, &one);
        if (status == LMC_OK)
            continue;
        if (!is_to_be_noted(restoration, status))
            return status;
        LMC_TRY(note_damage(work, worker, item, one.first));
        is_found = 1;
    }
    if (is_found)
        return LMC_OK;
    worker->diag = cause; /* this time, all could be read */
    return note_lost_blocks(work, worker, item, blocks);
}

/* Reads and decodes a part into *content: room of the worker, or the caller's. *is_sound: nothing was noted. */
static lmc_status decode_part(restore_work *work, st_worker *worker, const st_slot *slot, const st_part *part,
                              const unsigned char **content, int *is_sound)
{
    const st_restoration *const restoration = work->restoration;
    restore_item *const item = slot->item;
    const size_t block_nbytes = item->frame.info.block_nbytes;
    st_blocks blocks = {.first = part->first_block * (slot->block_nbytes / block_nbytes),
                        .count = (part->content_nbytes + block_nbytes - 1) / block_nbytes};
    *is_sound = 0;
    const st_content_room room = {worker->memory, worker->ctx, &worker->base, &worker->content,
                                  &worker->stored};
    lmc_status status = st_content_read_base(&item->base, &room, &item->frame, blocks.first, blocks.count,
                                             &blocks.base, &worker->diag);
    if (status != LMC_OK && is_to_be_noted(restoration, status))
        return note_lost_blocks(work, worker, item, &blocks);
    if (status != LMC_OK)
        return status;
    if (restoration->dsts) {
        blocks.dst = (unsigned char *)restoration->dsts[slot->index] + part->first_block * slot->block_nbytes;
        os_take_pages(blocks.dst, part->content_nbytes);
    } else {
        blocks.dst = worker->is_batch ? st_worker_gather(worker, part->content_nbytes)
                                      : st_worker_content(worker, part->content_nbytes);
    }
    blocks.dst_nbytes = part->content_nbytes;
    if (!blocks.dst)
        return LMC_ERR_NOMEM;
    *content = blocks.dst;
    status = read_stored(restoration, worker, slot, &blocks);
    if (status == LMC_OK)
        status = decode_blocks(worker, item, &blocks);
    if (status == LMC_OK && item->entries && blocks.count == item->frame.info.block_count) {
        /* all of a frame without an index is here: it can be judged before anybody sees it */
        status = st_frame_check_entries(&item->frame, item->entries, &worker->diag);
        if (is_to_be_noted(restoration, status))
            return note_damage(work, worker, item, UINT64_MAX);
    }
    *is_sound = status == LMC_OK;
    return is_to_be_noted(restoration, status) ? find_damage(work, worker, slot, &blocks) : status;
}

/* ---- what becomes of the content ---- */

/* Gives content to the hash and to the output, where it stands at `offset`. */
static lmc_status deliver_content(const st_restoration *restoration, st_worker *worker, uint64_t offset,
                                  const unsigned char *content, size_t nbytes)
{
    if (restoration->sha256)
        st_sha256_update(restoration->sha256, content, nbytes);
    return !restoration->output
               ? LMC_OK
               : st_output_write(restoration->output, offset, content, nbytes, &worker->diag);
}

/* The same in the order of the file, if anybody wants that, behind what stands before tensor `index`. nbytes 0: there
 * is nothing to give. */
static lmc_status deliver_in_order(restore_work *work, st_worker *worker, const st_part *part, size_t index,
                                   uint64_t offset, const unsigned char *content, size_t nbytes)
{
    const st_restoration *const restoration = work->restoration;
    if (!is_ordered(restoration))
        return nbytes > 0 ? deliver_content(restoration, worker, offset, content, nbytes) : LMC_OK;
    if (!st_engine_wait_for_order(worker, part))
        return LMC_ERR_CANCELLED;
    lmc_status status = deliver_skeleton(&work->skeleton, index, &worker->diag);
    if (status == LMC_OK && nbytes > 0)
        status = deliver_content(restoration, worker, offset, content, nbytes);
    if (status == LMC_OK)
        st_engine_let_next_part_go_on(worker);
    return status;
}

/* Keeps content that was decoded behind what is gathered; what does not end where it begins in the output is
 * written before. */
static lmc_status gather_content(const st_restoration *restoration, st_worker *worker, uint64_t offset,
                                 size_t nbytes)
{
    unsigned char *const bytes = worker->gathered.bytes;
    if (!restoration->output && !restoration->sha256)
        return LMC_OK;
    if (!is_ordered(restoration) && worker->gathered_nbytes > 0 &&
        offset != worker->gathered_offset + worker->gathered_nbytes) {
        LMC_TRY(
            deliver_content(restoration, worker, worker->gathered_offset, bytes, worker->gathered_nbytes));
        memmove(bytes, bytes + worker->gathered_nbytes, nbytes);
        worker->gathered_nbytes = 0;
    }
    if (worker->gathered_nbytes == 0)
        worker->gathered_offset = offset;
    worker->gathered_nbytes += nbytes;
    return LMC_OK;
}

static lmc_status restore_part(void *user, st_worker *worker, st_slot *slot, const st_part *part)
{
    restore_work *const work = user;
    const st_restoration *const restoration = work->restoration;
    const restore_item *const item = slot->item;
    const uint64_t offset = output_offset(restoration, slot->index) + part->first_block * slot->block_nbytes;
    const unsigned char *content = NULL;
    int is_sound = 0;
    lmc_status status = LMC_OK;
    if (item->frame.coded)
        status = decode_part(work, worker, slot, part, &content, &is_sound);
    if (status == LMC_OK && is_sound && restoration->original) {
        status = compare_bytes(restoration, st_worker_stored(worker, part->content_nbytes), offset, content,
                               part->content_nbytes, "the archive holds other content than the file",
                               &worker->diag);
        if (status == LMC_ERR_CHECKSUM)
            status = st_file_blame(restoration->source, slot->index, status, &worker->diag);
    }
    if (status != LMC_OK)
        return status;
    return worker->is_batch
               ? (is_sound ? gather_content(restoration, worker, offset, part->content_nbytes) : LMC_OK)
               : deliver_in_order(work, worker, part, slot->index, offset, content,
                                  is_sound ? part->content_nbytes : 0);
}

/* Blocks of a large frame without an index are only now known to be right. What was written of them until
 * here stands in a file without a name, or in a stream whose reader is told. */
static lmc_status check_frame_end(void *user, st_worker *worker, st_slot *slot)
{
    restore_work *const work = user;
    restore_item *const item = slot->item;
    lmc_status status = LMC_OK;
    if (item->entries && !item->damage.is_damaged)
        status = st_frame_check_entries(&item->frame, item->entries, &worker->diag);
    if (status != LMC_OK && is_to_be_noted(work->restoration, status))
        status = note_damage(work, worker, item, UINT64_MAX);
    item->is_finished = 1;
    return status;
}

/* ---- small tensors: one read, one write for many ---- */

static uint64_t tensor_nbytes(void *user, size_t index)
{
    const restore_work *const work = user;
    return is_left_out(work->restoration, index) ? 0
                                                 : st_file_tensor_nbytes(work->restoration->source, index);
}

static lmc_status begin_batch(void *user, st_worker *worker, size_t first, size_t count)
{
    const st_restoration *const restoration = ((const restore_work *)user)->restoration;
    const lmc_st_file *const source = restoration->source;
    size_t index = first;
    worker->first_gathered = first;
    for (; count > 0 && is_left_out(restoration, first); first++)
        count--;
    while (count > 0 && is_left_out(restoration, first + count - 1))
        count--;
    const lmc_status status =
        st_worker_read_ahead(worker, &source->input, source->places, first, count, &index);
    if (status == LMC_OK)
        return LMC_OK;
    /* met again tensor by tensor, and noted; or it is that of a lost tensor between others */
    if (is_to_be_noted(restoration, status) || (status == LMC_ERR_IO && restoration->options->salvage)) {
        st_diag_init(&worker->diag, source->path);
        return LMC_OK;
    }
    return st_file_blame(source, index, status, &worker->diag);
}

static lmc_status end_batch(void *user, st_worker *worker, const st_part *part)
{
    return deliver_in_order(user, worker, part, worker->first_gathered, worker->gathered_offset,
                            worker->gathered.bytes, worker->gathered_nbytes);
}

static const st_engine_ops restore_ops = {.prepare = prepare_tensor,
                                          .do_part = restore_part,
                                          .finish = check_frame_end,
                                          .release = release_tensor,
                                          .nbytes = tensor_nbytes,
                                          .begin_batch = begin_batch,
                                          .end_batch = end_batch};

/* Without batches: in order, something may stand between any two tensors. */
static const st_engine_ops single_ops = {
    .prepare = prepare_tensor, .do_part = restore_part, .finish = check_frame_end, .release = release_tensor};

/* What is to be in order comes in order; the rest of the skeleton stands alone before the tensors or behind them. */
static lmc_status restore_all(restore_work *work, lmc_st_diag *diag)
{
    const st_restoration *const restoration = work->restoration;
    const lmc_st_file *const source = restoration->source;
    const size_t count = source->header.tensor_count;
    const int is_in_order = is_ordered(restoration);
    const int has_gaps = restoration->with_skeleton && source->container != LMC_ST_CONTAINER_SAFETENSORS;
    uint64_t total_nbytes = 0;
    for (size_t i = 0; i < count; i++)
        total_nbytes += tensor_nbytes(work, i);
    for (size_t i = 0; i <= count && !is_in_order; i++)
        LMC_TRY(deliver_skeleton(&work->skeleton, i, diag));
    LMC_TRY(st_engine_run(is_in_order && has_gaps ? &single_ops : &restore_ops, work, count, total_nbytes,
                          restoration->options, diag));
    LMC_TRY(deliver_skeleton(&work->skeleton, count, diag));
    /* with the frames of all tensors open and sound: do they want the base that the table names? */
    const st_bases *const bases = &source->bases;
    const int is_base_known = source->base && !restoration->places && !restoration->dsts &&
                              !(restoration->log && restoration->log->lost_count > 0);
    for (size_t file = 0; is_base_known && file < bases->file_count; file++) {
        st_hasher hasher;
        st_hasher_init(&hasher);
        for (size_t i = 0; i < bases->link_count; i++)
            if (bases->links[i].place == LMC_ST_BASE_FILE && bases->links[i].file == file)
                st_hasher_add(&hasher, work->base_hashes + 8 * i, 8);
        if (st_hasher_finish(&hasher) != bases->files[file].content_hash)
            return st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET,
                           "the archive table names another content of the base than the frames want");
    }
    return st_input_check_unchanged(&source->input, diag);
}

lmc_status st_restore_tensors(const st_restoration *restoration, lmc_st_diag *diag)
{
    const lmc_st_file *const source = restoration->source;
    const lmc_allocator *const memory = restoration->options->allocator;
    restore_work work = {.restoration = restoration};
    work.base_hashes = st_allocate_zeroed(memory, source->bases.link_count + 1, 8);
    if (!work.base_hashes)
        return st_fail_nomem(diag);
    pthread_mutex_init(&work.damage_lock, NULL);
    work.skeleton.restoration = restoration;
    lmc_status status =
        restoration->with_skeleton ? st_skeleton_open(&work.skeleton.skeleton, source, diag) : LMC_OK;
    if (status == LMC_OK)
        status = restore_all(&work, diag);
    st_buffer_free(&source->memory, &work.skeleton.expected);
    st_skeleton_close(&work.skeleton.skeleton);
    pthread_mutex_destroy(&work.damage_lock);
    st_release(memory, work.base_hashes);
    return status;
}
