/*
 * st_restore.c - archive -> safetensors file, and the same without writing: verify. The place of every
 * block is known beforehand, so runs need no order among themselves.
 */
#include "st_engine.h"
#include "st_file.h"
#include "st_options.h"

#include <stdlib.h>
#include <string.h>

typedef struct restoration {
    const lmc_st_file *source;
    os_output *output; /* NULL: verify only */
} restoration;

typedef struct restore_item {
    lmc_frame *frame;
    lmc_info info;
    lmc_block_entry *entries; /* of a frame without an index: what its blocks hashed to; else NULL */
} restore_item;

/* Disk space is asked for from this size on; smaller tensors come and go too fast for it. */
#define RESERVE_NBYTES_MIN ((uint64_t)1 << 20)

static uint64_t output_offset(const lmc_st_file *source, size_t index)
{
    return 8 + source->header.text_nbytes + source->header.tensors[index].begin;
}

/* ---- prepare: open the frame ---- */

static lmc_status prepare(void *user, st_worker *worker, st_slot *slot)
{
    const restoration *const restoration = user;
    const lmc_st_file *const source = restoration->source;
    restore_item *const item = calloc(1, sizeof(*item));
    if (item == NULL) {
        return st_fail_nomem(&worker->diag);
    }
    slot->item = item;
    const lmc_status status = st_frame_open(source, worker->ctx, slot->index, &item->frame, &worker->diag);
    if (status != LMC_OK) {
        return status;
    }
    lmc_frame_info(item->frame, &item->info);
    slot->block_count = item->info.block_count;
    slot->block_nbytes = item->info.block_nbytes;
    slot->content_nbytes = item->info.content_nbytes;
    if (item->info.mode != LMC_FRAME_CODED) {
        item->entries = calloc((size_t)item->info.block_count + 1, sizeof(*item->entries));
        if (item->entries == NULL) {
            return st_fail_nomem(&worker->diag);
        }
    }
    if (restoration->output != NULL && item->info.content_nbytes >= RESERVE_NBYTES_MIN) {
        return os_output_reserve(restoration->output, output_offset(source, slot->index),
                                 item->info.content_nbytes, &worker->diag);
    }
    return LMC_OK;
}

static void release(void *user, st_slot *slot)
{
    restore_item *const item = slot->item;
    (void)user;
    if (item != NULL) {
        lmc_frame_free(item->frame);
        free(item->entries);
        free(item);
    }
    slot->item = NULL;
}

/* ---- run: read blocks, decode and verify them, write them to their place ---- */

static lmc_status run_blocks(void *user, st_worker *worker, st_slot *slot, const st_run *run)
{
    const restoration *const restoration = user;
    const lmc_st_file *const source = restoration->source;
    const restore_item *const item = slot->item;
    uint64_t offset = 0;
    size_t stored_nbytes = 0;
    lmc_status status = st_frame_extent(source, slot->index, item->frame, run->first_block, run->block_count,
                                        &offset, &stored_nbytes, &worker->diag);
    if (status != LMC_OK) {
        return status;
    }
    unsigned char *const stored = st_worker_stored(worker, stored_nbytes);
    unsigned char *const content = st_worker_content(worker, run->content_nbytes);
    if (stored == NULL || content == NULL) {
        return LMC_ERR_NOMEM;
    }
    status = os_input_read(&source->input, offset, stored, stored_nbytes, &worker->diag);
    if (status != LMC_OK) {
        return st_file_blame(source, slot->index, status, &worker->diag);
    }
    status = st_frame_decode(source, worker->ctx, slot->index, item->frame, run->first_block,
                             run->block_count, stored, stored_nbytes, content, run->content_nbytes,
                             item->entries == NULL ? NULL : item->entries + run->first_block, &worker->diag);
    if (status != LMC_OK || restoration->output == NULL) {
        return status;
    }
    const uint64_t content_offset = run->first_block * item->info.block_nbytes;
    return os_output_write(restoration->output, output_offset(source, slot->index) + content_offset, content,
                           run->content_nbytes, &worker->diag);
}

