/*
 * cli_hdf5_dataset.h - an open dataset while it is looked at.
 */
#ifndef LMC_ST_CLI_HDF5_DATASET_H
#define LMC_ST_CLI_HDF5_DATASET_H

#include "cli_hdf5.h"
#include "cli_hdf5_library.h"

typedef struct hdf5_inspection {
    const hdf5_library *hdf5;
    hid_t dataset;
    hid_t space;
    hid_t properties;     /* of its creation */
    uint64_t item_nbytes; /* of an element */
    hdf5_dataset found;
    hdf5_filter filters[HDF5_FILTERS_MAX];
} hdf5_inspection;

/* Counts the chunks that filters skipped. The rest is known by now. Returns 0 if libhdf5 fails. */
int hdf5_look_at_chunks(hdf5_inspection *it);

#endif
