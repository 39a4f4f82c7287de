/*
 * chunk.h - a chunk of a dataset becomes a stored chunk, and back (docs/hdf5-filter.md, section 3). The calls of
 * lmc_h5.h and the filter are thin layers over these two functions.
 */
#ifndef LMC_FILTER_CHUNK_CHUNK_H
#define LMC_FILTER_CHUNK_CHUNK_H

#include "filter/chunk/params.h"

/* As lmc_h5_encode_chunk(). The capacity must be lmc_h5_encode_bound(). Threads: those of ctx. */
LMC_NODISCARD lmc_status lmc_h5_chunk_encode(lmc_ctx *ctx, const lmc_h5_params *params,
                                             const unsigned char *chunk, size_t chunk_nbytes,
                                             unsigned char *dst, size_t dst_capacity, size_t *dst_nbytes);

/* As lmc_h5_chunk_nbytes(). A chunk that claims to be much larger than its stored form is believed only after its
 * checksums were verified. Errors: NOMEM too. */
LMC_NODISCARD lmc_status lmc_h5_chunk_size(lmc_ctx *ctx, const unsigned char *stored, size_t stored_nbytes,
                                           size_t *chunk_nbytes);

/* Decodes a chunk of the size that lmc_h5_chunk_size() gave; dst has chunk_nbytes. Threads: those of ctx. */
LMC_NODISCARD lmc_status lmc_h5_chunk_decode(lmc_ctx *ctx, const unsigned char *stored, size_t stored_nbytes,
                                             unsigned char *dst, size_t chunk_nbytes);

#endif
