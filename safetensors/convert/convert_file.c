/*
 * convert_file.c - file -> archive. Frames are written where the ones before them end; header
 * and table, for which room is reserved first, are filled in at the end.
 */
#include "safetensors/convert/convert_file.h"

#include "safetensors/convert/conversion.h"

#include <string.h>

/* ---- a part: read blocks, encode them, write them behind what is there ---- */

/* What a part of a tensor encodes: blocks of its frame. */
typedef struct blocks {
    uint64_t first, count;
    const unsigned char *content;
    size_t content_nbytes;
    const unsigned char *base; /* NULL: they need none */
} blocks;

/* Encodes the blocks (and the head before the first) to dst. */
static lmc_status encode_blocks(st_worker *worker, const st_convert_item *item, const blocks *blocks,
                                unsigned char *dst, size_t capacity, size_t *dst_nbytes)
{
    const size_t scale = item->info.base_block_nbytes / item->info.block_nbytes;
    size_t at = 0;
    lmc_status status = LMC_OK;
    if (blocks->first == 0)
        status = lmc_encode_head(item->plan, dst, capacity, &at);
    for (uint64_t i = 0; i < blocks->count && status == LMC_OK; i++) {
        const uint64_t block = blocks->first + i;
        const size_t begin = (size_t)i * item->info.block_nbytes;
        const size_t left = blocks->content_nbytes - begin;
        const size_t nbytes = left < item->info.block_nbytes ? left : item->info.block_nbytes;
        const unsigned char *const base =
            !blocks->base ? NULL : blocks->base + (size_t)i * item->info.base_block_nbytes;
        status = lmc_encode_delta_block(worker->ctx, item->plan, block, blocks->content + begin, nbytes, base,
                                        nbytes * scale, dst + at, capacity - at, &item->entries[block]);
        at += status == LMC_OK ? item->entries[block].stored_nbytes : 0;
    }
    *dst_nbytes = at;
    return status;
}

/* Reads the blocks' content, and what they are coded against. */
static lmc_status read_blocks(const st_conversion *conversion, st_worker *worker, const st_slot *slot,
                              const st_part *part, blocks *blocks)
{
    const st_source *const source = conversion->source;
    const st_convert_item *const item = slot->item;
    const size_t block_nbytes = item->info.block_nbytes;
    lmc_status status = LMC_OK;
    memset(blocks, 0, sizeof *blocks);
    if (part->block_count > 0) { /* else a tensor without bytes */
        blocks->first = part->first_block * (slot->block_nbytes / block_nbytes);
        blocks->count = (part->content_nbytes + block_nbytes - 1) / block_nbytes;
    }
    if (item->match) {
        const uint64_t begin = blocks->first * item->info.base_block_nbytes;
        const uint64_t end = begin + blocks->count * item->info.base_block_nbytes;
        status =
            st_convert_read_base(conversion, worker, item->match, &item->base, begin,
                                 end < item->info.base_nbytes ? end : item->info.base_nbytes, &blocks->base);
    }
    blocks->content_nbytes = part->content_nbytes;
    blocks->content = st_convert_find(conversion, worker, slot->index, part->first_block * slot->block_nbytes,
                                      part->content_nbytes);
    if (status == LMC_OK && blocks->content)
        return LMC_OK;
    unsigned char *const content =
        status == LMC_OK ? st_worker_content(worker, part->content_nbytes) : worker->content.bytes;
    if (status != LMC_OK || !content)
        return status != LMC_OK ? status : LMC_ERR_NOMEM;
    blocks->content = content;
    return source->read(source, slot->index, part->first_block * slot->block_nbytes, content,
                        part->content_nbytes, &worker->diag);
}

/* Takes the place behind all earlier parts for `nbytes` bytes, and adds them to *sum (NULL: nothing). Returns 0 if
 * an earlier part failed. */
static int claim_place(st_conversion *conversion, st_worker *worker, const st_part *part, uint64_t nbytes,
                       uint64_t *sum, uint64_t *offset)
{
    if (!st_engine_wait_for_order(worker, part))
        return 0;
    *offset = conversion->end;
    conversion->end += nbytes;
    if (sum)
        *sum += nbytes;
    st_engine_let_next_part_go_on(worker);
    return 1;
}

/* 1 if all blocks are those of the base: a mode and nothing else (docs/format.md, section 8.3). */
static int is_same(const st_convert_item *item)
{
    int is_so = item->match != NULL;
    for (uint64_t i = 0; i < item->info.block_count && is_so; i++)
        is_so = item->entries[i].stored_nbytes == 1;
    return is_so;
}

