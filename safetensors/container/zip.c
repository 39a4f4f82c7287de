/*
 * zip.c - the container ZIP: archives of torch, numpy and others, one or several of them in a file. The last one must
 * hold up. What is before the first one that can be followed back from it is skeleton.
 */
#include "safetensors/container/npy.h"
#include "safetensors/container/torch.h"

#include <stdio.h>
#include <string.h>

/* By its first bytes; or by its end, if other bytes are before it. An end alone may be anything: it must have
 * entries. */
static int is_like_zip(const st_reading *reading, const unsigned char *head, size_t nbytes, lmc_st_diag *diag)
{
    st_zip_end end;
    const char *fault = NULL;
    uint64_t fault_offset = 0;
    int is_there = 0;
    if (nbytes >= 4 && (lmc_load32(head) == ST_ZIP_LOCAL_MAGIC || lmc_load32(head) == ST_ZIP_END_MAGIC))
        return 1;
    if (st_zip_find_last(reading, &end, &is_there, &fault, &fault_offset, diag) != LMC_OK)
        return -1;
    return is_there && end.entry_count > 0;
}

/* ---- the ZIPs of a file ---- */

/* From the last one to the first one. */
typedef struct zip_chain {
    st_buffer list; /* of st_zip_end */
    size_t count;
} zip_chain;

static lmc_status find_zips(const st_reading *reading, zip_chain *chain, lmc_st_diag *diag)
{
    st_zip_search search = {0};
    st_zip_end end;
    st_zip_end next;
    const char *fault = NULL;
    uint64_t fault_offset = 0;
    int is_there = 0;
    LMC_TRY(st_zip_find_last(reading, &end, &is_there, &fault, &fault_offset, diag));
    if (fault && !is_there)
        return st_fail(diag, LMC_ERR_HEADER, fault_offset, "the ZIP cannot be followed: %s", fault);
    if (!is_there)
        return st_fail(diag, LMC_ERR_TRUNCATED, reading->input->nbytes,
                       "the file begins as a ZIP and does not end as one: it is cut short");
    for (; is_there && chain->count < ST_ZIP_COUNT_MAX; end = next) {
        if (st_is_cancelled(reading->cancel))
            return st_fail_cancelled(diag);
        unsigned char *const room =
            st_buffer_extend(reading->memory, &chain->list, chain->count * sizeof end, sizeof end);
        if (!room)
            return st_fail_nomem(diag);
        memcpy(room, &end, sizeof end);
        chain->count++;
        LMC_TRY(st_zip_find_before(reading, &search, &end, &next, &is_there, diag));
    }
    return LMC_OK;
}

/* ---- entries ---- */

/* What is made of the entries of a ZIP: arrays, and pieces of what is large. Names are those of the entries, behind
 * INDEX/ if the file has several ZIPs. */
typedef struct zip_entries {
    const st_reading *reading;
    st_segments *segments;
    st_zip zip;
    st_buffer head; /* of a .npy file */
} zip_entries;

static int ends_with(st_string string, const char *end)
{
    const size_t nbytes = strlen(end);
    return string.nbytes >= nbytes && memcmp(string.bytes + string.nbytes - nbytes, end, nbytes) == 0;
}

/* Entries that are no tensors are cut into pieces from this size on. Smaller ones, as the sources in TorchScript's
 * archives, are better compressed with all that is around them. */
#define ENTRY_NBYTES_MIN ((uint64_t)1 << 16)

#define CANCEL_ENTRY_COUNT 256u

