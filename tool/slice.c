/*
 * slice.c - byte ranges and slices of the command line, as runs of bytes of a tensor.
 */
#include "tool/slice.h"

#include "common/number.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What is picked of one dimension: [begin, end). */
typedef struct picked {
    uint64_t begin, end;
} picked;

typedef struct parser {
    const char *at;
    char *fault;
} parser;

static int fail_slice(parser *parser, const char *format, ...) LMC_PRINTF(2, 3);

static int fail_slice(parser *parser, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(parser->fault, CLI_SLICE_FAULT_NBYTES, format, arguments);
    va_end(arguments);
    return 0;
}

/* ---- text ---- */

static void skip_spaces(parser *parser)
{
    while (*parser->at == ' ')
        parser->at++;
}

/* Skips spaces and takes `character` if it comes next. */
static int try_take(parser *parser, char character)
{
    skip_spaces(parser);
    if (*parser->at != character)
        return 0;
    parser->at++;
    return 1;
}

static int is_digit(const parser *parser)
{
    return *parser->at >= '0' && *parser->at <= '9';
}

/* Reads digits; numbers that do not fit become the largest one, which exceeds every size. */
static int read_number(parser *parser, uint64_t *number)
{
    return lmc_read_number(&parser->at, NULL, number) ||
           fail_slice(parser, "a number is expected at '%.16s'", parser->at);
}

/* ---- one dimension ---- */

/* After the colon. */
static int read_stop(parser *parser, uint64_t size, const char *what, picked *picked)
{
    picked->end = size;
    skip_spaces(parser);
    if (is_digit(parser) && !read_number(parser, &picked->end))
        return 0;
    if (*parser->at == '-')
        return fail_slice(parser, "a range cannot start or end at a negative number");
    if (picked->end > size || picked->begin > size) {
        return fail_slice(parser, "%llu is beyond %s, which has size %llu",
                          (unsigned long long)(picked->end > size ? picked->end : picked->begin), what,
                          (unsigned long long)size);
    }
    if (picked->begin > picked->end) {
        return fail_slice(parser, "the range starts at %llu, after its end at %llu",
                          (unsigned long long)picked->begin, (unsigned long long)picked->end);
    }
    skip_spaces(parser);
    return *parser->at != ':' || fail_slice(parser, "a range has no step");
}

/* An index, or a range. */
static int read_dim(parser *parser, size_t dim, uint64_t size, picked *picked)
{
    char what[40];
    uint64_t number = 0;
    const int is_negative = try_take(parser, '-');
    const int has_number = is_negative || is_digit(parser);
    snprintf(what, sizeof what, "dimension %zu", dim);
    if (has_number && !read_number(parser, &number))
        return 0;
    picked->begin = number;
    if (try_take(parser, ':')) {
        return is_negative ? fail_slice(parser, "a range cannot start or end at a negative number")
                           : read_stop(parser, size, what, picked);
    }
    if (!has_number)
        return fail_slice(parser, "an index or a range is expected for %s", what);
    const int is_inside = is_negative ? number >= 1 && number <= size : number < size;
    if (!is_inside) {
        return fail_slice(parser, "index %s%llu is outside %s, which has size %llu", is_negative ? "-" : "",
                          (unsigned long long)number, what, (unsigned long long)size);
    }
    picked->begin = is_negative ? size - number : number;
    picked->end = picked->begin + 1;
    return 1;
}

/* ---- all of them ---- */

/* Places the runs, from the innermost dimension outwards; all is counted in bits. A run goes through all dimensions
 * that are picked whole, and through the next one. Returns 0 if nothing is picked. In other cases no product overflows:
 * the content has as many bits. */
