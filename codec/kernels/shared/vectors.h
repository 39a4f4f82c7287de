/*
 * vectors.h - code that the sets avx2, avx512 and neon share, without intrinsics or targets. It copies cursors member
 * by member. A copy of the whole structure would stay in memory, and cost more than coding a few symbols.
 */
#ifndef LMC_CODEC_KERNELS_SHARED_VECTORS_H
#define LMC_CODEC_KERNELS_SHARED_VECTORS_H

#include "codec/kernels/kernels.h"

#define GROUP 64

/* How many bytes ahead to fetch. The prefetchers of the CPU stop at the ends of pages; measured. */
#define AHEAD_ELEMENTS 2048
#define AHEAD_LOW 1536
#define AHEAD_PLANE 256

/* Does nothing beyond the end of a buffer. Such a pointer must not be formed, so this adds numbers. */
LMC_INLINE void fetch(const uint8_t *p, size_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)p + ahead));
}

/* Is this a layer of the fast preset? Its codes have 1 bit, or 2 bits, and the last code is the continuation. */
LMC_INLINE int is_short_layer(const lmc_layer *layer)
{
    return layer->first_nbits == layer->last_nbits && layer->last_nbits <= 2 && layer->has_continuation &&
           layer->continuation == (layer->last_nbits == 1 ? 32 : 48);
}

/* Appends the first nbytes bytes of a word to a full plane. */
LMC_INLINE void put_full(uint8_t **plane, uint64_t word, size_t nbytes)
{
    fetch(*plane, AHEAD_PLANE);
    memcpy(*plane, &word, nbytes);
    *plane += nbytes;
}

LMC_INLINE void copy_out_cursors(const unsigned first, const unsigned last, lmc_layer_out *to,
                                 const lmc_layer_out *from)
{
    for (unsigned j = 0; j < first; j++)
        to->full[j] = from->full[j];
    for (unsigned j = first; j < last; j++)
        to->partial[j] = from->partial[j];
    to->next_symbols = from->next_symbols;
}

LMC_INLINE void copy_in_cursors(const unsigned first, const unsigned last, lmc_layer_in *to,
                                const lmc_layer_in *from)
{
    for (unsigned j = 0; j < first; j++)
        to->full[j] = from->full[j];
    for (unsigned j = first; j < last; j++) {
        to->partial[j] = from->partial[j];
        to->position[j] = from->position[j];
    }
    to->next_symbols = from->next_symbols;
}

/* The planes from element i on, a multiple of 64. */
LMC_INLINE lmc_plane_set planes_at(const unsigned nbytes, const lmc_plane_set *planes, unsigned low_nbits,
                                   size_t i)
{
    lmc_plane_set at = *planes;
    at.symbols += i;
    if (low_nbits > 0)
        at.low += i / 8 * low_nbits;
    for (unsigned j = 0; j + 2 < nbytes; j++)
        at.lower[j] += i;
    if (at.shift)
        at.shift += i;
    return at;
}

#endif
