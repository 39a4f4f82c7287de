/*
 * hdf5.h - what is in an HDF5 file: found out by libhdf5 in a process of its own, which may crash, and sent as
 * records. The side that reads them (commands/doctor_file.c) knows nothing of libhdf5.
 */
#ifndef LMC_TOOL_COMMANDS_HDF5_H
#define LMC_TOOL_COMMANDS_HDF5_H

#include <stdint.h>

#define HDF5_RANK_MAX 32
#define HDF5_FILTERS_MAX 32
#define HDF5_VALUES_MAX 20 /* as many as tools show */
#define HDF5_TEXT_NBYTES 900

typedef enum hdf5_kind {
    HDF5_VERSION, /* text: of the library, first of all */
    HDF5_NAME,    /* text: a part of the name that the next DATASET or FAULT has; it begins with "/" */
    HDF5_FILTER,  /* filter: the next one of the next DATASET */
    HDF5_DATASET,
    HDF5_FAULT,    /* text: why the object, or the file if there was no NAME, cannot be read */
    HDF5_UNLOADED, /* text: why libhdf5 cannot be used; nothing follows */
    HDF5_END       /* nothing was left out but for FAULTs */
} hdf5_kind;

typedef struct hdf5_filter {
    int id;
    int is_optional;
    uint64_t skipped_count; /* chunks that were stored without it */
    unsigned value_count;   /* of those HDF5_VALUES_MAX at most are here */
    unsigned values[HDF5_VALUES_MAX];
    char name[256]; /* as it stands in the file; may be "" */
} hdf5_filter;

typedef enum hdf5_layout {
    HDF5_COMPACT,
    HDF5_CONTIGUOUS,
    HDF5_CHUNKED,
    HDF5_VIRTUAL,
    HDF5_LAYOUTS
} hdf5_layout;

typedef struct hdf5_dataset {
    char type[64];
    hdf5_layout layout;
    int rank; /* -1: no dataspace */
    uint64_t shape[HDF5_RANK_MAX];
    uint64_t chunk_shape[HDF5_RANK_MAX];
    int is_size_known; /* nbytes fits */
    uint64_t nbytes;   /* of all elements */
    uint64_t stored_nbytes;
    uint64_t chunk_count;
    uint64_t
        examined_count; /* fewer where libhdf5 is too slow to look at all, or finds none at a chunk's place */
    /* Of the chunks examined: HDF5 before 2.2 does not notice when filters give fewer bytes than a chunk has. */
    uint64_t wrong_size_count;   /* have another size than the dataset's chunks once the filters are undone */
    uint64_t unknown_size_count; /* may have: to know it other filters than LMC would have to be run */
    int leaves_edges;            /* chunks at the edges are not filtered, as the dataset's creator wished */
    unsigned filter_count;       /* records that came before */
} hdf5_dataset;

typedef struct hdf5_record {
    hdf5_kind kind;
    unsigned nbytes; /* of text */
    union {
        char text[HDF5_TEXT_NBYTES];
        hdf5_filter filter;
        hdf5_dataset dataset;
    } of;
} hdf5_record;

/* Loads libhdf5 and sends all there is to be said of the file. Returns the exit status. To be called in a child
 * that is confined (child.h). */
int hdf5_inspect(const char *path, int pipe_fd);

#endif