/* The end of a frame: all its parts have their places, so all entries are there. */
static lmc_status encode_tail(const st_conversion *conversion, st_worker *worker, const st_slot *slot,
                              unsigned char *dst, size_t capacity)
{
    const st_convert_item *const item = slot->item;
    size_t written = 0;
    const lmc_status status =
        lmc_encode_tail(item->plan, item->entries, item->info.block_count, dst, capacity, &written);
    if (status != LMC_OK)
        return st_fail(&worker->diag, status, LMC_ST_NO_OFFSET, "%s", lmc_status_text(status));
    conversion->hashes[slot->index] = lmc_content_hash(item->entries, item->info.block_count);
    conversion->base_hashes[slot->index] = lmc_base_hash(item->entries, item->info.block_count);
    conversion->is_same[slot->index] = is_same(item);
    return LMC_OK;
}

static lmc_status convert_part(void *user, st_worker *worker, st_slot *slot, const st_part *part)
{
    st_conversion *const conversion = user;
    const st_convert_item *const item = slot->item;
    blocks blocks;
    if (!item->plan) /* an alias, always in a batch of its own or of others */
        return LMC_OK;
    LMC_TRY(read_blocks(conversion, worker, slot, part, &blocks));
    const size_t tail_nbytes = part->is_last ? (size_t)item->info.tail_nbytes : 0;
    const size_t bound = item->info.head_nbytes + (size_t)blocks.count * item->block_bound;
    unsigned char *const stored = worker->is_batch ? st_worker_gather(worker, bound + tail_nbytes)
                                                   : st_worker_stored(worker, bound + tail_nbytes);
    if (!stored)
        return LMC_ERR_NOMEM;
    size_t nbytes = 0;
    lmc_status status = encode_blocks(worker, item, &blocks, stored, bound, &nbytes);
    if (status != LMC_OK) {
        st_fail_codec(&worker->diag, worker->ctx, status, LMC_ST_NO_OFFSET);
        return st_source_blame(conversion->source, slot->index, status, &worker->diag);
    }
    if (worker->is_batch) {
        conversion->frame_nbytes[slot->index] = nbytes + tail_nbytes;
        worker->gathered_nbytes += nbytes + tail_nbytes;
        return encode_tail(conversion, worker, slot, stored + nbytes, tail_nbytes);
    }
    uint64_t offset = 0;
    if (!claim_place(conversion, worker, part, nbytes + tail_nbytes, &conversion->frame_nbytes[slot->index],
                     &offset))
        return LMC_ERR_CANCELLED;
    if (part->is_last)
        LMC_TRY(encode_tail(conversion, worker, slot, stored + nbytes, tail_nbytes));
    return st_output_write(&conversion->output, offset, stored, nbytes + tail_nbytes, &worker->diag);
}

/* ---- small tensors: one read, one write for many ---- */

static uint64_t tensor_nbytes(void *user, size_t index)
{
    const st_conversion *const conversion = user;
    return st_aliases_owner(&conversion->aliases, index) == index
               ? st_source_tensor_nbytes(conversion->source, index)
               : 0;
}

static lmc_status begin_batch(void *user, st_worker *worker, size_t first, size_t count)
{
    const st_source *const source = ((const st_conversion *)user)->source;
    size_t index = first;
    if (!source->places)
        return LMC_OK;
    const lmc_status status =
        st_worker_read_ahead(worker, source->input, source->places, first, count, &index);
    return status == LMC_OK ? LMC_OK : st_source_blame(source, index, status, &worker->diag);
}

static lmc_status end_batch(void *user, st_worker *worker, const st_part *part)
{
    st_conversion *const conversion = user;
    uint64_t offset = 0;
    if (!claim_place(conversion, worker, part, worker->gathered_nbytes, NULL, &offset))
        return LMC_ERR_CANCELLED;
    return st_output_write(&conversion->output, offset, worker->gathered.bytes, worker->gathered_nbytes,
                           &worker->diag);
}

static const st_engine_ops convert_ops = {.prepare = st_convert_prepare,
                                          .do_part = convert_part,
                                          .release = st_convert_release,
                                          .nbytes = tensor_nbytes,
                                          .begin_batch = begin_batch,
                                          .end_batch = end_batch};

/* ---- all of it ---- */

