/*
 * st_reader.c - see st_reader.h.
 */
#include "st_reader.h"

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

static lmc_status grow(const st_reader *reader, unsigned char **buffer, size_t *capacity, size_t nbytes,
                       lmc_st_diag *diag)
{
    if (nbytes <= *capacity) {
        return LMC_OK;
    }
    st_release(&reader->file->memory, *buffer);
    *capacity = 0;
    *buffer = st_allocate(&reader->file->memory, nbytes);
    if (*buffer == NULL) {
        return st_file_blame(reader->file, reader->index, st_fail_nomem(diag), diag);
    }
    *capacity = nbytes;
    return LMC_OK;
}

/* Copies what of [begin, end), whose bytes are `src`, is wanted. */
static void copy_wanted(const wanted *wanted, uint64_t begin, uint64_t end, const unsigned char *src)
{
    const uint64_t from = wanted->begin > begin ? wanted->begin : begin;
    const uint64_t to = wanted->end < end ? wanted->end : end;
    if (from < to) {
        memcpy(wanted->dst + (from - wanted->begin), src + (from - begin), (size_t)(to - from));
    }
}

/* ---- plain files ---- */

static lmc_status read_plain(st_reader *reader, const wanted *wanted, lmc_st_diag *diag)
{
    const uint64_t offset = reader->file->places[reader->index];
    const size_t nbytes = (size_t)(wanted->end - wanted->begin);
    if (nbytes >= SMALL_READ_NBYTES) {
        return os_input_read(&reader->file->input, offset + wanted->begin, wanted->dst, nbytes, diag);
    }
    if (wanted->begin < reader->content_begin || wanted->end > reader->content_end) {
        const uint64_t left = st_file_tensor_nbytes(reader->file, reader->index) - wanted->begin;
        const size_t window = left < WINDOW_NBYTES ? (size_t)left : WINDOW_NBYTES;
        reader->content_end = reader->content_begin; /* empty, should the reading fail */
        lmc_status status = grow(reader, &reader->content, &reader->content_capacity, WINDOW_NBYTES, diag);
        if (status == LMC_OK) {
            status =
                os_input_read(&reader->file->input, offset + wanted->begin, reader->content, window, diag);
        }
        if (status != LMC_OK) {
            return status;
        }
        reader->content_begin = wanted->begin;
        reader->content_end = wanted->begin + window;
    }
    copy_wanted(wanted, reader->content_begin, reader->content_end, reader->content);
    return LMC_OK;
}

/* ---- blocks of a frame ---- */

static lmc_status fetch_stored(st_reader *reader, uint64_t block, size_t *nbytes, lmc_st_diag *diag)
{
    uint64_t offset = 0;
    lmc_status status =
        st_frame_extent(reader->file, reader->index, reader->frame, block, 1, &offset, nbytes, diag);
    if (status == LMC_OK) {
        status = grow(reader, &reader->stored, &reader->stored_capacity, *nbytes, diag);
    }
    if (status != LMC_OK) {
        return status;
    }
    status = os_input_read(&reader->file->input, offset, reader->stored, *nbytes, diag);
    return status == LMC_OK ? LMC_OK : st_file_blame(reader->file, reader->index, status, diag);
}

/* Decodes a block to dst. Of a frame without an index the hash is recorded, and compared once all are known. */
static lmc_status decode_block(st_reader *reader, uint64_t block, unsigned char *dst, size_t dst_capacity,
                               lmc_st_diag *diag)
{
    lmc_block_entry entry;
    size_t stored_nbytes = 0;
    lmc_status status = fetch_stored(reader, block, &stored_nbytes, diag);
    if (status == LMC_OK) {
        status = st_frame_decode(reader->file, reader->ctx, reader->index, reader->frame, block, 1,
                                 reader->stored, stored_nbytes, dst, dst_capacity, &entry, diag);
    }
    if (status != LMC_OK || reader->entries == NULL) {
        return status;
    }
    if (!reader->is_verified) {
        reader->entries[block] = entry;
        return LMC_OK;
    }
    if (entry.content_hash == reader->entries[block].content_hash) {
        return LMC_OK;
    }
    st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET, "block %llu is no longer what it was a moment ago",
            (unsigned long long)block);
    return st_file_blame(reader->file, reader->index, LMC_ERR_CHECKSUM, diag);
}

