/*
 * zip.c - the container ZIP: archives of torch, numpy and others, one or several of them in a file. The last one must
 * hold up. What is before the first one that can be followed back from it is skeleton.
 */
#include "safetensors/container/torch.h"

#include <stdio.h>

#define LOCAL_MAGIC 0x04034b50u
#define END_MAGIC 0x06054b50u

/* By its first bytes; or by its end, if other bytes are before it. An end alone may be anything: it must have
 * entries. */
static int is_like_zip(const st_reading *reading, const unsigned char *head, size_t nbytes, lmc_st_diag *diag)
{
    st_zip_end end;
    const char *fault = NULL;
    uint64_t fault_offset = 0;
    int is_there = 0;
    if (nbytes >= 4 && (st_load_u32(head) == LOCAL_MAGIC || st_load_u32(head) == END_MAGIC))
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

static lmc_status chain_add(const st_reading *reading, zip_chain *chain, const st_zip_end *end,
                            lmc_st_diag *diag)
{
    unsigned char *const room =
        st_buffer_extend(reading->memory, &chain->list, chain->count * sizeof *end, sizeof *end);
    if (!room)
        return st_fail_nomem(diag);
    memcpy(room, end, sizeof *end);
    chain->count++;
    return LMC_OK;
}

static lmc_status find_zips(const st_reading *reading, zip_chain *chain, lmc_st_diag *diag)
{
    st_zip_search search = {0};
    st_zip_end end;
    st_zip_end next;
    const char *fault = NULL;
    uint64_t fault_offset = 0;
    int is_there = 0;
    ST_TRY(st_zip_find_last(reading, &end, &is_there, &fault, &fault_offset, diag));
    if (fault && !is_there)
        return st_fail(diag, LMC_ERR_HEADER, fault_offset, "the ZIP cannot be followed: %s", fault);
    if (!is_there)
        return st_fail(diag, LMC_ERR_TRUNCATED, reading->input->nbytes,
                       "the file begins as a ZIP and does not end as one: it is cut short");
    for (; is_there && chain->count < ST_ZIP_COUNT_MAX; end = next) {
        if (st_is_cancelled(reading->cancel))
            return st_fail_cancelled(diag);
        ST_TRY(chain_add(reading, chain, &end, diag));
        ST_TRY(st_zip_find_before(reading, &search, &end, &next, &is_there, diag));
    }
    return LMC_OK;
}

/* ---- one of them ---- */

/* A ZIP that does not hold up. The last one must. */
static int is_to_be_skipped(lmc_status status, size_t index_from_end)
{
    return index_from_end > 0 && status == LMC_ERR_HEADER;
}

static lmc_status add_zip(st_segments *segments, const zip_chain *chain, size_t index_from_end,
                          lmc_st_diag *diag)
{
    const st_zip_end *const end = (const st_zip_end *)(const void *)chain->list.bytes + index_from_end;
    const lmc_st_diag diag_before = *diag;
    st_zip_segments zip = {.reading = segments->reading, .segments = segments};
    if (chain->count > 1)
        snprintf(zip.prefix, sizeof zip.prefix, "%zu/", chain->count - 1 - index_from_end);
    lmc_status status = st_zip_read(zip.reading, end, &zip.zip, diag);
    if (is_to_be_skipped(status, index_from_end)) {
        *diag = diag_before;
        status = LMC_OK;
    } else {
        if (status == LMC_OK)
            status = st_torch_add(&zip, diag);
        if (status == LMC_OK)
            status = st_zip_add_entries(&zip, diag);
    }
    st_zip_free(&zip.zip);
    st_buffer_free(zip.reading->memory, &zip.name);
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
