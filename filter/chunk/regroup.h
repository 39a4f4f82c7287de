/*
 * regroup.h - the order of a chunk's bytes: records to columns and back, elements with their bytes reversed.
 * Pure loops; bytes that do not fill a record stay where they are, at the end.
 */
#ifndef LMC_FILTER_CHUNK_REGROUP_H
#define LMC_FILTER_CHUNK_REGROUP_H

#include <stddef.h>

/* Of nbytes / width records: byte j of record i goes from src[i * width + j] to dst[j * count + i]. */
void lmc_h5_records_to_columns(const unsigned char *src, size_t nbytes, size_t width, unsigned char *dst);

/* The inverse. This is also what undoes HDF5's shuffle filter. */
void lmc_h5_columns_to_records(const unsigned char *src, size_t nbytes, size_t width, unsigned char *dst);

/* Reverses the bytes of every element of 2, 4 or 8 bytes. dst may be src. */
void lmc_h5_swap_elements(const unsigned char *src, size_t nbytes, size_t element_nbytes, unsigned char *dst);

#endif
