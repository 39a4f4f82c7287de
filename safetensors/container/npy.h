/*
 * npy.h - what the header of a .npy file (numpy.lib.format, versions 1 to 3) says of its array. The header is a
 * Python literal, which a small parser reads that knows what numpy writes and nothing else.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_NPY_H
#define LMC_SAFETENSORS_CONTAINER_NPY_H

#include "safetensors/container/segments.h"

#define ST_NPY_RANK_MAX 64 /* of numpy 2 */

/* A longer header is not read. numpy reads 10,000 bytes unless the caller says that it trusts the file. */
#define ST_NPY_HEADER_NBYTES_MAX ((uint64_t)1 << 20)

/* So many bytes tell how long the header is. */
#define ST_NPY_START_NBYTES 12

typedef struct st_npy {
    lmc_dtype dtype;
    int is_guess; /* 1: numpy's dtype is none of LMC's: `dtype` is to be sampled, elements are listed as bytes */
    int is_object;     /* 1: the array is a pickle of Python objects; nothing else is said of it */
    int is_pair;       /* 1: each element is two of `dtype` */
    int is_big_endian; /* or of an unknown order */
    int is_fortran;
    size_t rank; /* above ST_NPY_RANK_MAX: the shape is not told */
    uint64_t shape[ST_NPY_RANK_MAX + 1];
    uint64_t element_nbytes;
    uint64_t data_offset; /* from the start of the header */
    uint64_t data_nbytes;
    char note[64]; /* numpy's dtype, if is_guess */
} st_npy;

/* How many bytes the header has, with the magic: where the data begin. head: ST_NPY_START_NBYTES bytes at least. 0:
 * these are not the first bytes of a .npy file. */
uint64_t st_npy_header_nbytes(const unsigned char *head, size_t nbytes);

/* Reads the header that begins at `head`; nbytes: what is there, the header and any bytes behind it. Returns 1; or 0:
 * an array of Python objects (is_object 1), or no header that numpy writes, or its end is not there (is_object 0). */
int st_npy_read_header(const unsigned char *head, size_t nbytes, st_npy *npy);

/* Adds the array; the segment has its place and name. Errors: as st_segments_add(), IO. */
lmc_status st_npy_add(st_segments *segments, const st_npy *npy, st_segment *segment, lmc_st_diag *diag);

#endif
