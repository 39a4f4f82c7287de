/*
 * skeleton.c - reading the pieces of a skeleton.
 */
#include "safetensors/archive/skeleton.h"

#include "safetensors/archive/pack.h"
#include "safetensors/archive/table.h"

#include <string.h>

#define NO_PIECE UINT64_MAX

uint64_t st_skeleton_before(const lmc_st_file *file, size_t index)
{
    return index < file->header.tensor_count ? st_file_origin(file, index) - file->header.tensors[index].begin
                                             : file->skeleton.nbytes;
}

/* ---- the index ---- */

static size_t piece_nbytes(const st_skeleton *skeleton, uint64_t piece)
{
    const uint64_t left = skeleton->file->skeleton.nbytes - piece * ST_SKELETON_PIECE_NBYTES;
    return left < ST_SKELETON_PIECE_NBYTES ? (size_t)left : ST_SKELETON_PIECE_NBYTES;
}

/* Fills ends and hashes; the pieces must fill what stands before the index. */
static lmc_status read_entries(st_skeleton *skeleton, const unsigned char *index, uint64_t piece_count,
                               uint64_t index_offset, lmc_st_diag *diag)
{
    const st_skeleton_place *const place = &skeleton->file->skeleton;
    uint64_t end = place->offset;
    for (uint64_t i = 0; i < piece_count; i++) {
        const unsigned char *const entry = index + i * ST_SKELETON_ENTRY_NBYTES;
        const uint32_t stored_nbytes = st_load_u32(entry);
        if (stored_nbytes == 0 || stored_nbytes > piece_nbytes(skeleton, i) ||
            stored_nbytes > index_offset - end)
            return st_fail(diag, LMC_ERR_CORRUPT, index_offset + i * ST_SKELETON_ENTRY_NBYTES,
                           "piece %llu between the tensors does not have its stated size",
                           (unsigned long long)i);
        end += stored_nbytes;
        skeleton->ends[i] = end;
        skeleton->hashes[i] = st_load_u64(entry + 4);
    }
    return end == index_offset
               ? LMC_OK
               : st_fail(diag, LMC_ERR_CORRUPT, end,
                         "the pieces between the tensors do not end where their index begins");
}

static lmc_status read_index(st_skeleton *skeleton, uint64_t piece_count, unsigned char *index,
                             lmc_st_diag *diag)
{
    const lmc_st_file *const file = skeleton->file;
    const st_skeleton_place *const place = &file->skeleton;
    const size_t index_nbytes = (size_t)(piece_count * ST_SKELETON_ENTRY_NBYTES);
    const uint64_t index_offset = place->offset + place->stored_nbytes - index_nbytes;
    ST_TRY(os_input_read(&file->input, index_offset, index, index_nbytes, diag));
    if (st_hash(index, index_nbytes) != place->hash)
        return st_fail(diag, LMC_ERR_CHECKSUM, index_offset,
                       "the index of what stands between the tensors is not the one that was written");
    return read_entries(skeleton, index, piece_count, index_offset, diag);
}

lmc_status st_skeleton_open(st_skeleton *skeleton, const lmc_st_file *file, lmc_st_diag *diag)
{
    const st_skeleton_place *const place = &file->skeleton;
    const uint64_t piece_count = st_skeleton_piece_count(place->nbytes);
    *skeleton = (st_skeleton){.file = file, .loaded = NO_PIECE};
    if (file->container == LMC_ST_CONTAINER_SAFETENSORS)
        return LMC_OK;
    if (place->offset > file->input.nbytes || place->stored_nbytes > file->input.nbytes - place->offset)
        return st_fail(diag, LMC_ERR_TRUNCATED, file->input.nbytes,
                       "the archive is cut short within what stands between the tensors");
    if (piece_count > place->stored_nbytes / ST_SKELETON_ENTRY_NBYTES)
        return st_fail(diag, LMC_ERR_CORRUPT, place->offset,
                       "what stands between the tensors has no room for its index");
    skeleton->ends = st_allocate_array(&file->memory, piece_count + 1, sizeof *skeleton->ends);
    skeleton->hashes = st_allocate_array(&file->memory, piece_count + 1, sizeof *skeleton->hashes);
    unsigned char *const index = st_allocate_array(&file->memory, piece_count, ST_SKELETON_ENTRY_NBYTES);
    const lmc_status status = !skeleton->ends || !skeleton->hashes || !index
                                  ? st_fail_nomem(diag)
                                  : read_index(skeleton, piece_count, index, diag);
    st_release(&file->memory, index);
    return status;
}

