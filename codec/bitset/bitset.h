/*
 * bitset.h - a set of flags, one bit a value, in the form that suits it: a bitmap, gaps between members
 * (rice_gaps.h), or pairs of flags, whose parts are flags again (format.md "Flags").
 */
#ifndef LMC_CODEC_BITSET_BITSET_H
#define LMC_CODEC_BITSET_BITSET_H

#include "codec/common/diag.h"
#include "codec/prefix/scratch.h"

/* Set flags among n. */
size_t lmc_bitset_count(const lmc_kernels *kernels, const uint64_t *bitset, size_t n);

/* Clears what is set and sets what is clear. */
void lmc_bitset_invert(uint64_t *bitset, size_t n);

/* Bits that n flags with m set will take, about; used to choose between forms. */
double lmc_bitset_cost_nbits(size_t n, size_t m);

/* Writes n >= 1 flags in the form that is smallest by estimate. Returns the bytes, or 0 when they would
 * exceed `capacity`. Uses scratch->gaps and scratch->pairs; flags lie elsewhere. */
size_t lmc_bitset_encode(const lmc_kernels *kernels, lmc_scratch *scratch, const uint64_t *bitset, size_t n,
                         uint8_t *dst, size_t capacity);

/* Reads n >= 1 flags. Uses the same. Errors: CORRUPT, UNSUPPORTED. */
LMC_NODISCARD lmc_status lmc_bitset_decode(const lmc_kernels *kernels, lmc_scratch *scratch,
                                           lmc_reader *reader, size_t n, uint64_t *bitset, lmc_diag *diag);

#endif
