/*
 * file.c - opening a safetensors file, plain or archive, and saying what is in it.
 */
#include "safetensors/archive/file.h"

#include "safetensors/header/sniff.h"

#include <string.h>

/* ---- the first bytes ---- */

/* A file without a usable header: says what it is if that can be told, else `fault`. */
static lmc_status refuse_start(const lmc_st_file *file, lmc_status status, const char *fault,
                               lmc_st_diag *diag)
{
    unsigned char start[ST_SNIFF_NBYTES];
    const size_t nbytes = file->input.nbytes < sizeof start ? (size_t)file->input.nbytes : sizeof start;
    const lmc_status read_status = os_input_read(&file->input, 0, start, nbytes, diag);
    if (read_status != LMC_OK)
        return read_status;
    const char *const meaning = st_sniff(start, nbytes);
    if (meaning)
        return st_fail(diag, LMC_ERR_HEADER, 0, "this is no safetensors file but %s", meaning);
    return st_fail(diag, status, 0, "%s", fault);
}

static lmc_status check_header_length(const lmc_st_file *file, uint64_t length, lmc_st_diag *diag)
{
    const uint64_t left = file->input.nbytes - 8;
    if (length > LMC_ST_HEADER_NBYTES_MAX) {
        return refuse_start(file, LMC_ERR_LIMIT,
                            "the header's length exceeds 100,000,000 bytes: this is no safetensors file",
                            diag);
    }
    if (length > left) {
        const lmc_status status =
            refuse_start(file, LMC_ERR_TRUNCATED, "the header's length exceeds the file", diag);
        if (status == LMC_ERR_TRUNCATED) {
            st_fail(diag, status, file->input.nbytes,
                    "the file is cut short within its header: %llu bytes of it are missing",
                    (unsigned long long)(length - left));
        }
        return status;
    }
    return length == 0 ? st_fail(diag, LMC_ERR_HEADER, 0, "the header's length is 0") : LMC_OK;
}

static int begins_with_brace(const unsigned char *text, size_t nbytes)
{
    st_json json = {.text = text, .nbytes = nbytes};
    return st_json_try(&json, '{');
}

lmc_status st_file_parse_header(const lmc_st_file *file, st_header *header, const st_header_text *source,
                                lmc_st_diag *diag)
{
    const lmc_st_file *dependent = source->may_be_short ? NULL : file->dependent;
    for (; dependent; dependent = dependent->dependent)
        if (st_header_share(header, &file->memory, source, &dependent->header))
            return LMC_OK;
    return st_header_parse(header, &file->memory, source, diag);
}

/* Reads and parses the header that stands in this file: the original's, or an archive's outer one. */
static lmc_status read_header(lmc_st_file *file, int may_be_short, lmc_st_diag *diag)
{
    unsigned char length_bytes[8];
    if (file->input.nbytes == 0)
        return st_fail(diag, LMC_ERR_TRUNCATED, 0, "the file is empty");
    if (file->input.nbytes < sizeof length_bytes)
        return refuse_start(file, LMC_ERR_TRUNCATED, "the file has fewer than 8 bytes", diag);
    lmc_status status = os_input_read(&file->input, 0, length_bytes, sizeof length_bytes, diag);
    if (status != LMC_OK)
        return status;
    const uint64_t length = st_load_u64(length_bytes);
    status = check_header_length(file, length, diag);
    if (status != LMC_OK)
        return status;
    unsigned char *const text = st_allocate(&file->memory, (size_t)length);
    if (!text)
        return st_fail_nomem(diag);
    status = os_input_read(&file->input, 8, text, (size_t)length, diag);
    if (status == LMC_OK && !begins_with_brace(text, (size_t)length))
        status = refuse_start(file, LMC_ERR_HEADER, "malformed header: it does not begin with '{'", diag);
    if (status != LMC_OK) {
        st_release(&file->memory, text);
        return status;
    }
    const st_header_text source = {text, (size_t)length, 8, file->input.nbytes - 8 - length, may_be_short};
    return st_file_parse_header(file, &file->header, &source, diag);
}

/* ---- open and close ---- */

static lmc_status set_plain_places(lmc_st_file *file, lmc_st_diag *diag)
{
    const st_header *const header = &file->header;
    file->file_nbytes = file->input.nbytes;
    file->places = st_allocate(&file->memory, (header->tensor_count + 1) * sizeof *file->places);
    if (!file->places)
        return st_fail_nomem(diag);
    const uint64_t data_offset = 8 + header->text_nbytes;
    for (size_t i = 0; i < header->tensor_count; i++)
        file->places[i] = data_offset + header->tensors[i].begin;
    file->places[header->tensor_count] = file->input.nbytes;
    return LMC_OK;
}

static lmc_status open_contents(lmc_st_file *file, const st_open *how, lmc_st_diag *diag)
{
    lmc_status status = how->fd < 0 ? os_input_open(&file->input, how->path, diag)
                                    : os_input_open_fd(&file->input, how->fd, how->cancel, diag);
    if (status == LMC_OK)
        status = read_header(file, how->may_be_short, diag);
    if (status == LMC_OK)
        file->is_archive = st_archive_detect(file, &status, diag);
    if (status == LMC_OK)
        status = file->is_archive ? st_archive_open(file, diag) : set_plain_places(file, diag);
    return status;
}

