/*
 * buckets.h - codes a plane of symbols that are mostly small, without a table (format.md "Bucket code"). For each
 * bucket a bitset tells which symbols lie beyond it; each bitset takes its smallest mode.
 */
#ifndef LMC_CODEC_BITSET_BUCKETS_H
#define LMC_CODEC_BITSET_BUCKETS_H

#include "codec/common/diag.h"
#include "codec/prefix/scratch.h"

/* Each bucket as a layer of a code: the layer kernels code it. */
typedef struct lmc_bucket_code {
    lmc_layer buckets[LMC_FMT_BUCKET_COUNT];
} lmc_bucket_code;

void lmc_bucket_code_init(lmc_bucket_code *code);

/* The first symbol of a bucket, and the number of bits that tell its symbols apart. */
unsigned lmc_bucket_first(unsigned bucket);
unsigned lmc_bucket_nbits(unsigned bucket);

/* Encodes n >= 1 symbols, readable padded, at dst: the bucket `first` and those behind it, after the buckets before
 * it left these symbols. Returns the bytes, or 0 when they would exceed `capacity`. */
size_t lmc_buckets_encode(const lmc_bucket_code *code, const lmc_kernels *kernels, lmc_scratch *scratch,
                          unsigned first, const uint8_t *symbols, size_t n, uint8_t *dst, size_t capacity);

/* The inverse: n >= 1 symbols, written padded. Errors: CORRUPT, UNSUPPORTED. */
LMC_NODISCARD lmc_status lmc_buckets_decode(const lmc_bucket_code *code, const lmc_kernels *kernels,
                                            lmc_scratch *scratch, unsigned first, lmc_source *source,
                                            size_t n, uint8_t *symbols, lmc_diag *diag);

#endif
