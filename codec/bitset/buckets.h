/*
 * buckets.h - a plane of symbols that are mostly small, without a table: bucket by bucket, flags say which symbols go
 * on to the next bucket; each set of flags takes the form that suits it (format.md "Bucket codes").
 */
#ifndef LMC_CODEC_BITSET_BUCKETS_H
#define LMC_CODEC_BITSET_BUCKETS_H

#include "codec/common/diag.h"
#include "codec/prefix/scratch.h"
#include "codec/prefix/source.h"

/* The buckets as layers of a code: kernels code them. */
typedef struct lmc_bucket_code {
    lmc_layer buckets[LMC_FMT_BUCKET_COUNT];
} lmc_bucket_code;

void lmc_bucket_code_init(lmc_bucket_code *bucket_code);

/* The first symbol of a bucket, and how many bits tell its symbols apart. */
unsigned lmc_bucket_first(unsigned bucket);
unsigned lmc_bucket_nbits(unsigned bucket);

/* Encodes n >= 1 symbols, readable padded, at dst. Returns the bytes, or 0 when they would exceed `capacity`. */
size_t lmc_buckets_encode(const lmc_bucket_code *bucket_code, const lmc_kernels *kernels,
                          lmc_scratch *scratch, const uint8_t *symbols, size_t n, uint8_t *dst,
                          size_t capacity);

/* Decodes n >= 1 symbols, written padded. Errors: CORRUPT, UNSUPPORTED. */
LMC_NODISCARD lmc_status lmc_buckets_decode(const lmc_bucket_code *bucket_code, const lmc_kernels *kernels,
                                            lmc_scratch *scratch, lmc_source *source, size_t n,
                                            uint8_t *symbols, lmc_diag *diag);

#endif
