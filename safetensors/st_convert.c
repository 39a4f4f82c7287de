/*
 * st_convert.c - safetensors file -> archive. Frames are written where the ones before them end; header
 * and table, whose sizes are reserved first, are filled in at the end.
 */
#include "st_convert.h"

#include "st_alias.h"
#include "st_engine.h"
#include "st_model_dir.h"
#include "st_options.h"
#include "st_outer.h"
#include "st_table.h"

#include <string.h>

typedef struct conversion {
    const st_source *source;
    const lmc_st_options *options;
    os_output output;
    st_aliases aliases;

    char *table_name;
    unsigned char *stored_header;
    size_t stored_header_nbytes;
    unsigned header_method;
    uint64_t table_nbytes;
    uint64_t outer_nbytes; /* length and header */

    uint64_t *frame_nbytes; /* per tensor; grows while its runs take their turns */
    uint64_t *hashes;
    uint64_t end; /* of what is written so far; belongs to the run whose turn it is */
} conversion;

/* What a slot holds: how its tensor is coded and what has become of its blocks. */
typedef struct convert_item {
    lmc_plan *plan; /* NULL: an alias, which has no frame */
    lmc_info info;
    size_t block_bound;
    lmc_block_entry *entries;
} convert_item;

/* ---- prepare: look at a tensor and choose its coding ---- */

typedef struct tensor_content {
    const st_source *source;
    size_t index;
    lmc_st_diag *diag;
} tensor_content;

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const tensor_content *const content = user;
    return content->source->read(content->source, content->index, offset, dst, nbytes, content->diag);
}

static uint32_t row_nbytes(const st_header *header, const st_tensor *tensor)
{
    uint64_t nbits = 0;
    if (tensor->rank == 0) {
        return 0;
    }
    const uint64_t columns = header->dims[tensor->dim_offset + tensor->rank - 1u];
    const int is_small = st_multiply(columns, lmc_dtype_nbits((lmc_dtype)tensor->dtype), &nbits) &&
                         nbits % 8 == 0 && nbits / 8 <= UINT32_MAX;
    return is_small ? (uint32_t)(nbits / 8) : 0;
}

static lmc_status make_plan(const conversion *conversion, st_worker *worker, size_t index, lmc_plan **plan)
{
    const st_header *const header = conversion->source->header;
    const st_tensor *const tensor = &header->tensors[index];
    tensor_content content = {conversion->source, index, &worker->diag};
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = (lmc_dtype)tensor->dtype;
    params.level = conversion->options->level;
    params.row_nbytes = row_nbytes(header, tensor);
    worker->diag.status = LMC_OK;
    const lmc_status status =
        lmc_plan_create(worker->ctx, &params, tensor->end - tensor->begin, read_content, NULL, &content, plan);
    if (status == LMC_OK || worker->diag.status != LMC_OK) {
        return status; /* a failed read has said what happened */
    }
    st_fail_codec(&worker->diag, worker->ctx, status, LMC_ST_NO_OFFSET);
    return st_source_blame(conversion->source, index, status, &worker->diag);
}

static lmc_status prepare(void *user, st_worker *worker, st_slot *slot)
{
    const conversion *const conversion = user;
    convert_item *const item = st_allocate_zeroed(worker->memory, 1, sizeof(*item));
    if (item == NULL) {
        return st_fail_nomem(&worker->diag);
    }
    slot->item = item;
    if (st_aliases_owner(&conversion->aliases, slot->index) != slot->index) {
        return LMC_OK;
    }
    const lmc_status status = make_plan(conversion, worker, slot->index, &item->plan);
    if (status != LMC_OK) {
        return status;
    }
    lmc_plan_info(item->plan, &item->info);
    item->block_bound = lmc_plan_block_bound(item->plan);
    item->entries =
        st_allocate_zeroed(worker->memory, (size_t)item->info.block_count + 1, sizeof(*item->entries));
    if (item->entries == NULL) {
        return st_fail_nomem(&worker->diag);
    }
    slot->block_count = item->info.block_count;
    slot->block_nbytes = item->info.block_nbytes;
    slot->content_nbytes = item->info.content_nbytes;
    return LMC_OK;
}

