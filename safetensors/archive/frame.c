/*
 * frame.c - frames in an archive: opening one from its head and tail, decoding runs of its blocks.
 * What a frame says of itself is compared with what the original header and the table say of its tensor.
 */
#include "safetensors/archive/file.h"

#include <string.h>

/* Read at once when a frame is opened: small frames whole, others with their head. */
#define START_NBYTES 8192

/* A coded block may be a little larger than its content; frames that claim more are refused before memory
 * is asked for. */
#define BLOCK_EXCESS_MAX 65536

/* The frame's head against header and file; fills info. */
static lmc_status check_head(const lmc_st_file *file, size_t index, const unsigned char *start,
                             size_t start_nbytes, lmc_info *info, lmc_st_diag *diag)
{
    const uint64_t offset = st_file_frame_offset(file, index);
    const uint64_t frame_nbytes = st_file_frame_nbytes(file, index);
    lmc_diag cause = LMC_INIT(lmc_diag);
    const lmc_status status = lmc_read_info(start, start_nbytes, info, &cause);
    if (status != LMC_OK)
        return st_fail(diag, status, offset + cause.offset, "%s: %s", lmc_status_text(status), cause.text);
    if (info->dtype != (lmc_dtype)file->header.tensors[index].dtype)
        return st_fail(diag, LMC_ERR_CORRUPT, offset, "its frame has another dtype: it belongs elsewhere");
    if (info->content_nbytes != st_file_tensor_nbytes(file, index))
        return st_fail(diag, LMC_ERR_CORRUPT, offset, "its frame has another size: it belongs elsewhere");
    if ((info->mode == LMC_FRAME_DELTA) !=
        (st_bases_find(&file->bases, st_file_owner(file, index)) != NULL)) {
        return st_fail(diag, LMC_ERR_CORRUPT, offset,
                       "the archive table and its frame disagree on whether it needs a base");
    }
    if (info->head_nbytes > frame_nbytes || info->tail_nbytes > frame_nbytes - info->head_nbytes)
        return st_fail(diag, LMC_ERR_CORRUPT, offset, "its frame is shorter than its head and tail");
    return LMC_OK;
}

static lmc_status read_at(const lmc_st_file *file, const os_window *ahead, uint64_t offset,
                          unsigned char *dst, size_t nbytes, lmc_st_diag *diag)
{
    const unsigned char *const bytes = os_window_find(ahead, offset, nbytes);
    if (bytes) {
        memcpy(dst, bytes, nbytes);
        return LMC_OK;
    }
    return os_input_read(&file->input, offset, dst, nbytes, diag);
}

/* Copies bytes [at, at + nbytes) of the frame: from `start` if they are there, else from the file. */
static lmc_status copy_part(const lmc_st_file *file, const os_window *ahead, size_t index,
                            const unsigned char *start, size_t start_nbytes, uint64_t at, unsigned char *dst,
                            size_t nbytes, lmc_st_diag *diag)
{
    if (at + nbytes <= start_nbytes) {
        memcpy(dst, start + at, nbytes);
        return LMC_OK;
    }
    return read_at(file, ahead, st_file_frame_offset(file, index) + at, dst, nbytes, diag);
}

/* Opens the frame from head and tail, put one behind the other into `ends`. */
static lmc_status open_ends(const lmc_st_file *file, const os_window *ahead, lmc_ctx *ctx, size_t index,
                            const lmc_info *info, const unsigned char *start, size_t start_nbytes,
                            unsigned char *ends, lmc_frame **frame, lmc_st_diag *diag)
{
    const uint64_t frame_nbytes = st_file_frame_nbytes(file, index);
    const size_t tail_nbytes = (size_t)info->tail_nbytes;
    unsigned char *const tail = ends + info->head_nbytes;
    lmc_status status = copy_part(file, ahead, index, start, start_nbytes, 0, ends, info->head_nbytes, diag);
    if (status == LMC_OK) {
        status = copy_part(file, ahead, index, start, start_nbytes, frame_nbytes - tail_nbytes, tail,
                           tail_nbytes, diag);
    }
    if (status != LMC_OK)
        return status;
    status = lmc_frame_open(ctx, ends, info->head_nbytes, tail, tail_nbytes, frame_nbytes, frame);
    if (status != LMC_OK)
        return st_fail_codec(diag, ctx, status, st_file_frame_offset(file, index));
    if (lmc_frame_content_hash(*frame) != file->hashes[index]) {
        lmc_frame_free(*frame);
        *frame = NULL;
        return st_fail(diag, LMC_ERR_CHECKSUM, st_file_frame_offset(file, index),
                       "its frame holds other content than the archive table says: it belongs elsewhere");
    }
    return LMC_OK;
}