static lmc_status read_block(st_reader *reader, const wanted *wanted, uint64_t block, lmc_st_diag *diag)
{
    const uint64_t begin = block * reader->info.block_nbytes;
    const uint64_t left = reader->info.content_nbytes - begin;
    const uint64_t end = begin + (left < reader->info.block_nbytes ? left : reader->info.block_nbytes);
    if (wanted->begin <= begin && wanted->end >= end) {
        return decode_block(reader, block, wanted->dst + (begin - wanted->begin), (size_t)(end - begin),
                            diag);
    }
    if (reader->content_begin != begin || reader->content_end != end) {
        reader->content_end = reader->content_begin;
        const lmc_status status = decode_block(reader, block, reader->content, (size_t)(end - begin), diag);
        if (status != LMC_OK) {
            return status;
        }
        reader->content_begin = begin;
        reader->content_end = end;
    }
    copy_wanted(wanted, begin, end, reader->content);
    return LMC_OK;
}

/* The first read of a frame without an index goes through all blocks. */
static lmc_status verify_all(st_reader *reader, const wanted *wanted, lmc_st_diag *diag)
{
    lmc_status status = LMC_OK;
    for (uint64_t block = 0; block < reader->info.block_count && status == LMC_OK; block++) {
        status = read_block(reader, wanted, block, diag);
    }
    if (status == LMC_OK) {
        status = st_frame_check_entries(reader->file, reader->index, reader->entries,
                                        reader->info.block_count, diag);
    }
    reader->is_verified = status == LMC_OK;
    if (status != LMC_OK) {
        reader->content_end = reader->content_begin; /* nothing of it may be used */
    }
    return status;
}

lmc_status st_reader_read(st_reader *reader, uint64_t first_byte, size_t nbytes, void *dst, lmc_st_diag *diag)
{
    const wanted wanted = {first_byte, first_byte + nbytes, dst};
    if (nbytes == 0) {
        return LMC_OK;
    }
    if (reader->frame == NULL) {
        return read_plain(reader, &wanted, diag);
    }
    if (reader->entries != NULL && !reader->is_verified) {
        return verify_all(reader, &wanted, diag);
    }
    const uint64_t end = (wanted.end - 1) / reader->info.block_nbytes + 1;
    lmc_status status = LMC_OK;
    for (uint64_t block = first_byte / reader->info.block_nbytes; block < end && status == LMC_OK; block++) {
        status = read_block(reader, &wanted, block, diag);
    }
    return status;
}

/* ---- open and close ---- */

lmc_status st_reader_open(st_reader *reader, const lmc_st_file *file, lmc_ctx *ctx, size_t index,
                          lmc_st_diag *diag)
{
    memset(reader, 0, sizeof(*reader));
    reader->file = file;
    reader->ctx = ctx;
    reader->index = index;
    if (!file->is_archive) {
        return LMC_OK;
    }
    const lmc_status status = st_frame_open(file, ctx, index, &reader->frame, diag);
    if (status != LMC_OK) {
        return status;
    }
    lmc_frame_info(reader->frame, &reader->info);
    if (reader->info.mode != LMC_FRAME_CODED) {
        /* its blocks are there: the frame is not smaller than its content */
        reader->entries =
            st_allocate_zeroed(&file->memory, (size_t)reader->info.block_count + 1, sizeof(*reader->entries));
        if (reader->entries == NULL) {
            return st_file_blame(file, index, st_fail_nomem(diag), diag);
        }
    }
    return grow(reader, &reader->content, &reader->content_capacity, reader->info.block_nbytes, diag);
}

void st_reader_close(st_reader *reader)
{
    const lmc_allocator *const memory = &reader->file->memory;
    lmc_frame_free(reader->frame);
    st_release(memory, reader->entries);
    st_release(memory, reader->content);
    st_release(memory, reader->stored);
    reader->frame = NULL;
    reader->entries = NULL;
    reader->content = NULL;
    reader->stored = NULL;
}
