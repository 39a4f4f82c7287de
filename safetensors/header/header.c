/*
 * header.c - the two passes over a header, the table of names, and the rules that tensors must obey together; and the
 * entries of a header that is written.
 */
#include "safetensors/header/header.h"

#include "os/os.h"

#include <cJSON.h>
#include <stdio.h>
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
    uint64_t dims[LMC_ST_RANK_MAX];
    st_shape shape = st_header_shape(header, tensor);
    for (unsigned i = 0; i < tensor->rank; i++)
        dims[i] = st_shape_next(&shape);
    for (unsigned last = tensor->rank; last > 1 && values < ROW_VALUES_MIN; last--)
        if (lmc_multiply_overflows(values, dims[last - 1], &values))
            return 0;
    const int is_small =
        !lmc_multiply_overflows(values, value_nbits, &nbits) && nbits % 8 == 0 && nbits / 8 <= UINT32_MAX;
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

static st_string view_name_at(const void *owner, size_t index)
{
    const st_view *const view = &((const st_views *)owner)->list[index];
    return (st_string){view->name, view->name_nbytes};
}

st_listed st_header_listed(const st_header *header, size_t index)
{
    const st_views *const views = &header->views;
    if (index < header->tensor_count) {
        const st_tensor *const tensor = &header->tensors[index];
        const st_view *const view = st_views_find(views, index);
        /* the first of several views of a storage may be all of it, as its entry says */
        st_shape shape = st_header_shape(header, tensor);
        int is_stored = view && !view->note && view->dtype == tensor->dtype && view->rank == tensor->rank &&
                        st_view_is_whole(view, tensor->end - tensor->begin);
        for (unsigned i = 0; is_stored && i < tensor->rank; i++)
            is_stored = view->shape[i] == st_shape_next(&shape);
        return (st_listed){index, is_stored ? NULL : view, st_header_name(header, index)};
    }
    const size_t number = index - header->tensor_count;
    return (st_listed){views->list[number].tensor, &views->list[number], view_name_at(views, number)};
}

int st_header_find_listed(const st_header *header, st_string name, size_t *index)
{
    const st_views *const views = &header->views;
    if (st_header_find(header, name, index))
        return 1;
    if (views->named_count == 0 || !st_names_find(&views->index, view_name_at, views, name, index))
        return 0;
    *index += header->tensor_count;
    return 1;
}

