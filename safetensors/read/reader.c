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
    const lmc_st_file *const file = reader->decoder.frame.file;
    const size_t index = reader->decoder.frame.index;
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

static lmc_status read_part(st_reader *reader, const wanted *wanted, uint64_t part, lmc_st_diag *diag)
{
    st_decoder *const decoder = &reader->decoder;
    const uint64_t begin = part * decoder->part_nbytes;
    const size_t nbytes = st_decoder_nbytes(decoder, part);
    const uint64_t end = begin + nbytes;
    if (wanted->begin <= begin && wanted->end >= end) {
        os_take_pages(wanted->dst + (begin - wanted->begin), nbytes);
        return st_decoder_decode(decoder, &reader->scratch, part, wanted->dst + (begin - wanted->begin),
                                 diag);
    }
    if (reader->content_begin != begin || reader->content_end != end) {
        reader->content_end = reader->content_begin;
        LMC_TRY(st_decoder_decode(decoder, &reader->scratch, part, reader->content.bytes, diag));
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
    st_decoder *const decoder = &reader->decoder;
    if (!decoder->frame.coded)
        return read_plain(reader, &wanted, diag);
    /* The first read of a frame without an index goes through all blocks. */
    const int is_first = decoder->entries && !decoder->is_verified;
    const uint64_t begin = is_first ? 0 : first_byte / decoder->part_nbytes;
    const uint64_t end =
        is_first ? decoder->frame.info.block_count : (wanted.end - 1) / decoder->part_nbytes + 1;
    lmc_status status = LMC_OK;
    for (uint64_t part = begin; part < end && status == LMC_OK; part++)
        status = read_part(reader, &wanted, part, diag);
    if (!is_first)
        return status;
    if (status == LMC_OK)
        status = st_decoder_verify(decoder, diag);
    if (status != LMC_OK)
        reader->content_end = reader->content_begin; /* nothing of it may be used */
    return status;
}

/* ---- open and close ---- */

lmc_status st_reader_open(st_reader *reader, const lmc_st_file *file, lmc_ctx *ctx, size_t index,
                          lmc_st_diag *diag)
{
    st_decoder *const decoder = &reader->decoder;
    *reader = (st_reader){.decoder.frame = {.file = file, .index = index},
                          .scratch = {.memory = &file->memory, .ctx = ctx}};
    if (!file->is_archive)
        return LMC_OK;
    LMC_TRY(st_decoder_open(decoder, file, ctx, index, diag));
    if (!st_buffer_grow(&file->memory, &reader->content, decoder->part_nbytes))
        return st_file_blame(file, index, st_fail_nomem(diag), diag);
    return LMC_OK;
}

void st_reader_close(st_reader *reader)
{
    const lmc_allocator *const memory = &reader->decoder.frame.file->memory;
    st_decoder_close(&reader->decoder);
    st_scratch_free(&reader->scratch);
    st_buffer_free(memory, &reader->content);
}
