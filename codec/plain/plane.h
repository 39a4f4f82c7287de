/*
 * plane.h - one plane of a block in its smallest mode (format.md "Planes of a block"): constant, coded, one value with
 * exceptions, or stored; and escapes, the symbols that do not fit their plane.
 */
#ifndef LMC_CODEC_PLAIN_PLANE_H
#define LMC_CODEC_PLAIN_PLANE_H

#include "codec/bitset/bitset.h"
#include "codec/plain/plan_section.h"
#include "codec/prefix/symbols.h"

/* Bytes of a stored plane of n values of nbits each. */
LMC_INLINE size_t lmc_plane_nbytes(size_t n, unsigned nbits)
{
    return nbits == 8 ? n : lmc_bits_nbytes(n * nbits);
}

/* Everything that coding a plane takes. */
typedef struct lmc_plane_coder {
    const lmc_kernels *kernels;
    const lmc_table *table; /* NULL: the plane has no prefix code */
    lmc_scratch *scratch;
    const lmc_rans *rans; /* decoder: its rANS code, or NULL ... */
    uint8_t *carried;     /* ... and where the bytes go that it carries if it is CODED */
} lmc_plane_coder;

/* Encodes a plane of n >= 1 bytes, readable padded, at dst in its smallest mode; the mode goes to *mode. Returns the
 * bytes, or 0 when they would exceed the capacity. */
size_t lmc_plane_encode(const lmc_plane_coder *coder, const uint8_t *plane, size_t n, uint8_t *dst,
                        size_t capacity, uint8_t *mode);

/* About how many bits a plane of n bytes takes without a code. */
double lmc_plane_uncoded_nbits(const uint32_t histogram[256], size_t n);

void lmc_plane_count(const uint8_t *plane, size_t n, uint32_t histogram[256]);

/* The same piece by piece: adds up n bytes, and sums up what was added. There are four parts, so that equal neighbours
 * do not wait for each other. */
void lmc_plane_count_more(const uint8_t *plane, size_t n, uint32_t parts[4][256]);
void lmc_plane_sum_counts(uint32_t parts[4][256], uint32_t histogram[256]);

/* As lmc_plane_encode() for a packed plane of n >= 1 values of nbits < 8 each: constant or stored. */
size_t lmc_plane_encode_packed(const uint8_t *plane, size_t n, unsigned nbits, uint8_t *dst, uint8_t *mode);

/* Reads a plane of n >= 1 values of nbits. *plane points to lmc_plane_nbytes() bytes with 64 readable bytes
 * behind them: in the input, in its copies, or in `buffer` (n + 64 bytes).
 * Errors: CORRUPT, UNSUPPORTED (a reserved mode). */
LMC_NODISCARD lmc_status lmc_plane_decode(const lmc_plane_coder *coder, lmc_source *source, unsigned mode,
                                          size_t n, unsigned nbits, uint8_t *buffer, const uint8_t **plane,
                                          lmc_diag *diag);

/* ---- escapes ---- */

/* Symbols that do not fit 8 bits (format.md "Escapes") are LMC_FMT_SYMBOL_ESCAPE in their plane; their values follow as
 * u16 at the block's end. They are rare, so this code works element by element. */

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
