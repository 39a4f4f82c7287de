/*
 * npy.c - arrays of numpy. The parser of .npy headers: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
 * Keys come in any order. Whatever numpy does not write is refused. And the container .npy: a header and one array,
 * whose name here is `array`. An array of Python objects is a pickle and no tensor: all of it is skeleton.
 */
#include "safetensors/container/npy.h"

#include "common/number.h"

#include <stdio.h>
#include <string.h>

/* Structured dtypes within each other. */
#define DEPTH_MAX 16

/* Header text that is being read. */
typedef struct npy_text {
    const unsigned char *at, *end;
} npy_text;

/* A dtype as the header describes it. */
typedef struct npy_descr {
    uint64_t element_nbytes;
    lmc_dtype dtype;
    int is_guess;
    int is_pair;       /* each element is two of `dtype` */
    int is_big_endian; /* or of an unknown order: a shape would say too much */
    int is_object;
    npy_text word; /* of a dtype in one word */
} npy_descr;

static void skip_space(npy_text *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\n'))
        text->at++;
}

static int accept(npy_text *text, char c)
{
    skip_space(text);
    if (text->at == text->end || *text->at != (unsigned char)c)
        return 0;
    text->at++;
    return 1;
}

static int accept_word(npy_text *text, const char *word)
{
    const size_t nbytes = strlen(word);
    skip_space(text);
    if ((size_t)(text->end - text->at) < nbytes || memcmp(text->at, word, nbytes) != 0)
        return 0;
    text->at += nbytes;
    return 1;
}

/* A string in quotes, as it stands: names of fields may hold escapes, nothing that is compared does. */
static int read_string(npy_text *text, npy_text *string)
{
    const unsigned char quote = accept(text, '\'') ? '\'' : accept(text, '"') ? '"' : 0;
    if (quote == 0)
        return 0;
    string->at = text->at;
    while (text->at < text->end && *text->at != quote)
        text->at += *text->at == '\\' && text->end - text->at > 1 ? 2 : 1;
    string->end = text->at;
    return accept(text, (char)quote);
}

static int is_equal(const npy_text *string, const char *word)
{
    const size_t nbytes = strlen(word);
    return (size_t)(string->end - string->at) == nbytes && memcmp(string->at, word, nbytes) == 0;
}

/* A decimal number below 2^63. */
static int read_number(npy_text *text, uint64_t *number)
{
    const char *at = (const char *)text->at;
    const int is_there = lmc_read_number(&at, (const char *)text->end, number);
    text->at = (const unsigned char *)at;
    return is_there && *number <= INT64_MAX;
}

/* A tuple of dimensions and their product. npy: gets as many as it has room for; may be NULL. */
static int read_shape(npy_text *text, st_npy *npy, uint64_t *product)
{
    size_t count = 0;
    *product = 1;
    if (!accept(text, '('))
        return 0;
    while (!accept(text, ')')) {
        uint64_t dim = 0;
        if (!read_number(text, &dim) || lmc_multiply_overflows(*product, dim, product))
            return 0;
        (void)accept(text, 'L'); /* Python 2 */
        if (npy && count < ST_NPY_RANK_MAX)
            npy->shape[count] = dim;
        count++;
        const int is_followed = accept(text, ',');
        skip_space(text);
        const int is_end = text->at < text->end && *text->at == ')';
        if (!is_followed && (!is_end || count < 2)) /* (3) is a number */
            return 0;
    }
    if (npy)
        npy->rank = count;
    return 1;
}

/* The dtype of plain numbers; 0: there is none, or it is none of lmc_dtype's. '<f1' is what numpy writes for the
 * float8_e5m2 of ml_dtypes; all others of a byte are '<V1'. */
