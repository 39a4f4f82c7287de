/*
 * chunk_head.h - the head of a stored chunk that is more than one frame: which bytes were moved where, and where its
 * frames stand. Parses and writes; allocates nothing.
 */
#ifndef LMC_FILTER_CHUNK_CHUNK_HEAD_H
#define LMC_FILTER_CHUNK_CHUNK_HEAD_H

#include <lmc_h5.h>

#include "filter/chunk/wire.h"

typedef struct lmc_h5_head {
    unsigned layout;      /* H5_WIRE_LAYOUT_... */
    unsigned swap_nbytes; /* 2, 4, 8: bytes of the elements whose bytes were reversed; 0: none were */
    unsigned width;       /* bytes of a record; 0 in a plain layout, and in rows of what was not shuffled */
    unsigned row_count;   /* in rows; else 0 */
    unsigned frame_count; /* width in columns, row_count in rows, else 1 */
    size_t nbytes;        /* of the head */
} lmc_h5_head;

/* Whether the chunk is in columns and the content of the frames in records: what undoes the shuffle filter. */
int lmc_h5_head_has_records(const lmc_h5_head *head);

/* Whether stored bytes begin with such a head: if not, they are a frame. */
int lmc_h5_head_is_there(const unsigned char *stored, size_t stored_nbytes);

/* Fills frame_count and nbytes from the other members. */
void lmc_h5_head_complete(lmc_h5_head *head);

/* Writes head->nbytes bytes. frame_nbytes: of all frames but the last. */
void lmc_h5_head_write(const lmc_h5_head *head, const uint32_t *frame_nbytes, unsigned char *dst);

/* Reads and verifies. Errors: TRUNCATED, CORRUPT, UNSUPPORTED, CHECKSUM, with lmc_h5_last_error. */
LMC_NODISCARD lmc_status lmc_h5_head_read(const unsigned char *stored, size_t stored_nbytes,
                                          lmc_h5_head *head);

/* Bytes of frame i of a head that was read. Only the last one's size depends on offset, where it begins: 0 if that is
 * beyond the end. */
size_t lmc_h5_head_frame_nbytes(const lmc_h5_head *head, const unsigned char *stored, size_t stored_nbytes,
                                unsigned i, size_t offset);

#endif
