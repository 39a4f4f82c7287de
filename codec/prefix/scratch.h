/*
 * scratch.h - the working memory of one thread, laid out once for a block size. Stages only point into it; ctx.c
 * allocates it.
 */
#ifndef LMC_CODEC_PREFIX_SCRATCH_H
#define LMC_CODEC_PREFIX_SCRATCH_H

#include "codec/kernels/kernels.h"

/* Readable bytes behind symbols that a kernel decodes from: a strip of them and a group, as in LMC_PLANE_SLACK. */
#define LMC_SYMBOLS_SLACK (LMC_STRIP_VALUES + 64)

/* Room for copies of planes that end too near the end of their input to be read with slack. Only planes that end
 * within the slack are copied, and no input byte twice. So that is the content of one whole plane and of the slack,
 * and a slack for each bit plane, for the symbols behind each layer, and for each stored plane of a block. */
#define LMC_COPIES_FIXED_NBYTES                          \
    ((LMC_FMT_PLANE_COUNT_MAX + 1) * LMC_SYMBOLS_SLACK + \
     LMC_FMT_PLANE_COUNT_MAX * (LMC_FMT_LAYER_NBITS_MAX * LMC_FMT_LAYER_COUNT_MAX + 2) * LMC_PLANE_SLACK)

typedef struct lmc_scratch {
    size_t value_capacity;                     /* values of the largest block it serves */
    size_t element_nbytes;                     /* bytes of the widest element it serves */
    void *hash_state;                          /* of kernels->hash_update */
    uint8_t *strip;                            /* LMC_STRIP_VALUES symbols, padded */
    uint8_t *strip_values;                     /* LMC_STRIP_VALUES elements */
    uint8_t *next_symbols[2];                  /* value_capacity + LMC_SYMBOLS_SLACK each */
    uint8_t *partial[LMC_FMT_LAYER_NBITS_MAX]; /* value_capacity bits + 16 bytes each */
    uint8_t *plane[LMC_FMT_PLANE_COUNT_MAX];   /* value_capacity + LMC_SYMBOLS_SLACK each */
    uint8_t *copies;                           /* planes copied for slack */
    size_t copies_capacity;
    uint64_t *bitset;     /* a bit for each value of a plane, in whole words, + 1 word */
    uint64_t *mask;       /* a bit for each element of a block, as bitset */
    uint8_t *values;      /* value_capacity elements: those that a mask keeps */
    uint8_t *exceptions;  /* value_capacity + LMC_SYMBOLS_SLACK bytes: the exceptions of a plane */
    uint16_t *escapes;    /* value_capacity */
    uint32_t *gaps;       /* value_capacity + LMC_GAP_SLACK */
    uint64_t *hierarchy;  /* all steps of a hierarchical bitmap of value_capacity bits */
    uint16_t *strip_high; /* LMC_STRIP_VALUES high parts, padded */
    uint16_t *shifts;     /* of LMC_STRIP_VALUES elements, padded */
    int32_t *row_values;  /* of each row of a block, of LMC_FMT_COLUMN_COUNT_MIN elements or more ... */
    uint16_t *rows;       /* ... and their offsets */
    /* for deltas, else NULL: */
    uint8_t *classes;         /* value_capacity, padded */
    uint8_t *high_lists;      /* lists of all classes: LMC_HIGH_LISTS_NBYTES */
    uint16_t *wide_high;      /* of one list: value_capacity + LMC_HIGH_SLACK */
    uint8_t *symbols;         /* of one list: value_capacity + LMC_SYMBOLS_SLACK */
    uint8_t *stored;          /* a stored block and LMC_SYMBOLS_SLACK */
    uint64_t *sign_changes;   /* as bitset */
    void *content_hash_state; /* as hash_state, which is the base's meanwhile */
    lmc_change *changes;      /* LMC_STRIP_VALUES */
    uint64_t *bucket_bitsets; /* LMC_FMT_BUCKET_COUNT times value_capacity bits and a slack */
} lmc_scratch;

#define LMC_SCRATCH_ALIGNMENT 64

/* Bytes of n high parts in lists of one or two bytes each; a list of bytes has its upper bytes elsewhere. */
#define LMC_HIGH_LISTS_NBYTES(n) (2 * ((n) + LMC_FMT_CLASS_COUNT_MAX * LMC_HIGH_SLACK))

/* Words that may be read, and written by a bit writer, behind a bitset in scratch->hierarchy. */
#define LMC_BITSET_SLACK_WORDS 3

/* The blocks that the scratch serves. */
typedef struct lmc_scratch_size {
    size_t value_capacity; /* values of the largest one */
    size_t element_nbytes; /* bytes of the widest element */
    int has_deltas;
} lmc_scratch_size;

/* Bytes of one allocation that holds everything above. */
size_t lmc_scratch_nbytes(const lmc_scratch_size *size);

/* Lays the members out in `memory` of that size, aligned to LMC_SCRATCH_ALIGNMENT. */
void lmc_scratch_place(lmc_scratch *scratch, const lmc_scratch_size *size, uint8_t *memory);

#endif
