/*
 * code_build.h - from a histogram to the shape of a code: which layer codes a symbol, with how many bits.
 * Pure arithmetic on weights; the rules that every code must obey are code_table.h's.
 */
#ifndef LMC_CODEC_PREFIX_CODE_BUILD_H
#define LMC_CODEC_PREFIX_CODE_BUILD_H

#include "codec/prefix/code_table.h"

typedef struct lmc_code_options {
    int flat_layers;       /* only layers whose codes are all of one length: the fewest passes a symbol */
    int fine_search;       /* more places to cut the symbols into layers */
    int may_omit_literals; /* the histogram is that of all symbols: a rest that stays empty may be left out */
    double value_count;    /* symbols that will be coded, for weighing the table's own bytes */
} lmc_code_options;

/* Finds the code of least estimated cost for symbols with these weights (counts, 0 for symbols that were not
 * seen; at least one is positive). Returns the cost in bits a symbol, the table's share included; a symbol
 * without a code is priced as its way through the lists and 8 bits. */
double lmc_code_plan(const uint32_t weight[256], const lmc_code_options *options, lmc_code_shape *shape);

/* About the least that a code for all of `count` symbols, a multiple of 4, takes, in bits a symbol: their entropy,
 * and the table's bytes when value_count symbols share them. */
double lmc_code_floor(const uint32_t *weight, size_t count, double value_count);

#endif
