/*
 * offsets.h - row and column offsets of a matrix (format.md "Rows and columns"): what they add to high parts, the
 * values of a block's rows, and the packed values of columns. offsets_plan.h decides them.
 */
#ifndef LMC_CODEC_PLAIN_OFFSETS_H
#define LMC_CODEC_PLAIN_OFFSETS_H

#include "codec/common/diag.h"
#include "codec/plain/offset_costs.h"
#include "codec/prefix/scratch.h"

/* The rows of a matrix are one behind the other. */
typedef struct lmc_offsets {
    uint32_t column_count;   /* elements of a row; 0: the frame has no offsets */
    uint8_t step_log2;       /* values are multiples of 2^step_log2 of the high part */
    uint8_t column_nbits;    /* bits of a column's value; 0: columns have no values */
    const uint8_t *packed;   /* the columns' values as they were read from a plan section */
    const uint16_t *columns; /* offsets: values times 2^step_log2; NULL: all are 0 */
    /* Encoder only. A row gets the value that brings its mean magnitude, columns' offsets included, to the level; if
     * there are costs, a cheaper one nearby. */
    int has_rows;
    lmc_clip clip;
    uint16_t level;
    const lmc_offset_costs *costs; /* NULL: none */
} lmc_offsets;

/* ---- the plan section's part ---- */

/* Appends the fields of the plan section. Precondition: there is room for them, and for 8 bytes more. */
void lmc_offsets_write(const lmc_offsets *offsets, lmc_writer *writer);

/* Reads them for high parts of high_nbits; `columns` stays NULL. Error: CORRUPT. */
LMC_NODISCARD lmc_status lmc_offsets_read(lmc_reader *reader, unsigned high_nbits, int has_sign_at_bottom,
                                          lmc_offsets *offsets, lmc_diag *diag);

/* Fills in the column_count columns' offsets from their packed values. */
void lmc_offsets_unpack(const lmc_offsets *offsets, uint16_t *columns);

/* ---- blocks ---- */

/* The offsets of a block. */
typedef struct lmc_block_offsets {
    const lmc_offsets *offsets;
    uint64_t first;       /* place of the block's first element in its row */
    const uint16_t *rows; /* offsets of the block's rows; NULL: the block has no offsets */
    uint16_t *shifts;     /* of a strip: scratch */
} lmc_block_offsets;

/* Elements of a strip for one call of split or join, and what is added to their high parts. */
typedef struct lmc_offset_part {
    size_t n;
    uint16_t row;          /* to all of them ... */
    const uint16_t *shift; /* ... and to each, as in lmc_plane_set */
} lmc_offset_part;

/* lmc_offsets_part() of a block that has offsets. */
lmc_offset_part lmc_offsets_row_part(const lmc_kernels *kernels, const lmc_block_offsets *block, size_t first,
                                     size_t n);

/* The part that begins with element `first` of the block, of n elements that are left of its strip. It ends where the
 * row does, or has all n elements. In the first case it has a multiple of 64 of them, unless they are the last n. */
LMC_INLINE lmc_offset_part lmc_offsets_part(const lmc_kernels *kernels, const lmc_block_offsets *block,
                                            size_t first, size_t n)
{
    return block->rows ? lmc_offsets_row_part(kernels, block, first, n) : (lmc_offset_part){n, 0, NULL};
}

/* Rows that n >= 1 elements from place `first` of a row on belong to. */
LMC_INLINE size_t lmc_offsets_row_count(const lmc_offsets *offsets, uint64_t first, size_t n)
{
    return (size_t)((first % offsets->column_count + n - 1) / offsets->column_count) + 1;
}

/* Reads the values of a block's rows, for n >= 1 elements of which the first is element `first` of the frame.
 * Error: CORRUPT. */
LMC_NODISCARD lmc_status lmc_rows_read(const lmc_offsets *offsets, uint64_t first, size_t n,
                                       lmc_scratch *scratch, lmc_reader *reader, lmc_block_offsets *block,
                                       lmc_diag *diag);

/* What choosing the values of rows takes. */
typedef struct lmc_row_coder {
    const lmc_kernels *kernels;
    const lmc_offsets *offsets;
    unsigned element_nbytes;
    unsigned rotation; /* as in lmc_split */
} lmc_row_coder;

/* Chooses values for the rows of a block of n >= 1 elements at src, of which the first is element `first` of the frame,
 * and appends them. Returns 0 if there is no room. */
int lmc_rows_write(const lmc_row_coder *coder, uint64_t first, const uint8_t *src, size_t n,
                   lmc_scratch *scratch, lmc_writer *writer, lmc_block_offsets *block);

/* The value of a row whose clipped magnitudes have this mean. */
int32_t lmc_offsets_row_value(const lmc_offsets *offsets, double mean);

#endif
