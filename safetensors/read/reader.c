/*
 * reader.c - ranges of plain tensors and of blocks, with what was read last.
 */
#include "safetensors/read/reader.h"

#include <string.h>

/* Reads of a plain file that are smaller than the first come from a window of the second size: slices that take
 * a few bytes of each row would else be a system call each. */
#define SMALL_READ_NBYTES 4096
#define WINDOW_NBYTES 16384

/* The wanted part of the content and where it goes. */
typedef struct wanted {
    uint64_t begin, end;
    unsigned char *dst;
} wanted;

/* Copies what of [begin, end), whose bytes are `src`, is wanted. */
static void copy_wanted(const wanted *wanted, uint64_t begin, uint64_t end, const unsigned char *src)
{
    const uint64_t from = wanted->begin > begin ? wanted->begin : begin;
    const uint64_t to = wanted->end < end ? wanted->end : end;
    if (from < to)
        memcpy(wanted->dst + (from - wanted->begin), src + (from - begin), (size_t)(to - from));
}

/* ---- plain files ---- */

static lmc_status read_plain(st_reader *reader, const wanted *wanted, lmc_st_diag *diag)
{
    const lmc_st_file *const file = reader->frame.file;
    const size_t index = reader->frame.index;
    const uint64_t offset = file->places[index];
    const size_t nbytes = (size_t)(wanted->end - wanted->begin);
    if (nbytes >= SMALL_READ_NBYTES) {
        os_take_pages(wanted->dst, nbytes);
        return st_input_read(&file->input, offset + wanted->begin, wanted->dst, nbytes, diag);
    }
    if (wanted->begin < reader->content_begin || wanted->end > reader->content_end) {
        const uint64_t left = st_file_tensor_nbytes(file, index) - wanted->begin;
        const size_t window = left < WINDOW_NBYTES ? (size_t)left : WINDOW_NBYTES;
        reader->content_end = reader->content_begin; /* empty, should the reading fail */
        unsigned char *const bytes = st_buffer_grow(&file->memory, &reader->content, WINDOW_NBYTES);
        if (!bytes)
            return st_file_blame(file, index, st_fail_nomem(diag), diag);
        LMC_TRY(st_input_read(&file->input, offset + wanted->begin, bytes, window, diag));
        reader->content_begin = wanted->begin;
        reader->content_end = wanted->begin + window;
    }
    copy_wanted(wanted, reader->content_begin, reader->content_end, reader->content.bytes);
    return LMC_OK;
}

/* ---- blocks of a frame ---- */

/* Decodes a part to dst. In a frame without an index, where a part is a block, the hash is recorded, and compared once
 * all are known. */
static lmc_status decode_part(st_reader *reader, uint64_t part, unsigned char *dst, size_t nbytes,
                              lmc_st_diag *diag)
{
    lmc_block_entry entry;
    const st_frame *const frame = &reader->frame;
    const lmc_allocator *const memory = &frame->file->memory;
    const size_t block_nbytes = frame->info.block_nbytes;
    const st_content_room room = {memory, reader->ctx, &reader->of_base, &reader->spare, &reader->stored};
    st_blocks blocks = {.first = part * (reader->part_nbytes / block_nbytes),
                        .count = (nbytes + block_nbytes - 1) / block_nbytes,
                        .dst = dst,
                        .dst_nbytes = nbytes,
                        .entries = !reader->entries ? NULL : &entry};
    LMC_TRY(
        st_content_read_base(&reader->base, &room, frame, blocks.first, blocks.count, &blocks.base, diag));
    const lmc_status status = st_frame_read(frame, reader->ctx, memory, &reader->stored, &blocks, diag);
    if (status == LMC_ERR_BASE)
        return st_file_fail_base(frame->file, reader->base.steps[0].number, reader->base.steps[0].frame.file,
                                 diag);
    if (status != LMC_OK || !reader->entries)
        return status;
    if (!reader->is_verified)
        reader->entries[blocks.first] = entry;
    if (entry.content_hash == reader->entries[blocks.first].content_hash)
        return LMC_OK;
    st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET, "block %llu is no longer what it was a moment ago",
            (unsigned long long)blocks.first);
    return st_file_blame(frame->file, frame->index, LMC_ERR_CHECKSUM, diag);
}

