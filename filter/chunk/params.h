/*
 * params.h - what the values mean that HDF5 keeps for the filter. Knows no HDF5: the type of a dataset comes as an
 * lmc_h5_type.
 */
#ifndef LMC_FILTER_CHUNK_PARAMS_H
#define LMC_FILTER_CHUNK_PARAMS_H

#include <lmc_h5.h>

/* Classes of datatypes, numbered as HDF5's H5T_class_t. */
enum {
    H5_CLASS_INTEGER = 0,
    H5_CLASS_FLOAT = 1,
    H5_CLASS_TIME = 2,
    H5_CLASS_STRING = 3,
    H5_CLASS_BITFIELD = 4,
    H5_CLASS_OPAQUE = 5,
    H5_CLASS_COMPOUND = 6,
    H5_CLASS_REFERENCE = 7,
    H5_CLASS_ENUM = 8,
    H5_CLASS_VLEN = 9,
    H5_CLASS_ARRAY = 10,
    H5_CLASS_COMPLEX = 11,
    H5_CLASS_UNKNOWN = 255
};

/* Fewer elements are no row that is worth being told apart, as those of the kernels of a convolution. */
#define H5_ROW_ELEMENT_COUNT_MIN 32

/* What the filter wants to know of a dataset's type: of an array type's base, of the members of a compound
 * that are all alike. */
typedef struct lmc_h5_type {
    unsigned class_number; /* H5_CLASS_... */
    size_t nbytes;         /* of an element; 0: unknown */
    int is_big_endian;
    unsigned exponent_nbits; /* floats whose sign is the top bit and whose exponent follows; else 0 */
    int has_fixed_size;      /* 0: elements in the file may have another size (references, variable length) */
} lmc_h5_type;

/* The pipeline before LMC. */
typedef struct lmc_h5_pipeline {
    size_t shuffle_nbytes; /* bytes of an element of HDF5's shuffle filter; 0: not there */
    int is_opaque;         /* some filter gives bytes of its own: nothing is left of the elements */
    int is_extended;       /* some filter adds bytes to a chunk (fletcher32) */
} lmc_h5_pipeline;

typedef struct lmc_h5_params {
    lmc_level level;
    int wants_rows;           /* the level came with LMC_H5_LEVEL_ROWS */
    unsigned override_nbytes; /* of an element; 0: by the type */
    unsigned block_nbytes;    /* 0: LMC chooses */

    int is_complete;         /* what follows is known */
    unsigned element_nbytes; /* 1..256 */
    unsigned type;           /* LMC_H5_TYPE_... */
    uint64_t chunk_nbytes;   /* before all filters; 0: unknown */
    unsigned row_count;      /* rows of a chunk that are coded one against the other; 0: none */
    unsigned row_nbytes;     /* of a row along the inner dimensions, as in lmc_params; 0: unknown */
} lmc_h5_params;

/* Reads values, of a user or of a file. Values that the filter has set must be whole and sensible. A failure leaves
 * what the user's values say, if it is the filter's that are wrong; else the defaults. Error: ARG, with a text that
 * names the value (lmc_h5_last_error). */
LMC_NODISCARD lmc_status lmc_h5_params_read(const unsigned *values, size_t value_count,
                                            lmc_h5_params *params);

/* The same before a dataset is created: what the filter may have set for another dataset is not looked at. */
LMC_NODISCARD lmc_status lmc_h5_params_read_user(const unsigned *values, size_t value_count,
                                                 lmc_h5_params *params);

/* The same without a failure, for chunks that must be coded whatever the file says. */
void lmc_h5_params_guess(const unsigned *values, size_t value_count, lmc_h5_params *params);

/* Completes user parameters for a dataset. chunk_nbytes: 0 if unknown. */
void lmc_h5_params_complete(lmc_h5_params *params, const lmc_h5_type *type, const lmc_h5_pipeline *pipeline,
                            uint64_t chunk_nbytes);

/* Takes note of the length of a chunk's first axis, after lmc_h5_params_complete(): it becomes row_count where rows are
 * wanted and are in the chunk as it comes to the filter. */
void lmc_h5_params_set_rows(lmc_h5_params *params, uint64_t row_count);

/* Takes note of the dimensions of a chunk, after lmc_h5_params_complete(): row_nbytes becomes the bytes of the
 * innermost dimension, and of as many before it as give H5_ROW_ELEMENT_COUNT_MIN elements. It stays 0 if the chunk has
 * only one such row, or does not come to the filter as elements.
 *  type_nbytes: bytes of one value of the dataset's type. */
void lmc_h5_params_set_row_nbytes(lmc_h5_params *params, uint64_t type_nbytes, const uint64_t *dimensions,
                                  unsigned rank);

/* Writes the values of complete parameters and returns how many there are: LMC_H5_VALUE_COUNT_MIN to
 * LMC_H5_VALUE_COUNT_MAX, without values at the end that say nothing. */
size_t lmc_h5_params_write(const lmc_h5_params *params, unsigned *values);

/* Bytes that a chunk has when it comes to the filter; 0: unknown. */
uint64_t lmc_h5_params_filtered_nbytes(const lmc_h5_params *params);

#endif
