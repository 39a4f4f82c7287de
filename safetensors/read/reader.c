/*
 * reader.c - see read/reader.h.
 */
#include "safetensors/read/reader.h"

#include <string.h>

/* Of a plain file, reads smaller than the first are served from a window of the second size: slices that take
 * a few bytes of each row would else be a system call each. */
#define SMALL_READ_NBYTES 4096
#define WINDOW_NBYTES 16384

/* The wanted part of the content and where it goes. */
typedef struct wanted {
    uint64_t begin, end;
    unsigned char *dst;
} wanted;

static lmc_status grow(const st_reader *reader, st_buffer *buffer, size_t nbytes, lmc_st_diag *diag)
{
    return st_buffer_grow(&reader->file->memory, buffer, nbytes) != NULL
               ? LMC_OK
               : st_file_blame(reader->file, reader->index, st_fail_nomem(diag), diag);
}

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
    const uint64_t offset = reader->file->places[reader->index];
    const size_t nbytes = (size_t)(wanted->end - wanted->begin);
    if (nbytes >= SMALL_READ_NBYTES)
        return os_input_read(&reader->file->input, offset + wanted->begin, wanted->dst, nbytes, diag);
    if (wanted->begin < reader->content_begin || wanted->end > reader->content_end) {
        const uint64_t left = st_file_tensor_nbytes(reader->file, reader->index) - wanted->begin;
        const size_t window = left < WINDOW_NBYTES ? (size_t)left : WINDOW_NBYTES;
        reader->content_end = reader->content_begin; /* empty, should the reading fail */
        lmc_status status = grow(reader, &reader->content, WINDOW_NBYTES, diag);
        if (status == LMC_OK) {
            status = os_input_read(&reader->file->input, offset + wanted->begin, reader->content.bytes,
                                   window, diag);
        }
        if (status != LMC_OK)
            return status;
        reader->content_begin = wanted->begin;
        reader->content_end = wanted->begin + window;
    }
    copy_wanted(wanted, reader->content_begin, reader->content_end, reader->content.bytes);
    return LMC_OK;
}

/* ---- blocks of a frame ---- */

/* Blocks [first, first + count) as they stand in the file. */
static lmc_status fetch_stored(st_reader *reader, uint64_t first, uint64_t count, size_t *nbytes,
                               lmc_st_diag *diag)
{
    uint64_t offset = 0;
    lmc_status status =
        st_frame_extent(reader->file, reader->index, reader->frame, first, count, &offset, nbytes, diag);
    if (status == LMC_OK)
        status = grow(reader, &reader->stored, *nbytes, diag);
    if (status != LMC_OK)
        return status;
    status = os_input_read(&reader->file->input, offset, reader->stored.bytes, *nbytes, diag);
    return status == LMC_OK ? LMC_OK : st_file_blame(reader->file, reader->index, status, diag);
}

static lmc_status fetch_base(st_reader *reader, uint64_t first, uint64_t count, const unsigned char **base,
                             lmc_st_diag *diag)
{
    const st_content_room room = {&reader->file->memory, reader->ctx, &reader->of_base, &reader->spare,
                                  &reader->stored};
    *base = NULL;
    if (reader->base.level_count == 0)
        return LMC_OK;
    const uint64_t begin = first * reader->info.base_block_nbytes;
    const uint64_t end = begin + count * reader->info.base_block_nbytes;
    const lmc_status status = st_content_read(
        &reader->base, &room, begin, end < reader->base.nbytes ? end : reader->base.nbytes, base, diag);
    return status == LMC_OK ? LMC_OK : st_content_blame(reader->file, reader->index, status, diag);
}

/* Decodes a step to dst. Of a frame without an index, where it is a block, the hash is recorded, and compared
 * once all are known. */
static lmc_status decode_step(st_reader *reader, uint64_t step, unsigned char *dst, size_t nbytes,
                              lmc_st_diag *diag)
{
    lmc_block_entry entry;
    size_t stored_nbytes = 0;
    const unsigned char *base = NULL;
    const size_t block_nbytes = reader->info.block_nbytes;
    const uint64_t first = step * (reader->step_nbytes / block_nbytes);
    const uint64_t count = (nbytes + block_nbytes - 1) / block_nbytes;
    lmc_status status = fetch_base(reader, first, count, &base, diag);
    if (status == LMC_OK)
        status = fetch_stored(reader, first, count, &stored_nbytes, diag);
    if (status == LMC_OK) {
        status = st_frame_decode(reader->file, reader->ctx, reader->index, reader->frame, first, count,
                                 reader->stored.bytes, stored_nbytes, base, dst, nbytes,
                                 !reader->entries ? NULL : &entry, diag);
        status = status == LMC_ERR_BASE ? st_file_fail_base(reader->file, reader->base.levels[0].file, diag)
                                        : status;
    }
    if (status != LMC_OK || !reader->entries)
        return status;
    if (!reader->is_verified) {
        reader->entries[first] = entry;
        return LMC_OK;
    }
    if (entry.content_hash == reader->entries[first].content_hash)
        return LMC_OK;
    st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET, "block %llu is no longer what it was a moment ago",
            (unsigned long long)first);
    return st_file_blame(reader->file, reader->index, LMC_ERR_CHECKSUM, diag);
}

