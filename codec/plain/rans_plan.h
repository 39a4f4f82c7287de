/*
 * rans_plan.h - chooses the split of elements whose symbols get a rANS code, and the code's frequencies (level max).
 */
#ifndef LMC_CODEC_PLAIN_RANS_PLAN_H
#define LMC_CODEC_PLAIN_RANS_PLAN_H

#include "codec/plain/symbol_counts.h"

typedef struct lmc_rans_request {
    const lmc_high_sums *sums;
    const lmc_sample *sample;
    unsigned element_nbytes;
    unsigned low_first, low_last; /* the numbers of low bits to try */
    int may_move;                 /* offsets may be tried */
    int is_low_coded;             /* the low plane has a code, so that rANS states cannot carry it */
    uint64_t block_values;        /* of a block */
} lmc_rans_request;

typedef struct lmc_rans_choice {
    lmc_split split;
    uint32_t weight[256]; /* of the symbols */
    double nbits;         /* bits an element, of symbols, low bits, escapes, table, and states of blocks */
} lmc_rans_choice;

/* Finds the split that takes fewest bits. */
void lmc_rans_choose(const lmc_rans_request *request, lmc_rans_choice *choice);

/* Turns weights into frequencies. A sample may lack symbols of the tensor: where there are escapes they get a place;
 * elsewhere the neighbours of symbols that were seen do, unless all were counted. Changes the weights. */
void lmc_rans_finish(const lmc_rans_request *request, const lmc_split *split, uint32_t weight[256],
                     uint16_t frequency[256]);

#endif