static int find_dtype(char kind, uint64_t nbytes, lmc_dtype *dtype)
{
    static const struct {
        char kind;
        unsigned char nbytes;
        lmc_dtype dtype;
    } known[] = {
        {'b', 1, LMC_DTYPE_BOOL},    {'i', 1, LMC_DTYPE_I8},  {'i', 2, LMC_DTYPE_I16},
        {'i', 4, LMC_DTYPE_I32},     {'i', 8, LMC_DTYPE_I64}, {'u', 1, LMC_DTYPE_U8},
        {'u', 2, LMC_DTYPE_U16},     {'u', 4, LMC_DTYPE_U32}, {'u', 8, LMC_DTYPE_U64},
        {'f', 1, LMC_DTYPE_F8_E5M2}, {'f', 2, LMC_DTYPE_F16}, {'f', 4, LMC_DTYPE_F32},
        {'f', 8, LMC_DTYPE_F64},     {'c', 8, LMC_DTYPE_C64}, {'c', 16, LMC_DTYPE_F64},
        {'M', 8, LMC_DTYPE_I64},     {'m', 8, LMC_DTYPE_I64},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].kind == kind && known[i].nbytes == nbytes) {
            *dtype = known[i].dtype;
            return 1;
        }
    return 0;
}

static int read_descr(npy_text *text, npy_descr *descr, unsigned depth);

/* A structured dtype, behind its bracket. A field is a name or (title, name), a dtype, and perhaps a shape. */
static int read_fields(npy_text *text, npy_descr *descr, unsigned depth)
{
    while (!accept(text, ']')) {
        npy_descr field = {.is_guess = 1};
        npy_text name;
        uint64_t count = 1;
        if (!accept(text, '('))
            return 0;
        const int has_title = accept(text, '(');
        if (!read_string(text, &name) ||
            (has_title && (!accept(text, ',') || !read_string(text, &name) || !accept(text, ')'))))
            return 0;
        if (!accept(text, ',') || !read_descr(text, &field, depth))
            return 0;
        if (accept(text, ',') && !read_shape(text, NULL, &count))
            return 0;
        if (!accept(text, ')') ||
            lmc_multiply_overflows(field.element_nbytes, count, &field.element_nbytes) ||
            lmc_add_overflows(descr->element_nbytes, field.element_nbytes, &descr->element_nbytes))
            return 0;
        descr->is_object |= field.is_object;
        skip_space(text);
        if (!accept(text, ',') && (text->at == text->end || *text->at != ']'))
            return 0;
    }
    return 1;
}

static int read_descr(npy_text *text, npy_descr *descr, unsigned depth)
{
    npy_text string;
    if (accept(text, '['))
        return depth < DEPTH_MAX && read_fields(text, descr, depth + 1);
    if (!read_string(text, &string))
        return 0;
    descr->word = string;
    /* in one word: order, kind, size */
    if (is_equal(&string, "|O")) {
        descr->is_object = 1;
        return 1;
    }
    if (string.end - string.at < 3)
        return 0;
    const char order = (char)*string.at++;
    const char kind = (char)*string.at++;
    if (!memchr("<>|", order, 3) || !memchr("biufcmMSUV", kind, 10) ||
        !read_number(&string, &descr->element_nbytes))
        return 0;
    const int has_unit = (kind == 'm' || kind == 'M') && string.at != string.end; /* [ns], [25s] */
    if (has_unit ? *string.at != '[' || string.end[-1] != ']' : string.at != string.end)
        return 0;
    descr->is_big_endian = order == '>';
    if (kind == 'U') /* code points */
        return !lmc_multiply_overflows(descr->element_nbytes, 4, &descr->element_nbytes);
    if (find_dtype(kind, descr->element_nbytes, &descr->dtype)) {
        descr->is_guess = 0;
        descr->is_pair = kind == 'c' && descr->element_nbytes == 16;
        return order != '|' || descr->element_nbytes == 1;
    }
    /* what numpy writes for the bfloat16 of ml_dtypes; its own void types have no order */
    if (kind == 'V' && order == '<' && descr->element_nbytes == 2) {
        descr->is_guess = 0;
        descr->dtype = LMC_DTYPE_BF16;
    }
    return 1;
}

/* The dictionary: each of the three keys once. */
static int read_dictionary(npy_text *text, npy_descr *descr, int *is_fortran, st_npy *npy, uint64_t *count)
{
    unsigned seen = 0;
    if (!accept(text, '{'))
        return 0;
    while (!accept(text, '}')) {
        npy_text key;
        if (!read_string(text, &key) || !accept(text, ':'))
            return 0;
        const unsigned bit = is_equal(&key, "descr")           ? 1
                             : is_equal(&key, "fortran_order") ? 2
                             : is_equal(&key, "shape")         ? 4
                                                               : 0;
        if (bit == 0 || (seen & bit) != 0)
            return 0;
        seen |= bit;
        if (bit == 2)
            *is_fortran = accept_word(text, "True");
        const int is_read = bit == 1   ? read_descr(text, descr, 0)
                            : bit == 2 ? *is_fortran || accept_word(text, "False")
                                       : read_shape(text, npy, count);
        skip_space(text);
        if (!is_read || (!accept(text, ',') && (text->at == text->end || *text->at != '}')))
            return 0;
    }
    skip_space(text);
    return seen == 7 && text->at == text->end;
}