/* Adds the array of an entry that is a .npy file. *is_done: it is one, and is whole. */
static lmc_status add_npy(zip_entries *zip, const st_zip_entry *entry, int *is_done, lmc_st_diag *diag)
{
    unsigned char start[ST_NPY_START_NBYTES];
    st_npy npy;
    st_string name = st_zip_name(&zip->zip, entry);
    if (!ends_with(name, ".npy") || entry->nbytes < sizeof start)
        return LMC_OK;
    LMC_TRY(st_input_read(zip->reading->input, entry->data_offset, start, sizeof start, diag));
    const uint64_t header_nbytes = st_npy_header_nbytes(start, sizeof start);
    if (header_nbytes == 0 || header_nbytes > entry->nbytes || header_nbytes > ST_NPY_HEADER_NBYTES_MAX)
        return LMC_OK;
    unsigned char *const head = st_buffer_grow(zip->reading->memory, &zip->head, (size_t)header_nbytes);
    if (!head)
        return st_fail_nomem(diag);
    LMC_TRY(st_input_read(zip->reading->input, entry->data_offset, head, (size_t)header_nbytes, diag));
    if (!st_npy_read_header(head, (size_t)header_nbytes, &npy) || npy.data_offset > entry->nbytes ||
        npy.data_nbytes > entry->nbytes - npy.data_offset)
        return LMC_OK;
    *is_done = 1;
    name.nbytes -= 4;
    st_segment segment = {
        .offset = entry->data_offset + npy.data_offset, .name = name.bytes, .name_nbytes = name.nbytes};
    return st_npy_add(zip->segments, &npy, &segment, diag);
}

/* ---- one of them ---- */

static lmc_status add_zip(st_segments *segments, const zip_chain *chain, size_t index_from_end,
                          lmc_st_diag *diag)
{
    const st_zip_end *const end = (const st_zip_end *)(const void *)chain->list.bytes + index_from_end;
    const lmc_st_diag diag_before = *diag;
    char prefix[24] = "";
    zip_entries zip = {.reading = segments->reading, .segments = segments};
    if (chain->count > 1)
        snprintf(prefix, sizeof prefix, "%zu/", chain->count - 1 - index_from_end);
    segments->prefix = prefix;
    lmc_status status = st_zip_read(zip.reading, end, &zip.zip, diag);
    /* the last one must hold up */
    const int is_skipped = (status == LMC_ERR_HEADER || status == LMC_ERR_LIMIT) && index_from_end > 0;
    if (status == LMC_OK)
        status = st_torch_add(segments, &zip.zip, diag);
    for (size_t i = 0; i < zip.zip.entry_count && status == LMC_OK; i++) {
        const st_zip_entry *const entry = st_zip_entry_at(&zip.zip, i);
        const st_string name = st_zip_name(&zip.zip, entry);
        int is_done = entry->is_done || !entry->is_plain;
        if (i % CANCEL_ENTRY_COUNT == 0 && st_is_cancelled(zip.reading->cancel))
            status = st_fail_cancelled(diag);
        if (status == LMC_OK && !is_done)
            status = add_npy(&zip, entry, &is_done, diag);
        if (status == LMC_OK && !is_done && entry->nbytes >= ENTRY_NBYTES_MIN && !ends_with(name, ".pkl"))
            status = st_segments_add_pieces(segments, name.bytes, name.nbytes, entry->data_offset,
                                            entry->nbytes, diag);
    }
    if (is_skipped) {
        *diag = diag_before;
        status = LMC_OK;
    }
    segments->prefix = "";
    st_zip_free(&zip.zip);
    st_buffer_free(zip.reading->memory, &zip.head);
    return status;
}

static lmc_status read_zip(const st_reading *reading, st_contents *contents, lmc_st_diag *diag)
{
    st_segments segments;
    zip_chain chain = {0};
    st_segments_init(&segments, reading);
    lmc_status status = find_zips(reading, &chain, diag);
    for (size_t i = chain.count; i > 0 && status == LMC_OK; i--)
        status = add_zip(&segments, &chain, i - 1, diag);
    if (status == LMC_OK)
        status = st_segments_finish(&segments, LMC_ST_CONTAINER_ZIP, contents, diag);
    st_buffer_free(reading->memory, &chain.list);
    st_segments_free(&segments);
    return status;
}

const st_container_reader st_zip_reader = {LMC_ST_CONTAINER_ZIP, is_like_zip, read_zip};
