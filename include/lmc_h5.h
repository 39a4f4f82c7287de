/*
 * lmc_h5.h - LMC as an HDF5 filter: its number and parameters, and chunks coded without HDF5.
 *
 * Programs that use HDF5 need none of this. HDF5 finds the filter by its number if HDF5_PLUGIN_PATH names the directory
 * of libh5lmc.so. The calls below are for programs that write and read stored chunks themselves (H5Dwrite_chunk,
 * H5Dread_chunk), on any number of threads. The calls produce the bytes that the filter stores, and decode them
 * (docs/hdf5-filter.md). libh5lmc.so and liblmc_h5 export them. The conventions and the promise of stability are those
 * of lmc.h.
 */
#ifndef LMC_H5_H
#define LMC_H5_H

#include "lmc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Number of the filter in HDF5 files. An LMC built with another one (-DLMC_H5_FILTER_ID=N, 256..65535) does
 * not read files of this one. */
#ifndef LMC_H5_FILTER_ID
#define LMC_H5_FILTER_ID 59810
#endif

/* The filter's name in every file. Tools show it if the plugin is missing. */
#define LMC_H5_FILTER_NAME "lmc (needs LMC's plugin libh5lmc.so in a directory of HDF5_PLUGIN_PATH)"

/* ---- parameters --------------------------------------------------------------------------------- */

/* The values that HDF5 keeps for the filter of a dataset ("cd_values"). A user gives up to three. The filter adds the
 * others when the dataset is created. */
enum {
    LMC_H5_VALUE_LEVEL = 0,               /* an lmc_level, or one plus LMC_H5_LEVEL_ROWS */
    LMC_H5_VALUE_USER_ELEMENT_NBYTES = 1, /* 1, 2, 4 or 8; 0 for that of the dataset's type */
    LMC_H5_VALUE_BLOCK_KIB = 2,           /* KiB of a block: a power of two from 16 to 1024; 0: LMC chooses */
    LMC_H5_VALUE_MAGIC = 3,               /* LMC_H5_MAGIC: the values from here on were set by the filter */
    LMC_H5_VALUE_FILTER_ELEMENT_NBYTES = 4, /* bytes of an element as the filter takes it, 1..256 */
    LMC_H5_VALUE_TYPE = 5,                  /* LMC_H5_TYPE_...: class, flags, dtype */
    LMC_H5_VALUE_CHUNK_LOW = 6,             /* bytes of a chunk before all filters, modulo 2^32 ... */
    LMC_H5_VALUE_CHUNK_HIGH = 7,            /* ... and divided by it */
    /* Not every dataset has the values from here on. One that is not there is 0. */
    LMC_H5_VALUE_ROWS = 8,      /* with LMC_H5_LEVEL_ROWS: rows of a chunk, 2 to 65536; 0: rows are ignored */
    LMC_H5_VALUE_ROW_NBYTES = 9 /* bytes of a row of a matrix (lmc_params.row_nbytes); 0: unknown */
};

/* Values that a user gives at most, that every dataset has, and that a dataset has at most. */
#define LMC_H5_USER_VALUE_COUNT 3
#define LMC_H5_VALUE_COUNT_MIN 8
#define LMC_H5_VALUE_COUNT_MAX 10

/* Added to a level: the rows of a chunk along the first axis are snapshots of one tensor. Each row is coded against the
 * row before it. A chunk is still read without any other chunk. */
#define LMC_H5_LEVEL_ROWS 16

#define LMC_H5_MAGIC 0x31434d4cu /* bytes "LMC1" */

#define LMC_H5_BLOCK_KIB_MIN 16
#define LMC_H5_BLOCK_KIB_MAX 1024

/* The parts of LMC_H5_VALUE_TYPE. */
#define LMC_H5_TYPE_CLASS(value) ((value)&0xffu)         /* H5T_class_t; of an array type its base's */
#define LMC_H5_TYPE_BIG_ENDIAN 0x100u                    /* elements begin with their high byte */
#define LMC_H5_TYPE_SHUFFLED 0x200u                      /* the chunk comes from HDF5's shuffle */
#define LMC_H5_TYPE_RESIZED 0x400u                       /* chunks arrive with another size than [6] [7] */
#define LMC_H5_TYPE_COLUMNS 0x800u                       /* elements are coded by byte offset */
#define LMC_H5_TYPE_DTYPE(value) ((value) >> 16 & 0xffu) /* lmc_dtype + 1; 0: as a sample says */
#define LMC_H5_TYPE_SHUFFLE_SPAN(value) ((value) >> 24 & 0xffu) /* elements to one of the shuffle filter's */

/* ---- chunks ------------------------------------------------------------------------------------- */

