/*
 * header.c - the two passes over a header, the table of names, and the rules that tensors must obey together.
 */
#include "safetensors/header/header.h"

#include "safetensors/os/file.h"

#include <stdlib.h> /* qsort */
#include <string.h>

st_string st_header_name(const st_header *header, size_t index)
{
    const st_tensor *const tensor = &header->tensors[index];
    const st_string name = {header->names + tensor->name_offset, tensor->name_nbytes};
    return name;
}

st_string st_header_metadata(const st_header *header, size_t number)
{
    const uint32_t *const at = header->metadata_at + number;
    const st_string string = {header->metadata_bytes + at[0], at[1] - at[0] - 1u};
    return string;
}

st_shape st_header_shape(const st_header *header, const st_tensor *tensor)
{
    st_shape shape = {.json = {.text = header->text, .nbytes = header->text_nbytes, .at = tensor->shape_at}};
    if (tensor->rank <= ST_RANK_KEPT)
        shape.kept = header->dims + tensor->shape_at;
    return shape;
}

uint64_t st_shape_next(st_shape *shape)
{
    uint64_t dim = 0;
    if (shape->kept)
        return *shape->kept++;
    shape->json.at++; /* the '[' or ',' before it: the text was checked */
    (void)st_json_u64(&shape->json, &dim);
    st_json_skip_space(&shape->json);
    return dim;
}

/* A row has at least so many values: the last dimension, and dimensions before it as long as it has fewer. */
#define ROW_VALUES_MIN 32

uint32_t st_header_row_nbytes(const st_header *header, const st_tensor *tensor)
{
    const unsigned value_nbits = lmc_dtype_nbits((lmc_dtype)tensor->dtype);
    uint64_t values = 1, nbits = 0;
    for (unsigned last = tensor->rank; last > 1 && values < ROW_VALUES_MIN; last--) {
        st_shape shape = st_header_shape(header, tensor);
        uint64_t dimension = 1;
        for (unsigned i = 0; i < last; i++)
            dimension = st_shape_next(&shape);
        if (st_multiply_overflows(values, dimension, &values))
            return 0;
    }
    const int is_small =
        !st_multiply_overflows(values, value_nbits, &nbits) && nbits % 8 == 0 && nbits / 8 <= UINT32_MAX;
    return is_small && tensor->rank > 1 ? (uint32_t)(nbits / 8) : 0;
}

int st_header_same_shape(const st_header *a, size_t a_index, const st_header *b, size_t b_index)
{
    const st_tensor *const left = &a->tensors[a_index];
    const st_tensor *const right = &b->tensors[b_index];
    st_shape left_shape = st_header_shape(a, left);
    st_shape right_shape = st_header_shape(b, right);
    int is_same = left->rank == right->rank;
    for (unsigned i = 0; is_same && i < left->rank; i++)
        is_same = st_shape_next(&left_shape) == st_shape_next(&right_shape);
    return is_same;
}

static st_string name_at(const void *owner, size_t index)
{
    return st_header_name(owner, index);
}

int st_header_find(const st_header *header, st_string name, size_t *index)
{
    return st_names_find(&header->index, name_at, header, name, index);
}

void st_header_free(st_header *header)
{
    if (header->memory && !header->is_shared) {
        st_release(header->memory, header->text);
        st_release(header->memory, header->tensors);
        st_release(header->memory, header->dims);
        st_release(header->memory, header->names);
        st_release(header->memory, header->metadata_at);
        st_release(header->memory, header->metadata_bytes);
        st_names_free(&header->index);
    }
    memset(header, 0, sizeof *header);
}

/* ---- the two passes ---- */

/* The shortest pair of `__metadata__` is "":"" and a comma; a tensor's entry is longer. */
_Static_assert(LMC_ST_HEADER_NBYTES_MAX / 6 <= ST_NAMES_COUNT_MAX, "keys of a header fit a table of names");

