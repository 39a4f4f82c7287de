/*
 * views.c - the rules of a view, and the reading of the key "views" of an entry: one pass counts, the next one fills.
 */
#include "safetensors/header/views.h"

#include <string.h>

/* ---- rules ---- */

void st_view_set_strides(const uint64_t *shape, size_t rank, uint64_t *strides)
{
    uint64_t stride = 1;
    for (size_t i = rank; i > 0; i--) {
        strides[i - 1] = stride;
        if (lmc_multiply_overflows(stride, shape[i - 1], &stride))
            stride = 0; /* only of a view that has no elements, or is refused */
    }
}

int st_view_is_in_order(const st_view *view)
{
    const uint64_t *const strides = st_view_strides(view);
    uint64_t count = 1;
    for (size_t i = view->rank; i > 0 && view->nbytes > 0; i--) {
        if (view->shape[i - 1] > 1 && strides[i - 1] != count)
            return 0;
        count *= view->shape[i - 1];
    }
    return 1;
}

unsigned st_view_swapped_nbytes(const st_view *view)
{
    const unsigned nbits = lmc_dtype_nbits((lmc_dtype)view->dtype);
    return view->dtype == LMC_DTYPE_C64 ? 4 : nbits / 8;
}

int st_view_is_whole(const st_view *view, uint64_t nbytes)
{
    const int is_swapped = view->is_big_endian && st_view_swapped_nbytes(view) > 1;
    return view->nbytes == nbytes && view->offset == 0 && !is_swapped && st_view_is_in_order(view);
}

const char *st_view_fault(st_view *view, uint64_t nbytes)
{
    const unsigned nbits = lmc_dtype_nbits((lmc_dtype)view->dtype);
    const uint64_t *const strides = st_view_strides(view);
    uint64_t count = 1, last = view->offset, end = 0, step = 0;
    int overflows = 0;
    for (size_t i = 0; i < view->rank; i++)
        overflows |= lmc_multiply_overflows(count, view->shape[i], &count);
    overflows |= lmc_multiply_overflows(count, nbits, &end);
    if (overflows)
        return "the size of a view's shape does not fit 64 bits";
    if (end % 8 != 0)
        return "the elements of a view do not fill whole bytes";
    view->nbytes = end / 8;
    if (count == 0)
        return NULL;
    for (size_t i = 0; i < view->rank; i++)
        overflows |= lmc_multiply_overflows(view->shape[i] - 1, strides[i], &step) ||
                     lmc_add_overflows(last, step, &last);
    overflows |= lmc_add_overflows(last, 1, &end) || lmc_multiply_overflows(end, nbits, &end);
    if (overflows || end / 8 + (end % 8 != 0) > nbytes)
        return "a view leaves its tensor";
    if (nbits < 8 && (!st_view_is_in_order(view) || view->offset * nbits % 8 != 0))
        return "the elements of a view are narrower than a byte and do not lie one behind the other";
    return NULL;
}

/* ---- reading ---- */

/* Objects and arrays that are open within an entry. */
#define VALUE_DEPTH (LMC_ST_DEPTH_MAX - 2)

/* A pass; arrays are NULL in the first one. */
typedef struct views_pass {
    st_json json;
    st_view *named, *plain;
    uint64_t *dims;
    char *text;
    size_t named_count, plain_count, dim_count, text_nbytes;
} views_pass;

enum { KEY_NAME, KEY_DTYPE, KEY_SHAPE, KEY_STRIDES, KEY_OFFSET, KEY_BYTE_ORDER, KEY_NOTE, KEY_COUNT };

static int refuse(views_pass *pass, const char *fault)
{
    pass->json.fault = fault;
    return 0;
}

/* The text of a string goes behind the others, with a NUL. */
static int read_text(views_pass *pass, const char **text, uint32_t *nbytes)
{
    st_span raw;
    if (!st_json_string(&pass->json, &raw))
        return 0;
    char *const dst = !pass->text ? NULL : pass->text + pass->text_nbytes;
    *nbytes = (uint32_t)st_json_unescape(pass->json.text, raw, dst);
    if (dst)
        dst[*nbytes] = '\0';
    *text = dst ? dst : "";
    pass->text_nbytes += *nbytes + (size_t)1;
    return 1;
}