uint64_t st_npy_header_nbytes(const unsigned char *head, size_t nbytes)
{
    if (nbytes < ST_NPY_START_NBYTES || memcmp(head, "\x93NUMPY", 6) != 0 || head[6] < 1 || head[6] > 3 ||
        head[7] != 0)
        return 0;
    return head[6] == 1 ? 10 + (uint64_t)lmc_load16(head + 8) : 12 + (uint64_t)lmc_load32(head + 8);
}

int st_npy_read_header(const unsigned char *head, size_t nbytes, st_npy *npy)
{
    npy_descr descr = {.is_guess = 1};
    uint64_t count = 0;
    int is_fortran = 0;
    memset(npy, 0, sizeof *npy);
    npy->data_offset = st_npy_header_nbytes(head, nbytes);
    if (npy->data_offset == 0 || npy->data_offset > nbytes || npy->data_offset > ST_NPY_HEADER_NBYTES_MAX)
        return 0;
    npy_text text = {head + (head[6] == 1 ? 10 : 12), head + npy->data_offset};
    if (!read_dictionary(&text, &descr, &is_fortran, npy, &count))
        return 0;
    npy->is_object = descr.is_object;
    if (descr.is_object || lmc_multiply_overflows(count, descr.element_nbytes, &npy->data_nbytes))
        return 0;
    npy->dtype = descr.dtype;
    npy->is_guess = descr.is_guess;
    npy->is_pair = descr.is_pair;
    npy->is_big_endian = descr.is_big_endian;
    npy->is_fortran = is_fortran && npy->rank > 1;
    npy->element_nbytes = descr.element_nbytes;
    /* what numpy calls the dtype, if that is one word of a few letters */
    const size_t word_nbytes = (size_t)(descr.word.end - descr.word.at);
    int is_shown = descr.word.at != NULL && word_nbytes <= 32;
    for (size_t i = 0; i < word_nbytes && is_shown; i++)
        is_shown = descr.word.at[i] > ' ' && descr.word.at[i] < 0x7f;
    if (is_shown)
        snprintf(npy->note, sizeof npy->note, "numpy dtype %.*s", (int)word_nbytes,
                 (const char *)descr.word.at);
    else
        snprintf(npy->note, sizeof npy->note,
                 descr.word.at ? "another numpy dtype" : "structured numpy dtype");
    return 1;
}

/* ---- the array ---- */

lmc_status st_npy_add(st_segments *segments, const st_npy *npy, st_segment *segment, lmc_st_diag *diag)
{
    uint64_t shape[ST_NPY_RANK_MAX + 1], strides[ST_NPY_RANK_MAX + 1];
    st_segment_view view = {.dtype = npy->is_guess ? LMC_DTYPE_U8 : npy->dtype,
                            .is_big_endian = npy->is_big_endian && !npy->is_guess,
                            .note = npy->is_guess ? npy->note : NULL};
    segment->nbytes = npy->data_nbytes;
    segment->dtype = npy->dtype;
    if (npy->is_guess && segment->nbytes > 0)
        LMC_TRY(
            st_segments_guess(segments->reading, segment->offset, segment->nbytes, &segment->dtype, diag));
    if (npy->rank > ST_NPY_RANK_MAX)
        return st_segments_add(segments, segment, diag);
    /* the dimensions in the order of the file, with one for the parts of an element if it has several; strides count
     * these parts */
    const uint64_t parts = npy->is_guess ? npy->element_nbytes : 1 + (uint64_t)npy->is_pair;
    memcpy(shape, npy->shape, npy->rank * sizeof *shape);
    view.shape = shape;
    view.rank = npy->rank;
    if (parts != 1)
        shape[view.rank++] = parts;
    if (npy->is_fortran) {
        uint64_t stride = parts;
        for (size_t i = 0; i < npy->rank; i++) {
            strides[i] = stride;
            if (lmc_multiply_overflows(stride, shape[i], &stride))
                stride = 0; /* a product may only be too large if a dimension is 0 */
        }
        strides[npy->rank] = 1;
        view.strides = strides;
    }
    const int is_plain = !npy->is_big_endian && !npy->is_fortran;
    if (is_plain && view.rank <= ST_NPY_RANK_MAX && (!npy->is_guess || npy->element_nbytes == 1)) {
        segment->shape = view.shape;
        segment->rank = view.rank;
    }
    if (!is_plain || npy->is_guess || view.rank > ST_NPY_RANK_MAX) {
        segment->views = &view;
        segment->view_count = 1;
    }
    return st_segments_add(segments, segment, diag);
}

