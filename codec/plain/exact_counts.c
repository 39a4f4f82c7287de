/* exact_counts.c - reads the tensor row by row, chooses each row's value as an encoder of blocks does, and counts. */
#include "codec/plain/exact_counts.h"

/* Counts the symbols of n high parts, to which offsets of row and column were added. */
static void count_symbols(const lmc_exact_request *request, const uint16_t *high, size_t n,
                          uint32_t part[4][256])
{
    const lmc_split *const split = request->split;
    const unsigned high_nbits = request->content->element_nbytes == 1 ? 8 : LMC_FMT_HIGH_NBITS;
    const uint16_t high_mask = (uint16_t)((1u << high_nbits) - 1);
    const uint16_t symbol_mask = (uint16_t)((1u << (high_nbits - split->low_nbits)) - 1);
    for (size_t i = 0; i < n; i++) {
        const uint16_t t = (uint16_t)(high[i] + split->offset) & high_mask;
        const uint16_t wide = (uint16_t)((t >> split->low_nbits) - split->window_start) & symbol_mask;
        part[i % 4][wide < LMC_FMT_SYMBOL_ESCAPE ? wide : LMC_FMT_SYMBOL_ESCAPE]++;
    }
}

/* Counts n elements of one row, of which the first is element `first` of the tensor. A block has no more of the row. */
static lmc_status count_row(const lmc_exact_request *request, uint64_t first, size_t n, uint32_t part[4][256])
{
    const lmc_content *const content = request->content;
    const lmc_offsets *const offsets = request->offsets;
    const lmc_kernels *const kernels = lmc_kernels_get();
    const unsigned element_nbytes = content->element_nbytes;
    const lmc_row_coder coder = {kernels, offsets, element_nbytes, request->split->rotation};
    lmc_offsets_work *const work = request->work;
    const size_t column = (size_t)(first % offsets->column_count);
    LMC_TRY(content->read(content->user, first * element_nbytes, work->row, n * element_nbytes));
    lmc_offset_move move;
    const int32_t value = offsets->has_rows ? lmc_offsets_find_row(&coder, work->row, column, n, &move) : 0;
    const uint16_t row = (uint16_t)((uint32_t)value << offsets->step_log2);
    for (size_t i = 0; i < n; i += LMC_ROW_PIECE_VALUES) {
        const size_t m = lmc_min_size(LMC_ROW_PIECE_VALUES, n - i);
        kernels->high_parts[lmc_element_log2(element_nbytes)](request->split->rotation,
                                                              work->row + i * element_nbytes, m, work->high);
        kernels->add_shifts(work->high, offsets->columns ? offsets->columns + column + i : NULL, row, m,
                            work->shifted);
        count_symbols(request, work->shifted, m, part);
    }
    return LMC_OK;
}

lmc_status lmc_exact_counts(const lmc_exact_request *request, uint32_t counts[256])
{
    const uint64_t value_count = lmc_min_u64(request->content->value_count, UINT32_MAX);
    const uint32_t column_count = request->offsets->column_count;
    uint32_t part[4][256] = {{0}}; /* four, so that equal neighbours do not wait for each other */
    for (uint64_t i = 0; i < value_count;) {
        const uint64_t row_left = column_count - i % column_count;
        const uint64_t block_left = request->block_values - i % request->block_values;
        const uint64_t n = lmc_min_u64(lmc_min_u64(row_left, block_left), value_count - i);
        LMC_TRY(count_row(request, i, (size_t)n, part));
        i += n;
    }
    for (unsigned s = 0; s < 256; s++)
        counts[s] = part[0][s] + part[1][s] + part[2][s] + part[3][s];
    return LMC_OK;
}
