/*
 * writer.c - lmc_st_writer: collects tensors and writes them as an archive or a safetensors file. The header is in the
 * form that the official package gives it (serde_json: no white space, control characters escaped).
 */
#include "common/text.h"
#include "safetensors/common/options.h"
#include "safetensors/convert/convert_file.h"
#include "safetensors/files/kept.h"
#include "safetensors/header/header.h"

#include <stdlib.h> /* qsort */
#include <string.h>

/* Bytes that are copied at once. */
#define PIECE_NBYTES ((size_t)1 << 20)

typedef struct writer_text {
    char *bytes; /* the writer's */
    size_t nbytes;
} writer_text;

typedef struct writer_tensor {
    writer_text name;
    lmc_dtype dtype;
    uint64_t *shape; /* the writer's */
    size_t rank;
    uint64_t nbytes;
    const void *data; /* the caller's; NULL: `read` supplies it */
    lmc_read_fn read;
    void *user;
} writer_tensor;

typedef struct writer_entry {
    writer_text key, value;
} writer_entry;

struct lmc_st_writer {
    lmc_allocator memory;
    writer_tensor *tensors;
    size_t tensor_count, tensor_capacity;
    writer_entry *metadata;
    size_t metadata_count, metadata_capacity;
};

/* ---- collecting ---- */

