/*
 * near.h - the first part of a search: rows of the index that are near to the wanted tensors. All rows of a kind are
 * compared with all the wanted tensors of that kind if there are few, else with one of them, the probe.
 */
#ifndef LMC_SAFETENSORS_STORE_NEAR_H
#define LMC_SAFETENSORS_STORE_NEAR_H

#include "safetensors/store/coarse.h"
#include "safetensors/store/index.h"

/* Rows that are kept for a tensor. */
#define ST_NEAR_COUNT_MAX 32

#define ST_VERDICT_COUNT 1024

/* A wanted tensor among the rows of a kind. */
typedef struct st_query {
    st_kind kind;
    lmc_base_form form;
    uint32_t wanted;
} st_query;

/* The queries of one kind and form, [begin, end). */
typedef struct st_query_group {
    st_query like; /* the first */
    size_t begin, end;
    st_coarse coarse;
    size_t passed; /* tensors of that kind in the file that is being compared */
} st_query_group;

typedef struct st_near_row {
    uint32_t file, tensor, distance;
    uint8_t form, is_head;
} st_near_row;

/* The nearest first. */
typedef struct st_near_list {
    uint32_t count;
    float weight; /* how much the tensor says about a file */
    st_near_row rows[ST_NEAR_COUNT_MAX];
} st_near_list;

typedef struct st_search {
    st_index *index;
    const st_index_tensor *wanted;
    size_t count;
    st_index_allowed_fn is_allowed;
    void *user;
    st_index_hits *hits;
    uint32_t *head_spreads;
    st_near_list *near;  /* one for each of the wanted */
    st_query *queries;   /* by kind, form, wanted */
    st_sketch *sketches; /* of each query */
    size_t query_count;
    st_query_group *groups; /* in the order of the queries */
    st_query_group *order;  /* the same in another order */
    size_t group_count;
    struct {
        uint32_t file; /* 0: none */
        int is_allowed;
    } verdicts[ST_VERDICT_COUNT]; /* about the files that were near */
    lmc_st_diag *diag;
} st_search;

/* Begins a search. st_search_free() follows, even after a failure. Errors: NOMEM, CORRUPT, IO. */
lmc_status st_search_init(st_search *search, st_index *index, const st_index_tensor *wanted, size_t count,
                          st_index_hits *hits, lmc_st_diag *diag);
void st_search_free(st_search *search);

/* Fills the lists. Errors: NOMEM, CORRUPT, IO. */
lmc_status st_search_find_near(st_search *search);

/* By kind, then form. */
int st_query_compare(const st_query *a, const st_query *b);

/* Distance of what has nothing to do with the wanted tensor. */
static inline uint32_t st_search_spread(const st_search *search, uint32_t wanted, int is_head)
{
    return is_head ? search->head_spreads[wanted] : search->hits[wanted].spread;
}

/* Distant relatives have two thirds of the spread, the nearest of many strangers nine tenths. */
static inline int st_search_is_near(uint32_t distance, uint32_t spread)
{
    return distance == 0 || distance < spread - 3 * (spread / 16);
}

#endif
