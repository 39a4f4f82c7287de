/*
 * npy_header.h - what the header of a .npy file (numpy.lib.format, versions 1 to 3) says of its array. The header is a
 * Python literal, which a small parser reads that knows what numpy writes and nothing else.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_NPY_HEADER_H
#define LMC_SAFETENSORS_CONTAINER_NPY_HEADER_H

#include "lmc.h"

#include <stddef.h>
#include <stdint.h>

#define ST_NPY_RANK_MAX 64 /* of numpy 2 */

/* A longer header is not read. numpy reads 10,000 bytes unless it is told to trust the file. */
#define ST_NPY_HEADER_NBYTES_MAX ((uint64_t)1 << 20)

/* So many bytes tell how long the header is. */
#define ST_NPY_START_NBYTES 12

typedef struct st_npy {
    lmc_dtype dtype;
    int is_guess;  /* 1: the dtype is not told, the content is to be sampled */
    int is_object; /* 1: the array is a pickle of Python objects; nothing else is said of it */
    /* The dimensions if the elements lie in C order and are little-endian. A guessed dtype need not fit them. */
    int has_shape;
    size_t rank;
    uint64_t shape[ST_NPY_RANK_MAX];
    uint64_t data_offset; /* from the begin of the header */
    uint64_t data_nbytes;
} st_npy;

/* How many bytes the header has, with the magic: where the data begin. head: ST_NPY_START_NBYTES bytes at least. 0:
 * these are not the first bytes of a .npy file. */
uint64_t st_npy_header_nbytes(const unsigned char *head, size_t nbytes);

/* Reads the header that begins at `head`; nbytes: what is there, the header and any bytes behind it. Returns 1; or 0:
 * an array of Python objects (is_object 1), or no header that numpy writes, or its end is not there (is_object 0). */
int st_npy_read_header(const unsigned char *head, size_t nbytes, st_npy *npy);

#endif
