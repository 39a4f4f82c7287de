/*
 * symbol_counts.h - how often each symbol of a split occurs in a sample. The histogram of high parts becomes sums over
 * its places, so that any split is counted in as many steps as it has symbols.
 */
#ifndef LMC_CODEC_PLAIN_SYMBOL_COUNTS_H
#define LMC_CODEC_PLAIN_SYMBOL_COUNTS_H

#include "codec/plain/sample.h"

/* The histogram of high parts as sums. */
typedef struct lmc_high_sums {
    unsigned high_nbits;           /* of a high part: 8 or 16 */
    unsigned finest_log2;          /* a place of the histogram has 2^finest_log2 high parts */
    uint32_t high_first, high_end; /* places that may be in use ... */
    const uint32_t *sums;          /* ... and the number of values before each of them and before high_end */
    uint32_t total;                /* values in the histogram */
} lmc_high_sums;

/* Replaces each count of sample->high by the number of values before its place. */
lmc_high_sums lmc_high_sums_make(lmc_sample *sample, unsigned element_nbytes);

/* The same, shifted around the ring by an offset and cut into symbols of 2^places_log2 places. */
typedef struct lmc_symbol_counts {
    const uint32_t *sums;
    uint32_t high_first, high_end;
    uint32_t place_count, shift; /* place p becomes place p + shift, around the ring */
    uint32_t came_round, total;  /* values that came round to places before `shift`; all values */
    unsigned places_log2;
    uint32_t symbol_mask;
    uint32_t first, last; /* symbols that may be in use; past symbol_mask they are counted around the ring */
} lmc_symbol_counts;

lmc_symbol_counts lmc_symbol_counts_of(const lmc_high_sums *sums, unsigned low_nbits, unsigned offset);

LMC_INLINE uint32_t lmc_values_before_place(const lmc_symbol_counts *c, uint32_t place)
{
    return place <= c->high_first ? 0 : c->sums[place < c->high_end ? place : c->high_end];
}

/* Values of the symbols before this one, which counts from 0 up, also around the ring. */
LMC_INLINE uint32_t lmc_values_before_symbol(const lmc_symbol_counts *c, uint32_t symbol)
{
    uint32_t place = symbol << c->places_log2, rounds = 0;
    for (; place > c->place_count; place -= c->place_count)
        rounds += c->total;
    if (place >= c->shift)
        return rounds + c->came_round + lmc_values_before_place(c, place - c->shift);
    return rounds + c->came_round -
           (c->total - lmc_values_before_place(c, c->place_count - c->shift + place));
}

LMC_INLINE uint32_t lmc_values_in_window(const lmc_symbol_counts *c, uint32_t window_start,
                                         uint32_t symbol_count)
{
    return lmc_values_before_symbol(c, window_start + symbol_count) -
           lmc_values_before_symbol(c, window_start);
}

/* The window of so many symbols that has most values; the first of equals. */
uint32_t lmc_symbol_counts_best_window(const lmc_symbol_counts *c, uint32_t symbol_count);

#endif
