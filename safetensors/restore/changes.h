/*
 * changes.h - lmc_st_changes, which restore/changes.c finds and lists and restore/apply.c puts into memory, and what
 * both do to a frame.
 */
#ifndef LMC_SAFETENSORS_RESTORE_CHANGES_H
#define LMC_SAFETENSORS_RESTORE_CHANGES_H

#include "safetensors/base/content.h"
#include "safetensors/engine/engine.h"

/* The changes of a block. */
typedef struct st_block_changes {
    uint32_t *places;      /* with the elements behind them; NULL: none, or too many */
    unsigned char *values; /* there */
    size_t count;
    int is_kept;
} st_block_changes;

typedef struct st_tensor_changes {
    const void *base;         /* the caller's memory; NULL: in a file */
    st_block_changes *blocks; /* NULL: the tensor was not coded against a base */
    lmc_info info;
    uint64_t base_hash, content_hash; /* as the frame has them */
    size_t owner; /* number in the list of the tensor whose frame this alias uses; its own if it is none */
} st_tensor_changes;

struct lmc_st_changes {
    const lmc_st_file *file;
    lmc_allocator memory;
    size_t tensor_count;
    uint64_t nbytes; /* of all tensors but aliases: what the engine goes through */
    lmc_st_changes_use use;
    uint64_t *indices; /* in the file */
    st_tensor_changes *tensors;
};

/* A tensor whose blocks are decoded. */
typedef struct st_changing {
    const lmc_allocator *memory;
    st_frame frame;
    st_content base;          /* in a file; without steps if it is in memory, or there is none */
    lmc_block_entry *entries; /* of a frame without an index: what its blocks hashed to; else NULL */
} st_changing;

/* Opens the frame of tensor `number` of the list. On failure *opened is NULL. */
lmc_status st_changing_open(const lmc_st_changes *changes, size_t number, lmc_ctx *ctx, st_changing **opened,
                            lmc_st_diag *diag);

/* The engine's finish() and release() of slots that hold such a tensor, or nothing. */
lmc_status st_changing_finish(void *user, st_worker *worker, st_slot *slot);
void st_changing_release(void *user, st_slot *slot);

/* LMC_ERR_BASE unless the memory holds the base of tensor `number`. It may hold what the frame decodes to: then the
 * changes are there already, and the text says so. */
lmc_status st_changes_check_memory(const lmc_st_changes *changes, size_t number, const unsigned char *memory,
                                   lmc_st_diag *diag);

/* The blocks of a part, with their stored bytes in the worker's buffer. */
lmc_status st_changing_read_stored(const st_changing *tensor, st_worker *worker, const st_slot *slot,
                                   const st_part *part, st_blocks *blocks);

/* Decodes them to the worker's buffer for content. */
lmc_status st_changing_decode(const st_changing *tensor, st_worker *worker, st_blocks *blocks);

#endif
