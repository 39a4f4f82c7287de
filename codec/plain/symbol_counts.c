/* symbol_counts.c - sums up the histogram of high parts, and places it under a split. */
#include "codec/plain/symbol_counts.h"

/* Places that are tested together. */
#define PLACES_AT_ONCE 64

static int are_unused(const uint32_t *places)
{
    uint32_t any = 0;
    for (unsigned i = 0; i < PLACES_AT_ONCE; i++)
        any |= places[i];
    return any == 0;
}

lmc_high_sums lmc_high_sums_make(lmc_sample *sample, unsigned element_nbytes)
{
    uint32_t *const high = sample->high;
    const unsigned high_nbits = lmc_high_nbits(element_nbytes);
    uint32_t first = 0, end = 1u << sample->high_nbits, sum = 0;
    while (end > PLACES_AT_ONCE && are_unused(high + end - PLACES_AT_ONCE))
        end -= PLACES_AT_ONCE;
    while (first + PLACES_AT_ONCE < end && are_unused(high + first))
        first += PLACES_AT_ONCE;
    while (end > 1 && high[end - 1] == 0)
        end--;
    while (first + 1 < end && high[first] == 0)
        first++;
    for (uint32_t i = first; i < end; i++) {
        const uint32_t count = high[i];
        high[i] = sum;
        sum += count;
    }
    high[end] = sum;
    return (lmc_high_sums){high_nbits, high_nbits - sample->high_nbits, first, end, high, sum};
}

lmc_symbol_counts lmc_symbol_counts_of(const lmc_high_sums *sums, unsigned low_nbits, unsigned offset)
{
    lmc_symbol_counts c = {.sums = sums->sums,
                           .high_first = sums->high_first,
                           .high_end = sums->high_end,
                           .place_count = 1u << (sums->high_nbits - sums->finest_log2),
                           .shift = offset >> sums->finest_log2,
                           .total = sums->total,
                           .places_log2 = low_nbits - sums->finest_log2,
                           .symbol_mask = (1u << (sums->high_nbits - low_nbits)) - 1};
    c.came_round = c.total - lmc_values_before_place(&c, c.place_count - c.shift);
    c.first = (c.high_first + c.shift) >> c.places_log2;
    c.last = (c.high_end - 1 + c.shift) >> c.places_log2;
    return c;
}

uint32_t lmc_symbol_counts_best_window(const lmc_symbol_counts *c, uint32_t symbol_count)
{
    uint32_t best = c->last < symbol_count ? 0 : c->last - (symbol_count - 1), most = 0;
    if (c->last < c->first + symbol_count) /* it holds all */
        return best;
    best = c->first < symbol_count ? 0 : c->first - (symbol_count - 1);
    for (uint32_t s = best; s <= c->last; s++) {
        const uint32_t sum = lmc_values_in_window(c, s, symbol_count);
        if (sum > most) {
            most = sum;
            best = s;
        }
    }
    return best & c->symbol_mask;
}