static void release(void *user, st_slot *slot)
{
    const conversion *const conversion = user;
    const lmc_allocator *const memory = conversion->options->allocator;
    convert_item *const item = slot->item;
    if (item != NULL) {
        lmc_plan_free(item->plan);
        st_release(memory, item->entries);
        st_release(memory, item);
    }
    slot->item = NULL;
}

/* ---- run: read blocks, encode them, write them behind what is there ---- */

/* Encodes the run's blocks (and the head before the first) to the worker's buffer. */
static lmc_status encode_blocks(st_worker *worker, const convert_item *item, const st_run *run,
                                const unsigned char *content, unsigned char *dst, size_t capacity,
                                size_t *dst_nbytes)
{
    size_t at = 0;
    lmc_status status = LMC_OK;
    if (run->first_block == 0) {
        status = lmc_encode_head(item->plan, dst, capacity, &at);
    }
    for (uint64_t i = 0; i < run->block_count && status == LMC_OK; i++) {
        const uint64_t block = run->first_block + i;
        const size_t begin = (size_t)i * item->info.block_nbytes;
        const size_t left = run->content_nbytes - begin;
        const size_t nbytes = left < item->info.block_nbytes ? left : item->info.block_nbytes;
        status = lmc_encode_block(worker->ctx, item->plan, block, content + begin, nbytes, NULL, dst + at,
                                  capacity - at, &item->entries[block]);
        at += status == LMC_OK ? item->entries[block].stored_nbytes : 0;
    }
    *dst_nbytes = at;
    return status;
}

/* Takes the place behind all earlier runs for `nbytes` bytes. Returns 0 if an earlier run failed. */
static int claim_place(conversion *conversion, st_worker *worker, size_t index, const st_run *run,
                       uint64_t nbytes, uint64_t *offset)
{
    if (!st_engine_take_turn(worker, run)) {
        return 0;
    }
    *offset = conversion->end;
    conversion->end += nbytes;
    conversion->frame_nbytes[index] += nbytes;
    st_engine_pass_turn(worker);
    return 1;
}

/* The end of a frame: all its runs have had their turns, so all entries are there. */
static lmc_status encode_tail(const conversion *conversion, st_worker *worker, const st_slot *slot,
                              unsigned char *dst, size_t capacity)
{
    const convert_item *const item = slot->item;
    size_t written = 0;
    const lmc_status status =
        lmc_encode_tail(item->plan, item->entries, item->info.block_count, dst, capacity, &written);
    if (status != LMC_OK) {
        return st_fail(&worker->diag, status, LMC_ST_NO_OFFSET, "%s", lmc_status_text(status));
    }
    conversion->hashes[slot->index] = lmc_content_hash(item->entries, item->info.block_count);
    return LMC_OK;
}

static lmc_status run_alias(conversion *conversion, st_worker *worker, size_t index, const st_run *run)
{
    uint64_t offset = 0;
    return claim_place(conversion, worker, index, run, 0, &offset) ? LMC_OK : LMC_ERR_CANCELLED;
}

