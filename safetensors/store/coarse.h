/*
 * coarse.h - the coarse parts of all sketches of one kind, packed: what a search reads from its beginning to its end.
 */
#ifndef LMC_SAFETENSORS_STORE_COARSE_H
#define LMC_SAFETENSORS_STORE_COARSE_H

#include "safetensors/store/database.h"

/* A row begins with u32 file and u32 tensor. */
#define ST_COARSE_HEAD_NBYTES 8

/* Tensors whose sketches can be compared. */
typedef struct st_kind {
    uint16_t dtype;
    uint64_t nbytes;
    /* of the matrices, of whose first nbytes bytes there are head sketches; 0: sketches */
    uint64_t row_nbytes;
} st_kind;

int st_kind_compare(const st_kind *a, const st_kind *b);

/* What the database has of a kind; id 0: nothing. */
typedef struct st_coarse {
    st_kind kind;
    int64_t id;
    uint64_t row_count;
    uint64_t dead_count;
} st_coarse;

size_t st_coarse_row_nbytes(const st_kind *kind);

/* Errors of all: CORRUPT, IO, NOMEM. */
lmc_status st_coarse_find(st_database *database, const st_kind *kind, st_coarse *coarse, lmc_st_diag *diag);

/* Adds rows at the end of those of a kind, which may be new. */
lmc_status st_coarse_append(st_database *database, const st_kind *kind, const unsigned char *rows,
                            size_t count, lmc_st_diag *diag);

/* Some rows of a kind. */
typedef lmc_status (*st_coarse_rows_fn)(void *user, const unsigned char *rows, size_t count);

/* All rows. Errors also: what `visit` returned. */
lmc_status st_coarse_scan(st_database *database, const st_coarse *coarse, st_coarse_rows_fn visit, void *user,
                          lmc_st_diag *diag);

/* Says that so many more rows of the kind are dead. If most are, the others move together. memory: for the time of the
 * call. The files of dead rows are gone already. */
lmc_status st_coarse_add_dead(st_database *database, const st_kind *kind, size_t count,
                              const lmc_allocator *memory, lmc_st_diag *diag);

#endif
