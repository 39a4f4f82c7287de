/*
 * layout.c - zstd, and its levels; the part of the table for files of other kinds: written and read.
 */
#include "safetensors/archive/layout.h"

#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

/* ---- packing ---- */

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
    /* some builds of libzstd also read the frames of its versions before 1.0, which have other magic numbers */
    return frame_nbytes >= 4 && lmc_load32(frame) == ZSTD_MAGICNUMBER &&
           ZSTD_getFrameContentSize(frame, frame_nbytes) == nbytes &&
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

/* ---- the part of the table ---- */

/* places in the part */
#define AT_KIND 0
#define AT_GAPS_NBYTES 4
#define AT_SKELETON_NBYTES 8
#define AT_SKELETON_HASH 16
#define HEAD_NBYTES 24

#define GAP_NBYTES 8

/* ---- writing ---- */

lmc_status st_layout_pack(st_layout *layout, const lmc_allocator *memory, const st_header *header,
                          const uint64_t *places, uint64_t original_nbytes)
{
    const size_t count = header->tensor_count;
    const size_t nbytes = (count + 1) * GAP_NBYTES;
    unsigned char *const gaps = st_allocate(memory, nbytes);
    layout->gaps = st_allocate(memory, st_pack_bound(nbytes));
    layout->skeleton_nbytes = original_nbytes - header->data_nbytes;
    uint64_t before = 0; /* bytes of the skeleton */
    for (size_t i = 0; i <= count && gaps; i++) {
        const uint64_t up_to = i < count ? places[i] - header->tensors[i].begin : layout->skeleton_nbytes;
        lmc_store64(gaps + i * GAP_NBYTES, up_to - before);
        before = up_to;
    }
    layout->gaps_nbytes = gaps && layout->gaps ? st_pack(gaps, nbytes, layout->gaps) : 0;
    st_release(memory, gaps);
    return layout->gaps_nbytes == 0 ? LMC_ERR_NOMEM : LMC_OK;
}

uint64_t st_layout_nbytes(const st_layout *layout)
{
    return layout->kind == LMC_ST_CONTAINER_SAFETENSORS ? 0 : HEAD_NBYTES + st_padded(layout->gaps_nbytes);
}

uint64_t st_layout_nbytes_max(uint64_t tensor_count)
{
    return HEAD_NBYTES + (tensor_count + 1) * GAP_NBYTES;
}

unsigned char *st_layout_write(const st_layout *layout, unsigned char *dst)
{
    if (layout->kind == LMC_ST_CONTAINER_SAFETENSORS)
        return dst;
    lmc_store32(dst + AT_KIND, (uint32_t)layout->kind);
    lmc_store32(dst + AT_GAPS_NBYTES, (uint32_t)layout->gaps_nbytes);
    lmc_store64(dst + AT_SKELETON_NBYTES, layout->skeleton_nbytes);
    lmc_store64(dst + AT_SKELETON_HASH, layout->skeleton_hash);
    dst += HEAD_NBYTES;
    memset(dst, 0, st_padded(layout->gaps_nbytes));
    memcpy(dst, layout->gaps, layout->gaps_nbytes);
    return dst + st_padded(layout->gaps_nbytes);
}

/* ---- reading ---- */

uint64_t st_layout_stated_nbytes(const unsigned char *src, uint64_t left)
{
    if (left < HEAD_NBYTES)
        return 0;
    const uint64_t nbytes = HEAD_NBYTES + st_padded(lmc_load32(src + AT_GAPS_NBYTES));
    return nbytes > left ? 0 : nbytes;
}

lmc_status st_layout_read(st_layout *layout, const lmc_allocator *memory, const unsigned char *src,
                          size_t tensor_count, uint64_t offset, lmc_st_diag *diag)
{
    const uint32_t kind = lmc_load32(src + AT_KIND);
    const size_t packed_nbytes = lmc_load32(src + AT_GAPS_NBYTES);
    const unsigned char *const packed = src + HEAD_NBYTES;
    if (kind == LMC_ST_CONTAINER_SAFETENSORS || !lmc_st_container_name((lmc_st_container)kind))
        return st_fail(diag, LMC_ERR_UNSUPPORTED, offset + AT_KIND,
                       "the archive needs a newer version: it was made from a file of kind %u", kind);
    layout->kind = (lmc_st_container)kind;
    layout->skeleton_nbytes = lmc_load64(src + AT_SKELETON_NBYTES);
    layout->skeleton_hash = lmc_load64(src + AT_SKELETON_HASH);
    layout->gaps_nbytes = (tensor_count + 1) * GAP_NBYTES;
    for (size_t i = packed_nbytes; i < st_padded(packed_nbytes); i++)
        if (packed[i] != 0)
            return st_fail(diag, LMC_ERR_CORRUPT, offset + HEAD_NBYTES + i,
                           "the archive table's list of gaps is not padded with zeros");
    lmc_status status = st_pack_states(packed, packed_nbytes, layout->gaps_nbytes) ? LMC_OK : LMC_ERR_CORRUPT;
    if (status == LMC_OK) {
        layout->gaps = st_allocate(memory, layout->gaps_nbytes);
        status = !layout->gaps ? LMC_ERR_NOMEM
                               : st_unpack(packed, packed_nbytes, layout->gaps, layout->gaps_nbytes);
    }
    if (status == LMC_ERR_NOMEM)
        return st_fail_nomem(diag);
    return status == LMC_OK ? LMC_OK
                            : st_fail(diag, status, offset + HEAD_NBYTES,
                                      "the archive table's list of gaps cannot be unpacked");
}

int st_layout_places(const st_layout *layout, const st_header *header, uint64_t *places)
{
    uint64_t before = 0;
    for (size_t i = 0; i <= header->tensor_count; i++) {
        if (lmc_add_overflows(before, lmc_load64(layout->gaps + i * GAP_NBYTES), &before) ||
            before > layout->skeleton_nbytes)
            return 0;
        if (i < header->tensor_count)
            places[i] = before + header->tensors[i].begin; /* both are below the file's size */
    }
    return before == layout->skeleton_nbytes;
}

void st_layout_free(st_layout *layout, const lmc_allocator *memory)
{
    st_release(memory, layout->gaps);
    layout->gaps = NULL;
}
