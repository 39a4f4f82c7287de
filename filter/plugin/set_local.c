/* set_local.c - the set_local callback: completes the filter's values when a dataset is created. */
#include "filter/chunk/error.h"
#include "filter/chunk/params.h"
#include "filter/plugin/callbacks.h"
#include "filter/plugin/library.h"
#include "filter/plugin/type.h"

static int fail(const h5_library *library)
{
    h5_library_push(library, "set_local", lmc_h5_last_error());
    return -1;
}

/* Bytes of a chunk in the file, 0 when they are not known or too many to count; and the length of its first axis. */
static uint64_t read_chunk_nbytes(const h5_library *library, h5_id dcpl, h5_id type, uint64_t *row_count)
{
    uint64_t dimensions[H5_DIMENSIONS_MAX];
    uint64_t nbytes = library->type_nbytes(type);
    const int count = library->get_chunk(dcpl, H5_DIMENSIONS_MAX, dimensions);
    *row_count = count > 0 ? dimensions[0] : 0;
    for (int i = 0; i < count && i < H5_DIMENSIONS_MAX; i++)
        if (__builtin_mul_overflow(nbytes, dimensions[i], &nbytes))
            return 0;
    return count > 0 ? nbytes : 0;
}

/* What stands before LMC in the pipeline. */
static h5_pipeline read_pipeline(const h5_library *library, h5_id dcpl)
{
    h5_pipeline pipeline = {0, 0, 0};
    const int count = library->get_filter_count(dcpl);
    for (int i = 0; i < count; i++) {
        unsigned values[1] = {0};
        size_t value_count = 1;
        unsigned flags;
        unsigned config;
        const int id = library->get_filter(dcpl, (unsigned)i, &flags, &value_count, values, 0, NULL, &config);
        if (id == LMC_H5_FILTER_ID)
            break;
        if (id == H5_FILTER_SHUFFLE && pipeline.shuffle_nbytes == 0 && !pipeline.is_extended)
            pipeline.shuffle_nbytes = value_count > 0 ? values[0] : 0;
        else if (id == H5_FILTER_FLETCHER32)
            pipeline.is_extended = 1;
        else
            pipeline.is_opaque = 1;
    }
    return pipeline;
}

int h5_set_local(h5_id dcpl, h5_id type, h5_id space)
{
    const h5_library *const library = h5_library_of(H5_CALL_SITE());
    unsigned values[LMC_H5_VALUE_COUNT_MAX] = {0};
    size_t value_count =
        LMC_H5_VALUE_COUNT_MAX; /* in: room; out: how many there are, though they do not fit */
    unsigned flags;
    unsigned config;
    uint64_t row_count;
    h5_params params;
    (void)space;
    if (!library)
        return 0;
    if (library->version[0] == 1 && library->version[1] < 10) {
        (void)h5_fail(LMC_ERR_UNSUPPORTED, "lmc: needs HDF5 1.10 or later, this is %u.%u.%u",
                      library->version[0], library->version[1], library->version[2]);
        return fail(library);
    }
    if (library->get_filter_by_id(dcpl, LMC_H5_FILTER_ID, &flags, &value_count, values, 0, NULL, &config) <
        0) {
        (void)h5_fail(LMC_ERR_ARG, "lmc: HDF5 does not give the filter's values");
        return fail(library);
    }
    if (h5_params_read_user(values, value_count, &params) != LMC_OK)
        return fail(library);
    const h5_type element = h5_type_read(library, type);
    const h5_pipeline pipeline = read_pipeline(library, dcpl);
    const uint64_t chunk_nbytes = read_chunk_nbytes(library, dcpl, type, &row_count);
    h5_params_complete(&params, &element, &pipeline, chunk_nbytes);
    h5_params_set_rows(&params, row_count);
    if (library->modify_filter(dcpl, LMC_H5_FILTER_ID, flags, h5_params_write(&params, values), values) < 0) {
        (void)h5_fail(LMC_ERR_ARG, "lmc: HDF5 does not take the filter's values");
        return fail(library);
    }
    return 0;
}
