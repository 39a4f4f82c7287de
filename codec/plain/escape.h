/*
 * escape.h - symbols that do not fit 8 bits (format.md "Escapes"). In their plane they are LMC_FMT_SYMBOL_ESCAPE; their
 * values follow as u16 at the block's end. They are rare, so this code works element by element.
 */
#ifndef LMC_CODEC_PLAIN_ESCAPE_H
#define LMC_CODEC_PLAIN_ESCAPE_H

#include "codec/common/diag.h"
#include "codec/kernels/kernels.h"

/* How elements were cut by a kernel call: shift as in lmc_plane_set. */
typedef struct lmc_element_cut {
    unsigned element_nbytes;
    lmc_split split;
    const uint16_t *shift;
} lmc_element_cut;

/* May symbols have more than 8 bits? LMC_FMT_SYMBOL_ESCAPE stands for those that do not fit. */
LMC_INLINE int lmc_cut_has_escapes(const lmc_element_cut *cut)
{
    return cut->element_nbytes > 1 && LMC_FMT_HIGH_NBITS - cut->split.low_nbits > 8;
}

/* Appends the values of the escapes among n symbols of the elements at src. Returns the new end. */
uint16_t *lmc_escapes_collect(const lmc_element_cut *cut, const uint8_t *symbols, const uint8_t *src,
                              size_t n, uint16_t *escapes);

/* Reads the values of the escapes among n symbols, and mends their elements at dst. Error: CORRUPT. */
LMC_NODISCARD lmc_status lmc_escapes_apply(const lmc_element_cut *cut, const uint8_t *symbols, size_t n,
                                           lmc_reader *reader, uint8_t *dst, lmc_diag *diag);

#endif