static lmc_status run_blocks(void *user, st_worker *worker, st_slot *slot, const st_run *run)
{
    conversion *const conversion = user;
    const st_source *const source = conversion->source;
    const convert_item *const item = slot->item;
    if (item->plan == NULL) {
        return run_alias(conversion, worker, slot->index, run);
    }
    const size_t tail_nbytes = run->is_last ? (size_t)item->info.tail_nbytes : 0;
    const size_t blocks_bound = item->info.head_nbytes + (size_t)run->block_count * item->block_bound;
    unsigned char *const content = st_worker_content(worker, run->content_nbytes);
    unsigned char *const stored = st_worker_stored(worker, blocks_bound + tail_nbytes);
    if (content == NULL || stored == NULL) {
        return LMC_ERR_NOMEM;
    }
    lmc_status status = source->read(source, slot->index, run->first_block * item->info.block_nbytes, content,
                                     run->content_nbytes, &worker->diag);
    if (status != LMC_OK) {
        return status;
    }
    size_t nbytes = 0;
    status = encode_blocks(worker, item, run, content, stored, blocks_bound, &nbytes);
    if (status != LMC_OK) {
        st_fail_codec(&worker->diag, worker->ctx, status, LMC_ST_NO_OFFSET);
        return st_source_blame(source, slot->index, status, &worker->diag);
    }
    uint64_t offset = 0;
    if (!claim_place(conversion, worker, slot->index, run, nbytes + tail_nbytes, &offset)) {
        return LMC_ERR_CANCELLED;
    }
    if (run->is_last) {
        status = encode_tail(conversion, worker, slot, stored + nbytes, tail_nbytes);
        if (status != LMC_OK) {
            return status;
        }
    }
    return os_output_write(&conversion->output, offset, stored, nbytes + tail_nbytes, &worker->diag);
}

static const st_engine_ops convert_ops = {prepare, run_blocks, NULL, release};

/* ---- header and table ---- */

static lmc_status reserve_front(conversion *conversion, lmc_st_diag *diag)
{
    const st_header *const header = conversion->source->header;
    const lmc_allocator *const memory = conversion->options->allocator;
    const size_t count = header->tensor_count;
    conversion->table_name = st_outer_table_name(header, memory);
    conversion->frame_nbytes = st_allocate_zeroed(memory, count + 1, sizeof(*conversion->frame_nbytes));
    conversion->hashes = st_allocate_zeroed(memory, count + 1, sizeof(*conversion->hashes));
    if (conversion->table_name == NULL || conversion->frame_nbytes == NULL || conversion->hashes == NULL ||
        st_table_pack_header(memory, header->text, header->text_nbytes, &conversion->stored_header,
                             &conversion->stored_header_nbytes, &conversion->header_method) != LMC_OK) {
        return st_fail_nomem(diag);
    }
    conversion->table_nbytes =
        st_table_nbytes(count, conversion->aliases.count, conversion->stored_header_nbytes);
    const lmc_status status = st_outer_reserve(header, conversion->table_name, conversion->table_nbytes,
                                               &conversion->outer_nbytes, diag);
    conversion->end = conversion->outer_nbytes + conversion->table_nbytes;
    return status;
}

/* Header and table into `front`, which has room for both. */
static lmc_status fill_front(conversion *conversion, unsigned char *front, lmc_st_diag *diag)
{
    const st_source *const source = conversion->source;
    const size_t outer_nbytes = (size_t)conversion->outer_nbytes;
    for (size_t i = 0; i < conversion->aliases.count; i++) {
        const st_alias pair = conversion->aliases.list[i];
        conversion->hashes[pair.alias] = conversion->hashes[pair.owner];
    }
    const lmc_status status = st_outer_write(source->header, conversion->table_name, conversion->table_nbytes,
                                             conversion->frame_nbytes, front, conversion->outer_nbytes, diag);
    if (status == LMC_OK) {
        const st_table table = {.file_nbytes = source->file_nbytes,
                                .header = source->header->text,
                                .header_nbytes = source->header->text_nbytes,
                                .outer_hash = st_hash(front + 8, outer_nbytes - 8),
                                .hashes = conversion->hashes,
                                .tensor_count = source->header->tensor_count,
                                .aliases = conversion->aliases.list,
                                .alias_count = conversion->aliases.count};
        st_table_write(&table, conversion->stored_header, conversion->stored_header_nbytes,
                       conversion->header_method, front + outer_nbytes);
    }
    return status;
}

