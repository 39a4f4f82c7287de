/*
 * layout.h - bytes that are no tensor: how headers, lists and skeletons are packed; and the part of an archive's
 * table for files of other kinds than safetensors, which says what kind the file was, and how many bytes stand
 * between its tensors (docs/archive.md, section 8). Bytes in memory only; no files.
 */
#ifndef LMC_SAFETENSORS_ARCHIVE_LAYOUT_H
#define LMC_SAFETENSORS_ARCHIVE_LAYOUT_H

#include "safetensors/common/memory.h"
#include "safetensors/common/st_common.h"
#include "safetensors/header/header.h"

/* ---- packing ---- */

/* Packed bytes are compressed with zstd. What zstd makes no smaller is kept as it is. */

/* Room that packing nbytes bytes needs. */
size_t st_pack_bound(size_t nbytes);

/* Packs the bytes as one zstd frame that states its content's size, or copies them: never more than nbytes. Returns
 * their size, 0 if there is no memory. dst has st_pack_bound() bytes, nbytes is above 0. */
size_t st_pack(const void *src, size_t nbytes, void *dst);

/* The way back: exactly dst_nbytes bytes. packed_nbytes equal to dst_nbytes: they were copied. Returns LMC_OK, NOMEM,
 * or CORRUPT: it is not one frame of this size. */
lmc_status st_unpack(const void *packed, size_t packed_nbytes, void *dst, size_t dst_nbytes);

/* 1 if what is packed states that it holds nbytes bytes, and is one frame: before there is room for them. */
int st_pack_states(const void *packed, size_t packed_nbytes, size_t nbytes);

/* The same two for bytes that are a zstd frame, whatever their number. */
lmc_status st_unpack_frame(const void *frame, size_t frame_nbytes, void *dst, size_t dst_nbytes);
int st_frame_states(const void *frame, size_t frame_nbytes, size_t nbytes);

/* ---- the part of the table ---- */

typedef struct st_layout {
    lmc_st_container kind;    /* LMC_ST_CONTAINER_SAFETENSORS: there is no such part */
    uint64_t skeleton_nbytes; /* bytes of the file that belong to no tensor */
    uint64_t skeleton_hash;   /* of the index of its pieces (archive/archive_skeleton.h) */
    /* Bytes before each tensor, and behind the last one: a u64 each. For the writer, as they stand in the table. */
    unsigned char *gaps;
    size_t gaps_nbytes;
} st_layout;

/* Fills in all but the hash for a file whose tensors begin at `places`. Errors: NOMEM. Free with st_layout_free() in
 * every case. */
lmc_status st_layout_pack(st_layout *layout, const lmc_allocator *memory, const st_header *header,
                          const uint64_t *places, uint64_t original_nbytes);

/* Where each tensor begins in the original file, from a layout that was read. Returns 0 if the sizes contradict each
 * other. */
int st_layout_places(const st_layout *layout, const st_header *header, uint64_t *places);

/* Bytes of the part, a multiple of 8; 0 for a safetensors file. */
uint64_t st_layout_nbytes(const st_layout *layout);

/* The most bytes that the part may have for so many tensors. */
uint64_t st_layout_nbytes_max(uint64_t tensor_count);

/* Bytes that the part at src states to have; 0 if that is more than `left`. */
uint64_t st_layout_stated_nbytes(const unsigned char *src, uint64_t left);

/* Writes the part; returns its end. */
unsigned char *st_layout_write(const st_layout *layout, unsigned char *dst);

/* Reads a part whose size is right. Free with st_layout_free() in every case. Offsets of faults count from `offset`.
 * Errors: CORRUPT, UNSUPPORTED, NOMEM. */
lmc_status st_layout_read(st_layout *layout, const lmc_allocator *memory, const unsigned char *src,
                          size_t tensor_count, uint64_t offset, lmc_st_diag *diag);
void st_layout_free(st_layout *layout, const lmc_allocator *memory);

#endif
