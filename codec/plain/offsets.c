/* offsets.c - packs and unpacks the values of rows and columns, finds those of a block's rows, and cuts strips where
 * rows begin. */
#include "codec/plain/offsets.h"

/* ---- packed values ---- */

/* Value i of a packed plane of nbits <= 8 bits each. */
static unsigned packed_value(const uint8_t *packed, size_t i, unsigned nbits)
{
    const size_t bit = i * nbits;
    unsigned two_bytes = packed[bit / 8];
    if (bit % 8 + nbits > 8)
        two_bytes |= (unsigned)packed[bit / 8 + 1] << 8;
    return two_bytes >> bit % 8 & ((1u << nbits) - 1);
}

void lmc_offsets_unpack(const lmc_offsets *offsets, uint16_t *columns)
{
    for (size_t i = 0; i < offsets->column_count; i++)
        columns[i] =
            (uint16_t)(packed_value(offsets->packed, i, offsets->column_nbits) << offsets->step_log2);
}

void lmc_offsets_write(const lmc_offsets *offsets, lmc_writer *writer)
{
    lmc_write_n(writer, offsets->column_count, 4);
    lmc_write_n(writer, offsets->step_log2, 1);
    lmc_write_n(writer, offsets->column_nbits, 1);
    if (offsets->column_nbits == 0)
        return;
    lmc_bit_writer bits = {writer->next, 0, 0};
    for (size_t i = 0; i < offsets->column_count; i++)
        lmc_put_bits(&bits, offsets->columns[i] >> offsets->step_log2, offsets->column_nbits);
    lmc_store64(bits.next, bits.pending);
    writer->next += lmc_bits_nbytes((size_t)offsets->column_count * offsets->column_nbits);
}

lmc_status lmc_offsets_read(lmc_reader *reader, unsigned high_nbits, int has_sign_at_bottom,
                            lmc_offsets *offsets, lmc_diag *diag)
{
    offsets->column_count = (uint32_t)lmc_read_n(reader, 4);
    offsets->step_log2 = (uint8_t)lmc_read_n(reader, 1);
    offsets->column_nbits = (uint8_t)lmc_read_n(reader, 1);
    if (reader->failed)
        return lmc_corrupt(diag, 0, "plan: the offsets are cut short");
    if (offsets->column_count < LMC_FMT_COLUMN_COUNT_MIN)
        return lmc_corrupt(diag, 0, "plan: offsets of rows of %u elements", offsets->column_count);
    if (offsets->step_log2 >= high_nbits || offsets->step_log2 < has_sign_at_bottom)
        return lmc_corrupt(diag, 4, "plan: offsets in steps of 2^%u", offsets->step_log2);
    if (offsets->column_nbits > LMC_FMT_OFFSET_NBITS_MAX)
        return lmc_corrupt(diag, 5, "plan: offsets of %u bits", offsets->column_nbits);
    if (offsets->column_nbits == 0)
        return LMC_OK;
    const uint64_t nbits = (uint64_t)offsets->column_count * offsets->column_nbits;
    if (lmc_div_ceil(nbits, 8) > lmc_reader_left(reader))
        return lmc_corrupt(diag, 6, "plan: the columns' offsets are cut short");
    offsets->packed = lmc_read_bits(reader, (size_t)nbits);
    if (!offsets->packed)
        return lmc_corrupt(diag, 6, "plan: the columns' offsets have spare bits set");
    return LMC_OK;
}

/* ---- strips ---- */

/* Rows of fewer elements than this are not worth a kernel call each. */
#define PART_VALUES_MIN 256

lmc_offset_part lmc_offsets_row_part(const lmc_kernels *kernels, const lmc_block_offsets *block, size_t first,
                                     size_t n)
{
    const lmc_offsets *const offsets = block->offsets;
    const uint64_t place = block->first + first;
    const size_t row = (size_t)(place / offsets->column_count);
    const size_t column = (size_t)(place % offsets->column_count);
    if (offsets->column_count % 64 != 0 || offsets->column_count < PART_VALUES_MIN) {
        for (size_t i = 0, r = row, from = column; i < n; r++, from = 0) {
            const size_t m = lmc_min_size(offsets->column_count - from, n - i);
            kernels->add_shifts(offsets->columns ? offsets->columns + from : NULL, NULL, block->rows[r], m,
                                block->shifts + i);
            i += m;
        }
        return (lmc_offset_part){n, 0, block->shifts};
    }
    return (lmc_offset_part){lmc_min_size(n, offsets->column_count - column), block->rows[row],
                             offsets->columns ? offsets->columns + column : NULL};
}

