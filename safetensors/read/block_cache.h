/*
 * block_cache.h - decoded blocks that threads share. A block is decoded once as long as it stays, by the thread that
 * asks for it first, or ahead of it by a thread of the cache. Which bytes a block has, its maker knows.
 */
#ifndef LMC_SAFETENSORS_READ_BLOCK_CACHE_H
#define LMC_SAFETENSORS_READ_BLOCK_CACHE_H

#include "safetensors/read/decoder.h"

/* What makes the blocks 0 .. block_count-1 of one subject. Several threads may call it at once. */
typedef struct st_block_maker st_block_maker;
struct st_block_maker {
    uint64_t block_count;
    size_t (*nbytes)(const st_block_maker *maker, uint64_t number); /* at least 1 */
    lmc_status (*make)(st_block_maker *maker, uint64_t number, st_scratch *scratch, unsigned char *dst,
                       lmc_st_diag *diag);
};

/* A block that is in use. */
typedef struct st_block st_block;

const unsigned char *st_block_bytes(const st_block *block);

/* Gives a block, which is made if it is not there; it ends with st_cache_put(). If the reader of this maker follows
 * the order of the blocks, the next ones are made ahead. Errors: those of the maker, NOMEM. */
lmc_status st_cache_get(lmc_st_cache *cache, st_block_maker *maker, uint64_t number, st_block **block,
                        lmc_st_diag *diag);
void st_cache_put(lmc_st_cache *cache, st_block *block);

/* Forgets all blocks of a maker, none of which is in use, and waits for those that are being made. */
void st_cache_forget(lmc_st_cache *cache, st_block_maker *maker);

#endif