/* ---- the container .npy ---- */

static int is_like_npy(const st_reading *reading, const unsigned char *head, size_t nbytes, lmc_st_diag *diag)
{
    (void)diag;
    (void)reading;
    return nbytes >= 6 && memcmp(head, "\x93NUMPY", 6) == 0;
}

/* Reads the whole header into the buffer, and from there. *is_told: 0 for Python objects. */
static lmc_status read_header(const st_reading *reading, st_buffer *buffer, st_npy *npy, int *is_told,
                              lmc_st_diag *diag)
{
    unsigned char start[ST_NPY_START_NBYTES];
    const uint64_t file_nbytes = reading->input->nbytes;
    if (file_nbytes < sizeof start)
        return st_fail(diag, LMC_ERR_TRUNCATED, file_nbytes,
                       "this .npy file is cut short: its header is not whole");
    LMC_TRY(st_input_read(reading->input, 0, start, sizeof start, diag));
    const uint64_t header_nbytes = st_npy_header_nbytes(start, sizeof start);
    if (header_nbytes == 0)
        return st_fail(diag, LMC_ERR_UNSUPPORTED, 6,
                       "a .npy file of version %u.%u, only 1.0 to 3.0 are known", start[6], start[7]);
    if (header_nbytes > file_nbytes)
        return st_fail(diag, LMC_ERR_TRUNCATED, file_nbytes,
                       "this .npy file is cut short: its header is not whole");
    if (header_nbytes > ST_NPY_HEADER_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, 8, "the header of this .npy file has %llu bytes, more than %llu",
                       (unsigned long long)header_nbytes, (unsigned long long)ST_NPY_HEADER_NBYTES_MAX);
    unsigned char *const head = st_buffer_grow(reading->memory, buffer, (size_t)header_nbytes);
    if (!head)
        return st_fail_nomem(diag);
    LMC_TRY(st_input_read(reading->input, 0, head, (size_t)header_nbytes, diag));
    *is_told = st_npy_read_header(head, (size_t)header_nbytes, npy);
    if (!*is_told && !npy->is_object)
        return st_fail(diag, LMC_ERR_HEADER, 0, "the header of this .npy file is none that numpy writes");
    return LMC_OK;
}

static lmc_status read_npy(const st_reading *reading, st_contents *contents, lmc_st_diag *diag)
{
    st_npy npy;
    st_buffer buffer = {0};
    st_segments segments;
    int is_told = 0;
    lmc_status status = read_header(reading, &buffer, &npy, &is_told, diag);
    st_buffer_free(reading->memory, &buffer);
    LMC_TRY(status);
    if (is_told && npy.data_nbytes > reading->input->nbytes - npy.data_offset)
        return st_fail(diag, LMC_ERR_TRUNCATED, reading->input->nbytes,
                       "this .npy file is cut short: its array has %llu bytes, %llu are there",
                       (unsigned long long)npy.data_nbytes,
                       (unsigned long long)(reading->input->nbytes - npy.data_offset));
    st_segment segment = {.offset = npy.data_offset, .name = "array", .name_nbytes = 5};
    st_segments_init(&segments, reading);
    if (is_told)
        status = st_npy_add(&segments, &npy, &segment, diag);
    if (status == LMC_OK)
        status = st_segments_finish(&segments, LMC_ST_CONTAINER_NPY, contents, diag);
    st_segments_free(&segments);
    return status;
}

const st_container_reader st_npy_reader = {LMC_ST_CONTAINER_NPY, is_like_npy, read_npy};