/* ---- the rows of a block ---- */

lmc_status lmc_rows_read(const lmc_offsets *offsets, uint64_t first, size_t n, lmc_scratch *scratch,
                         lmc_reader *reader, lmc_block_offsets *block, lmc_diag *diag)
{
    const unsigned nbits = (unsigned)lmc_read_n(reader, 1);
    *block = (lmc_block_offsets){offsets, first % offsets->column_count, NULL, scratch->shifts};
    if (!reader->failed && nbits == LMC_FMT_ROWS_NONE)
        return LMC_OK;
    if (nbits > LMC_FMT_OFFSET_NBITS_MAX)
        return lmc_corrupt(diag, 0, "block: offsets of %u bits", nbits);
    const unsigned base = (unsigned)lmc_read_n(reader, 2);
    const size_t row_count = lmc_offsets_row_count(offsets, first, n);
    const uint8_t *const packed = lmc_read_bits(reader, row_count * nbits);
    if (!packed)
        return lmc_corrupt(diag, 0, "block: its rows' offsets are cut short, or have spare bits set");
    for (size_t i = 0; i < row_count; i++) {
        const unsigned value = nbits > 0 ? packed_value(packed, i, nbits) : 0;
        scratch->rows[i] = (uint16_t)((base + value) << offsets->step_log2);
    }
    block->rows = scratch->rows;
    return LMC_OK;
}

/* Of longer rows the encoder looks at this many elements, in pieces from all over the row. */
#define ROW_VALUES_MAX 512
#define PIECE_COUNT 2
#define PIECE_VALUES (ROW_VALUES_MAX / PIECE_COUNT)

int32_t lmc_offsets_row_value(const lmc_offsets *offsets, double mean)
{
    const double steps = (offsets->level - mean) / (1 << offsets->step_log2);
    return (int32_t)(steps >= 0 ? steps + 0.5 : steps - 0.5);
}

/* Chooses the rows' values, by means over pieces of the rows. Returns the least one; *most is the greatest. Rows too
 * far apart are brought together. */
static int32_t choose_rows(const lmc_row_coder *coder, uint64_t first, const uint8_t *src, size_t n,
                           int32_t *values, int32_t *most)
{
    const lmc_offsets *const offsets = coder->offsets;
    const int32_t range = (1 << LMC_FMT_OFFSET_NBITS_MAX) - 1;
    const unsigned element_log2 = lmc_element_log2(coder->element_nbytes);
    size_t column = (size_t)(first % offsets->column_count);
    int32_t least = INT32_MAX;
    *most = INT32_MIN;
    for (size_t i = 0, row = 0; i < n; row++, column = 0) {
        const size_t m = lmc_min_size(offsets->column_count - column, n - i);
        const size_t piece_count = m > ROW_VALUES_MAX ? PIECE_COUNT : 1;
        const size_t piece = m > ROW_VALUES_MAX ? PIECE_VALUES : m;
        uint64_t sum = 0;
        for (size_t k = 0; k < piece_count; k++) {
            const size_t at = m / piece_count * k;
            sum += coder->kernels->sum_elements[element_log2](
                &offsets->clip, coder->rotation, src + (i + at) * coder->element_nbytes,
                offsets->columns ? offsets->columns + column + at : NULL, piece);
        }
        values[row] = lmc_offsets_row_value(offsets, (double)sum / (double)(piece * piece_count));
        least = values[row] < least ? values[row] : least;
        *most = values[row] > *most ? values[row] : *most;
        i += m;
    }
    return *most - least > range ? *most - range : least;
}

