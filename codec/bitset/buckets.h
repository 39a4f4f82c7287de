/*
 * buckets.h - a plane of symbols that are mostly small, without a table: rung by rung, flags say which symbols go
 * on to the next rung; each set of flags takes the form that suits it (format.md "Ladders").
 */
#ifndef LMC_CODEC_BITSET_BUCKETS_H
#define LMC_CODEC_BITSET_BUCKETS_H

#include "codec/common/diag.h"
#include "codec/prefix/scratch.h"
#include "codec/prefix/source.h"

/* The rungs as layers of a code: kernels code them. */
typedef struct lmc_ladder {
    lmc_layer rungs[LMC_FMT_BUCKET_COUNT];
} lmc_ladder;

void lmc_ladder_init(lmc_ladder *ladder);

/* The first symbol of a rung, and how many bits tell its symbols apart. */
unsigned lmc_rung_first(unsigned rung);
unsigned lmc_rung_nbits(unsigned rung);

/* Encodes n >= 1 symbols, readable padded, at dst. Returns the bytes, or 0 when they would exceed `capacity`. */
size_t lmc_ladder_encode(const lmc_ladder *ladder, const lmc_kernels *kernels, lmc_scratch *scratch,
                         const uint8_t *symbols, size_t n, uint8_t *dst, size_t capacity);

/* Decodes n >= 1 symbols, written padded. Errors: CORRUPT, UNSUPPORTED. */
LMC_NODISCARD lmc_status lmc_ladder_decode(const lmc_ladder *ladder, const lmc_kernels *kernels,
                                           lmc_scratch *scratch, lmc_source *source, size_t n,
                                           uint8_t *symbols, lmc_diag *diag);

#endif
