/*
 * pack.h - bytes that are no tensor, compressed with zstd: headers, lists, skeletons. What zstd makes no smaller is
 * kept as it is.
 */
#ifndef LMC_SAFETENSORS_ARCHIVE_PACK_H
#define LMC_SAFETENSORS_ARCHIVE_PACK_H

#include "safetensors/common/common.h"
#include "safetensors/common/memory.h"

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

#endif