static int read_numbers(views_pass *pass, uint64_t *numbers, unsigned *count)
{
    st_json *const json = &pass->json;
    *count = 0;
    for (size_t seen = 0; st_json_next(json, '[', &seen, NULL);) {
        if (*count == ST_VIEW_RANK_MAX)
            return refuse(pass, "a view has more than " LMC_TEXT_OF(ST_VIEW_RANK_MAX) " dimensions");
        if (!st_json_u64(json, &numbers[(*count)++]))
            return 0;
    }
    return !json->fault;
}

/* A view before its rules are checked. */
typedef struct view_draft {
    st_view view;
    unsigned seen, rank, stride_count;
    uint64_t numbers[2 * ST_VIEW_RANK_MAX]; /* the shape, and behind its rank the strides */
    uint64_t strides[ST_VIEW_RANK_MAX];
} view_draft;

static int read_view_member(views_pass *pass, st_span raw, view_draft *draft)
{
    static const char *const keys[] = {"name", "dtype", "shape", "strides", "offset", "byte_order", "note"};
    st_json *const json = &pass->json;
    st_view *const view = &draft->view;
    lmc_dtype dtype = LMC_DTYPE_U8;
    uint32_t note_nbytes = 0;
    unsigned key = 0;
    while (key < KEY_COUNT && !st_json_string_is(json->text, raw, keys[key]))
        key++;
    if (key < KEY_COUNT && (draft->seen & 1u << key) != 0)
        return refuse(pass, "a key stands twice in a view");
    draft->seen |= 1u << key;
    switch (key) {
    case KEY_NAME: return read_text(pass, &view->name, &view->name_nbytes);
    case KEY_DTYPE:
        if (!st_scan_dtype(json, "the dtype of a view is unknown", &dtype))
            return 0;
        view->dtype = (uint8_t)dtype;
        return 1;
    case KEY_SHAPE: return read_numbers(pass, draft->numbers, &draft->rank);
    case KEY_STRIDES: return read_numbers(pass, draft->strides, &draft->stride_count);
    case KEY_OFFSET: return st_json_u64(json, &view->offset);
    case KEY_BYTE_ORDER:
        if (!st_json_string(json, &raw))
            return 0;
        view->is_big_endian = (uint8_t)st_json_string_is(json->text, raw, "big");
        return view->is_big_endian || st_json_string_is(json->text, raw, "little") ||
               refuse(pass, "the byte order of a view is unknown");
    case KEY_NOTE:
        return read_text(pass, &view->note, &note_nbytes) &&
               (note_nbytes <= ST_VIEW_NOTE_NBYTES_MAX || refuse(pass, "the note of a view is too long"));
    default: return st_json_skip_value(json, VALUE_DEPTH - 2);
    }
}

static int keep_view(views_pass *pass, view_draft *draft, int is_first, uint64_t tensor_nbytes)
{
    st_view *const view = &draft->view;
    const int has_name = (draft->seen & 1u << KEY_NAME) != 0;
    const int has_strides = (draft->seen & 1u << KEY_STRIDES) != 0;
    if ((draft->seen & 1u << KEY_DTYPE) == 0 || (draft->seen & 1u << KEY_SHAPE) == 0)
        return refuse(pass, "a view lacks dtype or shape");
    if (has_name == is_first)
        return refuse(pass, is_first ? "the first view of a tensor has a name" : "a view lacks its name");
    if (has_strides && draft->stride_count != draft->rank)
        return refuse(pass, "a view does not have as many strides as dimensions");
    view->rank = (uint16_t)draft->rank;
    view->shape = draft->numbers;
    if (has_strides)
        memcpy(draft->numbers + draft->rank, draft->strides, draft->rank * sizeof *draft->strides);
    else
        st_view_set_strides(draft->numbers, draft->rank, draft->numbers + draft->rank);
    const char *const fault = st_view_fault(view, tensor_nbytes);
    if (fault)
        return refuse(pass, fault);
    if (pass->dims) {
        uint64_t *const dims = pass->dims + pass->dim_count;
        memcpy(dims, draft->numbers, 2 * (size_t)draft->rank * sizeof *dims);
        view->shape = dims;
        *(is_first ? pass->plain + pass->plain_count : pass->named + pass->named_count) = *view;
    }
    pass->dim_count += 2 * (size_t)draft->rank;
    pass->plain_count += (size_t)is_first;
    pass->named_count += (size_t)!is_first;
    return 1;
}