void st_skeleton_close(st_skeleton *skeleton)
{
    if (!skeleton->file)
        return;
    const lmc_allocator *const memory = &skeleton->file->memory;
    st_release(memory, skeleton->ends);
    st_release(memory, skeleton->hashes);
    st_buffer_free(memory, &skeleton->piece);
    st_buffer_free(memory, &skeleton->stored);
    *skeleton = (st_skeleton){0};
}

/* ---- pieces ---- */

static lmc_status load_piece(st_skeleton *skeleton, uint64_t piece, lmc_st_diag *diag)
{
    const lmc_st_file *const file = skeleton->file;
    const uint64_t begin = piece == 0 ? file->skeleton.offset : skeleton->ends[piece - 1];
    const size_t stored_nbytes = (size_t)(skeleton->ends[piece] - begin);
    const size_t nbytes = piece_nbytes(skeleton, piece);
    unsigned char *const stored = st_buffer_grow(&file->memory, &skeleton->stored, stored_nbytes);
    unsigned char *const content = st_buffer_grow(&file->memory, &skeleton->piece, nbytes);
    skeleton->loaded = NO_PIECE;
    if (!stored || !content)
        return st_fail_nomem(diag);
    ST_TRY(os_input_read(&file->input, begin, stored, stored_nbytes, diag));
    const lmc_status status = st_unpack(stored, stored_nbytes, content, nbytes);
    if (status == LMC_ERR_NOMEM)
        return st_fail_nomem(diag);
    if (status != LMC_OK)
        return st_fail(diag, status, begin, "piece %llu between the tensors cannot be unpacked",
                       (unsigned long long)piece);
    if (st_hash(content, nbytes) != skeleton->hashes[piece])
        return st_fail(diag, LMC_ERR_CHECKSUM, begin,
                       "piece %llu between the tensors is not the one that was written",
                       (unsigned long long)piece);
    skeleton->loaded = piece;
    return LMC_OK;
}

/* Length and text of a safetensors header. */
static void get_header(const st_skeleton *skeleton, uint64_t offset, const unsigned char **bytes,
                       size_t *nbytes)
{
    const lmc_st_file *const file = skeleton->file;
    const size_t length_nbytes = sizeof file->header_length;
    const int is_length = offset < length_nbytes;
    const size_t left = is_length ? length_nbytes - (size_t)offset : (size_t)(file->skeleton.nbytes - offset);
    *bytes = is_length ? file->header_length + offset : file->header.text + (offset - length_nbytes);
    *nbytes = left < *nbytes ? left : *nbytes;
}

lmc_status st_skeleton_get(st_skeleton *skeleton, uint64_t offset, const unsigned char **bytes,
                           size_t *nbytes, lmc_st_diag *diag)
{
    if (skeleton->file->container == LMC_ST_CONTAINER_SAFETENSORS) {
        get_header(skeleton, offset, bytes, nbytes);
        return LMC_OK;
    }
    const uint64_t piece = offset / ST_SKELETON_PIECE_NBYTES;
    const size_t at = (size_t)(offset % ST_SKELETON_PIECE_NBYTES);
    const size_t left = piece_nbytes(skeleton, piece) - at;
    if (skeleton->loaded != piece)
        ST_TRY(load_piece(skeleton, piece, diag));
    *bytes = skeleton->piece.bytes + at;
    *nbytes = left < *nbytes ? left : *nbytes;
    return LMC_OK;
}
