/*
 * lmc_test_rans.h - random rANS codes. After the header that has random_below().
 */
#ifndef LMC_TEST_RANS_H
#define LMC_TEST_RANS_H

#include "codec/rans/rans_table.h"

typedef enum rans_kind {
    RANS_FLAT,    /* all symbols are about as frequent */
    RANS_SKEWED,  /* a few make up nearly all */
    RANS_EXTREME, /* one has all but what the others need at least */
    RANS_SINGLE,  /* one has frequency LMC_FMT_RANS_TOTAL */
    RANS_FEW,     /* a few of any frequency */
    RANS_KIND_COUNT
} rans_kind;

/* Frequencies, and from them both what an encoder and what a decoder looks up. */
static MAYBE_UNUSED void random_rans(rans_kind kind, lmc_rans *rans)
{
    const unsigned first = kind == RANS_FLAT ? 0 : (unsigned)random_below(256);
    const unsigned room = 256 - first;
    const unsigned wanted = kind == RANS_SINGLE ? 1 : kind == RANS_FEW ? 2 + (unsigned)random_below(6) : room;
    unsigned left = LMC_FMT_RANS_TOTAL;
    memset(rans, 0, sizeof *rans);
    for (unsigned i = 0; i < wanted && i < room; i++, left--)
        rans->frequency[first + i] = 1;
    for (unsigned i = 0; left > 0; i++) {
        const unsigned step = kind == RANS_FLAT      ? 1 + (unsigned)random_below(4)
                              : kind == RANS_EXTREME ? left
                                                     : 1 + (unsigned)random_below((left + 1) / 2);
        const unsigned steps = (unsigned)lmc_min_size(step, left);
        rans->frequency[first + i % lmc_min_size(wanted, room)] += (uint16_t)steps;
        left -= steps;
    }
    lmc_rans_set_symbols(rans);
    lmc_rans_set_slots(rans);
}

/* Symbols that the code has, as often as it expects them. */
static MAYBE_UNUSED void random_rans_symbols(const lmc_rans *rans, uint8_t *symbols, size_t n)
{
    for (size_t i = 0; i < n; i++)
        symbols[i] = (uint8_t)rans->slots[random_below(LMC_FMT_RANS_TOTAL)];
}

#endif
