/*
 * hdf5_dataset.h - an open dataset while it is looked at.
 */
#ifndef LMC_TOOL_COMMANDS_HDF5_DATASET_H
#define LMC_TOOL_COMMANDS_HDF5_DATASET_H

#include "tool/commands/hdf5.h"
#include "tool/commands/hdf5_library.h"

typedef struct hdf5_inspection {
    const hdf5_library *hdf5;
    hid_t dataset;
    hid_t space;
    hid_t properties;      /* of its creation */
    uint64_t item_nbytes;  /* of an element in memory */
    int is_item_fixed;     /* it has as many bytes in the file */
    uint64_t file_nbytes;  /* of the file: no chunk has more */
    unsigned char *stored; /* of the chunk that is being looked at */
    size_t stored_capacity;
    hdf5_dataset found;
    hdf5_filter filters[HDF5_FILTERS_MAX];
} hdf5_inspection;

/* Counts a chunk and the filters that were skipped for it. */
void hdf5_count_chunk(hdf5_inspection *it, unsigned filter_mask);

/* Counts the chunk at that place as hdf5_count_chunk(), and as one of wrong or unknown size if it is one. Reads what is
 * stored of it. Counts nothing if libhdf5 finds no chunk there, or one of no bytes. */
void hdf5_look_at_chunk(hdf5_inspection *it, const hsize_t *offset);

/* Counts all chunks, or fewer (found.examined_count). The rest is known by now. Returns 0 if libhdf5 fails. */
int hdf5_look_at_chunks(hdf5_inspection *it);

#endif
