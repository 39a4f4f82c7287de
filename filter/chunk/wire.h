/*
 * wire.h - every constant of a stored chunk that is more than one frame. Defines only; the text is
 * docs/hdf5-filter.md, section 3.
 */
#ifndef LMC_FILTER_CHUNK_WIRE_H
#define LMC_FILTER_CHUNK_WIRE_H

#define H5_WIRE_MAGIC 0x484d4c8cu /* bytes 8c 4c 4d 48: the first three as in a frame, then "H" */
#define H5_WIRE_VERSION 1

#define H5_WIRE_HEAD_NBYTES 10 /* then in rows their count, a u32 for each frame but the last, the check */
#define H5_WIRE_ROW_COUNT_NBYTES 4
#define H5_WIRE_FRAME_SIZE_NBYTES 4
#define H5_WIRE_CHECK_NBYTES 8

/* layouts: where a byte of the chunk stands in what the frames hold */
#define H5_WIRE_LAYOUT_PLAIN 0
#define H5_WIRE_LAYOUT_COLUMNS 1 /* a frame for each byte offset of a record */
#define H5_WIRE_LAYOUT_RECORDS 2 /* the chunk is in columns (shuffled), the frame holds records */
#define H5_WIRE_LAYOUT_ROWS 3    /* a frame for each row of the first axis, against the row before */

#define H5_WIRE_WIDTH_MIN 2 /* bytes of a record */
#define H5_WIRE_WIDTH_MAX 256

#define H5_WIRE_ROW_COUNT_MIN 2
#define H5_WIRE_ROW_COUNT_MAX 65536

/* of all layouts but ROWS */
#define H5_WIRE_HEAD_NBYTES_MAX \
    (H5_WIRE_HEAD_NBYTES + H5_WIRE_FRAME_SIZE_NBYTES * (H5_WIRE_WIDTH_MAX - 1) + H5_WIRE_CHECK_NBYTES)

#endif