static int place_runs(const lmc_st_tensor *tensor, const picked *picks, cli_slice *slice, uint64_t *run_nbits,
                      uint64_t *first_bit)
{
    uint64_t stride_nbits = lmc_dtype_nbits(tensor->dtype);
    int is_in_run = 1;
    *run_nbits = stride_nbits;
    *first_bit = 0;
    slice->run_count = 1;
    for (size_t dim = tensor->rank; dim > 0;) {
        const uint64_t size = tensor->shape[--dim];
        const uint64_t count = picks[dim].end - picks[dim].begin;
        if (count == 0)
            return 0;
        *first_bit += stride_nbits * picks[dim].begin;
        if (is_in_run) {
            *run_nbits = stride_nbits * count;
            slice->outer_count = dim;
            is_in_run = count == size;
        } else {
            slice->outer[dim] = (struct cli_slice_dim){.count = count, .stride_nbits = stride_nbits};
            slice->run_count *= count;
        }
        stride_nbits *= size;
    }
    return 1;
}

size_t cli_slice_name_length(const char *operand)
{
    const size_t length = strlen(operand);
    const char *const bracket = strrchr(operand, '[');
    return !bracket || operand[length - 1] != ']' ? SIZE_MAX : (size_t)(bracket - operand);
}

int cli_slice_parse(const char *text, const lmc_st_tensor *tensor, cli_slice *slice,
                    char fault[CLI_SLICE_FAULT_NBYTES])
{
    picked picks[LMC_ST_RANK_MAX];
    size_t rank = 0; /* dimensions that are picked */
    parser parser = {text, fault};
    uint64_t run_nbits = 0;
    uint64_t first_bit = 0;
    memset(slice, 0, sizeof *slice);
    if (!try_take(&parser, '['))
        return fail_slice(&parser, "a slice begins with '['");
    do {
        if (rank == tensor->rank)
            return fail_slice(&parser, "there are more indices than dimensions: the rank is %zu", rank);
        if (!read_dim(&parser, rank, tensor->shape[rank], &picks[rank]))
            return 0;
        rank++;
    } while (try_take(&parser, ','));
    if (!try_take(&parser, ']') || *parser.at != '\0')
        return fail_slice(&parser, "',' or ']' is expected at '%.16s'", parser.at);
    for (; rank < tensor->rank; rank++)
        picks[rank] = (picked){0, tensor->shape[rank]};
    if (!place_runs(tensor, picks, slice, &run_nbits, &first_bit)) {
        memset(slice, 0, sizeof *slice);
        return 1;
    }
    /* every run begins at a byte if the first one does, and all steps between indices that are taken are whole bytes */
    uint64_t all = run_nbits | first_bit;
    for (size_t dim = 0; dim < slice->outer_count; dim++)
        all |= slice->outer[dim].count > 1 ? slice->outer[dim].stride_nbits : 0;
    if (all % 8 != 0) {
        return fail_slice(
            &parser,
            "elements of %s are narrower than a byte, and this slice does not start and end at whole bytes",
            tensor->dtype_name);
    }
    slice->run_nbytes = run_nbits / 8;
    slice->first_byte = first_bit / 8;
    slice->nbytes = slice->run_count * slice->run_nbytes;
    return 1;
}

uint64_t cli_slice_next(cli_slice *slice)
{
    uint64_t nbits = 0;
    uint64_t number = slice->next_run++;
    for (size_t dim = slice->outer_count; dim > 0; dim--) {
        const struct cli_slice_dim *const outer = &slice->outer[dim - 1];
        nbits += number % outer->count * outer->stride_nbits;
        number /= outer->count;
    }
    return slice->first_byte + nbits / 8;
}

int cli_slice_range(const char *text, uint64_t nbytes, uint64_t *first_byte, uint64_t *range_nbytes,
                    char fault[CLI_SLICE_FAULT_NBYTES])
{
    parser parser = {text, fault};
    picked picked = {0, 0};
    if (*text == '-')
        return fail_slice(&parser, "a range cannot start or end at a negative number");
    if (is_digit(&parser) && !read_number(&parser, &picked.begin))
        return 0;
    if (!try_take(&parser, ':'))
        return fail_slice(&parser, "a range has the form A:B");
    if (!read_stop(&parser, nbytes, "the tensor", &picked))
        return 0;
    if (*parser.at != '\0')
        return fail_slice(&parser, "a range has the form A:B");
    *first_byte = picked.begin;
    *range_nbytes = picked.end - picked.begin;
    return 1;
}
