/*
 * lmc_test_code.h - random valid codes, and planes of symbols for them.
 * After lmc_test_data.h.
 */
#ifndef LMC_TEST_CODE_H
#define LMC_TEST_CODE_H

#include "codec/prefix/code_table.h"
#include "lmc_test_data.h"

/* Lengths of a complete code of at most entries_max >= 2 entries. Returns their number. */
static MAYBE_UNUSED unsigned random_lengths(unsigned entries_max, uint8_t nbits[64])
{
    const unsigned wanted = 2 + (unsigned)random_below(entries_max < 64 ? entries_max - 1 : 63);
    unsigned count = 2;
    nbits[0] = nbits[1] = 1;
    for (unsigned tries = 0; count < wanted && tries < 1000; tries++) {
        const size_t i = random_below(count);
        if (nbits[i] == LMC_FMT_LAYER_NBITS_MAX)
            continue;
        nbits[i]++;
        nbits[count++] = nbits[i];
    }
    return count;
}

/* A valid code of up to layers_max layers over the symbols 0..symbols_max - 1 (at least 2). literals: -1 any, else
 * whether symbols without a code are literals. */
static MAYBE_UNUSED void random_shape(unsigned layers_max, unsigned symbols_max, int literals,
                                      lmc_code_shape *shape)
{
    uint8_t symbols[256];
    unsigned left = symbols_max;
    const unsigned wanted = 1 + (unsigned)random_below(layers_max);
    const int has_literals = literals >= 0 ? literals : (int)random_below(2);
    memset(shape, 0, sizeof *shape);
    for (unsigned i = 0; i < symbols_max; i++) { /* in any order */
        const size_t k = random_below(i + 1);
        symbols[i] = symbols[k];
        symbols[k] = (uint8_t)i;
    }
    for (unsigned i = 0; i < wanted && left >= 2; i++) {
        uint8_t nbits[64];
        /* a layer with continuation needs a symbol less than it has entries; 2 symbols stay for the next one */
        const unsigned count = random_lengths(left, nbits);
        const unsigned after = left - (count - 1);
        const int is_last = i + 1 == wanted || after < 2;
        const unsigned next = is_last && !has_literals ? count : (unsigned)random_below(count);
        shape->layer_count = i + 1;
        shape->first_nbits[i] = LMC_FMT_LAYER_NBITS_MAX;
        for (unsigned k = 0; k < count; k++) {
            shape->first_nbits[i] = nbits[k] < shape->first_nbits[i] ? nbits[k] : shape->first_nbits[i];
            shape->last_nbits[i] = nbits[k] > shape->last_nbits[i] ? nbits[k] : shape->last_nbits[i];
            if (k != next) {
                shape->layer[symbols[--left]] = (uint8_t)i;
                shape->nbits[symbols[left]] = nbits[k];
            }
        }
        if (is_last)
            break;
    }
}

/* n symbols that the table can code, likely ones mostly. */
static MAYBE_UNUSED void random_symbols(const lmc_table *table, uint8_t *symbols, size_t n)
{
    uint8_t pool[2048];
    size_t count = 0;
    for (unsigned s = 0; s < 256; s++) {
        if (!table->is_coded[s] && !table->has_literals)
            continue;
        const unsigned nbits = table->code_nbits[s] + (table->is_coded[s] ? 0u : 8u);
        for (unsigned k = nbits < 7 ? 128u >> nbits : 1; k > 0 && count < sizeof pool; k--)
            pool[count++] = (uint8_t)s;
    }
    for (size_t i = 0; i < n; i++)
        symbols[i] = pool[random_below(count)];
}

#endif
