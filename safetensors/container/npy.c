/*
 * npy.c - the container .npy: a header and one array, whose name here is `array`. An array of Python objects is a
 * pickle and no tensor: all of it is skeleton.
 */
#include "safetensors/container/npy_header.h"
#include "safetensors/container/segments.h"

#include <string.h>

static int is_like_npy(const st_reading *reading, const unsigned char *head, size_t nbytes, lmc_st_diag *diag)
{
    (void)diag;
    (void)reading;
    return nbytes >= 6 && memcmp(head, "\x93NUMPY", 6) == 0;
}

/* Reads the whole header into the buffer, and from there. *is_told: 0 for Python objects. */
static lmc_status read_header(const st_reading *reading, st_buffer *buffer, st_npy *npy, int *is_told,
                              lmc_st_diag *diag)
{
    unsigned char start[ST_NPY_START_NBYTES];
    const uint64_t file_nbytes = reading->input->nbytes;
    if (file_nbytes < sizeof start)
        return st_fail(diag, LMC_ERR_TRUNCATED, file_nbytes,
                       "this .npy file is cut short: its header is not whole");
    ST_TRY(os_input_read(reading->input, 0, start, sizeof start, diag));
    const uint64_t header_nbytes = st_npy_header_nbytes(start, sizeof start);
    if (header_nbytes == 0)
        return st_fail(diag, LMC_ERR_UNSUPPORTED, 6,
                       "a .npy file of version %u.%u, only 1.0 to 3.0 are known", start[6], start[7]);
    if (header_nbytes > file_nbytes)
        return st_fail(diag, LMC_ERR_TRUNCATED, file_nbytes,
                       "this .npy file is cut short: its header is not whole");
    if (header_nbytes > ST_NPY_HEADER_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, 8, "the header of this .npy file has %llu bytes, more than %llu",
                       (unsigned long long)header_nbytes, (unsigned long long)ST_NPY_HEADER_NBYTES_MAX);
    unsigned char *const head = st_buffer_grow(reading->memory, buffer, (size_t)header_nbytes);
    if (!head)
        return st_fail_nomem(diag);
    ST_TRY(os_input_read(reading->input, 0, head, (size_t)header_nbytes, diag));
    *is_told = st_npy_read_header(head, (size_t)header_nbytes, npy);
    if (!*is_told && !npy->is_object)
        return st_fail(diag, LMC_ERR_HEADER, 0, "the header of this .npy file is none that numpy writes");
    return LMC_OK;
}

static lmc_status add_array(st_segments *segments, const st_npy *npy, lmc_st_diag *diag)
{
    const st_reading *const reading = segments->reading;
    st_segment segment = {.offset = npy->data_offset,
                          .nbytes = npy->data_nbytes,
                          .dtype = npy->dtype,
                          .shape = npy->has_shape ? npy->shape : NULL,
                          .rank = npy->rank,
                          .name = "array",
                          .name_nbytes = 5};
    if (npy->data_nbytes > reading->input->nbytes - npy->data_offset)
        return st_fail(diag, LMC_ERR_TRUNCATED, reading->input->nbytes,
                       "this .npy file is cut short: its array has %llu bytes, %llu are there",
                       (unsigned long long)npy->data_nbytes,
                       (unsigned long long)(reading->input->nbytes - npy->data_offset));
    if (npy->is_guess)
        ST_TRY(st_segments_guess(reading, segment.offset, segment.nbytes, &segment.dtype, diag));
    return st_segments_add(segments, &segment, diag);
}

static lmc_status read_npy(const st_reading *reading, st_contents *contents, lmc_st_diag *diag)
{
    st_npy npy;
    st_buffer buffer = {0};
    st_segments segments;
    int is_told = 0;
    lmc_status status = read_header(reading, &buffer, &npy, &is_told, diag);
    st_buffer_free(reading->memory, &buffer);
    ST_TRY(status);
    st_segments_init(&segments, reading);
    if (is_told)
        status = add_array(&segments, &npy, diag);
    if (status == LMC_OK)
        status = st_segments_finish(&segments, LMC_ST_CONTAINER_NPY, contents, diag);
    st_segments_free(&segments);
    return status;
}

const st_container_reader st_npy_reader = {LMC_ST_CONTAINER_NPY, is_like_npy, read_npy};
