/* exact_counts.c - reads the tensor block by block, chooses the values of rows as the encoder will, and counts. */
#include "codec/plain/exact_counts.h"

#include "codec/plain/plane.h"

/* A block is read to the memory of a sample. */
_Static_assert((sizeof(uint64_t) << LMC_RANS_BLOCK_LOG2) <= sizeof(((lmc_offsets_work *)0)->high),
               "a block of the widest elements fits");

/* Counts the symbols of n <= LMC_STRIP_VALUES high parts, to which offsets of row and column were added. */
static void count_symbols(const lmc_exact_request *request, const uint16_t *high, size_t n,
                          uint32_t parts[4][256])
{
    const lmc_split *const split = request->split;
    const unsigned high_nbits = lmc_high_nbits(request->content->element_nbytes);
    const uint16_t high_mask = (uint16_t)((1u << high_nbits) - 1);
    const uint16_t symbol_mask = (uint16_t)((1u << (high_nbits - split->low_nbits)) - 1);
    uint8_t symbols[LMC_STRIP_VALUES];
    for (size_t i = 0; i < n; i++) {
        const uint16_t t = (uint16_t)(high[i] + split->offset) & high_mask;
        const uint16_t wide = (uint16_t)((t >> split->low_nbits) - split->window_start) & symbol_mask;
        symbols[i] = (uint8_t)(wide < LMC_FMT_SYMBOL_ESCAPE ? wide : LMC_FMT_SYMBOL_ESCAPE);
    }
    lmc_plane_count_more(symbols, n, parts);
}

/* Counts a block of n elements, of which the first is element `first` of the tensor. */
static lmc_status count_block(const lmc_exact_request *request, uint64_t first, size_t n,
                              uint32_t parts[4][256])
{
    const lmc_content *const content = request->content;
    const lmc_offsets *const offsets = request->offsets;
    lmc_offsets_work *const work = request->work;
    const unsigned element_nbytes = content->element_nbytes;
    const lmc_row_coder coder = {lmc_kernels_get(), offsets, element_nbytes, request->split->rotation};
    uint8_t *const block = (uint8_t *)work->high;
    lmc_scratch scratch = {
        .row_values = work->block_row_values, .rows = work->block_rows, .strip_high = work->shifted};
    lmc_writer writer = {work->piece,
                         work->piece + sizeof work->piece}; /* for the packed rows, which nobody needs */
    lmc_block_offsets rows;
    LMC_TRY(content->read(content->user, first * element_nbytes, block, n * element_nbytes));
    if (!lmc_rows_write(&coder, first, block, n, &scratch, &writer, &rows))
        return LMC_OK;
    size_t column = (size_t)rows.first, row = 0;
    for (size_t i = 0; i < n;) {
        const size_t row_left = lmc_min_size(offsets->column_count - column, n - i);
        const size_t m = lmc_min_size(row_left, LMC_STRIP_VALUES);
        coder.kernels->high_parts[lmc_element_log2(element_nbytes)](
            coder.rotation, block + i * element_nbytes, m, work->shifted);
        coder.kernels->add_shifts(work->shifted, offsets->columns ? offsets->columns + column : NULL,
                                  rows.rows[row], m, work->shifted);
        count_symbols(request, work->shifted, m, parts);
        i += m;
        column += m;
        if (column == offsets->column_count) {
            column = 0;
            row++;
        }
    }
    return LMC_OK;
}

lmc_status lmc_exact_counts(const lmc_exact_request *request, uint32_t counts[256])
{
    const uint64_t value_count = lmc_min_u64(request->content->value_count, UINT32_MAX);
    const uint64_t block_values = lmc_min_u64(request->block_values, UINT64_C(1) << LMC_RANS_BLOCK_LOG2);
    uint32_t parts[4][256] = {{0}};
    for (uint64_t i = 0; i < value_count; i += block_values)
        LMC_TRY(count_block(request, i, (size_t)lmc_min_u64(block_values, value_count - i), parts));
    lmc_plane_sum_counts(parts, counts);
    return LMC_OK;
}