/* Text offsets of faults count from the begin of the file. */
static lmc_status scan_text(st_scan *scan, const st_header *header, uint64_t text_offset, lmc_st_diag *diag)
{
    scan->json = (st_json){.text = header->text, .nbytes = header->text_nbytes};
    scan->status = LMC_ERR_HEADER;
    if (st_scan_run(scan))
        return LMC_OK;
    if (scan->faulty_entry.nbytes > 0) {
        char *const name = st_allocate(header->memory, scan->faulty_entry.nbytes);
        if (!name)
            return st_fail_nomem(diag);
        st_diag_set_tensor(diag, name, st_json_unescape(header->text, scan->faulty_entry, name));
        st_release(header->memory, name);
    }
    return st_fail(diag, scan->status, text_offset + scan->json.at, "malformed header: %s", scan->json.fault);
}

static lmc_status refuse_tensor(const st_header *header, const st_tensor *tensor, uint64_t text_offset,
                                const char *fault, lmc_st_diag *diag)
{
    st_diag_set_tensor(diag, header->names + tensor->name_offset, tensor->name_nbytes);
    return st_fail(diag, LMC_ERR_HEADER, text_offset + tensor->raw_name.offset, "malformed header: %s",
                   fault);
}

/* ---- duplicates ---- */

static lmc_status check_names(st_header *header, uint64_t text_offset, lmc_st_diag *diag)
{
    size_t duplicate = ST_NO_DUPLICATE;
    if (st_names_build(&header->index, header->memory, name_at, header, header->tensor_count,
                       os_unforeseen_u64(), &duplicate) != LMC_OK)
        return st_fail_nomem(diag);
    return duplicate == ST_NO_DUPLICATE ? LMC_OK
                                        : refuse_tensor(header, &header->tensors[duplicate], text_offset,
                                                        "two tensors have this name", diag);
}

static st_string key_at(const void *owner, size_t index)
{
    return st_header_metadata(owner, 2 * index);
}

/* The official package takes the last of equal keys in `__metadata__`, other readers the first: such a
 * file means different things to them, so it is refused. */
static lmc_status check_metadata_keys(const st_header *header, uint64_t text_offset, lmc_st_diag *diag)
{
    st_names names;
    size_t duplicate = ST_NO_DUPLICATE;
    const lmc_status status = st_names_build(&names, header->memory, key_at, header, header->metadata_count,
                                             os_unforeseen_u64(), &duplicate);
    st_names_free(&names);
    if (status != LMC_OK)
        return st_fail_nomem(diag);
    if (duplicate == ST_NO_DUPLICATE)
        return LMC_OK;
    /* The key's place in the text. That was checked: every step succeeds. */
    const size_t at = (size_t)header->metadata.offset + 1;
    st_json json = {.text = header->text, .nbytes = header->text_nbytes, .at = at};
    st_span raw = {0, 0};
    for (size_t i = 0; i <= 2 * duplicate; i++) {
        (void)st_json_string(&json, &raw);
        (void)st_json_try(&json, i % 2 == 0 ? ':' : ',');
    }
    return st_fail(diag, LMC_ERR_HEADER, text_offset + raw.offset,
                   "malformed header: a key stands twice in __metadata__");
}

/* ---- layout ---- */

static int compare_places(const void *left, const void *right)
{
    const st_tensor *const a = left;
    const st_tensor *const b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return a->raw_name.offset < b->raw_name.offset ? -1 : 1;
}

/* Most files list their tensors in the order of their data already. */
static void sort_by_place(st_header *header)
{
    for (size_t i = 1; i < header->tensor_count; i++) {
        if (compare_places(&header->tensors[i - 1], &header->tensors[i]) > 0) {
            qsort(header->tensors, header->tensor_count, sizeof *header->tensors, compare_places);
            return;
        }
    }
}

/* Why place, shape and dtype of a tensor contradict each other, or the end of the tensor before it; NULL if they do
 * not. Dimensions are multiplied in their order, as the official package does: [0, 2^63, 4] is a size, [2^63, 4, 0] is
 * not. */