void st_header_free(st_header *header)
{
    if (header->memory && !header->is_shared) {
        st_views_free(&header->views, header->memory);
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

/* Text offsets of faults count from the start of the file. */
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
    return (a->raw_name.offset > b->raw_name.offset) - (a->raw_name.offset < b->raw_name.offset);
}

/* Place, shape and dtype of a tensor must not contradict each other, or the end of the tensor before it. Dimensions are
 * multiplied in their order, as the official package does: [0, 2^63, 4] is a size, [2^63, 4, 0] is not. */
static lmc_status check_layout(const st_header *header, const st_header_text *source, lmc_st_diag *diag)
{
    const uint64_t data_nbytes = source->data_nbytes;
    const uint64_t data_offset = source->offset + header->text_nbytes;
    uint64_t end = 0;
    for (size_t i = 0; i < header->tensor_count; i++) {
        const st_tensor *const tensor = &header->tensors[i];
        st_shape shape = st_header_shape(header, tensor);
        uint64_t nbits = 1;
        int overflows = 0;
        for (unsigned j = 0; j < tensor->rank; j++)
            overflows |= lmc_multiply_overflows(nbits, st_shape_next(&shape), &nbits);
        overflows |= lmc_multiply_overflows(nbits, lmc_dtype_nbits((lmc_dtype)tensor->dtype), &nbits);
        const char *const fault = tensor->end < tensor->begin ? "its data_offsets are reversed"
                                  : tensor->begin < end       ? "its data overlaps another tensor's"
                                  : tensor->begin > end       ? "there is a hole before its data"
                                  : overflows                 ? "the size of its shape does not fit 64 bits"
                                  : nbits % 8 != 0            ? "its elements do not fill whole bytes"
                                  : nbits / 8 != tensor->end - tensor->begin
                                      ? "shape and dtype do not give the size of its data_offsets"
                                      : NULL;
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

/* ---- views ---- */

static lmc_status read_views(st_header *header, uint64_t text_offset, lmc_st_diag *diag)
{
    st_views *const views = &header->views;
    st_views_fault fault = {0};
    size_t duplicate = ST_NO_DUPLICATE;
    const st_scan scanned = {.json = {.text = header->text, .nbytes = header->text_nbytes},
                             .tensors = header->tensors,
                             .tensor_count = header->tensor_count};
    lmc_status status = st_views_read(views, header->memory, &scanned, &fault);
    if (status == LMC_ERR_HEADER)
        return refuse_tensor(header, &header->tensors[fault.tensor], text_offset, fault.text, diag);
    if (status == LMC_OK && views->named_count > 0)
        status = st_names_build(&views->index, header->memory, view_name_at, views, views->named_count,
                                os_unforeseen_u64(), &duplicate);
    if (status != LMC_OK)
        return st_fail_nomem(diag);
    for (size_t i = 0; i < views->named_count && duplicate == ST_NO_DUPLICATE; i++) {
        size_t found = 0;
        if (st_header_find(header, view_name_at(views, i), &found))
            duplicate = i;
    }
    return duplicate == ST_NO_DUPLICATE
               ? LMC_OK
               : refuse_tensor(header, &header->tensors[views->list[duplicate].tensor], text_offset,
                               "another tensor has the name of a view", diag);
}

/* ---- all of it ---- */

lmc_status st_header_parse(st_header *header, const lmc_allocator *memory, const st_header_text *source,
                           lmc_st_diag *diag)
{
    *header = (st_header){.memory = memory,
                          .index.memory = memory,
                          .text = source->text,
                          .text_nbytes = source->nbytes,
                          .data_nbytes = source->data_nbytes,
                          .has_views = source->has_views};
    st_scan counted = {.tensors = NULL};
    LMC_TRY(scan_text(&counted, header, source->offset, diag));
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
    LMC_TRY(scan_text(&filled, header, source->offset, diag));
    header->tensor_count = filled.tensor_count;
    header->metadata = filled.metadata;
    header->metadata_at[filled.metadata_string_count] = (uint32_t)filled.metadata_nbytes;
    header->metadata_count = filled.metadata_string_count / 2;
    LMC_TRY(check_metadata_keys(header, source->offset, diag));
    int is_sorted = 1; /* most files list their tensors in the order of their data already */
    for (size_t i = 1; i < header->tensor_count && is_sorted; i++)
        is_sorted = compare_places(&header->tensors[i - 1], &header->tensors[i]) <= 0;
    if (!is_sorted)
        qsort(header->tensors, header->tensor_count, sizeof *header->tensors, compare_places);
    size_t duplicate = ST_NO_DUPLICATE;
    if (st_names_build(&header->index, memory, name_at, header, header->tensor_count, os_unforeseen_u64(),
                       &duplicate) != LMC_OK)
        return st_fail_nomem(diag);
    if (duplicate != ST_NO_DUPLICATE)
        return refuse_tensor(header, &header->tensors[duplicate], source->offset,
                             "two tensors have this name", diag);
    LMC_TRY(check_layout(header, source, diag));
    return source->has_views ? read_views(header, source->offset, diag) : LMC_OK;
}

int st_header_share(st_header *header, const lmc_allocator *memory, const st_header_text *source,
                    const st_header *other)
{
    if (other->data_nbytes != source->data_nbytes || other->has_views != source->has_views ||
        other->text_nbytes != source->nbytes || memcmp(other->text, source->text, source->nbytes) != 0)
        return 0;
    st_release(memory, source->text);
    *header = *other;
    header->is_shared = 1;
    return 1;
}

/* ---- the marks of an archive ---- */

/* A larger map is not looked at: an archive's own is smaller, and cJSON needs up to 20 times its bytes. */
#define METADATA_NBYTES_MAX 4096

int st_metadata_is_marked(const st_header *header, char *version, lmc_status *status)
{
    const char *const text = (const char *)header->text + header->metadata.offset;
    const size_t nbytes = header->metadata.nbytes;
    *status = LMC_OK;
    if (nbytes == 0 || nbytes > METADATA_NBYTES_MAX)
        return 0;
    for (size_t i = 0; i < 2 * header->metadata_count;
         i++) { /* a NUL would end a string of C before its end */
        const st_string string = st_header_metadata(header, i);
        if (memchr(string.bytes, '\0', string.nbytes))
            return 0;
    }
    cJSON *const map = cJSON_ParseWithLength(text, nbytes);
    if (!map) {
        *status = LMC_ERR_NOMEM; /* the text was checked: nothing else can be wrong */
        return 0;
    }
    const char *const format = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(map, "format"));
    const char *const found = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(map, ST_MARK_KEY));
    const int is_marked = format && strcmp(format, ST_MARK_FORMAT) == 0 && found;
    if (is_marked)
        snprintf(version, ST_METADATA_VERSION_NBYTES, "%s", found);
    cJSON_Delete(map);
    return is_marked;
}

/* ---- writing ---- */

/* Text that holds its own commas. */
static void put_text(st_json_out *out, const char *text)
{
    out->needs_comma = 0;
    st_json_put_raw(out, text, strlen(text));
    out->needs_comma = 0;
}

void st_header_put_dtype(st_json_out *out, lmc_dtype dtype)
{
    put_text(out, "{\"dtype\":\"");
    put_text(out, lmc_dtype_name(dtype));
    put_text(out, "\",\"shape\":[");
}

void st_header_put_place(st_json_out *out, uint64_t begin, uint64_t end)
{
    put_text(out, "],\"data_offsets\":[");
    st_json_put_u64(out, begin);
    st_json_put_u64(out, end);
    st_json_put_close(out, ']');
}

void st_header_put_end(st_json_out *out)
{
    st_json_put_close(out, '}');
    st_json_put_spaces(out, 8);
}

lmc_status st_header_write(const st_output *output, const void *text, size_t nbytes, lmc_st_diag *diag)
{
    unsigned char length[8];
    lmc_store64(length, nbytes);
    LMC_TRY(st_output_write(output, 0, length, sizeof length, diag));
    return st_output_write(output, sizeof length, text, nbytes, diag);
}
