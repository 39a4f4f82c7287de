/*
 * scan.c - one pass over a header's JSON: entries and __metadata__.
 */
#include "safetensors/header/scan.h"

#include <string.h>

/* Levels that are open where the value of an unknown key begins: the header and the entry. */
#define ENTRY_DEPTH 2

static int fail_at(st_scan *scan, size_t at, const char *fault)
{
    scan->json.at = at;
    scan->json.fault = fault;
    return 0;
}

/* ---- one entry ---- */

enum { KEY_DTYPE, KEY_SHAPE, KEY_OFFSETS, KEY_OTHER };

int st_scan_dtype(st_json *json, const char *fault, lmc_dtype *dtype)
{
    st_span raw;
    char name[16];
    if (!st_json_string(json, &raw))
        return 0;
    if (st_json_unescape(json->text, raw, NULL) <= sizeof name &&
        lmc_dtype_find(name, st_json_unescape(json->text, raw, name), dtype))
        return 1;
    json->at = raw.offset;
    json->fault = fault;
    return 0;
}

static int parse_shape(st_scan *scan, st_tensor *tensor)
{
    st_json *const json = &scan->json;
    size_t rank = 0;
    st_json_skip_space(json);
    const size_t text_at = json->at;
    tensor->shape_at = (uint32_t)scan->dim_count;
    for (size_t count = 0; st_json_next(json, '[', &count, NULL); rank++) {
        uint64_t dim = 0;
        if (!st_json_u64(json, &dim))
            return 0;
        if (rank == LMC_ST_RANK_MAX) {
            scan->status = LMC_ERR_LIMIT;
            return fail_at(scan, json->at,
                           "the shape has more than " LMC_TEXT_OF(LMC_ST_RANK_MAX) " dimensions");
        }
        if (scan->dims && rank < ST_RANK_KEPT)
            scan->dims[scan->dim_count + rank] = dim;
    }
    tensor->rank = (uint16_t)rank;
    if (rank <= ST_RANK_KEPT)
        scan->dim_count += rank;
    else
        tensor->shape_at = (uint32_t)text_at;
    return !json->fault;
}

/* Unknown keys are skipped, as the official package does; repeated ones among them mean nothing. */
static int parse_member(st_scan *scan, st_span raw, st_tensor *tensor, unsigned *seen)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    st_json *const json = &scan->json;
    lmc_dtype dtype = LMC_DTYPE_U8;
    unsigned key = 0;
    while (key < KEY_OTHER && !st_json_string_is(json->text, raw, keys[key]))
        key++;
    if (key != KEY_OTHER && (*seen & 1u << key) != 0)
        return fail_at(scan, raw.offset, "a key stands twice in an entry");
    *seen |= 1u << key;
    switch (key) {
    case KEY_DTYPE:
        if (!st_scan_dtype(json, "the dtype is unknown", &dtype))
            return 0;
        tensor->dtype = (uint16_t)dtype;
        return 1;
    case KEY_SHAPE: return parse_shape(scan, tensor);
    case KEY_OFFSETS:
        return st_json_take(json, '[', "data_offsets is not an array") && st_json_u64(json, &tensor->begin) &&
               st_json_take(json, ',', "data_offsets does not hold two numbers") &&
               st_json_u64(json, &tensor->end) &&
               st_json_take(json, ']', "data_offsets does not hold two numbers");
    default: return st_json_skip_value(json, LMC_ST_DEPTH_MAX - ENTRY_DEPTH);
    }
}

static int parse_entry(st_scan *scan, st_span raw_name)
{
    st_json *const json = &scan->json;
    st_tensor tensor = {.raw_name = raw_name};
    unsigned seen = 0;
    st_span key;
    for (size_t count = 0; st_json_next(json, '{', &count, &key);)
        if (!parse_member(scan, key, &tensor, &seen))
            return 0;
    if (json->fault)
        return 0;
    if ((seen & 7u) != 7u)
        return fail_at(scan, raw_name.offset, "a tensor's entry lacks dtype, shape or data_offsets");
    tensor.name_offset = (uint32_t)scan->name_nbytes;
    tensor.name_nbytes = (uint32_t)st_json_unescape(json->text, raw_name,
                                                    !scan->names ? NULL : scan->names + scan->name_nbytes);
    scan->name_nbytes += tensor.name_nbytes + 1u; /* its NUL: the array is zeroed */
    if (scan->tensors)
        scan->tensors[scan->tensor_count] = tensor;
    scan->tensor_count++;
    return 1;
}

/* ---- __metadata__ ---- */

static void keep_metadata_string(st_scan *scan, st_span raw)
{
    char *const dst = !scan->metadata_bytes ? NULL : scan->metadata_bytes + scan->metadata_nbytes;
    if (scan->metadata_at)
        scan->metadata_at[scan->metadata_string_count] = (uint32_t)scan->metadata_nbytes;
    scan->metadata_string_count++;
    scan->metadata_nbytes +=
        st_json_unescape(scan->json.text, raw, dst) + 1; /* its NUL: the array is zeroed */
}

static int parse_metadata(st_scan *scan, st_span raw_name)
{
    st_json *const json = &scan->json;
    if (scan->has_metadata)
        return fail_at(scan, raw_name.offset, "__metadata__ stands twice in the header");
    scan->has_metadata = 1;
    st_json_skip_space(json);
    const size_t start = json->at;
    if (json->nbytes - start >= 4 && memcmp(json->text + start, "null", 4) == 0) {
        json->at += 4; /* "none", as for the official package; what else stands here is a fault */
        return 1;
    }
    st_span key;
    st_span value;
    for (size_t count = 0; st_json_next(json, '{', &count, &key) && st_json_string(json, &value);) {
        keep_metadata_string(scan, key);
        keep_metadata_string(scan, value);
    }
    if (json->fault)
        return 0;
    scan->metadata.offset = (uint32_t)start;
    scan->metadata.nbytes = (uint32_t)(json->at - start);
    return 1;
}

/* ---- the whole text ---- */

int st_scan_run(st_scan *scan)
{
    st_json *const json = &scan->json;
    st_span raw;
    for (size_t count = 0; st_json_next(json, '{', &count, &raw);) {
        const int is_metadata = st_json_string_is(json->text, raw, "__metadata__");
        if (!(is_metadata ? parse_metadata(scan, raw) : parse_entry(scan, raw))) {
            scan->faulty_entry = is_metadata ? scan->faulty_entry : raw;
            return 0;
        }
    }
    if (json->fault)
        return 0;
    st_json_skip_space(json); /* padding */
    if (json->at < json->nbytes)
        return fail_at(scan, json->at, "something follows the header's closing brace");
    return 1;
}
