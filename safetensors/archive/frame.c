/*
 * frame.c - head, tail and blocks of a frame, read and checked.
 */
#include "safetensors/archive/frame.h"

#include "common/abi.h"

#include <string.h>

/* Read at once when a frame is opened: small frames whole, others with their head. */
#define START_NBYTES 8192

/* A coded block may be a little larger than its content; frames that claim more are refused before memory
 * is asked for. */
#define BLOCK_EXCESS_MAX 65536

/* ---- opening ---- */

/* The first bytes of a frame, and where others may be found. */
typedef struct frame_start {
    const st_window *ahead; /* may be NULL */
    unsigned char bytes[START_NBYTES];
    size_t nbytes;
} frame_start;

/* Copies bytes [at, at + nbytes) of the frame. */
static lmc_status copy_part(const st_frame *frame, const frame_start *start, uint64_t at, unsigned char *dst,
                            size_t nbytes, lmc_st_diag *diag)
{
    const uint64_t offset = st_file_frame_offset(frame->file, frame->index) + at;
    const unsigned char *const bytes =
        at + nbytes <= start->nbytes ? start->bytes + at : st_window_find(start->ahead, offset, nbytes);
    if (!bytes)
        return st_input_read(&frame->file->input, offset, dst, nbytes, diag);
    memcpy(dst, bytes, nbytes);
    return LMC_OK;
}

/* The frame's head, whose bytes are `start`, against header and file; fills info. */
static lmc_status check_head(st_frame *frame, const unsigned char *start, size_t start_nbytes,
                             lmc_st_diag *diag)
{
    const lmc_st_file *const file = frame->file;
    lmc_info *const info = &frame->info;
    const uint64_t offset = st_file_frame_offset(file, frame->index);
    const uint64_t frame_nbytes = st_file_frame_nbytes(file, frame->index);
    const int is_linked = st_bases_find(&file->bases, st_file_owner(file, frame->index)) != NULL;
    lmc_diag cause = LMC_INIT(lmc_diag);
    *info = (lmc_info)LMC_INIT(lmc_info);
    const lmc_status status = lmc_frame_read_info(start, start_nbytes, info, &cause);
    if (status != LMC_OK)
        return st_fail(diag, status, offset + cause.offset, "%s: %s", lmc_status_text(status), cause.text);
    if (info->dtype != (lmc_dtype)file->header.tensors[frame->index].dtype)
        return st_fail(diag, LMC_ERR_CORRUPT, offset, "its frame has another dtype: it belongs elsewhere");
    if (info->content_nbytes != st_file_tensor_nbytes(file, frame->index))
        return st_fail(diag, LMC_ERR_CORRUPT, offset, "its frame has another size: it belongs elsewhere");
    if ((info->mode == LMC_FRAME_DELTA) != is_linked)
        return st_fail(diag, LMC_ERR_CORRUPT, offset,
                       "the archive table and its frame disagree on whether it needs a base");
    if (info->frame_nbytes_min > frame_nbytes)
        return st_fail(diag, LMC_ERR_CORRUPT, offset, "its frame has %llu bytes where %llu are the least",
                       (unsigned long long)frame_nbytes, (unsigned long long)info->frame_nbytes_min);
    return LMC_OK;
}