lmc_status st_file_open(const st_open *how, lmc_st_file **file, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = !how->allocator ? &st_memory_default : how->allocator;
    *file = NULL;
    st_diag_init(diag, how->path);
    lmc_st_file *const opened = st_allocate_zeroed(memory, 1, sizeof *opened);
    if (!opened)
        return st_fail_nomem(diag);
    opened->memory = *memory;
    opened->input.fd = -1;
    pthread_mutex_init(&opened->shapes_lock, NULL);
    opened->is_from_path = how->fd < 0;
    opened->dependent = how->dependent;
    opened->path = st_duplicate(memory, how->path);
    const lmc_status status = !opened->path ? st_fail_nomem(diag) : open_contents(opened, how, diag);
    if (status != LMC_OK) {
        lmc_st_close(opened);
        return status;
    }
    *file = opened;
    return LMC_OK;
}

lmc_status st_file_open_input(const char *path, const lmc_st_options *options, lmc_st_file **file,
                              lmc_st_diag *diag)
{
    const st_open how = {.path = path,
                         .fd = options->in_fd,
                         .cancel = options->cancel,
                         .allocator = options->allocator,
                         .may_be_short = options->salvage};
    lmc_status status = st_file_open(&how, file, diag);
    if (status == LMC_OK)
        status = st_file_set_base(*file, options->base, options->base_dirs, options->base_dir_count, diag);
    if (status != LMC_OK) {
        lmc_st_close(*file);
        *file = NULL;
    }
    return status;
}

static void free_shapes(lmc_st_file *file)
{
    for (size_t i = 0; file->shapes && i < file->header.tensor_count; i++)
        st_release(&file->memory, file->shapes[i]);
    st_release(&file->memory, file->shapes);
    pthread_mutex_destroy(&file->shapes_lock);
}

void lmc_st_close(lmc_st_file *file)
{
    if (!file)
        return;
    const lmc_allocator memory = file->memory;
    st_file_close_base(file);
    st_bases_free(&file->bases, &memory);
    os_input_close(&file->input);
    free_shapes(file);
    st_header_free(&file->header);
    st_release(&memory, file->places);
    st_release(&memory, file->hashes);
    st_release(&memory, file->frame_of);
    st_release(&memory, file->path);
    st_release(&memory, file);
}

/* ---- what is in it ---- */

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

uint64_t lmc_st_file_nbytes(const lmc_st_file *file)
{
    return file->file_nbytes;
}

const char *lmc_st_header(const lmc_st_file *file, size_t *nbytes)
{
    *nbytes = file->header.text_nbytes;
    return (const char *)file->header.text;
}

uint64_t lmc_st_tensor_count(const lmc_st_file *file)
{
    return file->header.tensor_count;
}

/* The dimensions of a tensor that has more than are kept. NULL: out of memory. */
static const uint64_t *make_shape(lmc_st_file *file, size_t index)
{
    const st_tensor *const tensor = &file->header.tensors[index];
    if (!file->shapes)
        file->shapes = st_allocate_zeroed(&file->memory, file->header.tensor_count, sizeof *file->shapes);
    if (!file->shapes || file->shapes[index])
        return !file->shapes ? NULL : file->shapes[index];
    uint64_t *const dims = st_allocate(&file->memory, tensor->rank * sizeof *dims);
    st_shape shape = st_header_shape(&file->header, tensor);
    for (unsigned i = 0; dims && i < tensor->rank; i++)
        dims[i] = st_shape_next(&shape);
    file->shapes[index] = dims;
    return dims;
}

/* The dimensions of a tensor as the public calls give them. NULL: rank 0, or out of memory. */
static const uint64_t *get_shape(const lmc_st_file *file, size_t index)
{
    const st_tensor *const tensor = &file->header.tensors[index];
    if (tensor->rank <= ST_RANK_KEPT)
        return tensor->rank == 0 ? NULL : file->header.dims + tensor->shape_at;
    lmc_st_file *const own = (lmc_st_file *)file; /* what it changes is behind the lock */
    pthread_mutex_lock(&own->shapes_lock);
    const uint64_t *const dims = make_shape(own, index);
    pthread_mutex_unlock(&own->shapes_lock);
    return dims;
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
    tensor->stored_nbytes = file->places[index + 1] - file->places[index];
}

lmc_status st_file_tensor(const lmc_st_file *file, uint64_t index, lmc_st_tensor *tensor)
{
    if (index >= file->header.tensor_count)
        return LMC_ERR_ARG;
    st_file_describe(file, (size_t)index, tensor);
    tensor->shape = get_shape(file, (size_t)index);
    return !tensor->shape && tensor->rank > 0 ? LMC_ERR_NOMEM : LMC_OK;
}

int lmc_st_find(const lmc_st_file *file, const char *name, size_t name_nbytes, uint64_t *index)
{
    size_t found = 0;
    const st_string wanted = {name, name_nbytes};
    if (!st_header_find(&file->header, wanted, &found))
        return 0;
    *index = found;
    return 1;
}

lmc_status st_file_blame(const lmc_st_file *file, size_t index, lmc_status status, lmc_st_diag *diag)
{
    const st_string name = st_header_name(&file->header, index);
    st_diag_set_tensor(diag, name.bytes, name.nbytes);
    return status;
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
