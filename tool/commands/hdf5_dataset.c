/*
 * hdf5_dataset.c - commands/hdf5_library.h: filters, sizes and chunks of a dataset. No filter is run.
 */
#include "tool/commands/hdf5_dataset.h"

#include "safetensors/common/common.h"
#include "tool/child.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(HDF5_RANK_MAX == H5S_MAX_RANK && HDF5_FILTERS_MAX == H5Z_MAX_NFILTERS, "limits of HDF5");
_Static_assert(sizeof(hdf5_record) <= CLI_RECORD_NBYTES_MAX, "records of a child");

static int read_filters(hdf5_inspection *it)
{
    const int count = it->hdf5->H5Pget_nfilters(it->properties);
    if (count < 0 || count > HDF5_FILTERS_MAX)
        return 0;
    for (int i = 0; i < count; i++) {
        hdf5_filter *const filter = &it->filters[i];
        unsigned flags = 0;
        size_t value_count = HDF5_VALUES_MAX;
        /* without a place for what the filter can do: to know that, HDF5 would load it */
        filter->id = it->hdf5->H5Pget_filter2(it->properties, (unsigned)i, &flags, &value_count,
                                              filter->values, sizeof(filter->name), filter->name, NULL);
        if (filter->id < 0)
            return 0;
        filter->name[sizeof(filter->name) - 1] = '\0';
        filter->is_optional = (flags & H5Z_FLAG_OPTIONAL) != 0;
        filter->value_count = (unsigned)value_count;
    }
    it->found.filter_count = (unsigned)count;
    return 1;
}

static int read_shape(hdf5_inspection *it)
{
    hsize_t dims[HDF5_RANK_MAX];
    const H5S_class_t class = it->hdf5->H5Sget_simple_extent_type(it->space);
    it->found.rank = -1;
    if (class != H5S_SCALAR && class != H5S_SIMPLE)
        return class == H5S_NULL;
    const int rank = it->hdf5->H5Sget_simple_extent_ndims(it->space);
    if (rank < 0 || rank > HDF5_RANK_MAX || it->hdf5->H5Sget_simple_extent_dims(it->space, dims, NULL) < 0)
        return 0;
    it->found.rank = rank;
    for (int i = 0; i < rank; i++)
        it->found.shape[i] = dims[i];
    return 1;
}

static int read_type(hdf5_inspection *it)
{
    hdf5_dataset *const found = &it->found;
    const hid_t type = it->hdf5->H5Dget_type(it->dataset);
    if (type < 0)
        return 0;
    hdf5_type_name(it->hdf5, type, found->type, sizeof(found->type));
    it->item_nbytes = it->hdf5->H5Tget_size(type);
    it->is_item_fixed = hdf5_type_is_fixed(it->hdf5, type);
    found->nbytes = found->rank < 0 ? 0 : it->item_nbytes;
    found->is_size_known = 1;
    for (int i = 0; i < found->rank; i++)
        found->is_size_known &= !st_multiply_overflows(found->nbytes, found->shape[i], &found->nbytes);
    it->hdf5->H5Tclose(type);
    return 1;
}

static int read_chunks(hdf5_inspection *it)
{
    hdf5_dataset *const found = &it->found;
    hsize_t shape[HDF5_RANK_MAX] = {0};
    hsize_t count = 0;
    unsigned options = 0;
    if (it->hdf5->H5Pget_chunk(it->properties, HDF5_RANK_MAX, shape) < 0 ||
        it->hdf5->H5Pget_chunk_opts(it->properties, &options) < 0 ||
        it->hdf5->H5Dget_num_chunks(it->dataset, it->space, &count) < 0)
        return 0;
    for (int i = 0; i < found->rank; i++)
        found->chunk_shape[i] = shape[i];
    found->leaves_edges = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
    found->chunk_count = count;
    return count == 0 || found->filter_count == 0 || hdf5_look_at_chunks(it);
}

static int read_layout(hdf5_inspection *it)
{
    switch (it->hdf5->H5Pget_layout(it->properties)) {
    case H5D_COMPACT: it->found.layout = HDF5_COMPACT; break;
    case H5D_CONTIGUOUS: it->found.layout = HDF5_CONTIGUOUS; break;
    case H5D_CHUNKED: it->found.layout = HDF5_CHUNKED; break;
    case H5D_VIRTUAL: it->found.layout = HDF5_VIRTUAL; return 1; /* stored elsewhere */
    default: return 0;
    }
    it->found.stored_nbytes = it->hdf5->H5Dget_storage_size(it->dataset);
    return it->found.layout != HDF5_CHUNKED || read_chunks(it);
}

static void send_all(const hdf5_inspection *it, int pipe_fd)
{
    hdf5_record record;
    memset(&record, 0, sizeof(record));
    record.kind = HDF5_FILTER;
    for (unsigned i = 0; i < it->found.filter_count; i++) {
        record.of.filter = it->filters[i];
        cli_send(pipe_fd, &record, sizeof(record));
    }
    record.kind = HDF5_DATASET;
    record.of.dataset = it->found;
    cli_send(pipe_fd, &record, sizeof(record));
}

/* 0 if libhdf5 does not tell. */
static uint64_t file_nbytes(const hdf5_library *hdf5, hid_t dataset)
{
    hsize_t nbytes = 0;
    const hid_t file = hdf5->H5Iget_file_id(dataset);
    if (file < 0)
        return 0;
    if (hdf5->H5Fget_filesize(file, &nbytes) < 0)
        nbytes = 0;
    hdf5->H5Fclose(file);
    return nbytes;
}

int hdf5_send_dataset(const hdf5_library *hdf5, hid_t dataset, int pipe_fd)
{
    hdf5_inspection it;
    memset(&it, 0, sizeof(it));
    it.hdf5 = hdf5;
    it.dataset = dataset;
    it.file_nbytes = file_nbytes(hdf5, dataset);
    it.space = hdf5->H5Dget_space(dataset);
    it.properties = it.space < 0 ? -1 : hdf5->H5Dget_create_plist(dataset);
    /* on failure nothing is closed: that would replace the reason, and the process ends soon */
    if (it.properties < 0 || !read_shape(&it) || !read_filters(&it) || !read_type(&it) || !read_layout(&it))
        return 0;
    free(it.stored);
    send_all(&it, pipe_fd);
    hdf5->H5Pclose(it.properties);
    hdf5->H5Sclose(it.space);
    return 1;
}
