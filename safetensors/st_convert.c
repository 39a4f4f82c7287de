/*
 * st_convert.c - safetensors file -> archive. Frames are written where the ones before them end; header
 * and table, whose sizes are reserved first, are filled in at the end.
 */
#include "st_engine.h"
#include "st_file.h"
#include "st_options.h"
#include "st_outer.h"
#include "st_table.h"

#include <stdlib.h>
#include <string.h>

typedef struct conversion {
    const lmc_st_file *source;
    const lmc_st_options *options;
    os_output output;

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
    lmc_plan *plan;
    lmc_info info;
    size_t block_bound;
    lmc_block_entry *entries;
} convert_item;

/* ---- prepare: look at a tensor and choose its coding ---- */

typedef struct content_source {
    const lmc_st_file *file;
    uint64_t offset;
    lmc_st_diag *diag;
} content_source;

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const content_source *const source = user;
    return os_input_read(&source->file->input, source->offset + offset, dst, nbytes, source->diag);
}

static uint32_t row_nbytes(const lmc_st_file *file, const st_tensor *tensor)
{
    uint64_t nbits = 0;
    if (tensor->rank == 0) {
        return 0;
    }
    const uint64_t columns = file->header.dims[tensor->dim_offset + tensor->rank - 1u];
    const int is_small = st_multiply(columns, lmc_dtype_nbits((lmc_dtype)tensor->dtype), &nbits) &&
                         nbits % 8 == 0 && nbits / 8 <= UINT32_MAX;
    return is_small ? (uint32_t)(nbits / 8) : 0;
}

static void free_item(convert_item *item)
{
    if (item != NULL) {
        lmc_plan_free(item->plan);
        free(item->entries);
        free(item);
    }
}

static lmc_status make_plan(const conversion *conversion, st_worker *worker, size_t index, lmc_plan **plan)
{
    const lmc_st_file *const file = conversion->source;
    const st_tensor *const tensor = &file->header.tensors[index];
    content_source source = {file, file->places[index], &worker->diag};
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = (lmc_dtype)tensor->dtype;
    params.level = conversion->options->level;
    params.row_nbytes = row_nbytes(file, tensor);
    worker->diag.status = LMC_OK;
    const lmc_status status =
        lmc_plan_create(worker->ctx, &params, tensor->end - tensor->begin, read_content, &source, plan);
    if (status == LMC_OK || worker->diag.status != LMC_OK) {
        return status; /* a failed read has said what happened */
    }
    return st_fail_codec(&worker->diag, worker->ctx, status, file->places[index]);
}

