/*
 * sample.h - what the elements of a chunk are, when neither the type of the dataset nor the user has said it.
 * A guess costs ratio at most, never bytes.
 */
#ifndef LMC_FILTER_CHUNK_SAMPLE_H
#define LMC_FILTER_CHUNK_SAMPLE_H

#include <lmc.h>

/* For little-endian elements of 1, 2, 4 or 8 bytes: the float or the unsigned integer of that size. Of f16 and bf16
 * it says bf16: the codec tries the cuts of both. */
lmc_dtype h5_sample_dtype(const unsigned char *content, size_t nbytes, unsigned element_nbytes);

/* The size of element, 1, 2, 4 or 8, under which the bytes are most regular. */
unsigned h5_sample_element_nbytes(const unsigned char *content, size_t nbytes);

#endif
