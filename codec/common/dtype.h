/*
 * dtype.h - properties of element types that the codec needs beyond lmc.h.
 */
#ifndef LMC_CODEC_COMMON_DTYPE_H
#define LMC_CODEC_COMMON_DTYPE_H

#include "lmc.h"

typedef enum lmc_dtype_kind {
    LMC_KIND_BYTES, /* opaque or packed: the codec knows nothing of the bits */
    LMC_KIND_INT,
    LMC_KIND_FLOAT
} lmc_dtype_kind;

/* Precondition of all: (unsigned)dtype < LMC_DTYPE_COUNT. */
lmc_dtype_kind lmc_dtype_get_kind(lmc_dtype dtype);

/* Bytes of the element that is split into planes: 1, 2, 4 or 8. A C64 counts as two elements of 4. */
unsigned lmc_dtype_element_nbytes(lmc_dtype dtype);

/* Exponent bits of a float type, 0 for others. */
unsigned lmc_dtype_exponent_nbits(lmc_dtype dtype);

#endif
