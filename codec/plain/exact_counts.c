/* exact_counts.c - reads the tensor row by row, chooses each row's value as an encoder of blocks does, and counts. */
#include "codec/plain/exact_counts.h"

/* Values that are counted together. */
#define PIECE_VALUES 256

/* Everything that is needed for the counts. */
typedef struct counter {
    const lmc_exact_request *request;
    lmc_row_coder coder;
    uint32_t part[2][256]; /* two, so that equal neighbours do not wait for each other */
} counter;

/* Adds `once` to the counts of the symbols of n high parts, to which offsets of row and column were added. */
static void count_symbols(counter *c, const uint16_t *high, size_t n, uint32_t once)
{
    const lmc_split *const split = c->request->split;
    const unsigned high_nbits = c->request->content->element_nbytes == 1 ? 8 : LMC_FMT_HIGH_NBITS;
    const uint16_t high_mask = (uint16_t)((1u << high_nbits) - 1);
    const uint16_t symbol_mask = (uint16_t)((1u << (high_nbits - split->low_nbits)) - 1);
    uint8_t symbols[PIECE_VALUES];
    for (size_t first = 0; first < n; first += PIECE_VALUES) {
        const size_t m = lmc_min_size(PIECE_VALUES, n - first);
        for (size_t i = 0; i < m; i++) {
            const uint16_t t = (uint16_t)(high[first + i] + split->offset) & high_mask;
            const uint16_t wide = (uint16_t)((t >> split->low_nbits) - split->window_start) & symbol_mask;
            symbols[i] = (uint8_t)(wide < LMC_FMT_SYMBOL_ESCAPE ? wide : LMC_FMT_SYMBOL_ESCAPE);
        }
        for (size_t i = 0; i < m; i++)
            c->part[i % 2][symbols[i]] += once;
    }
}

/* Counts n elements of a row in work->row, of which the first is in this column. */
static void count_row(counter *c, size_t column, size_t n, int32_t value, uint32_t once)
{
    const lmc_row_coder *const coder = &c->coder;
    const lmc_offsets *const offsets = coder->offsets;
    const unsigned element_nbytes = coder->element_nbytes;
    lmc_offsets_work *const work = c->request->work;
    const uint16_t row = (uint16_t)((uint32_t)value << offsets->step_log2);
    for (size_t i = 0; i < n; i += LMC_ROW_PIECE_VALUES) {
        const size_t m = lmc_min_size(LMC_ROW_PIECE_VALUES, n - i);
        coder->kernels->high_parts[lmc_element_log2(element_nbytes)](
            coder->rotation, work->row + i * element_nbytes, m, work->high);
        coder->kernels->add_shifts(work->high, offsets->columns ? offsets->columns + column + i : NULL, row,
                                   m, work->shifted);
        count_symbols(c, work->shifted, m, once);
    }
}

/* Reads n elements of a row to work->row. */
static lmc_status read_row(const counter *c, uint64_t first, size_t n)
{
    const lmc_content *const content = c->request->content;
    const unsigned element_nbytes = content->element_nbytes;
    return content->read(content->user, first * element_nbytes, c->request->work->row, n * element_nbytes);
}

/* Counts a block of n elements. Its rows are counted with the values that suit them; those that must be brought into the
 * block's range are counted again. */
static lmc_status count_block(counter *c, uint64_t first, uint64_t n)
{
    const uint32_t column_count = c->coder.offsets->column_count;
    const int has_rows = c->coder.offsets->has_rows;
    const uint64_t first_column = first % column_count;
    lmc_row_values values;
    values.steps = c->request->work->block_rows;
    values.count = 0;
    size_t m;
    for (uint64_t i = 0, column = first_column; i < n; i += m, column = 0) {
        m = (size_t)lmc_min_u64(column_count - column, n - i);
        LMC_TRY(read_row(c, first + i, m));
        const int32_t value =
            has_rows ? lmc_row_values_find(&c->coder, c->request->work->row, (size_t)column, m, &values) : 0;
        count_row(c, (size_t)column, m, value, 1);
    }
    if (!has_rows)
        return LMC_OK;
    const lmc_offset_range range = lmc_row_values_range(&c->coder, &values);
    for (uint64_t i = 0, row = 0, column = first_column; i < n; i += m, row++, column = 0) {
        m = (size_t)lmc_min_u64(column_count - column, n - i);
        const int32_t value = values.steps[row], moved = lmc_offset_clamp(&range, value);
        if (moved == value)
            continue;
        LMC_TRY(read_row(c, first + i, m));
        count_row(c, (size_t)column, m, value, UINT32_MAX);
        count_row(c, (size_t)column, m, moved, 1);
    }
    return LMC_OK;
}

lmc_status lmc_exact_counts(const lmc_exact_request *request, uint32_t counts[256])
{
    const uint64_t value_count = lmc_min_u64(request->content->value_count, UINT32_MAX);
    counter c = {
        request,
        {lmc_kernels_get(), request->offsets, request->content->element_nbytes, request->split->rotation},
        {{0}}};
    for (uint64_t i = 0; i < value_count; i += request->block_values)
        LMC_TRY(count_block(&c, i, lmc_min_u64(request->block_values, value_count - i)));
    for (unsigned s = 0; s < 256; s++)
        counts[s] = c.part[0][s] + c.part[1][s];
    return LMC_OK;
}