static lmc_status read_part(st_reader *reader, const wanted *wanted, uint64_t part, lmc_st_diag *diag)
{
    const uint64_t begin = part * reader->part_nbytes;
    const uint64_t left = reader->frame.info.content_nbytes - begin;
    const uint64_t end = begin + (left < reader->part_nbytes ? left : reader->part_nbytes);
    const size_t nbytes = (size_t)(end - begin);
    if (wanted->begin <= begin && wanted->end >= end) {
        os_take_pages(wanted->dst + (begin - wanted->begin), nbytes);
        return decode_part(reader, part, wanted->dst + (begin - wanted->begin), nbytes, diag);
    }
    if (reader->content_begin != begin || reader->content_end != end) {
        reader->content_end = reader->content_begin;
        LMC_TRY(decode_part(reader, part, reader->content.bytes, nbytes, diag));
        reader->content_begin = begin;
        reader->content_end = end;
    }
    copy_wanted(wanted, begin, end, reader->content.bytes);
    return LMC_OK;
}

lmc_status st_reader_read(st_reader *reader, uint64_t first_byte, size_t nbytes, void *dst, lmc_st_diag *diag)
{
    const wanted wanted = {first_byte, first_byte + nbytes, dst};
    if (nbytes == 0)
        return LMC_OK;
    if (!reader->frame.coded)
        return read_plain(reader, &wanted, diag);
    /* The first read of a frame without an index goes through all blocks. */
    const int is_first = reader->entries && !reader->is_verified;
    const uint64_t begin = is_first ? 0 : first_byte / reader->part_nbytes;
    const uint64_t end =
        is_first ? reader->frame.info.block_count : (wanted.end - 1) / reader->part_nbytes + 1;
    lmc_status status = LMC_OK;
    for (uint64_t part = begin; part < end && status == LMC_OK; part++)
        status = read_part(reader, &wanted, part, diag);
    if (!is_first)
        return status;
    if (status == LMC_OK)
        status = st_frame_check_entries(&reader->frame, reader->entries, diag);
    reader->is_verified = status == LMC_OK;
    if (status != LMC_OK)
        reader->content_end = reader->content_begin; /* nothing of it may be used */
    return status;
}

/* ---- open and close ---- */

lmc_status st_reader_open(st_reader *reader, const lmc_st_file *file, lmc_ctx *ctx, size_t index,
                          lmc_st_diag *diag)
{
    *reader = (st_reader){.frame = {.file = file, .index = index}, .ctx = ctx};
    if (!file->is_archive)
        return LMC_OK;
    st_frame *const frame = &reader->frame;
    LMC_TRY(st_frame_open(frame, file, NULL, ctx, index, diag));
    const lmc_status status = st_content_open_base(&reader->base, frame, ctx, &file->memory, diag);
    if (status != LMC_OK)
        return st_content_blame(file, index, status, diag);
    reader->part_nbytes = st_content_part_nbytes(&reader->base, &frame->info);
    /* its blocks are there: the frame is not smaller than its content */
    if (!st_frame_has_index(&frame->info))
        reader->entries =
            st_allocate_zeroed(&file->memory, frame->info.block_count + 1, sizeof *reader->entries);
    if ((!st_frame_has_index(&frame->info) && !reader->entries) ||
        !st_buffer_grow(&file->memory, &reader->content, reader->part_nbytes))
        return st_file_blame(file, index, st_fail_nomem(diag), diag);
    return LMC_OK;
}

void st_reader_close(st_reader *reader)
{
    const lmc_allocator *const memory = &reader->frame.file->memory;
    st_buffer *const buffers[] = {&reader->content, &reader->stored, &reader->of_base, &reader->spare};
    st_frame_close(&reader->frame);
    st_content_free(&reader->base);
    st_release(memory, reader->entries);
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        st_buffer_free(memory, buffers[i]);
    reader->entries = NULL;
}
