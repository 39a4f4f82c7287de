/*
 * input.h - what an encoder and a decoder get: content, and what is stored. All stages pass on these structs by
 * pointer.
 */
#ifndef LMC_CODEC_COMMON_INPUT_H
#define LMC_CODEC_COMMON_INPUT_H

#include "lmc_experimental.h"

/* A tensor that is to be encoded, and the base that it may be compared with. */
typedef struct lmc_content {
    lmc_dtype dtype;
    lmc_level level;
    unsigned element_nbytes;
    uint64_t nbytes;
    uint64_t value_count;  /* whole elements */
    unsigned block_log2;   /* values of a block; 0: the plan chooses */
    uint32_t column_count; /* elements of a row; 0: no matrix of LMC_ROW_COUNT_MIN rows, or unknown */
    lmc_base_form base_form;
    lmc_read_fn read, read_base; /* read_base is NULL without a base */
    void *user;                  /* of both reads */
    const uint8_t *src,
        *base; /* where they lie if they are whole in memory, else NULL; encode.c alone looks */
} lmc_content;

/* A block of the content. */
typedef struct lmc_content_block {
    uint64_t first; /* its first element, in the frame */
    const uint8_t *src;
    size_t nbytes;       /* at least 1 */
    const uint8_t *base; /* of a delta frame: the part of the base that belongs to the block */
    /* So many bytes behind the block are readable and will be encoded next. Rows are looked at before the block is
     * encoded: they had better be in the cache then. */
    size_t ahead_nbytes;
} lmc_content_block;

/* A frame or a block as it is stored, and the base that it was encoded against. */
typedef struct lmc_stored {
    const uint8_t *bytes;
    size_t nbytes;
    const uint8_t *base; /* of the frame, or the part that belongs to the block; NULL: none */
    size_t base_nbytes;
    /* For a single block. 0 is right for the last three, which say what becomes of the content. */
    uint64_t first;       /* its first element, in the frame */
    uint64_t base_hash;   /* of a delta frame: the hash that the base's part must have */
    size_t ahead_nbytes;  /* readable bytes behind the stored bytes, which will be decoded next */
    int past_cache;       /* the block goes to an output too large for the caches */
    lmc_changes *changes; /* not NULL: only what differs from the base is wanted */
} lmc_stored;

#endif
