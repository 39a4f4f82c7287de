/*
 * plan_section.h - how the blocks of one frame are coded: the split, and a table for each coded plane. The plan section
 * of the frame has it (format.md "Plan"), and is read and written here. plain_plan.h decides it.
 */
#ifndef LMC_CODEC_PLAIN_PLAN_SECTION_H
#define LMC_CODEC_PLAIN_PLAN_SECTION_H

#include "codec/plain/offsets.h"
#include "codec/prefix/code_table.h"
#include "codec/rans/rans_table.h"

/* Planes of an element, most significant first: symbols, the low plane if low_nbits > 0, lower bytes. */
#define LMC_PLANE_SYMBOLS 0
#define LMC_PLANE_LOW 1

typedef struct lmc_coding {
    unsigned element_nbytes; /* 1, 2, 4, 8 */
    lmc_split split;
    unsigned plane_count;
    uint8_t has_mask; /* masked blocks leave out the elements equal to mask_value */
    uint64_t mask_value;
    lmc_offsets offsets;
    const lmc_table *table[LMC_FMT_PLANE_COUNT_MAX]; /* NULL: the plane is stored or constant */
    const lmc_rans *rans;                            /* of the symbols, instead of a table, or NULL */
    /* Encoder only: 1 if the mode of the plane is chosen in every block. If all are 0 and the symbols have a table, the
     * planes are written straight to their places in the block. */
    uint8_t flexible[LMC_FMT_PLANE_COUNT_MAX];
    uint8_t is_low_mixed; /* encoder only: the lower planes are flexible in blocks that end in zeros alone */
} lmc_coding;

/* Index of the first plane of lower bytes. */
LMC_INLINE unsigned lmc_coding_lower_first(const lmc_coding *coding)
{
    return LMC_PLANE_LOW + (coding->split.low_nbits > 0);
}

/* Bits of a value in a plane. */
LMC_INLINE unsigned lmc_coding_plane_nbits(const lmc_coding *coding, unsigned plane)
{
    return plane == LMC_PLANE_LOW && coding->split.low_nbits > 0 ? coding->split.low_nbits : 8;
}

/* Planes of an element of element_nbytes cut by this split. */
unsigned lmc_coding_plane_count(unsigned element_nbytes, const lmc_split *split);

/* Bytes that the plan section may take, if a row of the content has so many elements (0: if it is no matrix). */
LMC_INLINE size_t lmc_section_nbytes_max(uint32_t column_count)
{
    _Static_assert(LMC_COLUMN_COUNT_MAX <= LMC_FMT_OFFSETS_PLAN_NBYTES_MAX - LMC_FMT_PLAN_NBYTES_MAX,
                   "offsets of columns of 8 bits each fit the plan");
    return LMC_FMT_PLAN_NBYTES_MAX + (column_count <= LMC_COLUMN_COUNT_MAX ? column_count : 0);
}

/* Writes the plan section: shapes[i] is the shape that table[i] was built from. Returns its bytes, at most
 * lmc_section_nbytes_max(), which `dst` must hold with 8 bytes more. */
size_t lmc_coding_write(const lmc_coding *coding, const lmc_code_shape *const *shapes, uint8_t *dst);

/* Reads a plan section of exactly nbytes for elements of element_nbytes. tables: LMC_FMT_PLANE_COUNT_MAX; rans: one,
 * or NULL if the section must have none; coding points to those that the section has. The columns' offsets are still
 * packed, in the section. Errors: CORRUPT, UNSUPPORTED; offsets count from the section's start. */
LMC_NODISCARD lmc_status lmc_coding_read(const uint8_t *section, size_t nbytes, unsigned element_nbytes,
                                         lmc_table *tables, lmc_rans *rans, lmc_coding *coding,
                                         lmc_diag *diag);

#endif
