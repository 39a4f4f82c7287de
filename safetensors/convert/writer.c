/*
 * writer.c - lmc_st_writer: collects tensors and writes them as an archive or a safetensors file.
 */
#include "safetensors/convert/writer.h"

#include "safetensors/common/options.h"
#include "safetensors/common/text.h"
#include "safetensors/convert/convert.h"
#include "safetensors/header/header_write.h"

#include <stdlib.h> /* qsort */
#include <string.h>

/* Bytes that are copied at once. */
#define PIECE_NBYTES ((size_t)1 << 20)

/* ---- collecting ---- */

lmc_status lmc_st_writer_create(const lmc_allocator *allocator, lmc_st_writer **writer)
{
    const lmc_allocator *const memory = !allocator ? &st_memory_default : allocator;
    *writer = st_allocate_zeroed(memory, 1, sizeof **writer);
    if (!*writer)
        return LMC_ERR_NOMEM;
    (*writer)->memory = *memory;
    return LMC_OK;
}

void lmc_st_writer_free(lmc_st_writer *writer)
{
    if (!writer)
        return;
    const lmc_allocator memory = writer->memory;
    for (size_t i = 0; i < writer->tensor_count; i++) {
        st_release(&memory, writer->tensors[i].name.bytes);
        st_release(&memory, writer->tensors[i].shape);
    }
    for (size_t i = 0; i < writer->metadata_count; i++) {
        st_release(&memory, writer->metadata[i].key.bytes);
        st_release(&memory, writer->metadata[i].value.bytes);
    }
    st_release(&memory, writer->tensors);
    st_release(&memory, writer->metadata);
    st_release(&memory, writer);
}

static lmc_status copy_text(const lmc_st_writer *writer, st_writer_text *text, const char *bytes,
                            size_t nbytes)
{
    if (nbytes > LMC_ST_HEADER_NBYTES_MAX || !st_utf8_is_valid(bytes, nbytes))
        return LMC_ERR_ARG;
    text->bytes = st_allocate(&writer->memory, nbytes);
    text->nbytes = nbytes;
    if (!text->bytes)
        return LMC_ERR_NOMEM;
    if (nbytes > 0)
        memcpy(text->bytes, bytes, nbytes);
    return LMC_OK;
}

/* Makes room for one more item in a list; returns the list, or NULL. */
static void *grow_list(const lmc_st_writer *writer, void *list, size_t count, size_t *capacity,
                       size_t item_nbytes)
{
    if (count < *capacity)
        return list;
    const size_t wanted = *capacity == 0 ? 16 : 2 * *capacity;
    void *const larger = st_allocate_zeroed(&writer->memory, wanted, item_nbytes);
    if (!larger)
        return NULL;
    if (count > 0)
        memcpy(larger, list, count * item_nbytes);
    st_release(&writer->memory, list);
    *capacity = wanted;
    return larger;
}

lmc_status lmc_st_writer_set_metadata(lmc_st_writer *writer, const char *key, size_t key_nbytes,
                                      const char *value, size_t value_nbytes)
{
    st_writer_entry entry = {{NULL, 0}, {NULL, 0}};
    st_writer_entry *const list =
        grow_list(writer, writer->metadata, writer->metadata_count, &writer->metadata_capacity, sizeof *list);
    if (!list)
        return LMC_ERR_NOMEM;
    writer->metadata = list;
    lmc_status status = copy_text(writer, &entry.key, key, key_nbytes);
    if (status == LMC_OK)
        status = copy_text(writer, &entry.value, value, value_nbytes);
    if (status != LMC_OK) {
        st_release(&writer->memory, entry.key.bytes);
        return status;
    }
    list[writer->metadata_count++] = entry;
    return LMC_OK;
}

/* Bytes of a tensor; returns 0 if dtype and shape do not give a size. */
static int tensor_nbytes(lmc_dtype dtype, const uint64_t *shape, size_t rank, uint64_t *nbytes)
{
    uint64_t nbits = 1;
    for (size_t i = 0; i < rank; i++)
        if (st_multiply_overflows(nbits, shape[i], &nbits))
            return 0;
    if (lmc_dtype_nbits(dtype) == 0 || st_multiply_overflows(nbits, lmc_dtype_nbits(dtype), &nbits) ||
        nbits % 8 != 0)
        return 0;
    *nbytes = nbits / 8;
    return 1;
}