lmc_status st_frame_open(const lmc_st_file *file, const os_window *ahead, lmc_ctx *ctx, size_t index,
                         lmc_frame **frame, lmc_st_diag *diag)
{
    unsigned char start[START_NBYTES];
    lmc_info info = LMC_INIT(lmc_info);
    const uint64_t frame_nbytes = st_file_frame_nbytes(file, index);
    const size_t start_nbytes = frame_nbytes < sizeof start ? (size_t)frame_nbytes : sizeof start;
    *frame = NULL;
    if (st_file_frame_offset(file, index) > file->input.nbytes ||
        frame_nbytes > file->input.nbytes - st_file_frame_offset(file, index)) {
        st_fail(diag, LMC_ERR_TRUNCATED, file->input.nbytes, "the archive ends before its frame does");
        return st_file_blame(file, index, LMC_ERR_TRUNCATED, diag);
    }
    lmc_status status = read_at(file, ahead, st_file_frame_offset(file, index), start, start_nbytes, diag);
    if (status == LMC_OK)
        status = check_head(file, index, start, start_nbytes, &info, diag);
    if (status != LMC_OK)
        return st_file_blame(file, index, status, diag);
    /* both are parts of a file that is there, so this is no more than the file's size */
    unsigned char *const ends = st_allocate_array(&file->memory, info.head_nbytes + info.tail_nbytes + 1, 1);
    if (!ends)
        return st_file_blame(file, index, st_fail_nomem(diag), diag);
    status = open_ends(file, ahead, ctx, index, &info, start, start_nbytes, ends, frame, diag);
    st_release(&file->memory, ends);
    return status == LMC_OK ? LMC_OK : st_file_blame(file, index, status, diag);
}

lmc_status st_frame_extent(const lmc_st_file *file, size_t index, const lmc_frame *frame, uint64_t first,
                           uint64_t count, uint64_t *offset, size_t *nbytes, lmc_st_diag *diag)
{
    size_t sum = 0;
    *offset = st_file_frame_offset(file, index);
    *nbytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = 0;
        size_t stored_nbytes = 0;
        size_t content_nbytes = 0;
        const lmc_status status = lmc_frame_block(frame, first + i, &at, &stored_nbytes, &content_nbytes);
        if (status != LMC_OK || stored_nbytes > content_nbytes + BLOCK_EXCESS_MAX ||
            (i > 0 && st_file_frame_offset(file, index) + at != *offset + sum)) {
            st_fail(diag, LMC_ERR_CORRUPT, st_file_frame_offset(file, index),
                    "block %llu has an impossible size", (unsigned long long)(first + i));
            return st_file_blame(file, index, LMC_ERR_CORRUPT, diag);
        }
        *offset = i == 0 ? st_file_frame_offset(file, index) + at : *offset;
        if (__builtin_add_overflow(sum, stored_nbytes, &sum))
            return st_file_blame(file, index, st_fail_nomem(diag), diag);
    }
    *nbytes = sum;
    return LMC_OK;
}

lmc_status st_frame_decode(const lmc_st_file *file, lmc_ctx *ctx, size_t index, const lmc_frame *frame,
                           uint64_t first, uint64_t count, const unsigned char *stored, size_t stored_nbytes,
                           const unsigned char *base, unsigned char *dst, size_t dst_capacity,
                           lmc_block_entry *entries, lmc_st_diag *diag)
{
    size_t src_at = 0;
    size_t dst_at = 0;
    lmc_info info = LMC_INIT(lmc_info);
    lmc_frame_info(frame, &info);
    const size_t scale = info.base_block_nbytes / info.block_nbytes;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = 0;
        size_t block_nbytes = 0;
        size_t content_nbytes = 0;
        lmc_status status = lmc_frame_block(frame, first + i, &at, &block_nbytes, &content_nbytes);
        if (status == LMC_OK && block_nbytes > stored_nbytes - src_at)
            status = LMC_ERR_CORRUPT;
        if (status == LMC_OK) {
            const unsigned char *const block_base = !base ? NULL : base + (size_t)i * info.base_block_nbytes;
            status = lmc_decode_block(ctx, frame, first + i, stored + src_at, block_nbytes, block_base,
                                      content_nbytes * scale, dst + dst_at, dst_capacity - dst_at,
                                      !entries ? NULL : &entries[i]);
        }
        if (status != LMC_OK) {
            /* the codec's offsets are the frame's, not the block's */
            st_fail_codec(diag, ctx, status, st_file_frame_offset(file, index));
            return st_file_blame(file, index, status, diag);
        }
        src_at += block_nbytes;
        dst_at += content_nbytes;
    }
    return LMC_OK;
}

lmc_status st_frame_check_entries(const lmc_st_file *file, size_t index, const lmc_block_entry *entries,
                                  uint64_t count, lmc_st_diag *diag)
{
    if (lmc_content_hash(entries, count) == file->hashes[index])
        return LMC_OK;
    st_fail(diag, LMC_ERR_CHECKSUM, st_file_frame_offset(file, index),
            "%s: its content is not what was written", lmc_status_text(LMC_ERR_CHECKSUM));
    return st_file_blame(file, index, LMC_ERR_CHECKSUM, diag);
}

lmc_status st_frame_mode(const lmc_st_file *file, uint64_t index, lmc_st_mode *mode, lmc_st_diag *diag)
{
    unsigned char start[LMC_INFO_NBYTES];
    lmc_info info = LMC_INIT(lmc_info);
    if (index >= file->header.tensor_count)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
    if (!file->is_archive) {
        *mode = LMC_ST_MODE_PLAIN;
        return LMC_OK;
    }
    if (st_file_owner(file, (size_t)index) != index) {
        *mode = LMC_ST_MODE_ALIAS;
        return LMC_OK;
    }
    const uint64_t frame_nbytes = st_file_frame_nbytes(file, index);
    const size_t nbytes = frame_nbytes < sizeof start ? (size_t)frame_nbytes : sizeof start;
    lmc_status status = os_input_read(&file->input, st_file_frame_offset(file, index), start, nbytes, diag);
    if (status == LMC_OK)
        status = check_head(file, (size_t)index, start, nbytes, &info, diag);
    if (status != LMC_OK)
        return st_file_blame(file, (size_t)index, status, diag);
    *mode = (lmc_st_mode)info.mode;
    return LMC_OK;
}
