/*
 * decoder.c - a tensor of an archive, part by part.
 */
#include "safetensors/read/decoder.h"

void st_scratch_free(st_scratch *scratch)
{
    st_buffer_free(scratch->memory, &scratch->stored);
    st_buffer_free(scratch->memory, &scratch->of_base);
    st_buffer_free(scratch->memory, &scratch->spare);
    st_buffer_free(scratch->memory, &scratch->content);
}

lmc_status st_decoder_open(st_decoder *decoder, const lmc_st_file *file, lmc_ctx *ctx, size_t index,
                           lmc_st_diag *diag)
{
    *decoder = (st_decoder){.frame = {.file = file, .index = index}};
    st_frame *const frame = &decoder->frame;
    LMC_TRY(st_frame_open(frame, file, NULL, ctx, index, diag));
    const lmc_status status = st_content_open_base(&decoder->base, frame, ctx, &file->memory, diag);
    if (status != LMC_OK)
        return st_content_blame(file, index, status, diag);
    decoder->part_nbytes = st_content_part_nbytes(&decoder->base, &frame->info);
    if (st_frame_has_index(&frame->info))
        return LMC_OK;
    /* its blocks are there: the frame is not smaller than its content */
    decoder->entries =
        st_allocate_zeroed(&file->memory, frame->info.block_count + 1, sizeof *decoder->entries);
    return decoder->entries ? LMC_OK : st_file_blame(file, index, st_fail_nomem(diag), diag);
}

void st_decoder_close(st_decoder *decoder)
{
    const lmc_allocator *const memory = &decoder->frame.file->memory;
    st_frame_close(&decoder->frame);
    st_content_free(&decoder->base);
    st_release(memory, decoder->entries);
    decoder->entries = NULL;
}

lmc_status st_decoder_decode(st_decoder *decoder, st_scratch *scratch, uint64_t part, unsigned char *dst,
                             lmc_st_diag *diag)
{
    lmc_block_entry entry;
    const st_frame *const frame = &decoder->frame;
    const lmc_allocator *const memory = scratch->memory;
    const size_t block_nbytes = frame->info.block_nbytes;
    const size_t nbytes = st_decoder_nbytes(decoder, part);
    const st_content_room room = {memory, scratch->ctx, &scratch->of_base, &scratch->spare, &scratch->stored};
    st_blocks blocks = {.first = part * (decoder->part_nbytes / block_nbytes),
                        .count = (nbytes + block_nbytes - 1) / block_nbytes,
                        .dst = dst,
                        .dst_nbytes = nbytes,
                        .entries = !decoder->entries ? NULL : &entry};
    LMC_TRY(
        st_content_read_base(&decoder->base, &room, frame, blocks.first, blocks.count, &blocks.base, diag));
    const lmc_status status = st_frame_read(frame, scratch->ctx, memory, &scratch->stored, &blocks, diag);
    if (status == LMC_ERR_BASE && decoder->base.step_count > 0) /* else a read function's own */
        return st_file_fail_base(frame->file, decoder->base.steps[0].number,
                                 decoder->base.steps[0].frame.file, diag);
    if (status != LMC_OK || !decoder->entries)
        return status;
    if (!decoder->is_verified)
        decoder->entries[blocks.first] = entry;
    if (entry.content_hash == decoder->entries[blocks.first].content_hash)
        return LMC_OK;
    st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET, "block %llu is no longer what it was a moment ago",
            (unsigned long long)blocks.first);
    return st_file_blame(frame->file, frame->index, LMC_ERR_CHECKSUM, diag);
}

lmc_status st_decoder_verify(st_decoder *decoder, lmc_st_diag *diag)
{
    LMC_TRY(st_frame_check_entries(&decoder->frame, decoder->entries, diag));
    decoder->is_verified = 1;
    return LMC_OK;
}