static lmc_status open_frame(st_frame *frame, const st_window *ahead, lmc_ctx *ctx, lmc_st_diag *diag)
{
    frame_start start;
    const lmc_st_file *const file = frame->file;
    const uint64_t offset = st_file_frame_offset(file, frame->index);
    const uint64_t frame_nbytes = st_file_frame_nbytes(file, frame->index);
    const size_t start_nbytes = frame_nbytes < START_NBYTES ? (size_t)frame_nbytes : START_NBYTES;
    start.ahead = ahead;
    start.nbytes = 0;
    if (offset > file->input.nbytes || frame_nbytes > file->input.nbytes - offset)
        return st_fail(diag, LMC_ERR_TRUNCATED, file->input.nbytes, "the archive ends before its frame does");
    LMC_TRY(copy_part(frame, &start, 0, start.bytes, start_nbytes, diag));
    start.nbytes = start_nbytes;
    LMC_TRY(check_head(frame, start.bytes, start.nbytes, diag));
    /* head and tail, one behind the other; both are parts of a file that is there, so this is no more than the file's
     * size */
    const size_t head_nbytes = frame->info.head_nbytes;
    const size_t tail_nbytes = (size_t)frame->info.tail_nbytes;
    unsigned char *const ends =
        st_allocate_array(&file->memory, frame->info.head_nbytes + frame->info.tail_nbytes + 1, 1);
    if (!ends)
        return st_fail_nomem(diag);
    unsigned char *const tail = ends + head_nbytes;
    lmc_status status = copy_part(frame, &start, 0, ends, head_nbytes, diag);
    if (status == LMC_OK)
        status = copy_part(frame, &start, frame_nbytes - tail_nbytes, tail, tail_nbytes, diag);
    if (status == LMC_OK) {
        status = lmc_frame_create(ctx, ends, head_nbytes, tail, tail_nbytes, frame_nbytes, &frame->coded);
        if (status == LMC_OK)
            status = lmc_frame_info(frame->coded, &frame->info);
        if (status != LMC_OK)
            status = st_fail_codec(diag, ctx, status, offset);
    }
    if (status == LMC_OK && lmc_frame_content_hash(frame->coded) != file->hashes[frame->index])
        status = st_fail(diag, LMC_ERR_CHECKSUM, offset,
                         "its frame holds other content than the archive table says: it belongs elsewhere");
    st_release(&file->memory, ends);
    return status;
}

lmc_status st_frame_open(st_frame *frame, const lmc_st_file *file, const st_window *ahead, lmc_ctx *ctx,
                         size_t index, lmc_st_diag *diag)
{
    *frame = (st_frame){.file = file, .index = index};
    const lmc_status status = open_frame(frame, ahead, ctx, diag);
    if (status != LMC_OK)
        st_frame_close(frame);
    return st_file_blame(file, index, status, diag);
}

void st_frame_close(st_frame *frame)
{
    lmc_frame_free(frame->coded);
    frame->coded = NULL;
}

/* ---- blocks ---- */

lmc_status st_frame_extent(const st_frame *frame, uint64_t first, uint64_t count, uint64_t *offset,
                           size_t *nbytes, lmc_st_diag *diag)
{
    const uint64_t frame_offset = st_file_frame_offset(frame->file, frame->index);
    size_t sum = 0;
    *offset = frame_offset;
    *nbytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = 0;
        size_t stored_nbytes = 0;
        size_t content_nbytes = 0;
        const lmc_status status =
            lmc_frame_block(frame->coded, first + i, &at, &stored_nbytes, &content_nbytes);
        if (status != LMC_OK || stored_nbytes > content_nbytes + BLOCK_EXCESS_MAX ||
            (i > 0 && frame_offset + at != *offset + sum)) {
            st_fail(diag, LMC_ERR_CORRUPT, frame_offset, "block %llu has an impossible size",
                    (unsigned long long)(first + i));
            return st_file_blame(frame->file, frame->index, LMC_ERR_CORRUPT, diag);
        }
        *offset = i == 0 ? frame_offset + at : *offset;
        if (__builtin_add_overflow(sum, stored_nbytes, &sum))
            return st_file_blame(frame->file, frame->index, st_fail_nomem(diag), diag);
    }
    *nbytes = sum;
    return LMC_OK;
}

/* What decoding a block has come to. The codec's offsets are the frame's, not the block's. */
static lmc_status blame_block(const st_frame *frame, lmc_ctx *ctx, lmc_status status, lmc_st_diag *diag)
{
    if (status == LMC_OK)
        return LMC_OK;
    st_fail_codec(diag, ctx, status, st_file_frame_offset(frame->file, frame->index));
    return st_file_blame(frame->file, frame->index, status, diag);
}

