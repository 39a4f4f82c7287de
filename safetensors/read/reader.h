/*
 * reader.h - reading ranges of one tensor, many times: its frame is opened once, the block that was decoded
 * last is kept, and a frame without an index, which has one checksum for all of it, is verified once. What
 * is read is verified, whatever the order of the ranges. One thread at a time.
 */
#ifndef LMC_SAFETENSORS_READ_READER_H
#define LMC_SAFETENSORS_READ_READER_H

#include "safetensors/read/decoder.h"

typedef struct st_reader {
    st_decoder decoder; /* in a plain file not open: then only its frame's file and index are known */
    st_scratch scratch;
    st_buffer content; /* content bytes [content_begin, content_end), verified */
    uint64_t content_begin, content_end;
} st_reader;

/* Opens tensor `index`, which must exist. ctx: scratch for all reads, not needed for a plain file. Errors: as
 * st_frame_open() and st_content_open(), NOMEM. Ends with st_reader_close() in every case. */
lmc_status st_reader_open(st_reader *reader, const lmc_st_file *file, lmc_ctx *ctx, size_t index,
                          lmc_st_diag *diag);

/* Reads content bytes [first_byte, first_byte + nbytes), which must lie in the tensor. On failure dst holds
 * undefined bytes. Errors: IO, NOMEM, CORRUPT, CHECKSUM, BASE. */
lmc_status st_reader_read(st_reader *reader, uint64_t first_byte, size_t nbytes, void *dst,
                          lmc_st_diag *diag);

void st_reader_close(st_reader *reader);

#endif
