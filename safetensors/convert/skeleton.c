/*
 * skeleton.c - convert/conversion.h: what stands between the tensors of the source goes behind the frames, in pieces
 * (archive/skeleton.h).
 */
#include "safetensors/archive/skeleton.h"

#include "safetensors/archive/pack.h"
#include "safetensors/convert/conversion.h"

#include <string.h>

/* Gaps between small tensors are read together. */
#define WINDOW_NBYTES ((size_t)16 << 10)

typedef struct skeleton_writer {
    st_conversion *conversion;
    st_buffer piece, packed, index, window_room;
    size_t piece_nbytes; /* that are there */
    size_t index_nbytes;
    os_window window;
    lmc_st_diag *diag;
} skeleton_writer;

/* Writes the piece, if there is any of it, behind all that is written. */
static lmc_status write_piece(skeleton_writer *writer)
{
    st_conversion *const conversion = writer->conversion;
    const lmc_allocator *const memory = conversion->options->allocator;
    const size_t nbytes = writer->piece_nbytes;
    if (nbytes == 0)
        return LMC_OK;
    if (st_is_cancelled(conversion->options->cancel))
        return st_fail_cancelled(writer->diag);
    unsigned char *const packed = st_buffer_grow(memory, &writer->packed, st_pack_bound(nbytes));
    unsigned char *const entry =
        st_buffer_extend(memory, &writer->index, writer->index_nbytes, ST_SKELETON_ENTRY_NBYTES);
    const size_t packed_nbytes = packed && entry ? st_pack(writer->piece.bytes, nbytes, packed) : 0;
    if (packed_nbytes == 0)
        return st_fail_nomem(writer->diag);
    st_store_u32(entry, (uint32_t)packed_nbytes);
    st_store_u64(entry + 4, st_hash(writer->piece.bytes, nbytes));
    writer->index_nbytes += ST_SKELETON_ENTRY_NBYTES;
    writer->piece_nbytes = 0;
    conversion->end += packed_nbytes;
    return os_output_write(&conversion->output, conversion->end - packed_nbytes, packed, packed_nbytes,
                           writer->diag);
}

/* Reads bytes of the source; small ones through a window. */
static lmc_status read_source(skeleton_writer *writer, uint64_t offset, unsigned char *dst, size_t nbytes)
{
    const os_input *const input = writer->conversion->source->input;
    if (nbytes >= WINDOW_NBYTES)
        return os_input_read(input, offset, dst, nbytes, writer->diag);
    const unsigned char *bytes = os_window_find(&writer->window, offset, nbytes);
    if (!bytes) {
        const uint64_t left = input->nbytes - offset;
        const size_t window_nbytes = left < WINDOW_NBYTES ? (size_t)left : WINDOW_NBYTES;
        unsigned char *const room = writer->window_room.bytes;
        writer->window = (os_window){0};
        ST_TRY(os_input_read(input, offset, room, window_nbytes, writer->diag));
        writer->window = (os_window){room, offset, offset + window_nbytes};
        bytes = room;
    }
    memcpy(dst, bytes, nbytes);
    return LMC_OK;
}

/* Adds bytes [begin, end) of the source to the skeleton. */
static lmc_status add_gap(skeleton_writer *writer, uint64_t begin, uint64_t end)
{
    while (begin < end) {
        const size_t room = ST_SKELETON_PIECE_NBYTES - writer->piece_nbytes;
        const size_t nbytes = end - begin < room ? (size_t)(end - begin) : room;
        ST_TRY(read_source(writer, begin, writer->piece.bytes + writer->piece_nbytes, nbytes));
        writer->piece_nbytes += nbytes;
        begin += nbytes;
        if (writer->piece_nbytes == ST_SKELETON_PIECE_NBYTES)
            ST_TRY(write_piece(writer));
    }
    return LMC_OK;
}

static lmc_status write_pieces(skeleton_writer *writer)
{
    const st_source *const source = writer->conversion->source;
    const lmc_allocator *const memory = writer->conversion->options->allocator;
    const size_t count = source->header->tensor_count;
    uint64_t end = 0; /* of the tensor before */
    if (!st_buffer_grow(memory, &writer->piece, ST_SKELETON_PIECE_NBYTES) ||
        !st_buffer_grow(memory, &writer->window_room, WINDOW_NBYTES))
        return st_fail_nomem(writer->diag);
    for (size_t i = 0; i < count; i++) {
        ST_TRY(add_gap(writer, end, source->places[i]));
        end = source->places[i] + st_source_tensor_nbytes(source, i);
    }
    ST_TRY(add_gap(writer, end, source->file_nbytes));
    return write_piece(writer);
}

lmc_status st_convert_write_skeleton(st_conversion *conversion, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = conversion->options->allocator;
    skeleton_writer writer = {.conversion = conversion, .diag = diag};
    const uint64_t begin = conversion->end;
    if (!conversion->skeleton_name)
        return LMC_OK;
    lmc_status status = write_pieces(&writer);
    if (status == LMC_OK) {
        conversion->layout.skeleton_hash = st_hash(writer.index.bytes, writer.index_nbytes);
        conversion->end += writer.index_nbytes;
        conversion->skeleton_nbytes = conversion->end - begin;
        status = os_output_write(&conversion->output, conversion->end - writer.index_nbytes,
                                 writer.index.bytes, writer.index_nbytes, diag);
    }
    st_buffer_free(memory, &writer.piece);
    st_buffer_free(memory, &writer.packed);
    st_buffer_free(memory, &writer.index);
    st_buffer_free(memory, &writer.window_room);
    return status;
}
