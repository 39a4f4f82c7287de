/*
 * delta_sample.h - a sample of a tensor and its base: differences between sampled elements and the base's elements,
 * counted by the key of the latter. It knows no costs; delta_plan.h decides by it.
 */
#ifndef LMC_CODEC_DELTA_DELTA_SAMPLE_H
#define LMC_CODEC_DELTA_DELTA_SAMPLE_H

#include "codec/common/diag.h"
#include "codec/common/input.h"
#include "codec/kernels/kernels.h"
#include "lmc.h"

/* Pairs of elements sampled at most. */
#define LMC_PAIRS_MAX 32768

/* Differences are counted in bins of 5 significant bits. The bounds of all buckets but the last, shifted by any
 * number of bits, are bounds of bins. */
#define LMC_BIN_NBITS 5
#define LMC_BIN_COUNT ((1 << LMC_BIN_NBITS) + (64 - LMC_BIN_NBITS) * (1 << (LMC_BIN_NBITS - 1)))

LMC_INLINE unsigned lmc_bin_of(uint64_t z)
{
    const uint64_t significant = z | 1u << (LMC_BIN_NBITS - 1); /* small numbers are not shifted */
    const unsigned shift = 63u - (unsigned)__builtin_clzll(significant) - (LMC_BIN_NBITS - 1);
    return (1u << (LMC_BIN_NBITS - 1)) * shift + (unsigned)(z >> shift);
}

/* Pairs whose base elements have neighbouring keys. */
#define LMC_KEY_GROUPS_MAX 32
typedef struct lmc_key_group {
    uint8_t first_key;
    uint32_t n, sign_changes;
    uint32_t below[LMC_BIN_COUNT + 1]; /* up to bin_count: pairs with a difference in a lower bin */
} lmc_key_group;

typedef struct lmc_delta_sample {
    size_t pair_count;
    unsigned bin_count;   /* bins that elements of this width can have */
    unsigned group_count; /* at least 1; the first one's first_key is 0 */
    lmc_key_group group[LMC_KEY_GROUPS_MAX];
    lmc_key_group joined; /* room for two groups as one */
} lmc_delta_sample;

/* The pairs of a sample: elements and the base's elements. */
typedef struct lmc_pairs {
    unsigned element_nbytes;
    size_t count;
    const uint8_t *content, *base; /* count elements each */
} lmc_pairs;

/* The places in a large tensor where runs of pairs stand. */
#define LMC_PAIRS_PLACE_COUNT 8

/* Reads run_count runs of run_values neighbours, LMC_PAIRS_MAX pairs at most; all pairs if there are no more. run_count
 * is a multiple of LMC_PAIRS_PLACE_COUNT. buffer: LMC_PAIRS_BUFFER_NBYTES. Errors: what a read returns. */
#define LMC_PAIRS_BUFFER_NBYTES (2 * 8 * LMC_PAIRS_MAX)
LMC_NODISCARD lmc_status lmc_pairs_read(const lmc_content *content, size_t run_values, size_t run_count,
                                        uint8_t *buffer, lmc_pairs *pairs);

/* The number of pairs that differ. */
size_t lmc_pairs_changed(const lmc_pairs *pairs);

/* About the least that codes of the content's planes take, in bits an element: the entropies of its bytes. The two
 * upper bytes are coded together, so only the larger of theirs counts. */
double lmc_pairs_floor_nbits(const lmc_pairs *pairs);

/* Counts the pairs as delta->transform and delta->key_shift say. */
void lmc_delta_sample_count(lmc_delta_sample *sample, const lmc_kernels *kernels, const lmc_delta *delta,
                            const lmc_pairs *pairs);

#endif
