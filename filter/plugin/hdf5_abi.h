/*
 * hdf5_abi.h - the part of HDF5's binary interface that a filter needs, declared by hand: the plugin serves every
 * libhdf5 from 1.10 on, and HDF5's own headers would tie it to one. Names and values are HDF5's (H5Zpublic.h,
 * H5PLextern.h, H5Epublic.h, H5Tpublic.h).
 */
#ifndef LMC_FILTER_PLUGIN_HDF5_ABI_H
#define LMC_FILTER_PLUGIN_HDF5_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int64_t h5_id; /* hid_t since 1.10 */

/* H5Z_class2_t */
typedef struct h5_filter_class {
    int version; /* H5Z_CLASS_T_VERS */
    int id;
    unsigned encoder_present;
    unsigned decoder_present;
    const char *name;
    int (*can_apply)(h5_id dcpl, h5_id type, h5_id space);
    int (*set_local)(h5_id dcpl, h5_id type, h5_id space);
    size_t (*filter)(unsigned flags, size_t value_count, const unsigned *values, size_t nbytes,
                     size_t *buffer_nbytes, void **buffer);
} h5_filter_class;

#define H5_FILTER_CLASS_VERSION 1
#define H5_PLUGIN_TYPE_FILTER 0 /* H5PL_TYPE_FILTER */

/* H5Z_FLAG_OPTIONAL: a chunk for which the filter fails is stored without it. H5Z_FLAG_REVERSE: decode. */
#define H5_FLAG_OPTIONAL 0x0001u
#define H5_FLAG_REVERSE 0x0100u

/* Filters of HDF5 itself, by their numbers. */
#define H5_FILTER_SHUFFLE 2
#define H5_FILTER_FLETCHER32 3

#define H5_DIMENSIONS_MAX 33  /* H5S_MAX_RANK + 1 */
#define H5_ORDER_BIG_ENDIAN 1 /* H5T_ORDER_BE */
#define H5_ERROR_STACK 0      /* H5E_DEFAULT */

#endif
