/*
 * sample.h - what the plan looks at: some values of a tensor, read through the caller's function, and the
 * histograms of their planes. Knows no codes.
 */
#ifndef LMC_CODEC_SAMPLE_H
#define LMC_CODEC_SAMPLE_H

#include "coding.h"

/* Values sampled at most: runs of neighbours spread over the tensor. */
#define LMC_SAMPLE_RUN_VALUES 512
#define LMC_SAMPLE_RUN_COUNT 128
#define LMC_SAMPLE_VALUES (LMC_SAMPLE_RUN_VALUES * LMC_SAMPLE_RUN_COUNT)

/* Resolution of the head's histogram: fine enough for 4 offsets a bin of 4 low bits and 8 of more. */
#define LMC_SAMPLE_HEAD_NBITS 14
#define LMC_SAMPLE_HEAD_SHIFT (LMC_FMT_HEAD_NBITS - LMC_SAMPLE_HEAD_NBITS)

typedef struct lmc_sample {
    uint64_t value_count; /* of the tensor */
    uint64_t seen_count;  /* of these, in the sample */
    int has_mask;         /* mask_value is frequent enough for a mask: it is not in the histograms */
    uint64_t mask_value;  /* else 0 */
    int is_exact;         /* every value is in `head` */
    int is_low_exact;     /* every value is in `head_low` and `rest` too, unless they are noise */
    int is_low_noise;     /* no code would gain anything there */
    uint8_t rotation;     /* the planes below are those of values rotated by so much */
    uint32_t head[1 << LMC_SAMPLE_HEAD_NBITS]; /* by the head's top bits (elements of 1 byte: by the byte) */
    uint32_t head_low[256];                    /* by the head's low byte */
    uint32_t rest[LMC_FMT_PLANE_COUNT_MAX - 2][256]; /* element bytes below the head */
} lmc_sample;

/* Reads values and fills the histograms.
 *  content_nbytes: at least one whole element of unit_nbytes.
 *  is_signed: the top bit is a sign. It is rotated to the bottom unless it never changes, or nothing does there.
 *  exact: look at every value. buffer: LMC_SAMPLE_BUFFER_NBYTES.
 * Errors: what read returns. */
#define LMC_SAMPLE_BUFFER_NBYTES (LMC_SAMPLE_VALUES * 8)
LMC_NODISCARD lmc_status lmc_sample_take(lmc_sample *sample, uint64_t content_nbytes, unsigned unit_nbytes,
                                         int is_signed, int exact, lmc_read_fn read, void *user,
                                         uint8_t *buffer);

#endif