static lmc_status write_front(conversion *conversion, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = conversion->options->allocator;
    const size_t nbytes = (size_t)(conversion->outer_nbytes + conversion->table_nbytes);
    unsigned char *const front = st_allocate(memory, nbytes);
    if (front == NULL) {
        return st_fail_nomem(diag);
    }
    lmc_status status = fill_front(conversion, front, diag);
    if (status == LMC_OK) {
        status = os_output_write(&conversion->output, 0, front, nbytes, diag);
    }
    st_release(memory, front);
    return status;
}

/* ---- all of it ---- */

static lmc_status create_output(conversion *conversion, const char *out_path, lmc_st_diag *diag)
{
    const lmc_st_options *const options = conversion->options;
    if (options->out_fd >= 0) {
        return os_output_create_stream(&conversion->output, options->allocator, options->out_fd, out_path,
                                       conversion->source->input, 0, options->cancel, diag);
    }
    return os_output_create(&conversion->output, options->allocator, out_path, conversion->source->input,
                            options->force, diag);
}

static lmc_status write_contents(conversion *conversion, lmc_st_diag *diag)
{
    const st_source *const source = conversion->source;
    const st_header *const header = source->header;
    lmc_status status =
        st_engine_run(&convert_ops, conversion, header->tensor_count,
                      header->data_nbytes - conversion->aliases.nbytes, conversion->options, diag);
    if (status == LMC_OK) {
        status = write_front(conversion, diag);
    }
    if (status == LMC_OK && source->input != NULL) {
        status = os_input_check_unchanged(source->input, diag);
    }
    return status;
}

static lmc_status write_archive(conversion *conversion, const char *out_path, lmc_st_diag *diag)
{
    const lmc_st_options *const options = conversion->options;
    lmc_status status = create_output(conversion, out_path, diag);
    if (status != LMC_OK) {
        return status;
    }
    status =
        st_aliases_find(&conversion->aliases, conversion->source, options->allocator, options->cancel, diag);
    if (status == LMC_OK) {
        status = reserve_front(conversion, diag);
    }
    if (status == LMC_OK) {
        status = write_contents(conversion, diag);
    }
    if (status != LMC_OK) {
        os_output_discard(&conversion->output);
        return status;
    }
    return os_output_commit(&conversion->output, options->force, options->no_fsync, diag);
}

lmc_status st_convert_source(const st_source *source, const char *out_path, const lmc_st_options *options,
                             lmc_st_result *result, lmc_st_diag *diag)
{
    conversion conversion = {.source = source, .options = options};
    const lmc_status status = write_archive(&conversion, out_path, diag);
    if (status == LMC_OK) {
        result->file_nbytes = source->file_nbytes;
        result->stored_nbytes = conversion.end;
        result->tensor_count = source->header->tensor_count;
    }
    st_aliases_free(&conversion.aliases);
    st_release(options->allocator, conversion.table_name);
    st_release(options->allocator, conversion.stored_header);
    st_release(options->allocator, conversion.frame_nbytes);
    st_release(options->allocator, conversion.hashes);
    return status;
}

lmc_status st_convert_file(const char *in_path, const char *out_path, const lmc_st_options *options,
                           lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_file *file = NULL;
    lmc_status status = st_file_open_input(in_path, options, &file, diag);
    if (status == LMC_OK && file->is_archive) {
        status = st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "is an LMC archive already");
    }
    if (status == LMC_OK) {
        const st_source source = st_source_of_file(file);
        status = st_convert_source(&source, out_path, options, result, diag);
    }
    lmc_st_close(file);
    return status;
}

lmc_status lmc_st_convert(const char *in_path, const char *out_path, const lmc_st_options *options,
                          lmc_st_result *result, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, in_path, options, result, diag);
    if (status != LMC_OK) {
        return status;
    }
    if (st_is_directory(in_path, &call.options)) {
        return st_model_dir_convert(in_path, out_path, &call.options, call.result, call.diag);
    }
    return st_convert_file(in_path, out_path, &call.options, call.result, call.diag);
}