/* The value of the key "views". */
static int read_list(views_pass *pass, size_t tensor, uint64_t tensor_nbytes)
{
    st_json *const json = &pass->json;
    size_t count = 0;
    st_span key;
    while (st_json_next(json, '[', &count, NULL)) {
        view_draft draft = {.view = {.tensor = (uint32_t)tensor}};
        for (size_t seen = 0; st_json_next(json, '{', &seen, &key);)
            if (!read_view_member(pass, key, &draft))
                return 0;
        if (json->fault || !keep_view(pass, &draft, count == 1, tensor_nbytes))
            return 0;
    }
    return !json->fault && (count > 0 || refuse(pass, "its views are none"));
}

/* Reads the entries of tensors again, for this key. The text was checked. */
static lmc_status read_entries(views_pass *pass, const st_scan *scanned, st_views_fault *fault)
{
    st_json *const json = &pass->json;
    for (size_t i = 0; i < scanned->tensor_count; i++) {
        const st_tensor *const tensor = &scanned->tensors[i];
        st_span raw;
        int has_views = 0;
        json->at = tensor->raw_name.offset;
        int is_read = st_json_string(json, &raw) && st_json_try(json, ':');
        for (size_t count = 0; is_read && st_json_next(json, '{', &count, &raw);) {
            const int is_views = st_json_string_is(json->text, raw, "views");
            if (is_views && has_views)
                is_read = refuse(pass, "its views stand twice");
            else
                is_read = is_views ? read_list(pass, i, tensor->end - tensor->begin)
                                   : st_json_skip_value(json, VALUE_DEPTH);
            has_views |= is_views;
        }
        if (!is_read) {
            *fault = (st_views_fault){json->fault, i};
            return LMC_ERR_HEADER;
        }
    }
    return LMC_OK;
}

lmc_status st_views_read(st_views *views, const lmc_allocator *memory, const st_scan *scanned,
                         st_views_fault *fault)
{
    const st_json json = {.text = scanned->json.text, .nbytes = scanned->json.nbytes};
    views_pass counted = {.json = json};
    *views = (st_views){0};
    LMC_TRY(read_entries(&counted, scanned, fault));
    if (counted.plain_count == 0)
        return LMC_OK;
    views->list = st_allocate_array(memory, counted.named_count + counted.plain_count, sizeof *views->list);
    views->dims = st_allocate_array(memory, counted.dim_count + 1, sizeof *views->dims);
    views->text = st_allocate(memory, counted.text_nbytes + 1);
    if (!views->list || !views->dims || !views->text)
        return LMC_ERR_NOMEM;
    views->named_count = counted.named_count;
    views->plain_count = counted.plain_count;
    views_pass filled = {.json = json,
                         .named = views->list,
                         .plain = views->list + counted.named_count,
                         .dims = views->dims,
                         .text = views->text};
    return read_entries(&filled, scanned, fault);
}

void st_views_free(st_views *views, const lmc_allocator *memory)
{
    st_release(memory, views->list);
    st_release(memory, views->dims);
    st_release(memory, views->text);
    if (views->index.slots)
        st_names_free(&views->index);
    *views = (st_views){0};
}

const st_view *st_views_find(const st_views *views, size_t tensor)
{
    if (views->plain_count == 0) /* there may be no list */
        return NULL;
    const st_view *const list = views->list + views->named_count;
    size_t begin = 0;
    size_t end = views->plain_count;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if (list[middle].tensor < tensor)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin < views->plain_count && list[begin].tensor == tensor ? &list[begin] : NULL;
}
