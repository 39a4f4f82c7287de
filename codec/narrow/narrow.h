/*
 * narrow.h - wide elements that are made from narrow ones (format.md "Wide elements"): the fields of the plan, groups
 * of elements, and widening. narrow_plan.h decides the form; narrow_block.h codes blocks.
 */
#ifndef LMC_CODEC_NARROW_NARROW_H
#define LMC_CODEC_NARROW_NARROW_H

#include "codec/common/diag.h"
#include "codec/plain/plan_section.h"

#define LMC_FACTOR_COUNT 256

/* How the elements of a frame are made from narrow elements. */
typedef struct lmc_narrow {
    uint8_t is_used;        /* 0: the frame has no narrow elements, nothing else counts */
    uint8_t form;           /* LMC_FMT_NARROW_... */
    uint8_t wide_nbytes;    /* of an element of the frame */
    uint8_t element_nbytes; /* of a narrow element */
    uint8_t product_type;   /* of products: LMC_FMT_PRODUCT_... */
    uint8_t factor_kind;    /* LMC_FMT_FACTORS_... */
    uint16_t listed_count;  /* factors of kind LIST, 1..LMC_FACTOR_COUNT */
    uint32_t row_length;    /* elements of a row and of a group; 0: the form has no groups */
    uint32_t group_length;
    float factors[LMC_FACTOR_COUNT]; /* of products: by their number */
} lmc_narrow;

/* Bytes of the fields at most. */
#define LMC_NARROW_FIELDS_NBYTES_MAX (4 + 4 * LMC_FACTOR_COUNT + 8)

/* Sets form, the sizes that belong to it, and for products `factors` but those of kind LIST. */
void lmc_narrow_set_form(lmc_narrow *narrow, unsigned form, unsigned wide_nbytes);
void lmc_narrow_set_factors(lmc_narrow *narrow, unsigned factor_kind);

/* Appends the fields of the plan. Precondition: there is room for LMC_NARROW_FIELDS_NBYTES_MAX bytes. */
void lmc_narrow_write(const lmc_narrow *narrow, lmc_writer *writer);

/* Reads them, for a frame of elements of wide_nbytes. Errors: CORRUPT, UNSUPPORTED; offsets count from the reader's
 * place. */
LMC_NODISCARD lmc_status lmc_narrow_read(lmc_reader *reader, unsigned wide_nbytes, lmc_narrow *narrow,
                                         lmc_diag *diag);

/* Reads the plan section of a coded frame with these features: narrow fields if there are any, and the coding, which
 * is that of the narrow elements then. tables, rans, coding: as for lmc_coding_read(). Errors: CORRUPT, also if the
 * features are not those of the section; UNSUPPORTED. */
LMC_NODISCARD lmc_status lmc_section_read(const uint8_t *section, size_t nbytes, uint32_t features,
                                          unsigned element_nbytes, lmc_narrow *narrow, lmc_table *tables,
                                          lmc_rans *rans, lmc_coding *coding, lmc_diag *diag);

/* ---- groups ---- */

/* Groups in a row. */
LMC_INLINE uint64_t lmc_groups_in_row(const lmc_narrow *narrow)
{
    return lmc_div_ceil(narrow->row_length, narrow->group_length);
}

/* Groups of a block of n >= 1 elements, of which the first is element `first` of the frame. */
size_t lmc_group_count(const lmc_narrow *narrow, uint64_t first, size_t n);

/* A walk over the elements of a block, group by group. */
typedef struct lmc_group_walk {
    const lmc_narrow *narrow;
    uint32_t column; /* of the next element in its row */
    size_t group;    /* of the next element, counted from the first one of the block */
} lmc_group_walk;

/* Neighbouring elements of one group. */
typedef struct lmc_group_run {
    size_t group;
    size_t n;
} lmc_group_run;

/* Starts at element i of a block whose first element is element `first` of the frame. */
lmc_group_walk lmc_group_walk_start(const lmc_narrow *narrow, uint64_t first, size_t i);

/* The next elements of one group, at most so many. */
lmc_group_run lmc_group_walk_next(lmc_group_walk *walk, size_t most);

/* ---- widening ---- */

/* Makes elements i to i + n - 1 of a block from the narrow elements in scratch. */
void lmc_narrow_widen(const lmc_narrow *narrow, const lmc_kernels *kernels, const lmc_scratch *scratch,
                      uint64_t first, size_t i, size_t n, uint8_t *dst);

#endif