static lmc_status add_tensor(lmc_st_writer *writer, const char *name, size_t name_nbytes,
                             const uint64_t *shape, const st_writer_tensor *given)
{
    st_writer_tensor tensor = *given;
    if (given->rank > LMC_ST_RANK_MAX || !tensor_nbytes(given->dtype, shape, given->rank, &tensor.nbytes) ||
        (tensor.nbytes > 0 && !given->data && !given->read))
        return LMC_ERR_ARG;
    st_writer_tensor *const list =
        grow_list(writer, writer->tensors, writer->tensor_count, &writer->tensor_capacity, sizeof *list);
    if (!list)
        return LMC_ERR_NOMEM;
    writer->tensors = list;
    ST_TRY(copy_text(writer, &tensor.name, name, name_nbytes));
    tensor.shape = st_allocate(&writer->memory, tensor.rank * sizeof *tensor.shape);
    if (!tensor.shape) {
        st_release(&writer->memory, tensor.name.bytes);
        return LMC_ERR_NOMEM;
    }
    if (tensor.rank > 0)
        memcpy(tensor.shape, shape, tensor.rank * sizeof *shape);
    list[writer->tensor_count++] = tensor;
    return LMC_OK;
}

lmc_status lmc_st_writer_add(lmc_st_writer *writer, const char *name, size_t name_nbytes, lmc_dtype dtype,
                             const uint64_t *shape, size_t rank, const void *data)
{
    const st_writer_tensor tensor = {.dtype = dtype, .rank = rank, .data = data};
    return add_tensor(writer, name, name_nbytes, shape, &tensor);
}

lmc_status lmc_st_writer_add_from(lmc_st_writer *writer, const char *name, size_t name_nbytes,
                                  lmc_dtype dtype, const uint64_t *shape, size_t rank, lmc_read_fn read,
                                  void *user)
{
    const st_writer_tensor tensor = {.dtype = dtype, .rank = rank, .read = read, .user = user};
    return !read ? LMC_ERR_ARG : add_tensor(writer, name, name_nbytes, shape, &tensor);
}

/* ---- order ---- */

/* The official package sorts by its enumeration of dtypes, the last first, then by name. */
static unsigned dtype_rank(lmc_dtype dtype)
{
    static const lmc_dtype order[] = {
        LMC_DTYPE_BOOL,        LMC_DTYPE_F4,      LMC_DTYPE_F6_E2M3, LMC_DTYPE_F6_E3M2, LMC_DTYPE_U8,
        LMC_DTYPE_I8,          LMC_DTYPE_F8_E5M2, LMC_DTYPE_F8_E4M3, LMC_DTYPE_F8_E8M0, LMC_DTYPE_F8_E4M3FNUZ,
        LMC_DTYPE_F8_E5M2FNUZ, LMC_DTYPE_I16,     LMC_DTYPE_U16,     LMC_DTYPE_F16,     LMC_DTYPE_BF16,
        LMC_DTYPE_I32,         LMC_DTYPE_U32,     LMC_DTYPE_F32,     LMC_DTYPE_C64,     LMC_DTYPE_F64,
        LMC_DTYPE_I64,         LMC_DTYPE_U64};
    unsigned rank = 0;
    while (order[rank] != dtype)
        rank++;
    return rank;
}

static int compare_tensors(const void *left, const void *right)
{
    const st_writer_tensor *const a = *(const st_writer_tensor *const *)left;
    const st_writer_tensor *const b = *(const st_writer_tensor *const *)right;
    const unsigned a_rank = dtype_rank(a->dtype);
    const unsigned b_rank = dtype_rank(b->dtype);
    if (a_rank != b_rank)
        return a_rank > b_rank ? -1 : 1;
    const size_t shorter = a->name.nbytes < b->name.nbytes ? a->name.nbytes : b->name.nbytes;
    const int order = memcmp(a->name.bytes, b->name.bytes, shorter);
    return order != 0 ? order : (a->name.nbytes > b->name.nbytes) - (a->name.nbytes < b->name.nbytes);
}

/* ---- writing ---- */

/* One call of lmc_st_writer_write(): tensor i of the header is order[i]. */
typedef struct write_call {
    const lmc_st_writer *writer;
    const st_writer_tensor **order;
    st_header header;
} write_call;

static lmc_status read_tensor(const st_source *source, size_t index, uint64_t offset, void *dst,
                              size_t nbytes, lmc_st_diag *diag)
{
    const write_call *const call = source->owner;
    const st_writer_tensor *const tensor = call->order[index];
    if (nbytes == 0)
        return LMC_OK; /* there may be neither data nor anything to read */
    if (!tensor->read) {
        memcpy(dst, (const unsigned char *)tensor->data + offset, nbytes);
        return LMC_OK;
    }
    const lmc_status status = tensor->read(tensor->user, offset, dst, nbytes);
    if (status == LMC_OK)
        return LMC_OK;
    st_fail(diag, status, LMC_ST_NO_OFFSET, "the program could not supply its content: %s",
            lmc_status_text(status));
    return st_source_blame(source, index, status, diag);
}