lmc_status lmc_st_writer_create(const lmc_allocator *allocator, lmc_st_writer **writer)
{
    const lmc_allocator *const memory = !allocator ? &lmc_memory_default : allocator;
    *writer = NULL;
    if (!lmc_allocator_is_whole(allocator))
        return LMC_ERR_ARG;
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

static lmc_status copy_text(const lmc_st_writer *writer, writer_text *text, const char *bytes, size_t nbytes)
{
    if (nbytes > LMC_ST_HEADER_NBYTES_MAX || !lmc_utf8_is_valid(bytes, nbytes))
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
    writer_entry entry = {{NULL, 0}, {NULL, 0}};
    writer_entry *const list =
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

/* Errors: NOMEM; ARG, among others if dtype and shape do not give a size. */
static lmc_status add_tensor(lmc_st_writer *writer, const char *name, size_t name_nbytes,
                             const uint64_t *shape, const writer_tensor *given)
{
    writer_tensor tensor = *given;
    uint64_t nbits = 1;
    if (given->rank > LMC_ST_RANK_MAX || lmc_dtype_nbits(given->dtype) == 0)
        return LMC_ERR_ARG;
    for (size_t i = 0; i < given->rank; i++)
        if (lmc_multiply_overflows(nbits, shape[i], &nbits))
            return LMC_ERR_ARG;
    if (lmc_multiply_overflows(nbits, lmc_dtype_nbits(given->dtype), &nbits))
        return LMC_ERR_ARG;
    tensor.nbytes = nbits / 8;
    if (nbits % 8 != 0 || (tensor.nbytes > 0 && !given->data && !given->read))
        return LMC_ERR_ARG;
    writer_tensor *const list =
        grow_list(writer, writer->tensors, writer->tensor_count, &writer->tensor_capacity, sizeof *list);
    if (!list)
        return LMC_ERR_NOMEM;
    writer->tensors = list;
    LMC_TRY(copy_text(writer, &tensor.name, name, name_nbytes));
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
    const writer_tensor tensor = {.dtype = dtype, .rank = rank, .data = data};
    return add_tensor(writer, name, name_nbytes, shape, &tensor);
}

lmc_status lmc_st_writer_add_from(lmc_st_writer *writer, const char *name, size_t name_nbytes,
                                  lmc_dtype dtype, const uint64_t *shape, size_t rank, lmc_read_fn read,
                                  void *user)
{
    const writer_tensor tensor = {.dtype = dtype, .rank = rank, .read = read, .user = user};
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
    const writer_tensor *const a = *(const writer_tensor *const *)left;
    const writer_tensor *const b = *(const writer_tensor *const *)right;
    const unsigned a_rank = dtype_rank(a->dtype);
    const unsigned b_rank = dtype_rank(b->dtype);
    if (a_rank != b_rank)
        return a_rank > b_rank ? -1 : 1;
    const size_t shorter = a->name.nbytes < b->name.nbytes ? a->name.nbytes : b->name.nbytes;
    const int order = memcmp(a->name.bytes, b->name.bytes, shorter);
    return order != 0 ? order : (a->name.nbytes > b->name.nbytes) - (a->name.nbytes < b->name.nbytes);
}

/* ---- the header ---- */

static const char metadata[] = "__metadata__";

/* The whole text, padded so that the data begins at a multiple of 8. *data_nbytes: of all tensors. */
static void put_header(st_json_out *out, const lmc_st_writer *writer, const writer_tensor *const *order,
                       uint64_t *data_nbytes)
{
    uint64_t begin = 0;
    st_json_put_open(out, '{');
    if (writer->metadata_count > 0) {
        st_json_put_string(out, metadata, sizeof metadata - 1);
        st_json_put_colon(out);
        st_json_put_open(out, '{');
        for (size_t i = 0; i < writer->metadata_count; i++) {
            const writer_entry *const entry = &writer->metadata[i];
            st_json_put_string(out, entry->key.bytes, entry->key.nbytes);
            st_json_put_colon(out);
            st_json_put_string(out, entry->value.bytes, entry->value.nbytes);
        }
        st_json_put_close(out, '}');
    }
    for (size_t i = 0; i < writer->tensor_count; i++) {
        const writer_tensor *const tensor = order[i];
        st_json_put_string(out, tensor->name.bytes, tensor->name.nbytes);
        st_json_put_colon(out);
        st_header_put_dtype(out, tensor->dtype);
        for (size_t j = 0; j < tensor->rank; j++)
            st_json_put_u64(out, tensor->shape[j]);
        st_header_put_place(out, begin, begin + tensor->nbytes);
        st_json_put_close(out, '}');
        begin += tensor->nbytes;
    }
    st_header_put_end(out);
    *data_nbytes = begin;
}

/* The header of a safetensors file with the tensors of `order`, in that order. Errors: NOMEM; ARG for a name or key
 * that stands twice or metadata that mark an archive; LIMIT. Free with st_header_free() in every case. */
static lmc_status make_header(const lmc_st_writer *writer, const writer_tensor *const *order,
                              st_header *header, lmc_st_diag *diag)
{
    st_json_out out = {0};
    uint64_t data_nbytes = 0;
    uint64_t sum = 0;
    char version[ST_METADATA_VERSION_NBYTES];
    for (size_t i = 0; i < writer->tensor_count; i++) {
        const writer_text *const name = &writer->tensors[i].name;
        if (name->nbytes == sizeof metadata - 1 && memcmp(name->bytes, metadata, name->nbytes) == 0)
            return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "a tensor cannot be called %s", metadata);
        if (lmc_add_overflows(sum, writer->tensors[i].nbytes, &sum) ||
            sum > INT64_MAX - LMC_ST_HEADER_NBYTES_MAX - 8) /* the file's size fits 63 bits */
            return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "the tensors do not fit a file");
    }
    put_header(&out, writer, order, &data_nbytes);
    if (out.nbytes > LMC_ST_HEADER_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "the header would exceed %u bytes",
                       (unsigned)LMC_ST_HEADER_NBYTES_MAX);
    unsigned char *const text = st_allocate(&writer->memory, out.nbytes);
    if (!text)
        return st_fail_nomem(diag);
    out = (st_json_out){.dst = text, .capacity = out.nbytes};
    put_header(&out, writer, order, &data_nbytes);
    const st_header_text source = {
        .text = text, .nbytes = out.nbytes, .offset = 8, .data_nbytes = data_nbytes};
    lmc_status status = st_header_parse(header, &writer->memory, &source, diag);
    /* names and keys are the caller's: a repeated one is the request's fault */
    if (status == LMC_ERR_HEADER)
        return diag->status = LMC_ERR_ARG;
    if (status != LMC_OK)
        return status;
    /* metadata that says "archive" would make the plain file one that no reader opens */
    const int is_marked = st_metadata_is_marked(header, version, &status);
    if (status != LMC_OK)
        return st_fail_nomem(diag);
    return is_marked ? st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                               "the metadata (format, " ST_MARK_KEY ") are those of an LMC archive")
                     : LMC_OK;
}

