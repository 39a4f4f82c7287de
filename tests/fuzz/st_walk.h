/*
 * st_walk.h - what must hold of every file that lmc_st_open() accepts, and of every diagnostic.
 */
#ifndef LMC_FUZZ_ST_WALK_H
#define LMC_FUZZ_ST_WALK_H

#include <lmc_st_experimental.h>

/* What reading an open file tensor by tensor gave. Free `bytes`. */
typedef struct fuzz_walk {
    lmc_status status;        /* of the first tensor that could not be read; LMC_OK if none */
    int has_unread;           /* 1 if a tensor was not read whole: it is empty, or the file is too large */
    uint64_t sensible_nbytes; /* content of the tensors whose frames promise what the header says */
    int has_views;            /* 1 if a tensor's content is not that of its storage */
    uint8_t *
        bytes; /* the original file as it was read, if `status` is LMC_OK, it is not too large and has no views */
    size_t nbytes;
} fuzz_walk;

/* Ends the program unless `diag` is a proper account of `status`. */
void fuzz_claim_diag(const lmc_st_diag *diag, lmc_status status);

/* Asks for everything that can be asked of an open file and reads all of it, in several ways that must
 * agree. Of files that would become larger than `nbytes_max` only some bytes are read. */
void fuzz_walk_file(const lmc_st_file *file, uint64_t nbytes_max, fuzz_walk *walk);

#endif
