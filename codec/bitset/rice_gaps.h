/*
 * rice_gaps.h - a set as the gaps between its members (format.md "Flags"): Rice-coded, low bits as planes and quotients
 * as unary levels, which are bitmaps of ever shorter lists.
 */
#ifndef LMC_CODEC_BITSET_RICE_GAPS_H
#define LMC_CODEC_BITSET_RICE_GAPS_H

#include "codec/common/diag.h"
#include "codec/kernels/kernels.h"

/* Bits that the gaps between m >= 1 members among n values will take, about. */
double lmc_gaps_cost_nbits(size_t n, size_t m);

/* Writes the gaps between the set flags among n (inverted: the clear ones), at least one. gaps: room for n, and slack.
 * Returns the bytes, or 0 when they would exceed `capacity`. */
size_t lmc_gaps_encode(const lmc_kernels *kernels, uint32_t *gaps, const uint64_t *bitset, size_t n,
                       int inverted, uint8_t *dst, size_t capacity);

/* Reads gaps and sets the flags of the members; all others are cleared. gaps: as above. Error: CORRUPT. */
LMC_NODISCARD lmc_status lmc_gaps_decode(const lmc_kernels *kernels, uint32_t *gaps, lmc_reader *reader,
                                         size_t n, uint64_t *bitset, lmc_diag *diag);

#endif