static lmc_status write_archive(st_conversion *conversion, const st_place *out, lmc_st_diag *diag)
{
    const st_source *const source = conversion->source;
    const st_options *const options = conversion->options;
    if (!options->choose_bases)
        LMC_TRY(st_convert_open_base(conversion, out->path, diag));
    LMC_TRY(st_output_open(&conversion->output, options, out, source->input, 0, diag));
    lmc_status status = st_aliases_find(&conversion->aliases, source, options, diag);
    if (status == LMC_OK)
        status = st_matches_find(&conversion->matches, source, &conversion->aliases,
                                 conversion->bases.count > 0 ? conversion->bases.list[0].file : NULL, options,
                                 diag);
    if (status == LMC_OK && options->choose_bases)
        status = st_convert_choose_bases(conversion, out->path, diag);
    if (status == LMC_OK)
        status = st_convert_reserve_header_region(conversion, diag);
    if (status == LMC_OK)
        status = st_engine_run(&convert_ops, conversion, source->header->tensor_count,
                               source->header->data_nbytes - conversion->aliases.nbytes, options, diag);
    if (status == LMC_OK)
        status = st_convert_write_skeleton(conversion, diag);
    if (status == LMC_OK)
        status = st_convert_write_header_region(conversion, diag);
    if (status == LMC_OK && source->input)
        status = st_input_check_unchanged(source->input, diag);
    if (status == LMC_OK)
        status = st_convert_check_bases(conversion, diag);
    return st_output_close(&conversion->output, options, status, diag);
}

lmc_status st_convert_source(const st_source *source, const st_place *out, const st_options *options,
                             lmc_st_result *result, lmc_st_diag *diag)
{
    st_conversion conversion = {.source = source, .options = options};
    const lmc_status status = write_archive(&conversion, out, diag);
    if (status == LMC_OK) {
        result->original_nbytes = source->original_nbytes;
        result->stored_nbytes = conversion.end;
        result->tensor_count = source->header->tensor_count;
        result->container = source->container;
    }
    st_matches_free(&conversion.matches);
    st_aliases_free(&conversion.aliases);
    st_base_set_free(&conversion.bases);
    st_release(options->allocator, conversion.table_name);
    st_release(options->allocator, conversion.skeleton_name);
    st_layout_free(&conversion.layout, options->allocator);
    st_release(options->allocator, conversion.stored_header);
    st_release(options->allocator, conversion.frame_nbytes);
    st_release(options->allocator, conversion.hashes);
    st_release(options->allocator, conversion.base_hashes);
    st_release(options->allocator, conversion.is_delta);
    st_release(options->allocator, conversion.is_same);
    return status;
}

static lmc_status read_file(const st_source *source, size_t index, uint64_t offset, void *dst, size_t nbytes,
                            lmc_st_diag *diag)
{
    const lmc_st_file *const file = source->owner;
    const lmc_status status = st_input_read(&file->input, file->places[index] + offset, dst, nbytes, diag);
    return status == LMC_OK ? LMC_OK : st_file_blame(file, index, status, diag);
}

lmc_status st_convert_visit_file(const char *in_path, const st_options *options, st_source_fn visit,
                                 void *user, lmc_st_diag *diag)
{
    lmc_st_file *file = NULL;
    lmc_status status = st_file_open_input(in_path, options, &file, diag);
    if (status == LMC_OK && file->is_archive)
        status = st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "is an LMC archive already");
    if (status == LMC_OK) {
        const st_source source = {.container = file->container,
                                  .header = &file->header,
                                  .original_nbytes = file->original_nbytes,
                                  .input = &file->input,
                                  .places = file->places,
                                  .owner = file,
                                  .read = read_file};
        status = visit(user, &source, diag);
    }
    lmc_st_close(file);
    return status;
}

/* Where a file that is visited goes. */
typedef struct destination {
    const st_place *out;
    const st_options *options;
    lmc_st_result *result;
} destination;

/* An st_source_fn. */
static lmc_status convert_to(void *user, const st_source *source, lmc_st_diag *diag)
{
    const destination *const to = user;
    return st_convert_source(source, to->out, to->options, to->result, diag);
}

lmc_status st_convert_file(const char *in_path, const st_place *out, const st_options *options,
                           lmc_st_result *result, lmc_st_diag *diag)
{
    destination to = {out, options, result};
    return st_convert_visit_file(in_path, options, convert_to, &to, diag);
}
