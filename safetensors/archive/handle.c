/*
 * handle.c - the public calls that describe an open file, and its end.
 */
#include "safetensors/archive/handle.h"

#include "safetensors/archive/table.h"
#include "safetensors/common/options.h"

#include <string.h>

lmc_status st_file_parse_header(const void *opened, st_header *header, const st_header_text *source,
                                lmc_st_diag *diag)
{
    const lmc_st_file *const file = opened;
    const lmc_st_file *owner = source->may_be_short ? NULL : file->owner;
    for (; owner; owner = owner->owner)
        if (st_header_share(header, &file->memory, source, &owner->header))
            return LMC_OK;
    return st_header_parse(header, &file->memory, source, diag);
}

uint64_t st_file_identity(const lmc_st_file *file)
{
    if (file->container == LMC_ST_CONTAINER_SAFETENSORS)
        return st_hash(file->header.text, file->header.text_nbytes);
    st_hasher hasher;
    unsigned char place[16];
    st_hasher_init(&hasher);
    for (size_t i = 0; i < file->header.tensor_count; i++) {
        lmc_store64(place, st_file_origin(file, i));
        lmc_store64(place + 8, st_file_tensor_nbytes(file, i));
        st_hasher_add(&hasher, place, sizeof place);
    }
    return st_hasher_finish(&hasher);
}

void st_handle_close(lmc_st_file *file)
{
    const lmc_allocator memory = file->memory;
    for (size_t i = 0; file->shapes && i < file->header.tensor_count; i++)
        st_release(&memory, file->shapes[i]);
    st_release(&memory, file->shapes);
    pthread_mutex_destroy(&file->shapes_lock);
    st_bases_free(&file->bases, &memory);
    st_input_close(&file->input);
    st_header_free(&file->header);
    st_release(&memory, file->places);
    st_release(&memory, file->origins);
    st_release(&memory, file->hashes);
    st_release(&memory, file->frame_of);
    st_release(&memory, file->path);
    st_release(&memory, file);
}

/* ---- what is in it ---- */

lmc_st_container lmc_st_container_of(const lmc_st_file *file)
{
    return file->container;
}

int lmc_st_is_archive(const lmc_st_file *file)
{
    return file->is_archive;
}

const char *lmc_st_path(const lmc_st_file *file)
{
    return file->path;
}

uint64_t lmc_st_stored_nbytes(const lmc_st_file *file)
{
    return file->input.nbytes;
}

uint64_t lmc_st_original_nbytes(const lmc_st_file *file)
{
    return file->original_nbytes;
}

const char *lmc_st_header(const lmc_st_file *file, size_t *nbytes)
{
    *nbytes = file->header.text_nbytes;
    return (const char *)file->header.text;
}

uint64_t lmc_st_tensor_count(const lmc_st_file *file)
{
    return st_header_listed_count(&file->header);
}

void st_file_describe(const lmc_st_file *file, size_t index, lmc_st_tensor *tensor)
{
    const st_tensor *const source = &file->header.tensors[index];
    const st_string name = st_header_name(&file->header, index);
    *tensor = (lmc_st_tensor)LMC_INIT(lmc_st_tensor);
    tensor->name = name.bytes;
    tensor->name_nbytes = name.nbytes;
    tensor->dtype = (lmc_dtype)source->dtype;
    tensor->dtype_name = lmc_dtype_name(tensor->dtype);
    tensor->rank = source->rank;
    tensor->nbytes = source->end - source->begin;
    tensor->data_offset = source->begin;
    tensor->stored_nbytes = file->is_archive ? file->places[index + 1] - file->places[index] : tensor->nbytes;
    tensor->view_of = index;
    tensor->storage_nbytes = tensor->nbytes;
}

lmc_status st_file_tensor(const lmc_st_file *file, uint64_t index, lmc_st_tensor *tensor)
{
    if (index >= file->header.tensor_count)
        return LMC_ERR_ARG;
    const st_tensor *const source = &file->header.tensors[index];
    const uint64_t *shape = NULL;
    if (source->rank > ST_RANK_KEPT) {
        /* more dimensions than the header keeps */
        lmc_st_file *const owner = (lmc_st_file *)file; /* what is changed of it is behind a lock */
        pthread_mutex_lock(&owner->shapes_lock);
        if (!owner->shapes)
            owner->shapes =
                st_allocate_zeroed(&owner->memory, owner->header.tensor_count, sizeof *owner->shapes);
        uint64_t *dims = !owner->shapes ? NULL : owner->shapes[index];
        if (owner->shapes && !dims) {
            dims = st_allocate(&owner->memory, source->rank * sizeof *dims);
            st_shape kept = st_header_shape(&owner->header, source);
            for (unsigned i = 0; dims && i < source->rank; i++)
                dims[i] = st_shape_next(&kept);
            owner->shapes[index] = dims;
        }
        pthread_mutex_unlock(&owner->shapes_lock);
        shape = dims; /* NULL: out of memory */
    } else if (source->rank > 0) {
        shape = file->header.dims + source->shape_at;
    }
    st_file_describe(file, (size_t)index, tensor);
    tensor->shape = shape;
    return !shape && source->rank > 0 ? LMC_ERR_NOMEM : LMC_OK;
}

