/* set_local.c - the set_local callback: completes the filter's values when a dataset is created. */
#include "common/checked.h"
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

/* How many dimensions a chunk has; 0 when they are not known. */
static unsigned read_dimensions(const h5_library *library, h5_id dcpl, uint64_t dimensions[H5_DIMENSIONS_MAX])
{
    const int rank = library->get_chunk(dcpl, H5_DIMENSIONS_MAX, dimensions);
    return rank > 0 && rank <= H5_DIMENSIONS_MAX ? (unsigned)rank : 0;
}

/* Bytes of a chunk in the file; 0 when they are not known or too many to count. */
static uint64_t chunk_nbytes_of(uint64_t type_nbytes, const uint64_t *dimensions, unsigned rank)
{
    uint64_t nbytes = type_nbytes;
    for (unsigned i = 0; i < rank; i++)
        if (lmc_multiply_overflows(nbytes, dimensions[i], &nbytes))
            return 0;
    return rank > 0 ? nbytes : 0;
}

/* What stands before LMC in the pipeline. */
static lmc_h5_pipeline read_pipeline(const h5_library *library, h5_id dcpl)
{
    lmc_h5_pipeline pipeline = {0, 0, 0};
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

/* Completes what the user has given. */
static void complete(const h5_library *library, h5_id dcpl, h5_id type, lmc_h5_params *params)
{
    uint64_t dimensions[H5_DIMENSIONS_MAX];
    const unsigned rank = read_dimensions(library, dcpl, dimensions);
    const uint64_t type_nbytes = library->type_nbytes(type);
    const lmc_h5_type element = h5_type_read(library, type);
    const lmc_h5_pipeline pipeline = read_pipeline(library, dcpl);
    lmc_h5_params_complete(params, &element, &pipeline, chunk_nbytes_of(type_nbytes, dimensions, rank));
    lmc_h5_params_set_rows(params, rank > 0 ? dimensions[0] : 0);
    lmc_h5_params_set_row_nbytes(params, type_nbytes, dimensions, rank);
}

int h5_set_local(h5_id dcpl, h5_id type, h5_id space)
{
    const h5_library *const library = h5_library_of(H5_CALL_SITE());
    unsigned values[LMC_H5_VALUE_COUNT_MAX] = {0};
    /* in: room; out: how many there are, though they do not fit */
    size_t value_count = LMC_H5_VALUE_COUNT_MAX;
    unsigned flags;
    unsigned config;
    lmc_h5_params params;
    (void)space;
    if (!library)
        return 0;
    if (library->version[0] == 1 && library->version[1] < 10) {
        (void)lmc_h5_fail(LMC_ERR_UNSUPPORTED, "lmc: needs HDF5 1.10 or later, this is %u.%u.%u",
                          library->version[0], library->version[1], library->version[2]);
        return fail(library);
    }
    if (library->get_filter_by_id(dcpl, LMC_H5_FILTER_ID, &flags, &value_count, values, 0, NULL, &config) <
        0) {
        (void)lmc_h5_fail(LMC_ERR_ARG, "lmc: HDF5 does not give the filter's values");
        return fail(library);
    }
    if (lmc_h5_params_read_user(values, value_count, &params) != LMC_OK)
        return fail(library);
    complete(library, dcpl, type, &params);
    if (library->modify_filter(dcpl, LMC_H5_FILTER_ID, flags, lmc_h5_params_write(&params, values), values) <
        0) {
        (void)lmc_h5_fail(LMC_ERR_ARG, "lmc: HDF5 does not take the filter's values");
        return fail(library);
    }
    return 0;
}
