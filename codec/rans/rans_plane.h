/*
 * rans_plane.h - a plane of symbols in a rANS code (format.md "rANS planes"). It chooses no plane modes (plane.h does),
 * and does not know what the carried bytes are.
 */
#ifndef LMC_CODEC_RANS_RANS_PLANE_H
#define LMC_CODEC_RANS_RANS_PLANE_H

#include "codec/prefix/scratch.h"
#include "codec/rans/rans_table.h"

/* Bytes of a plane in front of its words: their number, and the states. */
#define LMC_RANS_HEAD_NBYTES (4 + 4 * LMC_FMT_RANS_LANE_COUNT)

/* Encodes n >= 1 symbols, readable padded, and the carried bytes to dst, with rans->symbols. Returns the plane's bytes,
 * or 0: they would exceed the capacity, they would not be fewer than n, or a symbol has no frequency. It uses
 * scratch->next_symbols[0]. */
size_t lmc_rans_plane_encode(const lmc_kernels *kernels, const lmc_rans *rans, lmc_scratch *scratch,
                             const uint8_t *symbols, size_t n,
                             const uint8_t carried[LMC_FMT_RANS_CARRIED_NBYTES], uint8_t *dst,
                             size_t capacity);

/* Decodes a plane of n >= 1 symbols, written padded, and its carried bytes, with rans->slots. Reads nothing beyond the
 * reader's end. Error: CORRUPT, also for a plane that ends early, since block sizes come from a verified index. */
LMC_NODISCARD lmc_status lmc_rans_plane_decode(const lmc_kernels *kernels, const lmc_rans *rans,
                                               lmc_reader *reader, size_t n, uint8_t *symbols,
                                               uint8_t carried[LMC_FMT_RANS_CARRIED_NBYTES], lmc_diag *diag);

#endif
