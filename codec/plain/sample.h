/*
 * sample.h - a sample of a tensor, read through the caller's function, and the histograms of its planes. It knows no
 * codes; plain_plan.h decides by it.
 */
#ifndef LMC_CODEC_PLAIN_SAMPLE_H
#define LMC_CODEC_PLAIN_SAMPLE_H

#include "codec/common/input.h"
#include "codec/plain/plan_section.h"

/* Values sampled at most. Elements of more than one byte need fewer: a share of the tensor, but so many at least. */
#define LMC_SAMPLE_VALUES 65536
#define LMC_SAMPLE_VALUES_MIN 16384
#define LMC_SAMPLE_SHARE 12

/* The finest resolution of the histogram of high parts. A bin of 4 low bits can have 4 offsets, wider bins 8. */
#define LMC_SAMPLE_HIGH_NBITS_MAX 14

/* The first place for masked values. */
#define LMC_SAMPLE_ASIDE ((1 << LMC_SAMPLE_HIGH_NBITS_MAX) + 1)

typedef struct lmc_sample_options {
    int is_signed; /* the top bit is a sign: it may be rotated to the bottom */
    int exact;     /* look at every value */
    unsigned
        high_nbits; /* resolution, 8 to LMC_SAMPLE_HIGH_NBITS_MAX, without a sign that stays; 8 for 1-byte elements */
    unsigned mask_per_mille_min; /* a value is masked from this share on */
} lmc_sample_options;

typedef struct lmc_sample {
    uint64_t value_count; /* of the tensor */
    uint64_t seen_count;  /* of these, in the sample */
    int has_mask;         /* mask_value is frequent enough for a mask: it is not in the histograms */
    uint64_t mask_value;  /* else 0 */
    int is_exact;         /* every value is in `high` */
    int is_low_exact;     /* every value is in `high_low_byte` and `lower`, unless these are noise */
    int is_low_noise;     /* no code gains anything in `high_low_byte` and `lower` */
    int is_high_counted;
    int is_high_shifted; /* `high` has offsets of rows and columns, `high_low_byte` has not */
    int is_low_mixed;    /* lower bytes are noise but in some runs; only these runs are counted there */
    uint8_t rotation;    /* values are rotated left by so much before they are cut */
    unsigned high_nbits; /* resolution of `high` */
    uint32_t high_low_byte[256];                      /* by the lower byte of the high part */
    uint32_t lower[LMC_FMT_PLANE_COUNT_MAX - 2][256]; /* by the bytes below the high part */
    /* by the top bits of the high part, or by the 1-byte element; then a place for sums, and some for masked values */
    uint32_t high[LMC_SAMPLE_ASIDE + 8];
} lmc_sample;

#define LMC_SAMPLE_BUFFER_NBYTES (LMC_SAMPLE_VALUES * 8)

/* Reads values to the buffer and fills the histograms; that of high parts only if options->exact.
 *  content: at least one whole element. buffer: LMC_SAMPLE_BUFFER_NBYTES.
 * Errors: what the content's read returns. */
LMC_NODISCARD lmc_status lmc_sample_take(lmc_sample *sample, const lmc_sample_options *options,
                                         const lmc_content *content, uint8_t *buffer);

/* Fills the histogram of high parts from the buffer, unless it was counted. */
void lmc_sample_count_high(lmc_sample *sample, unsigned element_nbytes, const uint8_t *buffer);

#endif
