/*
 * library.h - the functions of the libhdf5 that called. One process may hold several (h5py, PyTables and netCDF4
 * bring one each, by different names), so they are found from the address that a callback returns to.
 *
 * Thread-safe without locks, so that a fork at any moment does no harm; what was found is kept for good.
 */
#ifndef LMC_FILTER_PLUGIN_LIBRARY_H
#define LMC_FILTER_PLUGIN_LIBRARY_H

#include "filter/plugin/hdf5_abi.h"

typedef struct h5_library {
    unsigned version[3];

    int (*get_version)(unsigned *major, unsigned *minor, unsigned *release);
    int (*get_filter_by_id)(h5_id plist, int id, unsigned *flags, size_t *value_count, unsigned *values,
                            size_t name_nbytes, char *name, unsigned *config);
    int (*modify_filter)(h5_id plist, int id, unsigned flags, size_t value_count, const unsigned *values);
    int (*get_filter_count)(h5_id plist);
    int (*get_filter)(h5_id plist, unsigned index, unsigned *flags, size_t *value_count, unsigned *values,
                      size_t name_nbytes, char *name, unsigned *config);
    int (*get_chunk)(h5_id plist, int dimension_count, uint64_t *dimensions);
    int (*type_class)(h5_id type);
    size_t (*type_nbytes)(h5_id type);
    int (*type_order)(h5_id type);
    h5_id (*type_super)(h5_id type);
    int (*type_member_count)(h5_id type);
    h5_id (*type_member)(h5_id type, unsigned index);
    int (*type_is_variable_string)(h5_id type);
    int (*type_close)(h5_id type);

    /* These may be NULL. A program with HDF5 within has the first only if it calls it, for the linker. */
    int (*type_fields)(h5_id type, size_t *sign, size_t *exponent, size_t *exponent_nbits, size_t *mantissa,
                       size_t *mantissa_nbits);
    int (*push_error)(h5_id stack, const char *file, const char *function, unsigned line, h5_id error_class,
                      h5_id major, h5_id minor, const char *format, ...);
    const h5_id *error_class;
    const h5_id *error_major;
    const h5_id *error_minor;
    void *(*allocate)(size_t nbytes, unsigned clear);
    int (*release)(void *memory);
} h5_library;

/* The library that holds the code at `site`, the return address of a callback. NULL when its functions cannot be
 * found, as in programs that hold HDF5 without exporting it. */
const h5_library *h5_library_of(const void *site);

/* The address that the function which uses this returns to. */
#define H5_CALL_SITE() __builtin_extract_return_addr(__builtin_return_address(0))

/* Puts a line of text on the error stack of the library, if it takes it. library may be NULL. */
void h5_library_push(const h5_library *library, const char *function, const char *text);

/* Memory for a buffer that is handed to the library, and for one that came from it. */
void *h5_library_allocate(const h5_library *library, size_t nbytes);
void h5_library_release(const h5_library *library, void *memory);

#endif
