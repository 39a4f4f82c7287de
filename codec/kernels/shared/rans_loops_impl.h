/*
 * rans_loops_impl.h - steps of a rANS code for one symbol (format.md "rANS planes"), and loops over them. States of
 * the 64 lanes do not depend on each other, so that a CPU works on several symbols at once. No step has a branch.
 */
#ifndef LMC_CODEC_KERNELS_SHARED_RANS_LOOPS_IMPL_H
#define LMC_CODEC_KERNELS_SHARED_RANS_LOOPS_IMPL_H

#include "codec/kernels/kernels.h"

/* Decodes the symbol of one lane. */
LMC_INLINE uint8_t rans_decode_symbol(const lmc_rans_slot *slots, uint32_t *state, const uint8_t **words)
{
    const lmc_rans_slot slot = slots[*state % LMC_FMT_RANS_TOTAL];
    const uint32_t frequency = (slot >> 8 & 0xfff) + 1;
    const uint32_t x = frequency * (*state >> LMC_FMT_RANS_TOTAL_LOG2) + (slot >> 20);
    const uint32_t is_small = x >> 16 == 0;
    *state = x << 16 * is_small | (lmc_load16(*words) & (0 - is_small));
    *words += 2 * is_small;
    return (uint8_t)slot;
}

LMC_INLINE void rans_decode_loop(const lmc_rans_slot *slots, lmc_rans_in *in, size_t n, uint8_t *symbols)
{
    const uint8_t *words = in->words;
    for (size_t g = 0; g < n; g += LMC_FMT_RANS_LANE_COUNT) {
        const size_t lane_count = lmc_min_size(n - g, LMC_FMT_RANS_LANE_COUNT);
        for (size_t lane = 0; lane < lane_count; lane++)
            symbols[g + lane] = rans_decode_symbol(slots, &in->state[lane], &words);
    }
    in->words = words;
}

/* Encodes the symbol of one lane. A state of frequency << 20 and more would leave 32 bits: it gives a word first. With
 * x = quotient * frequency + remainder, the state becomes quotient * 4096 + remainder + start. */
LMC_INLINE void rans_encode_symbol(const lmc_rans_symbol *symbol, uint32_t *state, uint8_t **words)
{
    const uint32_t frequency = symbol->frequency;
    const uint32_t is_large = *state > (frequency << 20) - 1; /* of 4096, no state is too large */
    lmc_store16(*words - 2, (uint16_t)*state);
    *words -= 2 * is_large;
    const uint32_t x = *state >> 16 * is_large;
    const uint32_t quotient = (uint32_t)(x * symbol->reciprocal >> LMC_RANS_RECIPROCAL_LOG2);
    *state = x + quotient * (LMC_FMT_RANS_TOTAL - frequency) + symbol->start;
}

LMC_INLINE unsigned rans_encode_loop(const lmc_rans_symbol *table, lmc_rans_out *out, const uint8_t *symbols,
                                     size_t n)
{
    uint8_t *words = out->words;
    uint32_t missing = 0; /* the top bit is set once a frequency was 0 */
    for (size_t i = n; i-- > 0;) {
        const lmc_rans_symbol *const symbol = &table[symbols[i]];
        missing |= symbol->frequency - 1u;
        rans_encode_symbol(symbol, &out->state[i % LMC_FMT_RANS_LANE_COUNT], &words);
    }
    out->words = words;
    return missing >> 31;
}

#endif
