/*
 * bitset.h - a bitset in its smallest mode (format.md "Bitsets"): a bitmap, gaps between members, or a
 * hierarchical bitmap, whose parts are bitsets again. common/bits.h says how its words are kept.
 */
#ifndef LMC_CODEC_BITSET_BITSET_H
#define LMC_CODEC_BITSET_BITSET_H

#include "codec/common/diag.h"
#include "codec/prefix/scratch.h"

/* Set bits among n. */
size_t lmc_bitset_count(const lmc_kernels *kernels, const uint64_t *bitset, size_t n);

/* Replaces n bits by their complement. */
void lmc_bitset_invert(uint64_t *bitset, size_t n);

/* About how many bits a coded bitset of n bits with m set takes. */
double lmc_bitset_cost_nbits(size_t n, size_t m);

/* Writes n >= 1 bits in the mode that is smallest by estimate. Returns the bytes, or 0 when they would exceed
 * `capacity`. Uses scratch->gaps and scratch->hierarchy; bitset lies elsewhere. */
size_t lmc_bitset_encode(const lmc_kernels *kernels, lmc_scratch *scratch, const uint64_t *bitset, size_t n,
                         uint8_t *dst, size_t capacity);

/* Reads n >= 1 bits. Uses the same scratch memory. Errors: CORRUPT, UNSUPPORTED. */
LMC_NODISCARD lmc_status lmc_bitset_decode(const lmc_kernels *kernels, lmc_scratch *scratch,
                                           lmc_reader *reader, size_t n, uint64_t *bitset, lmc_diag *diag);

#endif
