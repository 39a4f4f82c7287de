/*
 * archive_skeleton.c - reads what is no tensor: of an archive, the pieces; of a plain file, the gaps between its
 * tensors.
 */
#include "safetensors/archive/archive_skeleton.h"

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
static lmc_status read_index(st_skeleton *skeleton, uint64_t piece_count, unsigned char *index,
                             lmc_st_diag *diag)
{
    const lmc_st_file *const file = skeleton->file;
    const st_skeleton_place *const place = &file->skeleton;
    const size_t index_nbytes = (size_t)(piece_count * ST_SKELETON_ENTRY_NBYTES);
    const uint64_t index_offset = place->offset + place->stored_nbytes - index_nbytes;
    LMC_TRY(st_input_read(&file->input, index_offset, index, index_nbytes, diag));
    if (st_hash(index, index_nbytes) != place->hash)
        return st_fail(diag, LMC_ERR_CHECKSUM, index_offset,
                       "the index of what stands between the tensors is not the one that was written");
    uint64_t end = place->offset;
    for (uint64_t i = 0; i < piece_count; i++) {
        const unsigned char *const entry = index + i * ST_SKELETON_ENTRY_NBYTES;
        const uint32_t stored_nbytes = lmc_load32(entry);
        if (stored_nbytes == 0 || stored_nbytes > piece_nbytes(skeleton, i) ||
            stored_nbytes > index_offset - end)
            return st_fail(diag, LMC_ERR_CORRUPT, index_offset + i * ST_SKELETON_ENTRY_NBYTES,
                           "piece %llu between the tensors does not have its stated size",
                           (unsigned long long)i);
        end += stored_nbytes;
        skeleton->ends[i] = end;
        skeleton->hashes[i] = lmc_load64(entry + 4);
    }
    return end == index_offset
               ? LMC_OK
               : st_fail(diag, LMC_ERR_CORRUPT, end,
                         "the pieces between the tensors do not end where their index begins");
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
    LMC_TRY(st_input_read(&file->input, begin, stored, stored_nbytes, diag));
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

lmc_status st_skeleton_get(st_skeleton *skeleton, uint64_t offset, const unsigned char **bytes,
                           size_t *nbytes, lmc_st_diag *diag)
{
    const lmc_st_file *const file = skeleton->file;
    const size_t length_nbytes = sizeof file->header_length;
    if (file->container == LMC_ST_CONTAINER_SAFETENSORS) { /* length and text of the header */
        const int is_length = offset < length_nbytes;
        const uint64_t end = is_length ? length_nbytes : file->skeleton.nbytes;
        *bytes = is_length ? file->header_length + offset : file->header.text + (offset - length_nbytes);
        *nbytes = end - offset < *nbytes ? (size_t)(end - offset) : *nbytes;
        return LMC_OK;
    }
    const uint64_t piece = offset / ST_SKELETON_PIECE_NBYTES;
    const size_t at = (size_t)(offset % ST_SKELETON_PIECE_NBYTES);
    const size_t left = piece_nbytes(skeleton, piece) - at;
    if (skeleton->loaded != piece)
        LMC_TRY(load_piece(skeleton, piece, diag));
    *bytes = skeleton->piece.bytes + at;
    *nbytes = left < *nbytes ? left : *nbytes;
    return LMC_OK;
}

lmc_status st_skeleton_check(const lmc_st_file *source, lmc_st_diag *diag)
{
    st_skeleton skeleton;
    lmc_status status = st_skeleton_open(&skeleton, source, diag);
    uint64_t at = 0;
    while (at < source->skeleton.nbytes && status == LMC_OK) {
        const unsigned char *bytes = NULL;
        size_t nbytes = ST_SKELETON_PIECE_NBYTES;
        status = st_skeleton_get(&skeleton, at, &bytes, &nbytes, diag);
        at += nbytes;
    }
    st_skeleton_close(&skeleton);
    return status;
}

/* ---- of any file ---- */

static lmc_status read_gaps(const lmc_st_file *file, uint64_t offset, size_t nbytes, unsigned char *dst,
                            lmc_st_diag *diag)
{
    const st_header *const header = &file->header;
    size_t first = 0, last = header->tensor_count;
    while (first <
           last) { /* the first tensor, or their number, before which more than `offset` bytes stand */
        const size_t middle = first + (last - first) / 2;
        if (st_skeleton_before(file, middle) <= offset)
            first = middle + 1;
        else
            last = middle;
    }
    for (size_t gap = first; nbytes > 0; gap++) {
        const uint64_t left = st_skeleton_before(file, gap) - offset;
        const size_t part = left < nbytes ? (size_t)left : nbytes;
        const uint64_t data_nbytes =
            gap < header->tensor_count ? header->tensors[gap].begin : header->data_nbytes;
        if (part > 0)
            LMC_TRY(st_input_read(&file->input, offset + data_nbytes, dst, part, diag));
        offset += part;
        dst += part;
        nbytes -= part;
    }
    return LMC_OK;
}

uint64_t lmc_st_skeleton_nbytes(const lmc_st_file *file)
{
    return file->skeleton.nbytes;
}

lmc_status lmc_st_skeleton_read(const lmc_st_file *file, uint64_t offset, size_t nbytes, void *dst,
                                lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    if (status == LMC_OK && (offset > file->skeleton.nbytes || nbytes > file->skeleton.nbytes - offset)) {
        status = st_fail(call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                         "the range leaves what stands between the tensors");
    } else if (status == LMC_OK && !file->is_archive) {
        status = read_gaps(file, offset, nbytes, dst, call.diag);
    } else if (status == LMC_OK) {
        st_skeleton skeleton;
        status = st_skeleton_open(&skeleton, file, call.diag);
        for (size_t done = 0; done < nbytes && status == LMC_OK;) {
            const unsigned char *bytes = NULL;
            size_t got = nbytes - done;
            status = st_skeleton_get(&skeleton, offset + done, &bytes, &got, call.diag);
            if (status == LMC_OK)
                memcpy((unsigned char *)dst + done, bytes, got);
            done += got;
        }
        st_skeleton_close(&skeleton);
    }
    return st_call_end(&call, status);
}