static lmc_status begin_write(write_call *call, const lmc_st_writer *writer, st_source *source,
                              lmc_st_diag *diag)
{
    memset(call, 0, sizeof *call);
    call->writer = writer;
    call->order = st_allocate(&writer->memory, (writer->tensor_count + 1) * sizeof *call->order);
    if (!call->order)
        return st_fail_nomem(diag);
    for (size_t i = 0; i < writer->tensor_count; i++)
        call->order[i] = &writer->tensors[i];
    qsort(call->order, writer->tensor_count, sizeof *call->order, compare_tensors);
    const lmc_status status = st_writer_make_header(writer, call->order, &call->header, diag);
    *source = (st_source){.header = &call->header,
                          .file_nbytes = 8 + call->header.text_nbytes + call->header.data_nbytes,
                          .owner = call,
                          .read = read_tensor};
    return status;
}

static void end_write(write_call *call)
{
    st_header_free(&call->header);
    st_release(&call->writer->memory, call->order);
}

/* ---- as an archive ---- */

static lmc_status write_archive(const st_source *source, const os_place *out, const st_call *call)
{
    return st_convert_source(source, out, &call->options, call->result, call->diag);
}

/* ---- as a plain file ---- */

static lmc_status copy_tensor(const st_source *source, size_t index, const st_call *call,
                              const os_output *output, unsigned char *piece)
{
    const lmc_st_options *const options = &call->options;
    const st_header *const header = source->header;
    const uint64_t nbytes = st_source_tensor_nbytes(source, index);
    const uint64_t place = 8 + header->text_nbytes + header->tensors[index].begin;
    for (uint64_t at = 0; at < nbytes; at += PIECE_NBYTES) {
        const size_t length = nbytes - at < PIECE_NBYTES ? (size_t)(nbytes - at) : PIECE_NBYTES;
        if (st_is_cancelled(options->cancel))
            return st_fail_cancelled(call->diag);
        ST_TRY(source->read(source, index, at, piece, length, call->diag));
        ST_TRY(os_output_write(output, place + at, piece, length, call->diag));
        if (options->progress)
            options->progress(options->user, header->tensors[index].begin + at + length, header->data_nbytes);
    }
    return LMC_OK;
}

static lmc_status copy_contents(const st_source *source, const st_call *call, const os_output *output)
{
    const st_header *const header = source->header;
    unsigned char *const piece = st_allocate(call->options.allocator, PIECE_NBYTES);
    if (!piece)
        return st_fail_nomem(call->diag);
    lmc_status status = st_header_write(output, header->text, header->text_nbytes, call->diag);
    for (size_t i = 0; i < header->tensor_count && status == LMC_OK; i++)
        status = copy_tensor(source, i, call, output, piece);
    st_release(call->options.allocator, piece);
    return status;
}

static lmc_status write_plain(const st_source *source, const os_place *out, const st_call *call)
{
    const lmc_st_options *const options = &call->options;
    os_output output;
    ST_TRY(os_output_open(&output, options, out, NULL, 1, call->diag));
    ST_TRY(os_output_close(&output, options, copy_contents(source, call, &output), call->diag));
    call->result->file_nbytes = source->file_nbytes;
    call->result->stored_nbytes = source->file_nbytes;
    call->result->tensor_count = source->header->tensor_count;
    return LMC_OK;
}

/* ---- the calls ---- */

typedef lmc_status (*write_function)(const st_source *source, const os_place *out, const st_call *call);

static lmc_status write_as(write_function function, const lmc_st_writer *writer, const char *out_path,
                           const lmc_st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    st_call call;
    write_call write;
    st_source source;
    lmc_status status = st_call_begin(&call, out_path, options, result, diag);
    if (status != LMC_OK)
        return st_call_end(&call, status);
    call.options.allocator = &writer->memory;
    status = begin_write(&write, writer, &source, call.diag);
    if (status == LMC_OK) {
        const os_place out = os_place_of(out_path);
        status = function(&source, &out, &call);
    }
    end_write(&write);
    return st_call_end(&call, status);
}

lmc_status lmc_st_writer_write(const lmc_st_writer *writer, const char *out_path,
                               const lmc_st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    return write_as(write_archive, writer, out_path, options, result, diag);
}

lmc_status lmc_st_writer_write_plain(const lmc_st_writer *writer, const char *out_path,
                                     const lmc_st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    return write_as(write_plain, writer, out_path, options, result, diag);
}
