/*
 * decoder.h - a stored tensor of an archive that is open to be decoded part by part. Whatever the order of the parts,
 * their content is verified.
 */
#ifndef LMC_SAFETENSORS_READ_DECODER_H
#define LMC_SAFETENSORS_READ_DECODER_H

#include "safetensors/base/content.h"

/* What one thread decodes with, be it tensors of one file or of several. */
typedef struct st_scratch {
    const lmc_allocator *memory; /* of the buffers */
    lmc_ctx *ctx;
    st_buffer stored;         /* a part as it stands in the file */
    st_buffer of_base, spare; /* for the base */
    st_buffer content;        /* for who decodes what is not wanted */
} st_scratch;

void st_scratch_free(st_scratch *scratch); /* all but ctx */

typedef struct st_decoder {
    st_frame frame;
    st_content base;    /* what it was coded against; without steps if nothing */
    size_t part_nbytes; /* decoded at once: a block, or more if the base comes in larger parts */
    lmc_block_entry
        *entries;    /* of a frame without an index, where a part is a block: their hashes; else NULL */
    int is_verified; /* entries are right. Without entries, or when it is 1, threads may share the decoder. */
} st_decoder;

/* Opens tensor `index`, which must exist. Errors: as st_frame_open() and st_content_open(), NOMEM. Ends with
 * st_decoder_close() in every case. */
lmc_status st_decoder_open(st_decoder *decoder, const lmc_st_file *file, lmc_ctx *ctx, size_t index,
                           lmc_st_diag *diag);
void st_decoder_close(st_decoder *decoder);

/* Bytes of part `part`: part_nbytes, or fewer for the last one. */
static inline size_t st_decoder_nbytes(const st_decoder *decoder, uint64_t part)
{
    const uint64_t left = decoder->frame.info.content_nbytes - part * decoder->part_nbytes;
    return left < decoder->part_nbytes ? (size_t)left : decoder->part_nbytes;
}

/* Decodes a part to dst. In a frame without an index, its hash is noted until is_verified is set, and compared
 * afterwards. Errors: IO, NOMEM, CORRUPT, CHECKSUM, BASE. */
lmc_status st_decoder_decode(st_decoder *decoder, st_scratch *scratch, uint64_t part, unsigned char *dst,
                             lmc_st_diag *diag);

/* Sets is_verified once the hashes of all parts were noted. Error: CHECKSUM. */
lmc_status st_decoder_verify(st_decoder *decoder, lmc_st_diag *diag);

#endif