/* ---- writing ---- */

/* One call of lmc_st_writer_write(): tensor i of the header is order[i]. */
typedef struct write_call {
    const writer_tensor **order;
    st_header header;
} write_call;

static lmc_status read_tensor(const st_source *source, size_t index, uint64_t offset, void *dst,
                              size_t nbytes, lmc_st_diag *diag)
{
    const write_call *const call = source->owner;
    const writer_tensor *const tensor = call->order[index];
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

/* An st_source's find(). */
static const void *find_tensor(const st_source *source, size_t index, uint64_t offset, size_t nbytes)
{
    const write_call *const call = source->owner;
    const unsigned char *const data = call->order[index]->data;
    return nbytes == 0 || call->order[index]->read ? NULL : data + offset;
}

static lmc_status write_plain(const st_source *source, const st_output *output, const st_call *call)
{
    const st_options *const options = &call->options;
    const st_header *const header = source->header;
    unsigned char *const piece = st_allocate(options->allocator, PIECE_NBYTES);
    if (!piece)
        return st_fail_nomem(call->diag);
    lmc_status status = st_header_write(output, header->text, header->text_nbytes, call->diag);
    for (size_t i = 0; i < header->tensor_count && status == LMC_OK; i++) {
        const st_tensor *const tensor = &header->tensors[i];
        size_t length = 0;
        for (uint64_t at = tensor->begin; at < tensor->end && status == LMC_OK; at += length) {
            length = tensor->end - at < PIECE_NBYTES ? (size_t)(tensor->end - at) : PIECE_NBYTES;
            status = st_is_cancelled(options->cancel)
                         ? st_fail_cancelled(call->diag)
                         : source->read(source, i, at - tensor->begin, piece, length, call->diag);
            if (status == LMC_OK)
                status = st_output_write(output, 8 + header->text_nbytes + at, piece, length, call->diag);
            if (status == LMC_OK && options->progress)
                options->progress(options->user, at + length, header->data_nbytes);
        }
    }
    st_release(options->allocator, piece);
    return status;
}

/* Puts the tensors in order, and makes their header. Ends with end_write() in every case. */
static lmc_status begin_write(write_call *write, const lmc_st_writer *writer, lmc_st_diag *diag)
{
    *write = (write_call){
        .order = st_allocate_array(&writer->memory, writer->tensor_count + 1, sizeof *write->order)};
    if (!write->order)
        return st_fail_nomem(diag);
    for (size_t i = 0; i < writer->tensor_count; i++)
        write->order[i] = &writer->tensors[i];
    qsort(write->order, writer->tensor_count, sizeof *write->order, compare_tensors);
    return make_header(writer, write->order, &write->header, diag);
}

static void end_write(write_call *write, const lmc_st_writer *writer)
{
    st_header_free(&write->header);
    st_release(&writer->memory, write->order);
}

/* ---- the base in memory ---- */

/* The first tensor that ends behind byte `at` of the data; the number of tensors if there is none. */
static size_t find_tensor_at(const st_header *header, uint64_t at)
{
    size_t first = 0, end = header->tensor_count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (header->tensors[middle].end > at)
            end = middle;
        else
            first = middle + 1;
    }
    return first;
}

/* An lmc_read_fn: bytes of the file that lmc_st_writer_write_plain() would write. */
static lmc_status read_written(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const write_call *const write = user;
    const st_header *const header = &write->header;
    const uint64_t data_at = 8 + header->text_nbytes;
    unsigned char *next = dst;
    unsigned char length[8];
    lmc_store64(length, header->text_nbytes);
    for (; nbytes > 0 && offset < data_at; nbytes--, offset++)
        *next++ = offset < 8 ? length[offset] : (unsigned char)header->text[offset - 8];
    if (nbytes == 0)
        return LMC_OK;
    uint64_t at = offset - data_at;
    for (size_t i = find_tensor_at(header, at); nbytes > 0 && i < header->tensor_count; i++) {
        const st_tensor *const tensor = &header->tensors[i];
        const writer_tensor *const given = write->order[i];
        const size_t count = tensor->end - at < nbytes ? (size_t)(tensor->end - at) : nbytes;
        if (count == 0)
            continue;
        if (given->read)
            LMC_TRY(given->read(given->user, at - tensor->begin, next, count));
        else
            memcpy(next, (const unsigned char *)given->data + (at - tensor->begin), count);
        next += count;
        nbytes -= count;
        at += count;
    }
    return LMC_OK;
}