int st_file_find_listed(const lmc_st_file *file, uint64_t index, st_listed *listed)
{
    const int is_known = index < st_header_listed_count(&file->header);
    *listed = is_known ? st_header_listed(&file->header, (size_t)index) : (st_listed){0};
    return is_known;
}

lmc_status st_file_describe_listed(const lmc_st_file *file, uint64_t index, lmc_st_tensor *tensor)
{
    st_listed listed;
    if (!st_file_find_listed(file, index, &listed))
        return LMC_ERR_ARG;
    const st_view *const view = listed.view;
    if (!view)
        return st_file_tensor(file, listed.tensor, tensor);
    st_file_describe(file, listed.tensor, tensor);
    tensor->name = listed.name.bytes;
    tensor->name_nbytes = listed.name.nbytes;
    tensor->dtype = (lmc_dtype)view->dtype;
    tensor->dtype_name = lmc_dtype_name(tensor->dtype);
    tensor->rank = view->rank;
    tensor->shape = view->rank > 0 ? view->shape : NULL;
    tensor->strides = view->rank > 0 ? st_view_strides(view) : NULL;
    tensor->nbytes = view->nbytes;
    tensor->is_view = 1;
    tensor->is_big_endian = view->is_big_endian;
    tensor->offset = view->offset;
    tensor->note = view->note;
    if (view->name)
        tensor->stored_nbytes = 0;
    return LMC_OK;
}

lmc_status lmc_st_tensor_info(const lmc_st_file *file, uint64_t index, lmc_st_tensor *tensor)
{
    lmc_st_tensor found = LMC_INIT(lmc_st_tensor);
    if (!lmc_struct_is_known(tensor, sizeof *tensor))
        return LMC_ERR_ARG;
    const lmc_status status = st_file_describe_listed(file, index, &found);
    lmc_struct_copy(tensor, &found, lmc_struct_size(tensor));
    return status;
}

int lmc_st_find_tensor_sized(const lmc_st_file *file, const char *name, size_t name_nbytes, uint64_t *index)
{
    size_t found = 0;
    const st_string wanted = {name, name_nbytes};
    if (!st_header_find_listed(&file->header, wanted, &found))
        return 0;
    *index = found;
    return 1;
}

int lmc_st_find_tensor(const lmc_st_file *file, const char *name, uint64_t *index)
{
    return lmc_st_find_tensor_sized(file, name, strlen(name), index);
}

lmc_status st_file_blame(const lmc_st_file *file, size_t index, lmc_status status, lmc_st_diag *diag)
{
    const st_string name = st_header_name(&file->header, index);
    if (status != LMC_OK)
        st_diag_set_tensor(diag, name.bytes, name.nbytes);
    return status;
}

int lmc_st_tensor_base(const lmc_st_file *file, uint64_t index, lmc_st_base_place *place, uint64_t *number,
                       uint64_t *base_index)
{
    st_listed listed;
    const st_link *const link =
        st_file_find_listed(file, index, &listed) ? st_bases_find(&file->bases, listed.tensor) : NULL;
    if (!link)
        return 0;
    *place = link->place;
    *number = link->file;
    *base_index = link->base;
    return 1;
}

const char *lmc_st_mode_name(lmc_st_mode mode)
{
    switch (mode) {
    case LMC_ST_MODE_STORED: return "stored";
    case LMC_ST_MODE_CODED: return "coded";
    case LMC_ST_MODE_SHORT: return "short";
    case LMC_ST_MODE_DELTA: return "delta";
    case LMC_ST_MODE_ALIAS: return "alias";
    case LMC_ST_MODE_PLAIN: return "plain";
    }
    return NULL;
}

uint64_t lmc_st_metadata_count(const lmc_st_file *file)
{
    return file->header.metadata_count;
}

lmc_status lmc_st_metadata(const lmc_st_file *file, uint64_t index, const char **key, size_t *key_nbytes,
                           const char **value, size_t *value_nbytes)
{
    *key = *value = NULL;
    *key_nbytes = *value_nbytes = 0;
    if (index >= file->header.metadata_count)
        return LMC_ERR_ARG;
    const st_string found_key = st_header_metadata(&file->header, 2 * (size_t)index);
    const st_string found_value = st_header_metadata(&file->header, 2 * (size_t)index + 1);
    *key = found_key.bytes;
    *key_nbytes = found_key.nbytes;
    *value = found_value.bytes;
    *value_nbytes = found_value.nbytes;
    return LMC_OK;
}

uint32_t lmc_st_row_nbytes(const lmc_st_file *file, uint64_t index)
{
    st_listed listed;
    const int is_stored = st_file_find_listed(file, index, &listed) && !listed.view;
    return is_stored ? st_header_row_nbytes(&file->header, &file->header.tensors[listed.tensor]) : 0;
}

lmc_status lmc_st_check_unchanged(const lmc_st_file *file, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    if (status == LMC_OK)
        status = st_input_check_unchanged(&file->input, call.diag);
    return st_call_end(&call, status);
}
