/*
 * rice_gaps.h - a bitset as the gaps between its members (format.md "Bitsets"). Gaps are Rice-coded: low bits as
 * planes, quotients as unary planes, each of which is a bitmap of the quotients that the one before it leaves.
 */
#ifndef LMC_CODEC_BITSET_RICE_GAPS_H
#define LMC_CODEC_BITSET_RICE_GAPS_H

#include "codec/common/diag.h"
#include "codec/kernels/kernels.h"

/* About how many bits the gaps between m >= 1 members among n values take. */
double lmc_gaps_cost_nbits(size_t n, size_t m);

/* Writes the gaps between the set bits among n (inverted: the clear bits), of which there is at least one. gaps: room
 * for n, and slack. Returns the bytes, or 0 when they would exceed `capacity`. */
size_t lmc_gaps_encode(const lmc_kernels *kernels, uint32_t *gaps, const uint64_t *bitset, size_t n,
                       int inverted, uint8_t *dst, size_t capacity);

/* Reads gaps, sets the bits of the members and clears all others. gaps: as above. Error: CORRUPT. */
LMC_NODISCARD lmc_status lmc_gaps_decode(const lmc_kernels *kernels, uint32_t *gaps, lmc_reader *reader,
                                         size_t n, uint64_t *bitset, lmc_diag *diag);

#endif
