/*
 * pack.c - zstd, and its levels.
 */
#include "safetensors/archive/pack.h"

#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

/* Level 19 gains a tenth over 6 and takes a second a MiB. */
#define LEVEL_SMALL 19
#define LEVEL_LARGE 6
#define SMALL_NBYTES ((size_t)256 << 10)

size_t st_pack_bound(size_t nbytes)
{
    return ZSTD_compressBound(nbytes);
}

size_t st_pack(const void *src, size_t nbytes, void *dst)
{
    const int level = nbytes <= SMALL_NBYTES ? LEVEL_SMALL : LEVEL_LARGE;
    const size_t packed = ZSTD_compress(dst, ZSTD_compressBound(nbytes), src, nbytes, level);
    if (ZSTD_isError(packed))
        return 0; /* with a sufficient capacity zstd has no other reason to fail than memory */
    if (packed < nbytes)
        return packed;
    memcpy(dst, src, nbytes);
    return nbytes;
}

int st_frame_states(const void *frame, size_t frame_nbytes, size_t nbytes)
{
    return ZSTD_getFrameContentSize(frame, frame_nbytes) == nbytes &&
           ZSTD_findFrameCompressedSize(frame, frame_nbytes) == frame_nbytes;
}

lmc_status st_unpack_frame(const void *frame, size_t frame_nbytes, void *dst, size_t dst_nbytes)
{
    if (!st_frame_states(frame, frame_nbytes, dst_nbytes))
        return LMC_ERR_CORRUPT;
    const size_t got = ZSTD_decompress(dst, dst_nbytes, frame, frame_nbytes);
    if (ZSTD_isError(got) && ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
        return LMC_ERR_NOMEM;
    return ZSTD_isError(got) || got != dst_nbytes ? LMC_ERR_CORRUPT : LMC_OK;
}

int st_pack_states(const void *packed, size_t packed_nbytes, size_t nbytes)
{
    return packed_nbytes == nbytes || st_frame_states(packed, packed_nbytes, nbytes);
}

lmc_status st_unpack(const void *packed, size_t packed_nbytes, void *dst, size_t dst_nbytes)
{
    if (packed_nbytes != dst_nbytes)
        return st_unpack_frame(packed, packed_nbytes, dst, dst_nbytes);
    if (dst_nbytes > 0)
        memcpy(dst, packed, dst_nbytes);
    return LMC_OK;
}
