/*
 * npy_header.c - the parser of .npy headers: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. Keys come in
 * any order. Whatever numpy does not write is refused.
 */
#include "safetensors/container/npy_header.h"

#include "safetensors/common/common.h"

#include <string.h>

/* Of structured dtypes within each other. */
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
    const unsigned char *const begin = text->at;
    *number = 0;
    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++)
        if (st_multiply_overflows(*number, 10, number) || st_add_overflows(*number, *text->at - '0', number))
            return 0;
    return text->at > begin && *number <= INT64_MAX;
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
        if (!read_number(text, &dim) || st_multiply_overflows(*product, dim, product))
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

/* The unit behind the size of a time: [ns], [25s]. */
static int skip_unit(npy_text *string)
{
    if (string->at == string->end)
        return 1;
    if (*string->at != '[' || string->end[-1] != ']')
        return 0;
    string->at = string->end;
    return 1;
}

/* A dtype in one word: order, kind, size. */
static int read_simple_descr(npy_text string, npy_descr *descr)
{
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
    if ((kind == 'm' || kind == 'M') && !skip_unit(&string))
        return 0;
    if (string.at != string.end)
        return 0;
    descr->is_big_endian = order == '>';
    if (kind == 'U') /* code points */
        return !st_multiply_overflows(descr->element_nbytes, 4, &descr->element_nbytes);
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

static int read_descr(npy_text *text, npy_descr *descr, unsigned depth);

/* A field of a structured dtype, behind its parenthesis: name or (title, name), dtype, and perhaps a shape. */
static int read_field(npy_text *text, npy_descr *field, unsigned depth)
{
    npy_text name;
    uint64_t count = 1;
    if (accept(text, '(')) {
        if (!read_string(text, &name) || !accept(text, ',') || !read_string(text, &name) ||
            !accept(text, ')'))
            return 0;
    } else if (!read_string(text, &name))
        return 0;
    if (!accept(text, ',') || !read_descr(text, field, depth))
        return 0;
    if (accept(text, ',') && !read_shape(text, NULL, &count))
        return 0;
    return accept(text, ')') && !st_multiply_overflows(field->element_nbytes, count, &field->element_nbytes);
}

/* A structured dtype, behind its bracket. */
static int read_fields(npy_text *text, npy_descr *descr, unsigned depth)
{
    while (!accept(text, ']')) {
        npy_descr field = {.is_guess = 1};
        if (!accept(text, '(') || !read_field(text, &field, depth) ||
            st_add_overflows(descr->element_nbytes, field.element_nbytes, &descr->element_nbytes))
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
    return read_string(text, &string) && read_simple_descr(string, descr);
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
    return head[6] == 1 ? 10 + (head[8] | (uint64_t)head[9] << 8) : 12 + (uint64_t)st_load_u32(head + 8);
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
    if (descr.is_object || st_multiply_overflows(count, descr.element_nbytes, &npy->data_nbytes))
        return 0;
    npy->dtype = descr.dtype;
    npy->is_guess = descr.is_guess;
    npy->has_shape = !descr.is_big_endian && !(is_fortran && npy->rank > 1) &&
                     (!descr.is_guess || descr.element_nbytes == 1) &&
                     npy->rank + (descr.is_pair != 0) <= ST_NPY_RANK_MAX;
    if (!npy->has_shape)
        npy->rank = 0;
    else if (descr.is_pair)
        npy->shape[npy->rank++] = 2;
    return 1;
}
