/*
 * sample.h - what the plan looks at: some values of a tensor, read through the caller's function, and the
 * histograms of their planes. Knows no codes.
 */
#ifndef LMC_CODEC_PLAIN_SAMPLE_H
#define LMC_CODEC_PLAIN_SAMPLE_H

#include "codec/plain/plan_section.h"

/* Values sampled at most. */
#define LMC_SAMPLE_VALUES 65536

/* The finest resolution of the high part's histogram: 4 offsets a bin of 4 low bits, 8 of more. */
#define LMC_SAMPLE_HIGH_NBITS_MAX 14
#define LMC_SAMPLE_ASIDE ((1 << LMC_SAMPLE_HIGH_NBITS_MAX) + 1)

typedef struct lmc_sample_options {
    unsigned element_nbytes;
    int is_signed; /* the top bit is a sign: it is rotated to the bottom unless it never changes, or nothing
                            does there */
    int exact;     /* look at every value */
    unsigned
        high_nbits; /* of resolution, 8 to LMC_SAMPLE_HIGH_NBITS_MAX; a sign that stays is one more. Elements
                            of one byte: 8 */
    unsigned mask_per_mille_min; /* a value is masked when it is at least this many of a thousand */
} lmc_sample_options;

typedef struct lmc_sample {
    uint64_t value_count;   /* of the tensor */
    uint64_t seen_count;    /* of these, in the sample */
    int has_mask;           /* mask_value is frequent enough for a mask: it is not in the histograms */
    uint64_t mask_value;    /* else 0 */
    int is_exact;           /* every value is in `high part` */
    int is_low_exact;       /* every value is in `head_low` and `rest` too, unless they are noise */
    int is_low_noise;       /* no code would gain anything there */
    uint8_t rotation;       /* the planes below are those of values rotated by so much */
    unsigned high_nbits;    /* resolution of `high part` */
    uint32_t high_low[256]; /* by the high part's low byte */
    uint32_t lower[LMC_FMT_PLANE_COUNT_MAX - 2][256]; /* element bytes below the high part */
    /* by the high part's top bits (elements of 1 byte: by the byte); then a place for sums, and some for masked values */
    uint32_t high[LMC_SAMPLE_ASIDE + 8];
} lmc_sample;

/* Reads values and fills the histograms.
 *  content_nbytes: at least one whole element. buffer: LMC_SAMPLE_BUFFER_NBYTES.
 * Errors: what read returns. */
#define LMC_SAMPLE_BUFFER_NBYTES (LMC_SAMPLE_VALUES * 8)
LMC_NODISCARD lmc_status lmc_sample_take(lmc_sample *sample, const lmc_sample_options *options,
                                         uint64_t content_nbytes, lmc_read_fn read, void *user,
                                         uint8_t *buffer);

#endif
