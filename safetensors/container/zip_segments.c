/*
 * zip_segments.c - what becomes of the entries of a ZIP.
 */
#include "safetensors/container/zip_segments.h"
#include "safetensors/container/npy_header.h"

/* Entries that are no tensors are cut into pieces from this size on. Smaller ones, as the sources in TorchScript's
 * archives, are better compressed with all that is around them. */
#define ENTRY_NBYTES_MIN ((uint64_t)1 << 16)

#define CANCEL_ENTRY_COUNT 256u

lmc_status st_zip_add(st_zip_segments *zip, st_string name, st_segment *segment, lmc_st_diag *diag)
{
    const size_t prefix_nbytes = strlen(zip->prefix);
    unsigned char *const bytes =
        st_buffer_grow(zip->reading->memory, &zip->name, prefix_nbytes + name.nbytes);
    if (!bytes)
        return st_fail_nomem(diag);
    memcpy(bytes, zip->prefix, prefix_nbytes);
    memcpy(bytes + prefix_nbytes, name.bytes, name.nbytes);
    segment->name = (const char *)bytes;
    segment->name_nbytes = prefix_nbytes + name.nbytes;
    return st_segments_add(zip->segments, segment, diag);
}

lmc_status st_zip_add_guessed(st_zip_segments *zip, st_string name, uint64_t offset, uint64_t nbytes,
                              lmc_st_diag *diag)
{
    st_segment segment = {.offset = offset, .nbytes = nbytes};
    ST_TRY(st_segments_guess(zip->reading, offset, nbytes, &segment.dtype, diag));
    return st_zip_add(zip, name, &segment, diag);
}

static lmc_status add_array(st_zip_segments *zip, st_string name, uint64_t offset, const st_npy *npy,
                            lmc_st_diag *diag)
{
    st_segment segment = {.offset = offset + npy->data_offset,
                          .nbytes = npy->data_nbytes,
                          .dtype = npy->dtype,
                          .shape = npy->has_shape ? npy->shape : NULL,
                          .rank = npy->rank};
    if (npy->is_guess && segment.nbytes > 0)
        ST_TRY(st_segments_guess(zip->reading, segment.offset, segment.nbytes, &segment.dtype, diag));
    return st_zip_add(zip, name, &segment, diag);
}

/* Adds the array of an entry that is a .npy file. *is_done: it is one, and is whole. */
static lmc_status add_npy(st_zip_segments *zip, const st_zip_entry *entry, int *is_done, lmc_st_diag *diag)
{
    unsigned char start[ST_NPY_START_NBYTES];
    st_npy npy;
    st_string name = st_zip_name(&zip->zip, entry);
    if (!st_string_ends(name, ".npy") || entry->nbytes < sizeof start)
        return LMC_OK;
    ST_TRY(os_input_read(zip->reading->input, entry->data_offset, start, sizeof start, diag));
    const uint64_t header_nbytes = st_npy_header_nbytes(start, sizeof start);
    if (header_nbytes == 0 || header_nbytes > entry->nbytes || header_nbytes > ST_NPY_HEADER_NBYTES_MAX)
        return LMC_OK;
    unsigned char *const head = st_buffer_grow(zip->reading->memory, &zip->head, (size_t)header_nbytes);
    if (!head)
        return st_fail_nomem(diag);
    ST_TRY(os_input_read(zip->reading->input, entry->data_offset, head, (size_t)header_nbytes, diag));
    if (!st_npy_read_header(head, (size_t)header_nbytes, &npy) || npy.data_offset > entry->nbytes ||
        npy.data_nbytes > entry->nbytes - npy.data_offset)
        return LMC_OK;
    *is_done = 1;
    name.nbytes -= 4;
    return add_array(zip, name, entry->data_offset, &npy, diag);
}

static lmc_status add_pieces(st_zip_segments *zip, const st_zip_entry *entry, lmc_st_diag *diag)
{
    const st_string name = st_zip_name(&zip->zip, entry);
    const uint64_t nbytes = entry->nbytes / ST_PIECE_UNIT_NBYTES * ST_PIECE_UNIT_NBYTES;
    for (uint64_t at = 0; at < nbytes; at += ST_PIECE_NBYTES) {
        const uint64_t piece_nbytes = nbytes - at < ST_PIECE_NBYTES ? nbytes - at : ST_PIECE_NBYTES;
        if (st_is_cancelled(zip->reading->cancel))
            return st_fail_cancelled(diag);
        ST_TRY(st_zip_add_guessed(zip, name, entry->data_offset + at, piece_nbytes, diag));
    }
    return LMC_OK;
}

lmc_status st_zip_add_entries(st_zip_segments *zip, lmc_st_diag *diag)
{
    for (size_t i = 0; i < zip->zip.entry_count; i++) {
        const st_zip_entry *const entry = st_zip_entry_at(&zip->zip, i);
        int is_done = entry->is_done || !entry->is_plain;
        if (i % CANCEL_ENTRY_COUNT == 0 && st_is_cancelled(zip->reading->cancel))
            return st_fail_cancelled(diag);
        if (!is_done)
            ST_TRY(add_npy(zip, entry, &is_done, diag));
        if (!is_done && entry->nbytes >= ENTRY_NBYTES_MIN &&
            !st_string_ends(st_zip_name(&zip->zip, entry), ".pkl"))
            ST_TRY(add_pieces(zip, entry, diag));
    }
    return LMC_OK;
}
