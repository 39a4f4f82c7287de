/*
 * product.h - finds the scale of a group: the number that makes its elements products of a scale and factors, and which
 * factor each element is. Encoder only; what it finds is verified by widening.
 */
#ifndef LMC_CODEC_NARROW_PRODUCT_H
#define LMC_CODEC_NARROW_PRODUCT_H

#include "codec/narrow/narrow.h"

/* Cells of the index into the factors: sign, exponent and two bits of mantissa of a quotient. */
#define LMC_FACTOR_CELL_COUNT 2048
#define LMC_FACTOR_CELL_SHIFT 21

/* The factors in order, for looking up the nearest one, and the factors that the largest element may be. */
typedef struct lmc_factor_order {
    unsigned count;
    float middle[LMC_FACTOR_COUNT];       /* between a factor and the next one */
    uint8_t number[LMC_FACTOR_COUNT];     /* of each factor in this order */
    uint8_t first[LMC_FACTOR_CELL_COUNT]; /* the first one that may be nearest to a quotient in this cell */
    uint8_t zero[2];                      /* the number of 0 and of -0; the same if there is one of them */
    unsigned largest_count;
    uint8_t largest[LMC_FACTOR_COUNT]; /* numbers, the likely ones first */
} lmc_factor_order;

void lmc_factor_order_init(lmc_factor_order *order, const lmc_narrow *narrow);

/* Elements of one group. */
typedef struct lmc_product_group {
    const lmc_narrow *narrow;
    const lmc_factor_order *order;
    const lmc_kernels *kernels;
    const uint8_t *src;
    size_t n;
} lmc_product_group;

/* Elements of a product type as F32. */
void lmc_product_singles(const lmc_kernels *kernels, unsigned product_type, const uint8_t *src, size_t n,
                         float *singles);

/* Finds a scale, 0 if there is none, and the numbers of the elements by it. likely: the magnitude of the factor that is
 * tried first for the largest element; becomes that of the factor that was found. Returns how many elements are
 * not exactly the product. Without a scale these are all, and their numbers are equal. */
size_t lmc_product_find(const lmc_product_group *group, float *likely, float *scale, uint8_t *numbers);

/* For groups that have no upper neighbour: numbers that were rounded without a scale have this one. */
#define LMC_SCALE_TRIED_FIRST 1.0f

/* The same for a group whose upper neighbour, in the row of groups before, has the scale `above`. This one is kept if
 * it fits, since scales that repeat take no room; it also stands for groups that have no scale. */
size_t lmc_product_find_below(const lmc_product_group *group, float above, float *likely, float *scale,
                              uint8_t *numbers);

#endif
