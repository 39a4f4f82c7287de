/*
 * damage.h - what is wrong with an archive whose reading goes on after a fault: the damaged blocks of a
 * tensor, put into one sentence, and the list of tensors that are lost.
 */
#ifndef LMC_SAFETENSORS_RESTORE_DAMAGE_H
#define LMC_SAFETENSORS_RESTORE_DAMAGE_H

#include "safetensors/common/memory.h"
#include "safetensors/common/st_common.h"

/* One tensor's. All zero: no damage. */
typedef struct st_damage {
    int is_damaged;
    unsigned char *blocks; /* a bit for each block; NULL: the frame as a whole */
    uint64_t block_count;
    uint64_t first_block;
    lmc_st_diag diag; /* of the whole or of the first block */
} st_damage;

/* Notes that block `block` of `block_count` is damaged, for the reason in `diag`. Error: NOMEM. */
lmc_status st_damage_note_block(st_damage *damage, const lmc_allocator *memory, uint64_t block,
                                uint64_t block_count, const lmc_st_diag *diag);

/* Notes that the tensor as a whole cannot be had. */
void st_damage_note(st_damage *damage, const lmc_st_diag *diag);

/* Adds the list of blocks to the text of damage->diag. */
void st_damage_describe(st_damage *damage);

void st_damage_free(st_damage *damage, const lmc_allocator *memory);

/* A file's. */
typedef struct st_damage_log {
    unsigned char *is_lost; /* per tensor */
    uint64_t lost_count;
    lmc_st_diag first;
} st_damage_log;

lmc_status st_damage_log_init(st_damage_log *log, const lmc_allocator *memory, size_t tensor_count,
                              lmc_st_diag *diag);
void st_damage_log_free(st_damage_log *log, const lmc_allocator *memory);

/* Enters tensor `index`, in rising order. */
void st_damage_log_add(st_damage_log *log, size_t index, const st_damage *damage);

/* 1 for what bad data gives, 0 for a failure of the system or a cancelled call. */
int st_is_damage(lmc_status status);

#endif
