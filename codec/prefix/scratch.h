/*
 * scratch.h - the working memory of one thread, laid out once for a block size, and the reading of a stored block with
 * it. Stages only point into it; ctx.c allocates it.
 */
#ifndef LMC_CODEC_PREFIX_SCRATCH_H
#define LMC_CODEC_PREFIX_SCRATCH_H

#include "codec/kernels/kernels.h"

/* Readable bytes behind symbols that a kernel decodes from: a strip of them and a group, as in LMC_PLANE_SLACK. */
#define LMC_SYMBOLS_SLACK (LMC_STRIP_VALUES + 64)

/* Room for copies of planes that end too near the end of their input to be read with slack. Only planes that end
 * within the slack are copied, and no input byte twice. So that is the content of one whole plane and of the slack,
 * and a slack for each bit plane, for the symbols behind each layer, and for each stored plane of a block or of its
 * groups. */
#define LMC_COPIES_FIXED_NBYTES                                                                            \
    ((LMC_FMT_PLANE_COUNT_MAX + 1) * LMC_SYMBOLS_SLACK + (LMC_FMT_PLANE_COUNT_MAX + 1) * LMC_PLANE_SLACK + \
     LMC_FMT_PLANE_COUNT_MAX * (LMC_FMT_LAYER_NBITS_MAX * LMC_FMT_LAYER_COUNT_MAX + 2) * LMC_PLANE_SLACK)

/* What belongs to a group of narrow elements: a scale, or a palette among the values in scratch->palettes. */
typedef struct lmc_group {
    float scale;
    uint32_t value_first, value_count;
} lmc_group;

/* Groups of n elements at most, since groups and rows have LMC_FMT_GROUP_LENGTH_MIN elements or more. */
#define LMC_GROUP_COUNT_MAX(n) (2 * ((n) / LMC_FMT_GROUP_LENGTH_MIN + 2))

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
    /* for narrow elements, else NULL: */
    uint8_t *narrow;          /* value_capacity of them, of element_nbytes / 2 bytes at most, padded */
    uint8_t *palettes;        /* value_capacity elements */
    uint64_t *exception_bits; /* as bitset */
    lmc_group *groups;        /* of LMC_GROUP_COUNT_MAX(value_capacity) */
    /* for deltas, else NULL: */
    uint32_t *class_ends;     /* for each strip of a block, elements of each class up to its end */
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
    int has_narrow; /* elements are made from narrow ones */
} lmc_scratch_size;

/* Bytes of one allocation that holds everything above. */
size_t lmc_scratch_nbytes(const lmc_scratch_size *size);

/* Lays the members out in `memory` of that size, aligned to LMC_SCRATCH_ALIGNMENT. Kernels take whole groups of
 * elements; what they make of those behind the last one is not used. Any bytes do, but with zeros tools that look for
 * reads of memory that was never written find none. */
void lmc_scratch_place(lmc_scratch *scratch, const lmc_scratch_size *size, uint8_t *memory);

/* ---- reading a stored block ---- */

/* Reads a block's bytes for kernels, which need readable slack behind each plane. A plane comes out as a pointer into
 * the block or, near the block's end, to a copy in scratch. Nothing beyond the block is read. */
typedef struct lmc_source {
    lmc_reader reader; /* the block's stored bytes */
    uint8_t *copies;   /* free part of scratch->copies */
    uint8_t *copies_end;
    int is_padded; /* LMC_SYMBOLS_SLACK bytes behind the block are readable: no plane is copied */
} lmc_source;

LMC_INLINE void lmc_source_open(lmc_source *source, const lmc_scratch *scratch, const uint8_t *stored,
                                size_t stored_nbytes)
{
    source->reader = (lmc_reader){stored, stored + stored_nbytes, 0};
    source->copies = scratch->copies;
    source->copies_end = scratch->copies + scratch->copies_capacity;
    source->is_padded = 0;
}

/* For stored bytes with LMC_SYMBOLS_SLACK readable bytes behind them. */
LMC_INLINE void lmc_source_open_padded(lmc_source *source, const uint8_t *stored, size_t stored_nbytes)
{
    *source = (lmc_source){.reader = {stored, stored + stored_nbytes, 0}, .is_padded = 1};
}

/* The next nbytes, with `slack` readable bytes behind them (any values), or NULL when fewer are left. */
LMC_INLINE const uint8_t *lmc_source_plane(lmc_source *source, size_t nbytes, size_t slack)
{
    const uint8_t *const p = lmc_read_span(&source->reader, nbytes);
    if (!p || source->is_padded || lmc_reader_left(&source->reader) >= slack)
        return p;
    assert(nbytes + slack <= (size_t)(source->copies_end - source->copies));
    uint8_t *const copy = source->copies;
    memcpy(copy, p, nbytes);
    memset(copy + nbytes, 0, slack);
    source->copies += nbytes + slack;
    return copy;
}

/* The next plane of n bits, with LMC_PLANE_SLACK behind it. NULL also if spare bits of the last byte are not 0. */
LMC_INLINE const uint8_t *lmc_source_bits(lmc_source *source, size_t n)
{
    const uint8_t *const p = lmc_source_plane(source, lmc_bits_nbytes(n), LMC_PLANE_SLACK);
    return p && !lmc_has_spare_bits(p, n) ? p : NULL;
}

#endif
