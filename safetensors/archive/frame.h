/*
 * frame.h - frames in an archive: opening one from its head and tail, reading and decoding runs of its blocks, and
 * comparing what it says of itself with what the original header and the table say of its tensor.
 */
#ifndef LMC_SAFETENSORS_ARCHIVE_FRAME_H
#define LMC_SAFETENSORS_ARCHIVE_FRAME_H

#include "safetensors/archive/handle.h"

/* The frame of a tensor. Immutable once open: threads may share it. */
typedef struct st_frame {
    const lmc_st_file *file;
    size_t index;     /* of the tensor */
    lmc_frame *coded; /* NULL: not open */
    lmc_info info;
} st_frame;

/* A run of blocks of a frame, one behind the other, and where their content goes. */
typedef struct st_blocks {
    uint64_t first, count;
    const unsigned char *base; /* the bytes of the base that belong to them; NULL if the frame has none */
    unsigned char *dst;
    size_t dst_nbytes;
    lmc_block_entry *entries; /* one per block of the run; NULL if the frame has an index */
    const unsigned char *stored;
    size_t stored_nbytes;
} st_blocks;

/* Reads and verifies head and tail of the frame of tensor `index`, and that they promise its dtype, size and content
 * hash. ahead: what may have been read of the file already, or NULL. Ends with st_frame_close() in every case. */
lmc_status st_frame_open(st_frame *frame, const lmc_st_file *file, const st_window *ahead, lmc_ctx *ctx,
                         size_t index, lmc_st_diag *diag);
void st_frame_close(st_frame *frame);

/* 1 if the frame has an index, by which each block can be verified alone. */
static inline int st_frame_has_index(const lmc_info *info)
{
    return info->mode == LMC_FRAME_CODED || info->mode == LMC_FRAME_DELTA;
}

/* Stored bytes of blocks first .. first + count - 1: they stand one behind the other. */
lmc_status st_frame_extent(const st_frame *frame, uint64_t first, uint64_t count, uint64_t *offset,
                           size_t *nbytes, lmc_st_diag *diag);

/* Decodes blocks whose stored bytes are there. */
lmc_status st_frame_decode(const st_frame *frame, lmc_ctx *ctx, const st_blocks *blocks, lmc_st_diag *diag);

/* The changes of a run of one block, whose stored bytes and base are there (lmc_decode_delta_changes()). */
lmc_status st_frame_decode_changes(const st_frame *frame, lmc_ctx *ctx, const st_blocks *block,
                                   lmc_changes *changes, lmc_st_diag *diag);

/* Reads the stored bytes of blocks into the room. */
lmc_status st_frame_read_stored(const st_frame *frame, const lmc_allocator *memory, st_buffer *room,
                                st_blocks *blocks, lmc_st_diag *diag);

/* The same, and decodes them. */
lmc_status st_frame_read(const st_frame *frame, lmc_ctx *ctx, const lmc_allocator *memory, st_buffer *room,
                         st_blocks *blocks, lmc_st_diag *diag);

/* CHECKSUM unless the entries of all blocks give the content hash: what makes blocks of a frame without
 * an index trustworthy. */
lmc_status st_frame_check_entries(const st_frame *frame, const lmc_block_entry *entries, lmc_st_diag *diag);

#endif
