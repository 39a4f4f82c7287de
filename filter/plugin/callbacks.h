/*
 * callbacks.h - what HDF5 calls: set_local when a dataset is created, filter for each chunk.
 */
#ifndef LMC_FILTER_PLUGIN_CALLBACKS_H
#define LMC_FILTER_PLUGIN_CALLBACKS_H

#include "filter/plugin/hdf5_abi.h"

/* Completes the filter's values on a dataset's creation properties. Returns 0, or -1 with an error on HDF5's stack;
 * 0 without having done anything when HDF5's functions are out of reach. */
int h5_set_local(h5_id dcpl, h5_id type, h5_id space);

/* Replaces *buffer by its encoded or decoded form. Returns its size; 0 for a failure, which changes nothing. */
size_t h5_filter(unsigned flags, size_t value_count, const unsigned *values, size_t nbytes,
                 size_t *buffer_nbytes, void **buffer);

#endif
