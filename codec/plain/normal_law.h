/*
 * normal_law.h - corrects the counts of a sample by a law. Weights are nearly normal, and the law of a normal
 * distribution has one parameter where a histogram has many counts, each with its own error.
 */
#ifndef LMC_CODEC_PLAIN_NORMAL_LAW_H
#define LMC_CODEC_PLAIN_NORMAL_LAW_H

#include "common/compiler.h"

/* Where the symbols of a split lie on the scale of high parts without a sign. */
typedef struct lmc_symbol_places {
    int32_t first;        /* high part at which symbol 0 begins */
    unsigned low_nbits;   /* log2 of the high parts that a symbol has; less than octave_log2 */
    unsigned octave_log2; /* log2 of the high parts of an octave */
} lmc_symbol_places;

/* The law takes counts to weights in units of 1 / LMC_LAW_UNIT, so that symbols that the sample missed get theirs. */
#define LMC_LAW_UNIT 16

/* Moves the counts of a sample, at most 2^24 together, towards those that a normal distribution of the same scale would
 * have, in units of 1 / LMC_LAW_UNIT. The more the counts differ from the law, beyond what chance makes, the less they
 * move. Returns 0 if the sample is too small or far from the law: then counts are as they were. */
int lmc_normal_law_apply(const lmc_symbol_places *places, uint32_t counts[256]);

#endif