/* An st_input's find(): bytes of one tensor. */
static const void *find_written(const void *user, uint64_t offset, size_t nbytes)
{
    const write_call *const write = user;
    const st_header *const header = &write->header;
    const uint64_t data_at = 8 + header->text_nbytes;
    if (offset < data_at || nbytes == 0)
        return NULL;
    const size_t i = find_tensor_at(header, offset - data_at);
    if (i == header->tensor_count || write->order[i]->read ||
        nbytes > header->tensors[i].end + data_at - offset)
        return NULL;
    return (const unsigned char *)write->order[i]->data + (offset - data_at - header->tensors[i].begin);
}

/* Converts the source, against the file that the writer of the base would write if there is one. */
static lmc_status convert_written(const st_source *source, const st_place *out, st_call *call)
{
    const lmc_st_writer *const writer = call->options.base_writer;
    const char *const name = call->options.base ? call->options.base : "base.safetensors";
    write_call written;
    if (!writer)
        return st_convert_source(source, out, &call->options, call->result, call->diag);
    lmc_status status = begin_write(&written, writer, call->diag);
    lmc_st_open_options how = LMC_INIT(lmc_st_open_options);
    how.allocator = &writer->memory;
    how.read = read_written;
    how.read_user = &written;
    how.read_nbytes = 8 + written.header.text_nbytes + written.header.data_nbytes;
    if (status == LMC_OK)
        status = lmc_st_open(name, &how, &call->options.opened_base, call->diag);
    if (status == LMC_OK) {
        call->options.opened_base->input.find = find_written;
        status = st_convert_source(source, out, &call->options, call->result, call->diag);
    }
    end_write(&written, writer);
    return status;
}

/* ---- the calls ---- */

static lmc_status write_as(int is_archive, const lmc_st_writer *writer, const char *out_path, st_call *call)
{
    write_call write;
    if (!call->has_allocator)
        call->options.allocator = &writer->memory;
    lmc_status status = begin_write(&write, writer, call->diag);
    const st_source source = {.header = &write.header,
                              .original_nbytes = 8 + write.header.text_nbytes + write.header.data_nbytes,
                              .owner = &write,
                              .read = read_tensor,
                              .find = find_tensor};
    const st_place out = st_place_of(out_path);
    if (status == LMC_OK)
        status = st_kept_check_output(&call->options, out_path, call->diag);
    if (status == LMC_OK && is_archive) {
        status = convert_written(&source, &out, call);
    } else if (status == LMC_OK) {
        st_output output;
        status = st_output_open(&output, &call->options, &out, NULL, 1, call->diag);
        if (status == LMC_OK)
            status =
                st_output_close(&output, &call->options, write_plain(&source, &output, call), call->diag);
        if (status == LMC_OK) {
            call->result->original_nbytes = source.original_nbytes;
            call->result->stored_nbytes = source.original_nbytes;
            call->result->tensor_count = source.header->tensor_count;
        }
    }
    end_write(&write, writer);
    return status;
}

lmc_status lmc_st_writer_write(const lmc_st_writer *writer, const char *out_path,
                               const lmc_st_write_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin_write(&call, out_path, options, result, diag);
    if (status == LMC_OK)
        status = write_as(1, writer, out_path, &call);
    return st_call_end(&call, status);
}

lmc_status lmc_st_writer_write_plain(const lmc_st_writer *writer, const char *out_path,
                                     const lmc_st_output_options *options, lmc_st_result *result,
                                     lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin_output(&call, out_path, options, result, diag);
    if (status == LMC_OK)
        status = write_as(0, writer, out_path, &call);
    return st_call_end(&call, status);
}