/* Moves the rows' values to where the rows are cheapest. Returns the least. */
static int32_t refine_rows(const lmc_row_coder *coder, uint64_t first, const uint8_t *src, size_t n,
                           int32_t least, lmc_scratch *scratch, int32_t *most)
{
    const lmc_offsets *const offsets = coder->offsets;
    const lmc_offset_range all = {least, *most};
    const unsigned element_log2 = lmc_element_log2(coder->element_nbytes);
    size_t column = (size_t)(first % offsets->column_count);
    lmc_offset_ranges ranges;
    lmc_offset_ranges_begin(&ranges, least + (*most - least) / 2);
    for (size_t i = 0, row = 0; i < n; row++, column = 0) {
        const size_t m = lmc_min_size(offsets->column_count - column, n - i);
        int32_t *const value = &scratch->row_values[row];
        *value = lmc_offset_clamp(&all, *value);
        const size_t piece_count = m > LMC_COST_VALUES_MAX ? LMC_COST_PIECES : 1;
        const size_t piece = m > LMC_COST_VALUES_MAX ? LMC_COST_VALUES_MAX / LMC_COST_PIECES : m;
        uint16_t counts[LMC_COST_BINS] = {0};
        for (size_t k = 0; k < piece_count; k++) {
            const size_t at = m / piece_count * k;
            const uint16_t *const columns = offsets->columns ? offsets->columns + column + at : NULL;
            coder->kernels->high_parts[element_log2](coder->rotation, src + (i + at) * coder->element_nbytes,
                                                     piece, scratch->strip_high);
            lmc_offset_costs_count(offsets->costs, scratch->strip_high, columns,
                                   (uint16_t)((uint32_t)*value << offsets->step_log2), piece, counts);
        }
        const lmc_offset_move move = lmc_offset_costs_move(offsets->costs, counts);
        *value += move.steps;
        lmc_offset_ranges_add(&ranges, *value, &move);
        i += m;
    }
    const lmc_offset_range range = lmc_offset_ranges_choose(&ranges);
    const size_t row_count = lmc_offsets_row_count(offsets, first, n);
    least = range.most;
    *most = range.least;
    for (size_t i = 0; i < row_count; i++) {
        const int32_t value = lmc_offset_clamp(&range, scratch->row_values[i]);
        scratch->row_values[i] = value;
        least = value < least ? value : least;
        *most = value > *most ? value : *most;
    }
    return least;
}

int lmc_rows_write(const lmc_row_coder *coder, uint64_t first, const uint8_t *src, size_t n,
                   lmc_scratch *scratch, lmc_writer *writer, lmc_block_offsets *block)
{
    const lmc_offsets *const offsets = coder->offsets;
    const size_t row_count = lmc_offsets_row_count(offsets, first, n);
    int32_t least = 0, most = 0;
    if (offsets->has_rows)
        least = choose_rows(coder, first, src, n, scratch->row_values, &most);
    else
        memset(scratch->row_values, 0, row_count * sizeof *scratch->row_values);
    if (offsets->has_rows && offsets->costs)
        least = refine_rows(coder, first, src, n, least, scratch, &most);
    const unsigned nbits = most > least ? lmc_highest_bit((uint64_t)(most - least)) + 1 : 0;
    const size_t packed_nbytes = lmc_bits_nbytes(row_count * nbits);
    if (lmc_writer_left(writer) < 3 + packed_nbytes + sizeof(uint64_t))
        return 0;
    lmc_write_n(writer, nbits, 1);
    lmc_write_n(writer, (uint16_t)least, 2);
    lmc_bit_writer bits = {writer->next, 0, 0};
    for (size_t i = 0; i < row_count; i++) {
        const int32_t value = scratch->row_values[i] > least ? scratch->row_values[i] - least : 0;
        lmc_put_bits(&bits, (uint64_t)value, nbits);
        scratch->rows[i] = (uint16_t)((uint32_t)(least + value) << offsets->step_log2);
    }
    lmc_store64(bits.next, bits.pending);
    writer->next += packed_nbytes;
    *block = (lmc_block_offsets){offsets, first % offsets->column_count, scratch->rows, scratch->shifts};
    return 1;
}