static lmc_status read_step(st_reader *reader, const wanted *wanted, uint64_t step, lmc_st_diag *diag)
{
    const uint64_t begin = step * reader->step_nbytes;
    const uint64_t left = reader->info.content_nbytes - begin;
    const uint64_t end = begin + (left < reader->step_nbytes ? left : reader->step_nbytes);
    const size_t nbytes = (size_t)(end - begin);
    if (wanted->begin <= begin && wanted->end >= end)
        return decode_step(reader, step, wanted->dst + (begin - wanted->begin), nbytes, diag);
    if (reader->content_begin != begin || reader->content_end != end) {
        reader->content_end = reader->content_begin;
        const lmc_status status = decode_step(reader, step, reader->content.bytes, nbytes, diag);
        if (status != LMC_OK)
            return status;
        reader->content_begin = begin;
        reader->content_end = end;
    }
    copy_wanted(wanted, begin, end, reader->content.bytes);
    return LMC_OK;
}

/* The first read of a frame without an index goes through all blocks. */
static lmc_status verify_all(st_reader *reader, const wanted *wanted, lmc_st_diag *diag)
{
    lmc_status status = LMC_OK;
    for (uint64_t block = 0; block < reader->info.block_count && status == LMC_OK; block++)
        status = read_step(reader, wanted, block, diag);
    if (status == LMC_OK) {
        status = st_frame_check_entries(reader->file, reader->index, reader->entries,
                                        reader->info.block_count, diag);
    }
    reader->is_verified = status == LMC_OK;
    if (status != LMC_OK)
        reader->content_end = reader->content_begin; /* nothing of it may be used */
    return status;
}

lmc_status st_reader_read(st_reader *reader, uint64_t first_byte, size_t nbytes, void *dst, lmc_st_diag *diag)
{
    const wanted wanted = {first_byte, first_byte + nbytes, dst};
    if (nbytes == 0)
        return LMC_OK;
    if (!reader->frame)
        return read_plain(reader, &wanted, diag);
    if (reader->entries && !reader->is_verified)
        return verify_all(reader, &wanted, diag);
    const uint64_t end = (wanted.end - 1) / reader->step_nbytes + 1;
    lmc_status status = LMC_OK;
    for (uint64_t step = first_byte / reader->step_nbytes; step < end && status == LMC_OK; step++)
        status = read_step(reader, &wanted, step, diag);
    return status;
}

/* ---- open and close ---- */

lmc_status st_reader_open(st_reader *reader, const lmc_st_file *file, lmc_ctx *ctx, size_t index,
                          lmc_st_diag *diag)
{
    memset(reader, 0, sizeof *reader);
    reader->file = file;
    reader->ctx = ctx;
    reader->index = index;
    if (!file->is_archive)
        return LMC_OK;
    lmc_status status = st_frame_open(file, NULL, ctx, index, &reader->frame, diag);
    if (status != LMC_OK)
        return status;
    reader->info = (lmc_info)LMC_INIT(lmc_info);
    lmc_frame_info(reader->frame, &reader->info);
    status = st_content_open_base(&reader->base, file, ctx, index, &reader->info, &file->memory, diag);
    if (status != LMC_OK)
        return st_content_blame(file, index, status, diag);
    reader->step_nbytes = st_content_step(&reader->base, &reader->info);
    if (!st_frame_has_index(&reader->info)) {
        /* its blocks are there: the frame is not smaller than its content */
        reader->entries =
            st_allocate_zeroed(&file->memory, reader->info.block_count + 1, sizeof *reader->entries);
        if (!reader->entries)
            return st_file_blame(file, index, st_fail_nomem(diag), diag);
    }
    return grow(reader, &reader->content, reader->step_nbytes, diag);
}

void st_reader_close(st_reader *reader)
{
    const lmc_allocator *const memory = &reader->file->memory;
    st_buffer *const buffers[] = {&reader->content, &reader->stored, &reader->of_base, &reader->spare};
    lmc_frame_free(reader->frame);
    st_content_free(&reader->base);
    st_release(memory, reader->entries);
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        st_buffer_free(memory, buffers[i]);
    reader->frame = NULL;
    reader->entries = NULL;
}
