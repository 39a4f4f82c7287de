/*
 * stored_bytes.c - where the stored bytes of tensors and of parts of them are, for those who fetch or decode them
 * themselves; and where tensors are in the original file.
 */
#include "safetensors/archive/frame.h"
#include "safetensors/common/options.h"
#include "safetensors/read/view.h"

lmc_status lmc_st_tensor_place(const lmc_st_file *file, uint64_t index, uint64_t *offset, uint64_t *nbytes)
{
    st_listed listed;
    const int is_known = st_file_find_listed(file, index, &listed);
    *offset = !is_known ? 0 : file->places[st_file_owner(file, listed.tensor)];
    *nbytes = !is_known          ? 0
              : file->is_archive ? st_file_frame_nbytes(file, listed.tensor)
                                 : st_file_tensor_nbytes(file, listed.tensor);
    return is_known ? LMC_OK : LMC_ERR_ARG;
}

lmc_status lmc_st_tensor_origin(const lmc_st_file *file, uint64_t index, uint64_t *offset, uint64_t *nbytes)
{
    st_listed listed;
    const int is_known = st_file_find_listed(file, index, &listed);
    *offset = !is_known ? 0 : st_file_origin(file, listed.tensor);
    *nbytes = !is_known ? 0 : st_file_tensor_nbytes(file, listed.tensor);
    return is_known ? LMC_OK : LMC_ERR_ARG;
}

/* ---- a part of a tensor ---- */

/* A part of a tensor's content, and where its stored bytes stand. */
typedef struct range_place {
    uint64_t begin, end;
    uint64_t offset, stored_nbytes;
} range_place;

/* The blocks of a frame that hold a part, which is not empty. */
static lmc_status find_blocks(const lmc_st_file *file, size_t index, range_place *place, lmc_st_diag *diag)
{
    lmc_ctx *ctx = NULL;
    st_frame frame;
    if (lmc_ctx_create(&file->memory, &ctx) != LMC_OK)
        return st_fail_nomem(diag);
    lmc_status status = st_frame_open(&frame, file, NULL, ctx, index, diag);
    if (status == LMC_OK && st_frame_has_index(&frame.info)) {
        const uint64_t block_nbytes = frame.info.block_nbytes;
        const uint64_t first = place->begin / block_nbytes;
        const uint64_t last = (place->end - 1) / block_nbytes;
        size_t stored_nbytes = 0;
        status = st_frame_extent(&frame, first, last - first + 1, &place->offset, &stored_nbytes, diag);
        place->stored_nbytes = stored_nbytes;
        place->begin = first * block_nbytes;
        place->end =
            last + 1 < frame.info.block_count ? (last + 1) * block_nbytes : frame.info.content_nbytes;
    } else if (status == LMC_OK) {
        *place = (range_place){.end = frame.info.content_nbytes,
                               .offset = st_file_frame_offset(file, index),
                               .stored_nbytes = st_file_frame_nbytes(file, index)};
    }
    st_frame_close(&frame);
    lmc_ctx_free(ctx);
    return status;
}

static lmc_status find_range(const lmc_st_file *file, uint64_t index, int of_storage, uint64_t nbytes,
                             range_place *place, lmc_st_diag *diag)
{
    st_listed listed;
    if (!st_file_find_listed(file, index, &listed))
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
    if (of_storage)
        listed.view = NULL;
    const uint64_t content_nbytes = st_listed_nbytes(file, &listed);
    if (place->begin > content_nbytes || nbytes > content_nbytes - place->begin) {
        st_diag_set_tensor(diag, listed.name.bytes, listed.name.nbytes);
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the range leaves the tensor");
    }
    place->end = place->begin + nbytes;
    if (listed.view)
        st_view_extent(listed.view, place->begin, nbytes, &place->begin, &place->end);
    place->offset = st_file_frame_offset(file, listed.tensor);
    if (nbytes > 0 && file->is_archive)
        return find_blocks(file, listed.tensor, place, diag);
    place->offset += file->is_archive ? 0 : place->begin;
    place->stored_nbytes = place->end - place->begin;
    return LMC_OK;
}

lmc_status lmc_st_range_place(const lmc_st_file *file, uint64_t index, int of_storage, uint64_t first_byte,
                              uint64_t nbytes, uint64_t *offset, uint64_t *stored_nbytes, uint64_t *begin,
                              uint64_t *end, lmc_st_diag *diag)
{
    st_call call;
    range_place place = {.begin = first_byte};
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    if (status == LMC_OK)
        status = find_range(file, index, of_storage, nbytes, &place, call.diag);
    if (status != LMC_OK)
        place = (range_place){0};
    *offset = place.offset;
    *stored_nbytes = place.stored_nbytes;
    *begin = place.begin;
    *end = place.end;
    return st_call_end(&call, status);
}

/* ---- reading ---- */

lmc_status lmc_st_read_stored(const lmc_st_file *file, uint64_t index, uint64_t first_byte, size_t nbytes,
                              void *dst, lmc_st_diag *diag)
{
    st_call call;
    st_listed listed;
    uint64_t offset, stored_nbytes;
    const int is_known = lmc_st_tensor_place(file, index, &offset, &stored_nbytes) == LMC_OK;
    (void)st_file_find_listed(file, index, &listed);
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    if (status == LMC_OK && !is_known)
        status = st_fail(call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
    else if (status == LMC_OK && (first_byte > stored_nbytes || nbytes > stored_nbytes - first_byte))
        status = st_fail(call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the range leaves the stored tensor");
    else if (status == LMC_OK && nbytes > 0)
        status = st_file_blame(file, listed.tensor,
                               st_input_read(&file->input, offset + first_byte, dst, nbytes, call.diag),
                               call.diag);
    return st_call_end(&call, status);
}
