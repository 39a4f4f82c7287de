/*
 * raw.c - files of no known kind, where the caller allows them: pieces of a fixed size, each of the dtype that a sample
 * of it says.
 */
#include "safetensors/container/segments.h"

#include <stdio.h>

static int is_like_raw(const st_reading *reading, const unsigned char *head, size_t nbytes, lmc_st_diag *diag)
{
    (void)diag;
    (void)head;
    (void)nbytes;
    return reading->is_raw_allowed;
}

static lmc_status add_piece(st_segments *segments, uint64_t index, uint64_t offset, lmc_st_diag *diag)
{
    char name[32];
    const uint64_t left =
        (segments->reading->input->nbytes - offset) / ST_PIECE_UNIT_NBYTES * ST_PIECE_UNIT_NBYTES;
    st_segment segment = {
        .offset = offset, .nbytes = left < ST_PIECE_NBYTES ? left : ST_PIECE_NBYTES, .name = name};
    if (st_is_cancelled(segments->reading->cancel))
        return st_fail_cancelled(diag);
    segment.name_nbytes = (size_t)snprintf(name, sizeof name, "piece/%llu", (unsigned long long)index);
    ST_TRY(st_segments_guess(segments->reading, offset, segment.nbytes, &segment.dtype, diag));
    return st_segments_add(segments, &segment, diag);
}

static lmc_status read_raw(const st_reading *reading, st_contents *contents, lmc_st_diag *diag)
{
    st_segments segments;
    lmc_status status = LMC_OK;
    st_segments_init(&segments, reading);
    const uint64_t end = reading->input->nbytes / ST_PIECE_UNIT_NBYTES * ST_PIECE_UNIT_NBYTES;
    for (uint64_t i = 0; status == LMC_OK && i * ST_PIECE_NBYTES < end; i++)
        status = add_piece(&segments, i, i * ST_PIECE_NBYTES, diag);
    if (status == LMC_OK)
        status = st_segments_finish(&segments, LMC_ST_CONTAINER_RAW, contents, diag);
    st_segments_free(&segments);
    return status;
}

const st_container_reader st_raw_reader = {LMC_ST_CONTAINER_RAW, is_like_raw, read_raw};
