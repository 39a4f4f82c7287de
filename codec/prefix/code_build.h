/*
 * code_build.h - chooses a code for a histogram: which layer codes a symbol, with how many bits. It only computes with
 * weights; code_table.h has the rules of codes.
 */
#ifndef LMC_CODEC_PREFIX_CODE_BUILD_H
#define LMC_CODEC_PREFIX_CODE_BUILD_H

#include "codec/prefix/code_table.h"

typedef struct lmc_code_options {
    int flat_layers;       /* only layers whose codes have one length each: the fewest passes a symbol */
    double tolerance;      /* the share of a code's cost that the search may miss */
    int may_omit_literals; /* the histogram has all symbols: literals are left out if there would be none */
    double value_count;    /* symbols that will be coded, for weighing the table's own bytes */
} lmc_code_options;

/* Finds the code of least estimated cost for symbols with these weights. Weights are counts, 0 for symbols that were
 * not seen; at least one is positive. Returns the cost in bits a symbol, with the table's share. A literal, which
 * has no code, costs one code in each layer that passes it on, and 8 bits. */
double lmc_code_plan(const uint32_t weight[256], const lmc_code_options *options, lmc_code_shape *shape);

/* About the least cost of a code for all of `count` symbols, a multiple of 4, in bits a symbol: their entropy, and the
 * table's bytes when value_count symbols share them. */
double lmc_code_floor(const uint32_t *weight, size_t count, double value_count);

#endif