lmc_status st_frame_decode(const st_frame *frame, lmc_ctx *ctx, const st_blocks *blocks, lmc_st_diag *diag)
{
    const lmc_info *const info = &frame->info;
    const size_t scale = info->base_block_nbytes / info->block_nbytes;
    size_t src_at = 0;
    size_t dst_at = 0;
    for (uint64_t i = 0; i < blocks->count; i++) {
        uint64_t at = 0;
        size_t block_nbytes = 0;
        size_t content_nbytes = 0;
        lmc_status status =
            lmc_frame_block(frame->coded, blocks->first + i, &at, &block_nbytes, &content_nbytes);
        if (status == LMC_OK && block_nbytes > blocks->stored_nbytes - src_at)
            status = LMC_ERR_CORRUPT;
        if (status == LMC_OK) {
            const unsigned char *const base =
                !blocks->base ? NULL : blocks->base + (size_t)i * info->base_block_nbytes;
            status = lmc_decode_delta_block(ctx, frame->coded, blocks->first + i, blocks->stored + src_at,
                                            block_nbytes, base, content_nbytes * scale, blocks->dst + dst_at,
                                            blocks->dst_nbytes - dst_at,
                                            !blocks->entries ? NULL : &blocks->entries[i]);
        }
        LMC_TRY(blame_block(frame, ctx, status, diag));
        src_at += block_nbytes;
        dst_at += content_nbytes;
    }
    return LMC_OK;
}

lmc_status st_frame_decode_changes(const st_frame *frame, lmc_ctx *ctx, const st_blocks *block,
                                   lmc_changes *changes, lmc_st_diag *diag)
{
    const lmc_status status =
        lmc_decode_delta_changes(ctx, frame->coded, block->first, block->stored, block->stored_nbytes,
                                 block->base, block->dst_nbytes, changes);
    return blame_block(frame, ctx, status, diag);
}

lmc_status st_frame_read_stored(const st_frame *frame, const lmc_allocator *memory, st_buffer *room,
                                st_blocks *blocks, lmc_st_diag *diag)
{
    uint64_t offset = 0;
    LMC_TRY(st_frame_extent(frame, blocks->first, blocks->count, &offset, &blocks->stored_nbytes, diag));
    unsigned char *const stored = st_buffer_grow(memory, room, blocks->stored_nbytes);
    const lmc_status status =
        stored ? st_input_read(&frame->file->input, offset, stored, blocks->stored_nbytes, diag)
               : st_fail_nomem(diag);
    blocks->stored = stored;
    return st_file_blame(frame->file, frame->index, status, diag);
}

lmc_status st_frame_read(const st_frame *frame, lmc_ctx *ctx, const lmc_allocator *memory, st_buffer *room,
                         st_blocks *blocks, lmc_st_diag *diag)
{
    LMC_TRY(st_frame_read_stored(frame, memory, room, blocks, diag));
    return st_frame_decode(frame, ctx, blocks, diag);
}

lmc_status st_frame_check_entries(const st_frame *frame, const lmc_block_entry *entries, lmc_st_diag *diag)
{
    if (lmc_content_hash(entries, frame->info.block_count) == frame->file->hashes[frame->index])
        return LMC_OK;
    st_fail(diag, LMC_ERR_CHECKSUM, st_file_frame_offset(frame->file, frame->index),
            "%s: its content is not what was written", lmc_status_text(LMC_ERR_CHECKSUM));
    return st_file_blame(frame->file, frame->index, LMC_ERR_CHECKSUM, diag);
}

/* ---- mode and form alone ---- */