/* A stored chunk is never larger than the chunk plus this many bytes. */
#define LMC_H5_OVERHEAD_MAX 64

/* Capacity that lmc_h5_encode_chunk() requires: more than LMC_H5_OVERHEAD_MAX allows, for work on the way.
 * Errors: LMC_ERR_ARG; LMC_ERR_LIMIT when the sum does not fit a size_t. */
LMC_NODISCARD LMC_API lmc_status lmc_h5_encode_bound(size_t chunk_nbytes, size_t *bound);

/* Encodes a chunk as the filter does for a dataset with these values.
 *  ctx: scratch of this thread; with NULL the call takes its own, which the thread keeps until it ends.
 *   lmc_h5_last_error() says what went wrong, and lmc_ctx_diag() need not.
 *  values: as HDF5 gives them for the dataset (H5Pget_filter_by_id2; in h5py
 *   dataset.id.get_create_plist().get_filter(i)[2]), or only the user's values; value_count may be 0. With fewer values
 *   than the dataset has, a chunk can be read as well but may be larger. Rows (LMC_H5_LEVEL_ROWS) need
 *   LMC_H5_VALUE_ROWS: the user's values contain neither the rows nor the length of a row of a matrix. If the filter
 *   has set the values, but not that length, it may be appended: LMC_H5_VALUE_ROWS, 0 if there was none, then
 *   LMC_H5_VALUE_ROW_NBYTES. Such a row has whole elements. The chunk of the values has two or more such rows and
 *   nothing else. LMC_ERR_ARG if not.
 *  chunk: the bytes that HDF5 would hand to the filter: a whole chunk, edges padded, in the file's type,
 *   after the filters before LMC (if any).
 *  dst_capacity: at least lmc_h5_encode_bound(), else LMC_ERR_DST_SMALL.
 * Uses only this thread, unless ctx was given more (lmc_ctx_set_thread_count()).
 * Errors: LMC_ERR_ARG (also values that are not valid, and a chunk of another size than they say), LMC_ERR_NOMEM,
 * LMC_ERR_DST_SMALL. */
LMC_NODISCARD LMC_API lmc_status lmc_h5_encode_chunk(lmc_ctx *ctx, const unsigned *values, size_t value_count,
                                                     const void *chunk, size_t chunk_nbytes, void *dst,
                                                     size_t dst_capacity, size_t *dst_nbytes);

/* Bytes that lmc_h5_decode_chunk() will give for a stored chunk. Reads only the heads. Refuses a size that the stored
 * bytes are too few for (at least 13 for each 8 MiB). The answer is unverified: use it only as an upper bound.
 * Errors: LMC_ERR_ARG, LMC_ERR_TRUNCATED, LMC_ERR_CORRUPT, LMC_ERR_UNSUPPORTED, LMC_ERR_CHECKSUM, LMC_ERR_LIMIT. */
LMC_NODISCARD LMC_API lmc_status lmc_h5_chunk_nbytes(const void *stored, size_t stored_nbytes,
                                                     size_t *chunk_nbytes);

/* Decodes a stored chunk of any dataset. It needs no values.
 *  dst_capacity: at least lmc_h5_chunk_nbytes(), else LMC_ERR_DST_SMALL.
 * A stored chunk says its own size. In an untrusted file it may differ from the size of the dataset's chunks: compare
 * *dst_nbytes with the bytes that you expect (examples/h5_inspect.py does this for a whole file).
 * A chunk whose filter mask (H5Dread_chunk) has LMC's bit set was stored without LMC: do not pass it.
 * Uses only this thread, unless ctx was given more (lmc_ctx_set_thread_count()).
 * Errors: LMC_ERR_ARG, LMC_ERR_NOMEM, LMC_ERR_DST_SMALL, LMC_ERR_TRUNCATED, LMC_ERR_CORRUPT, LMC_ERR_UNSUPPORTED,
 * LMC_ERR_CHECKSUM, LMC_ERR_LIMIT; never LMC_ERR_BASE, as a chunk holds the rows that its other rows were coded
 * against. */
LMC_NODISCARD LMC_API lmc_status lmc_h5_decode_chunk(lmc_ctx *ctx, const void *stored, size_t stored_nbytes,
                                                     void *dst, size_t dst_capacity, size_t *dst_nbytes);

/* The latest failure of this thread, of the filter or of a call above, as one line of text; "" if there was none. HDF5
 * 1.14 and 2.0 drop the text of a filter's failure: look here. Owned by the library, valid until the thread's next
 * call. Each copy of the library has its own text: ask libh5lmc.so about the filter. */
LMC_API const char *lmc_h5_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
