/*
 * source.h - reads a block's bytes for kernels, which need readable slack behind each plane. A plane comes out as a
 * pointer into the block or, near the block's end, to a copy. Nothing beyond the block is read.
 */
#ifndef LMC_CODEC_PREFIX_SOURCE_H
#define LMC_CODEC_PREFIX_SOURCE_H

#include "codec/prefix/scratch.h"

typedef struct lmc_source {
    lmc_reader reader; /* the block's stored bytes */
    uint8_t *copies;   /* free part of scratch->copies */
    uint8_t *copies_end;
    int is_padded; /* LMC_SYMBOLS_SLACK bytes behind the block are readable: no plane is copied */
} lmc_source;

LMC_INLINE void lmc_source_open(lmc_source *source, const lmc_scratch *scratch, const uint8_t *stored,
                                size_t stored_nbytes)
{
    source->reader = (lmc_reader){stored, stored + stored_nbytes, 0};
    source->copies = scratch->copies;
    source->copies_end = scratch->copies + scratch->copies_capacity;
    source->is_padded = 0;
}

/* For stored bytes with LMC_SYMBOLS_SLACK readable bytes behind them. */
LMC_INLINE void lmc_source_open_padded(lmc_source *source, const uint8_t *stored, size_t stored_nbytes)
{
    *source = (lmc_source){.reader = {stored, stored + stored_nbytes, 0}, .is_padded = 1};
}

/* The next nbytes, with `slack` readable bytes behind them (any values), or NULL when fewer are left. */
LMC_INLINE const uint8_t *lmc_source_plane(lmc_source *source, size_t nbytes, size_t slack)
{
    const uint8_t *const p = lmc_read_span(&source->reader, nbytes);
    if (!p || source->is_padded || lmc_reader_left(&source->reader) >= slack)
        return p;
    assert(nbytes + slack <= (size_t)(source->copies_end - source->copies));
    uint8_t *const copy = source->copies;
    memcpy(copy, p, nbytes);
    memset(copy + nbytes, 0, slack);
    source->copies += nbytes + slack;
    return copy;
}

/* The next plane of n bits, with LMC_PLANE_SLACK behind it. NULL also if spare bits of the last byte are not 0. */
LMC_INLINE const uint8_t *lmc_source_bits(lmc_source *source, size_t n)
{
    const uint8_t *const p = lmc_source_plane(source, lmc_bits_nbytes(n), LMC_PLANE_SLACK);
    return p && !lmc_has_spare_bits(p, n) ? p : NULL;
}

#endif