/* Blocks of a frame without an index are only now known to be right. What was written of them until here
 * stands in a file without a name. */
static lmc_status finish(void *user, st_worker *worker, st_slot *slot)
{
    const restoration *const restoration = user;
    const restore_item *const item = slot->item;
    if (item->entries == NULL) {
        return LMC_OK;
    }
    return st_frame_check_entries(restoration->source, slot->index, item->entries, item->info.block_count,
                                  &worker->diag);
}

static const st_engine_ops restore_ops = {prepare, run_blocks, finish, release};

/* ---- all of it ---- */

static lmc_status restore_tensors(const lmc_st_file *source, os_output *output, const lmc_st_options *options,
                                  lmc_st_diag *diag)
{
    restoration restoration = {source, output};
    const lmc_status status = st_engine_run(&restore_ops, &restoration, source->header.tensor_count,
                                            source->header.data_nbytes, options, diag);
    return status == LMC_OK ? os_input_check_unchanged(&source->input, diag) : status;
}

static lmc_status write_header(const lmc_st_file *source, const os_output *output, lmc_st_diag *diag)
{
    unsigned char length[8];
    st_store_u64(length, source->header.text_nbytes);
    const lmc_status status = os_output_write(output, 0, length, sizeof(length), diag);
    return status != LMC_OK ? status
                            : os_output_write(output, sizeof(length), source->header.text,
                                              source->header.text_nbytes, diag);
}

static lmc_status restore_open_file(const lmc_st_file *source, const char *out_path,
                                    const lmc_st_options *options, lmc_st_diag *diag)
{
    os_output output;
    if (!source->is_archive) {
        return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                       "is a plain safetensors file, not an LMC archive");
    }
    lmc_status status = os_output_create(&output, out_path, &source->input, options->force, diag);
    if (status != LMC_OK) {
        return status;
    }
    status = write_header(source, &output, diag);
    if (status == LMC_OK) {
        status = restore_tensors(source, &output, options, diag);
    }
    if (status != LMC_OK) {
        os_output_discard(&output);
        return status;
    }
    return os_output_commit(&output, &source->input, options->force, options->no_fsync, diag);
}

static void set_result(lmc_st_result *result, const lmc_st_file *source)
{
    if (result != NULL) {
        result->file_nbytes = source->file_nbytes;
        result->stored_nbytes = source->input.nbytes;
        result->tensor_count = source->header.tensor_count;
        result->is_archive = source->is_archive;
    }
}

/* What restore and verify begin with. */
static lmc_status begin(const char *in_path, const lmc_st_options *options, lmc_st_options *complete,
                        lmc_st_file **source, lmc_st_result *result, lmc_st_diag *diag)
{
    *source = NULL;
    st_diag_init(diag, in_path);
    if (result != NULL) {
        memset(result, 0, sizeof(*result));
    }
    const lmc_status status = st_options_copy(complete, options, diag);
    return status == LMC_OK ? lmc_st_open(in_path, source, diag) : status;
}

lmc_status lmc_st_restore(const char *in_path, const char *out_path, const lmc_st_options *options,
                          lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_diag unused;
    lmc_st_options complete;
    lmc_st_file *source = NULL;
    diag = diag != NULL ? diag : &unused;
    lmc_status status = begin(in_path, options, &complete, &source, result, diag);
    if (status == LMC_OK) {
        status = restore_open_file(source, out_path, &complete, diag);
    }
    if (status == LMC_OK) {
        set_result(result, source);
    }
    lmc_st_close(source);
    return status;
}

lmc_status lmc_st_verify(const char *in_path, const lmc_st_options *options, lmc_st_result *result,
                         lmc_st_diag *diag)
{
    lmc_st_diag unused;
    lmc_st_options complete;
    lmc_st_file *source = NULL;
    diag = diag != NULL ? diag : &unused;
    lmc_status status = begin(in_path, options, &complete, &source, result, diag);
    if (status == LMC_OK && source->is_archive) {
        status = restore_tensors(source, NULL, &complete, diag);
    }
    if (status == LMC_OK) {
        set_result(result, source);
    }
    lmc_st_close(source);
    return status;
}
