/*
 * hdf5_library.h - the functions of libhdf5, loaded when they are needed: the command is not linked to it. The
 * headers of HDF5 serve for types and numbers alone; macros of theirs that call the library do not link.
 */
#ifndef LMC_TOOL_COMMANDS_HDF5_LIBRARY_H
#define LMC_TOOL_COMMANDS_HDF5_LIBRARY_H

#include <hdf5.h>

#include <stddef.h>

#if H5_VERSION_GE(1, 12, 0)
#define HDF5_VERSIONED(F) F(H5Literate2) F(H5Oget_info3)
typedef H5L_info2_t hdf5_link_info;
typedef H5O_info2_t hdf5_object_info;
#else
#define HDF5_VERSIONED(F) F(H5Literate) F(H5Oget_info2)
typedef H5L_info_t hdf5_link_info;
typedef H5O_info_t hdf5_object_info;
#endif

/* Later versions walk over all chunks at once, and want to know how much room there is for a chunk. */
#if H5_VERSION_GE(2, 0, 0)
#define HDF5_CHUNKS(F) F(H5Dchunk_iter) F(H5Dread_chunk2)
#elif H5_VERSION_GE(1, 14, 0)
#define HDF5_CHUNKS(F) F(H5Dchunk_iter) F(H5Dread_chunk)
#else
#define HDF5_CHUNKS(F) F(H5Dget_chunk_info) F(H5Dread_chunk)
#endif

#define HDF5_FUNCTIONS(F)         \
    F(H5Dget_chunk_storage_size)  \
    F(H5Dget_create_plist)        \
    F(H5Dget_num_chunks)          \
    F(H5Dget_space)               \
    F(H5Dget_storage_size)        \
    F(H5Dget_type)                \
    F(H5Eset_auto2)               \
    F(H5Ewalk2)                   \
    F(H5Fclose)                   \
    F(H5Fget_filesize)            \
    F(H5Fopen)                    \
    F(H5Iget_file_id)             \
    F(H5Iget_type)                \
    F(H5Oclose)                   \
    F(H5Oopen)                    \
    F(H5Pclose)                   \
    F(H5Pget_chunk)               \
    F(H5Pget_chunk_opts)          \
    F(H5Pget_filter2)             \
    F(H5Pget_layout)              \
    F(H5Pget_nfilters)            \
    F(H5Sclose)                   \
    F(H5Sget_simple_extent_dims)  \
    F(H5Sget_simple_extent_ndims) \
    F(H5Sget_simple_extent_type)  \
    F(H5Tclose)                   \
    F(H5Tget_class)               \
    F(H5Tget_fields)              \
    F(H5Tget_member_type)         \
    F(H5Tget_nmembers)            \
    F(H5Tget_order)               \
    F(H5Tget_sign)                \
    F(H5Tget_size)                \
    F(H5Tget_super)               \
    F(H5Tis_variable_str)         \
    F(H5get_libversion)           \
    HDF5_VERSIONED(F)             \
    HDF5_CHUNKS(F)

/* One pointer for each, under the function's own name. */
typedef struct hdf5_library {
#define HDF5_POINTER(name) __typeof__(name) *name;
    HDF5_FUNCTIONS(HDF5_POINTER)
#undef HDF5_POINTER
} hdf5_library;

/* Loads it. Returns 1, or 0 with the reason in `cause`. */
int hdf5_load(hdf5_library *hdf5, char *cause, size_t capacity);

/* Why the latest call failed, as the innermost function says. */
void hdf5_cause(const hdf5_library *hdf5, char *cause, size_t capacity);

/* ---- the parts of an inspection ---- */

/* Writes what a type is, in short: "f32", "bf16", "i16 big-endian", "text[8]", "record[12]". */
void hdf5_type_name(const hdf5_library *hdf5, hid_t type, char *shown, size_t capacity);

/* 1 if a value has as many bytes in the file as in memory, which H5Tget_size() tells: values of variable length and
 * references do not. */
int hdf5_type_is_fixed(const hdf5_library *hdf5, hid_t type);

/* Sends the filters and the numbers of an open dataset; returns 0 if that cannot be known. */
int hdf5_send_dataset(const hdf5_library *hdf5, hid_t dataset, int pipe_fd);

#endif
