/*
 * arrange.h - which models of a store should need no other, and what each other one should be based on, so that all of
 * them take the least space under a limit of depth. Numbers in memory only.
 *
 * With depth 1 this is facility location: a set of key models is sought by local search (a model enters the set, leaves
 * it, or takes the place of another one) from two starts, the present set and one that grows greedily. With a greater
 * depth, models then move below others that need one themselves, as long as that saves.
 */
#ifndef LMC_SAFETENSORS_STORE_ARRANGE_H
#define LMC_SAFETENSORS_STORE_ARRANGE_H

#include "safetensors/common/memory.h"
#include "safetensors/common/st_common.h"

#define ST_ARRANGE_NONE SIZE_MAX

/* What a model takes if it is based on another one. */
typedef struct st_base_cost {
    uint32_t model, base;
    double nbytes;
} st_base_cost;

typedef struct st_arrangement {
    const lmc_allocator *memory;
    size_t model_count;
    const double *alone_nbytes; /* what each takes without a base */
    const st_base_cost *costs;  /* by rising `model` */
    size_t cost_count;
    uint64_t depth; /* at least 1 */
} st_arrangement;

/* What all models take, given the base of each; ST_ARRANGE_NONE: it has none. A base that has no cost counts as
 * none. */
double st_arrangement_nbytes(const st_arrangement *arrangement, const size_t *base);

/* base: of each model now, and as it should be afterwards. Never takes more than now, if that keeps to the depth.
 * Error: NOMEM. */
lmc_status st_arrange(const st_arrangement *arrangement, size_t *base);

#endif
