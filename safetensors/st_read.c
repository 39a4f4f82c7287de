/*
 * st_read.c - reading the content of single tensors.
 */
#include "st_file.h"

#include <string.h>

/* One call of lmc_st_read_range() on an archive. */
typedef struct range_read {
    const lmc_st_file *file;
    lmc_ctx *ctx;
    size_t index;
    uint64_t begin, end; /* the wanted content bytes */
    unsigned char *dst;

    lmc_frame *frame;
    lmc_info info;
    lmc_block_entry *entries; /* of all blocks, for a frame without an index; else NULL */
    unsigned char *content;   /* one block */
    unsigned char *stored;    /* one block as it stands in the file */
    size_t stored_capacity;
} range_read;

static lmc_status fetch_stored(range_read *range, uint64_t block, size_t *nbytes, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = &range->file->memory;
    uint64_t offset = 0;
    lmc_status status =
        st_frame_extent(range->file, range->index, range->frame, block, 1, &offset, nbytes, diag);
    if (status != LMC_OK) {
        return status;
    }
    if (*nbytes > range->stored_capacity) {
        st_release(memory, range->stored);
        range->stored_capacity = *nbytes;
        range->stored = st_allocate(memory, *nbytes);
        if (range->stored == NULL) {
            range->stored_capacity = 0;
            return st_fail_nomem(diag);
        }
    }
    return os_input_read(&range->file->input, offset, range->stored, *nbytes, diag);
}

/* Decodes one block and copies what is wanted of it. */
static lmc_status read_block(range_read *range, uint64_t block, lmc_st_diag *diag)
{
    size_t stored_nbytes = 0;
    lmc_status status = fetch_stored(range, block, &stored_nbytes, diag);
    if (status != LMC_OK) {
        return st_file_blame(range->file, range->index, status, diag);
    }
    status = st_frame_decode(range->file, range->ctx, range->index, range->frame, block, 1, range->stored,
                             stored_nbytes, range->content, range->info.block_nbytes,
                             range->entries == NULL ? NULL : &range->entries[block], diag);
    if (status != LMC_OK) {
        return status;
    }
    const uint64_t block_begin = block * range->info.block_nbytes;
    const uint64_t block_end = block_begin + range->info.block_nbytes;
    const uint64_t from = range->begin > block_begin ? range->begin : block_begin;
    const uint64_t to = range->end < block_end ? range->end : block_end;
    if (from < to) {
        memcpy(range->dst + (from - range->begin), range->content + (from - block_begin),
               (size_t)(to - from));
    }
    return LMC_OK;
}

static lmc_status read_blocks(range_read *range, lmc_st_diag *diag)
{
    const int has_index = range->info.mode == LMC_FRAME_CODED;
    const size_t block_nbytes = range->info.block_nbytes;
    uint64_t first = 0;
    uint64_t end = range->info.block_count;
    if (has_index) {
        first = range->begin / block_nbytes;
        end = (range->end + block_nbytes - 1) / block_nbytes;
    } else {
        /* its blocks are there: the frame is not smaller than its content */
        range->entries = st_allocate_zeroed(&range->file->memory, (size_t)range->info.block_count + 1,
                                            sizeof(*range->entries));
    }
    range->content = st_allocate(&range->file->memory, block_nbytes + 1);
    if (range->content == NULL || (!has_index && range->entries == NULL)) {
        return st_fail_nomem(diag);
    }
    for (uint64_t block = first; block < end; block++) {
        const lmc_status status = read_block(range, block, diag);
        if (status != LMC_OK) {
            return status;
        }
    }
    return has_index ? LMC_OK
                     : st_frame_check_entries(range->file, range->index, range->entries,
                                              range->info.block_count, diag);
}

static lmc_status read_from_archive(range_read *range, lmc_st_diag *diag)
{
    lmc_status status = st_frame_open(range->file, range->ctx, range->index, &range->frame, diag);
    if (status != LMC_OK) {
        return status;
    }
    lmc_frame_info(range->frame, &range->info);
    status = read_blocks(range, diag);
    lmc_frame_free(range->frame);
    st_release(&range->file->memory, range->entries);
    st_release(&range->file->memory, range->content);
    st_release(&range->file->memory, range->stored);
    return status;
}

/* As read_from_archive(), with a context of its own if the caller gave none. */
static lmc_status read_with_ctx(range_read *range, lmc_st_diag *diag)
{
    lmc_ctx *own = NULL;
    if (range->ctx == NULL) {
        if (lmc_ctx_create(&range->file->memory, &own) != LMC_OK) {
            return st_fail_nomem(diag);
        }
        range->ctx = own;
    }
    const lmc_status status = read_from_archive(range, diag);
    lmc_ctx_free(own);
    return status;
}

lmc_status lmc_st_read_range(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, uint64_t first_byte,
                             size_t nbytes, void *dst, lmc_st_diag *diag)
{
    lmc_st_diag unused;
    diag = st_file_begin(file, diag, &unused);
    if (index >= file->header.tensor_count) {
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
    }
    const uint64_t content_nbytes = st_file_tensor_nbytes(file, (size_t)index);
    if (first_byte > content_nbytes || nbytes > content_nbytes - first_byte) {
        st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the range leaves the tensor's %llu bytes",
                (unsigned long long)content_nbytes);
        return st_file_blame(file, (size_t)index, LMC_ERR_ARG, diag);
    }
    if (nbytes == 0) {
        return LMC_OK;
    }
    if (!file->is_archive) {
        return os_input_read(&file->input, file->places[index] + first_byte, dst, nbytes, diag);
    }
    range_read range = {.file = file,
                        .ctx = ctx,
                        .index = (size_t)index,
                        .begin = first_byte,
                        .end = first_byte + nbytes,
                        .dst = dst};
    return read_with_ctx(&range, diag);
}

lmc_status lmc_st_read(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, void *dst, size_t dst_capacity,
                       lmc_st_diag *diag)
{
    const int is_known = index < file->header.tensor_count;
    const uint64_t nbytes = is_known ? st_file_tensor_nbytes(file, (size_t)index) : 0;
    if (nbytes > dst_capacity) {
        lmc_st_diag unused;
        diag = st_file_begin(file, diag, &unused);
        st_fail(diag, LMC_ERR_DST_SMALL, LMC_ST_NO_OFFSET, "the destination is smaller than the tensor");
        return st_file_blame(file, (size_t)index, LMC_ERR_DST_SMALL, diag);
    }
    return lmc_st_read_range(file, ctx, index, 0, (size_t)nbytes, dst, diag);
}