/* form: NULL if it is not wanted. */
static lmc_status read_mode(const lmc_st_file *file, uint64_t index, lmc_st_mode *mode, lmc_form_info *form,
                            lmc_st_diag *diag)
{
    st_call call;
    st_listed listed;
    st_frame frame = {.file = file};
    const int is_known = st_file_find_listed(file, index, &listed);
    *mode = LMC_ST_MODE_STORED;
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    if (status == LMC_OK && !is_known) {
        status = st_fail(call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
    } else if (status == LMC_OK &&
               (!file->is_archive || st_file_owner(file, listed.tensor) != listed.tensor)) {
        *mode = file->is_archive ? LMC_ST_MODE_ALIAS : LMC_ST_MODE_PLAIN;
    } else if (status == LMC_OK) {
        unsigned char start[LMC_FORM_NBYTES];
        const size_t wanted = form ? LMC_FORM_NBYTES : LMC_INFO_NBYTES;
        const uint64_t frame_nbytes = st_file_frame_nbytes(file, listed.tensor);
        const uint64_t offset = st_file_frame_offset(file, listed.tensor);
        const size_t nbytes = frame_nbytes < wanted ? (size_t)frame_nbytes : wanted;
        lmc_diag cause = LMC_INIT(lmc_diag);
        frame.index = listed.tensor;
        status = st_input_read(&file->input, offset, start, nbytes, call.diag);
        if (status == LMC_OK)
            status = check_head(&frame, start, nbytes, call.diag);
        if (status == LMC_OK && form) {
            status = lmc_frame_read_form(start, nbytes, form, &cause);
            if (status != LMC_OK)
                st_fail(call.diag, status, offset + cause.offset, "%s: %s", lmc_status_text(status),
                        cause.text);
        }
        if (status == LMC_OK)
            *mode = (lmc_st_mode)frame.info.mode;
        status = st_file_blame(file, listed.tensor, status, call.diag);
    }
    return st_call_end(&call, status);
}

lmc_status lmc_st_tensor_mode(const lmc_st_file *file, uint64_t index, lmc_st_mode *mode, lmc_st_diag *diag)
{
    return read_mode(file, index, mode, NULL, diag);
}

lmc_status lmc_st_tensor_form(const lmc_st_file *file, uint64_t index, lmc_st_mode *mode, lmc_form_info *form,
                              lmc_st_diag *diag)
{
    lmc_form_info found = LMC_INIT(lmc_form_info);
    *mode = LMC_ST_MODE_STORED;
    if (!lmc_struct_is_known(form, sizeof *form)) {
        st_call call;
        lmc_status refused = st_call_begin(&call, file->path, NULL, diag);
        if (refused == LMC_OK)
            refused = st_fail(call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                              "the form is not initialised, or of a newer version");
        return st_call_end(&call, refused);
    }
    const lmc_status status = read_mode(file, index, mode, &found, diag);
    lmc_struct_copy(form, &found, lmc_struct_size(form));
    return status;
}

lmc_status lmc_st_content_hash(const lmc_st_file *file, uint64_t index, uint64_t *hash, size_t *block_nbytes,
                               lmc_st_diag *diag)
{
    st_call call;
    st_listed listed;
    *block_nbytes = 0;
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    if (status == LMC_OK &&
        (!file->is_archive || !st_file_find_listed(file, index, &listed) || listed.view)) {
        status = st_fail(call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                         "the file is not an archive, or has no stored tensor of this number");
    } else if (status == LMC_OK && st_file_tensor_nbytes(file, (size_t)index) > 0) {
        lmc_ctx *ctx = NULL;
        st_frame frame = {0};
        status = lmc_ctx_create(&file->memory, &ctx) == LMC_OK ? LMC_OK : st_fail_nomem(call.diag);
        if (status == LMC_OK)
            status = st_frame_open(&frame, file, NULL, ctx, (size_t)index, call.diag);
        *block_nbytes = status == LMC_OK ? frame.info.block_nbytes : 0;
        st_frame_close(&frame);
        lmc_ctx_free(ctx);
    }
    *hash = status == LMC_OK ? file->hashes[index] : 0;
    return st_call_end(&call, status);
}