static const char *layout_fault(const st_header *header, const st_tensor *tensor, uint64_t expected_begin)
{
    uint64_t nbits = 1;
    int overflows = 0;
    st_shape shape = st_header_shape(header, tensor);
    if (tensor->end < tensor->begin)
        return "its data_offsets are reversed";
    if (tensor->begin != expected_begin)
        return tensor->begin < expected_begin ? "its data overlaps another tensor's"
                                              : "there is a hole before its data";
    for (unsigned i = 0; i < tensor->rank; i++)
        overflows |= st_multiply_overflows(nbits, st_shape_next(&shape), &nbits);
    overflows |= st_multiply_overflows(nbits, lmc_dtype_nbits((lmc_dtype)tensor->dtype), &nbits);
    if (overflows)
        return "the size of its shape does not fit 64 bits";
    if (nbits % 8 != 0)
        return "its elements do not fill whole bytes";
    if (nbits / 8 != tensor->end - tensor->begin)
        return "shape and dtype do not give the size of its data_offsets";
    return NULL;
}

static lmc_status check_layout(const st_header *header, const st_header_text *source, lmc_st_diag *diag)
{
    const uint64_t data_nbytes = source->data_nbytes;
    const uint64_t data_offset = source->offset + header->text_nbytes;
    uint64_t end = 0;
    for (size_t i = 0; i < header->tensor_count; i++) {
        const st_tensor *const tensor = &header->tensors[i];
        const char *const fault = layout_fault(header, tensor, end);
        if (fault)
            return refuse_tensor(header, tensor, source->offset, fault, diag);
        end = tensor->end;
    }
    if (end == data_nbytes || source->may_be_short)
        return LMC_OK;
    return end > data_nbytes
               ? st_fail(diag, LMC_ERR_TRUNCATED, data_offset + data_nbytes,
                         "the file is cut short: %llu bytes are missing",
                         (unsigned long long)(end - data_nbytes))
               : st_fail(diag, LMC_ERR_HEADER, data_offset + end, "%llu bytes follow the last tensor",
                         (unsigned long long)(data_nbytes - end));
}

/* ---- all of it ---- */

lmc_status st_header_parse(st_header *header, const lmc_allocator *memory, const st_header_text *source,
                           lmc_st_diag *diag)
{
    *header = (st_header){.memory = memory,
                          .index.memory = memory,
                          .text = source->text,
                          .text_nbytes = source->nbytes,
                          .data_nbytes = source->data_nbytes};
    st_scan counted = {.tensors = NULL};
    ST_TRY(scan_text(&counted, header, source->offset, diag));
    /* Arrays of the counted sizes; one more element each, so that none is empty, and what header/scan.h asks for. */
    st_scan filled = {
        .tensors = st_allocate(memory, (counted.tensor_count + 1) * sizeof *header->tensors),
        .dims = st_allocate(memory, (counted.dim_count + ST_RANK_KEPT) * sizeof *header->dims),
        .names = st_allocate_zeroed(memory, counted.name_nbytes + 1, 1),
        .metadata_at = st_allocate(memory, (counted.metadata_string_count + 1) * sizeof *header->metadata_at),
        .metadata_bytes = st_allocate_zeroed(memory, counted.metadata_nbytes + 1, 1)};
    header->tensors = filled.tensors;
    header->dims = filled.dims;
    header->names = filled.names;
    header->metadata_at = filled.metadata_at;
    header->metadata_bytes = filled.metadata_bytes;
    if (!filled.tensors || !filled.dims || !filled.names || !filled.metadata_at || !filled.metadata_bytes)
        return st_fail_nomem(diag);
    ST_TRY(scan_text(&filled, header, source->offset, diag));
    header->tensor_count = filled.tensor_count;
    header->metadata = filled.metadata;
    header->metadata_at[filled.metadata_string_count] = (uint32_t)filled.metadata_nbytes;
    header->metadata_count = filled.metadata_string_count / 2;
    ST_TRY(check_metadata_keys(header, source->offset, diag));
    sort_by_place(header);
    ST_TRY(check_names(header, source->offset, diag));
    return check_layout(header, source, diag);
}

int st_header_share(st_header *header, const lmc_allocator *memory, const st_header_text *source,
                    const st_header *other)
{
    if (other->data_nbytes != source->data_nbytes || other->text_nbytes != source->nbytes ||
        memcmp(other->text, source->text, source->nbytes) != 0)
        return 0;
    st_release(memory, source->text);
    *header = *other;
    header->is_shared = 1;
    return 1;
}