static lmc_status prepare(void *user, st_worker *worker, st_slot *slot)
{
    const conversion *const conversion = user;
    convert_item *const item = calloc(1, sizeof(*item));
    if (item == NULL) {
        return st_fail_nomem(&worker->diag);
    }
    slot->item = item;
    const lmc_status status = make_plan(conversion, worker, slot->index, &item->plan);
    if (status != LMC_OK) {
        return st_file_blame(conversion->source, slot->index, status, &worker->diag);
    }
    lmc_plan_info(item->plan, &item->info);
    item->block_bound = lmc_plan_block_bound(item->plan);
    item->entries = calloc((size_t)item->info.block_count + 1, sizeof(*item->entries));
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
    (void)user;
    free_item(slot->item);
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
        status = lmc_encode_block(worker->ctx, item->plan, block, content + begin, nbytes, dst + at,
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

static lmc_status run_blocks(void *user, st_worker *worker, st_slot *slot, const st_run *run)
{
    conversion *const conversion = user;
    const lmc_st_file *const file = conversion->source;
    const convert_item *const item = slot->item;
    const size_t tail_nbytes = run->is_last ? (size_t)item->info.tail_nbytes : 0;
    const size_t blocks_bound = item->info.head_nbytes + (size_t)run->block_count * item->block_bound;
    unsigned char *const content = st_worker_content(worker, run->content_nbytes);
    unsigned char *const stored = st_worker_stored(worker, blocks_bound + tail_nbytes);
    if (content == NULL || stored == NULL) {
        return LMC_ERR_NOMEM;
    }
    const uint64_t content_offset = file->places[slot->index] + run->first_block * item->info.block_nbytes;
    lmc_status status =
        os_input_read(&file->input, content_offset, content, run->content_nbytes, &worker->diag);
    if (status != LMC_OK) {
        return st_file_blame(file, slot->index, status, &worker->diag);
    }
    size_t nbytes = 0;
    status = encode_blocks(worker, item, run, content, stored, blocks_bound, &nbytes);
    if (status != LMC_OK) {
        st_fail_codec(&worker->diag, worker->ctx, status, content_offset);
        return st_file_blame(file, slot->index, status, &worker->diag);
    }
    uint64_t offset = 0;
    if (!claim_place(conversion, worker, slot->index, run, nbytes + tail_nbytes, &offset)) {
        return LMC_ERR_CANCELLED;
    }
    if (run->is_last) {
        /* the runs before this one have had their turns, so all entries are there */
        size_t written = 0;
        status = lmc_encode_tail(item->plan, item->entries, item->info.block_count, stored + nbytes,
                                 tail_nbytes, &written);
        if (status != LMC_OK) {
            return st_fail(&worker->diag, status, LMC_ST_NO_OFFSET, "%s", lmc_status_text(status));
        }
        conversion->hashes[slot->index] = lmc_content_hash(item->entries, item->info.block_count);
    }
    return os_output_write(&conversion->output, offset, stored, nbytes + tail_nbytes, &worker->diag);
}

static const st_engine_ops convert_ops = {prepare, run_blocks, NULL, release};

/* ---- header and table ---- */

static lmc_status reserve_front(conversion *conversion, lmc_st_diag *diag)
{
    const st_header *const header = &conversion->source->header;
    conversion->table_name = st_outer_table_name(header);
    conversion->frame_nbytes = calloc(header->tensor_count + 1, sizeof(*conversion->frame_nbytes));
    conversion->hashes = calloc(header->tensor_count + 1, sizeof(*conversion->hashes));
    if (conversion->table_name == NULL || conversion->frame_nbytes == NULL || conversion->hashes == NULL ||
        st_table_pack_header(header->text, header->text_nbytes, &conversion->stored_header,
                             &conversion->stored_header_nbytes, &conversion->header_method) != LMC_OK) {
        return st_fail_nomem(diag);
    }
    conversion->table_nbytes = st_table_nbytes(header->tensor_count, conversion->stored_header_nbytes);
    const lmc_status status = st_outer_reserve(header, conversion->table_name, conversion->table_nbytes,
                                               &conversion->outer_nbytes, diag);
    conversion->end = conversion->outer_nbytes + conversion->table_nbytes;
    return status;
}

static lmc_status write_front(conversion *conversion, lmc_st_diag *diag)
{
    const lmc_st_file *const source = conversion->source;
    const size_t outer_nbytes = (size_t)conversion->outer_nbytes;
    const size_t nbytes = outer_nbytes + (size_t)conversion->table_nbytes;
    unsigned char *const front = malloc(nbytes);
    if (front == NULL) {
        return st_fail_nomem(diag);
    }
    lmc_status status = st_outer_write(&source->header, conversion->table_name, conversion->table_nbytes,
                                       conversion->frame_nbytes, front, conversion->outer_nbytes, diag);
    if (status == LMC_OK) {
        const st_table table = {.file_nbytes = source->file_nbytes,
                                .header = source->header.text,
                                .header_nbytes = source->header.text_nbytes,
                                .outer_hash = st_hash(front + 8, outer_nbytes - 8),
                                .hashes = conversion->hashes,
                                .tensor_count = source->header.tensor_count};
        st_table_write(&table, conversion->stored_header, conversion->stored_header_nbytes,
                       conversion->header_method, front + outer_nbytes);
        status = os_output_write(&conversion->output, 0, front, nbytes, diag);
    }
    free(front);
    return status;
}

/* ---- all of it ---- */

static lmc_status write_archive(conversion *conversion, const char *out_path, lmc_st_diag *diag)
{
    const lmc_st_file *const source = conversion->source;
    const lmc_st_options *const options = conversion->options;
    lmc_status status = reserve_front(conversion, diag);
    if (status != LMC_OK) {
        return status;
    }
    status = os_output_create(&conversion->output, out_path, &source->input, options->force, diag);
    if (status != LMC_OK) {
        return status;
    }
    status = st_engine_run(&convert_ops, conversion, source->header.tensor_count, source->header.data_nbytes,
                           options, diag);
    if (status == LMC_OK) {
        status = write_front(conversion, diag);
    }
    if (status == LMC_OK) {
        status = os_input_check_unchanged(&source->input, diag);
    }
    if (status != LMC_OK) {
        os_output_discard(&conversion->output);
        return status;
    }
    return os_output_commit(&conversion->output, &source->input, options->force, options->no_fsync, diag);
}

static lmc_status convert_open_file(const lmc_st_file *source, const char *out_path,
                                    const lmc_st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    conversion conversion = {.source = source, .options = options, .output = {.fd = -1}};
    if (source->is_archive) {
        return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "is an LMC archive already");
    }
    const lmc_status status = write_archive(&conversion, out_path, diag);
    if (status == LMC_OK && result != NULL) {
        result->file_nbytes = source->file_nbytes;
        result->stored_nbytes = conversion.end;
        result->tensor_count = source->header.tensor_count;
    }
    free(conversion.table_name);
    free(conversion.stored_header);
    free(conversion.frame_nbytes);
    free(conversion.hashes);
    return status;
}

lmc_status lmc_st_convert(const char *in_path, const char *out_path, const lmc_st_options *options,
                          lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_diag unused;
    lmc_st_options complete;
    lmc_st_file *source = NULL;
    diag = diag != NULL ? diag : &unused;
    st_diag_init(diag, in_path);
    if (result != NULL) {
        memset(result, 0, sizeof(*result));
    }
    lmc_status status = st_options_copy(&complete, options, diag);
    if (status == LMC_OK) {
        status = lmc_st_open(in_path, &source, diag);
    }
    if (status == LMC_OK) {
        status = convert_open_file(source, out_path, &complete, result, diag);
    }
    lmc_st_close(source);
    return status;
}
