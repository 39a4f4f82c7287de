/*
 * lmc_test_deep.h - frames decoded by a kernel set of the test's choice, from the stages up, and damaged frames
 * whose check is made right again, so that the damage reaches the parsers behind it.
 * After lmc_test_data.h.
 */
#ifndef LMC_TEST_DEEP_H
#define LMC_TEST_DEEP_H

#include "lmc_test_data.h"

#include "block.h"
#include "frame.h"

/* Working memory of deep_decode(). */
typedef struct deep {
    lmc_scratch scratch;
    guarded scratch_memory, source, target;
    lmc_table tables[LMC_FMT_PLANE_COUNT_MAX];
    size_t content_max;
} deep;

/* For contents of up to content_max bytes, frames of up to frame_max. */
static MAYBE_UNUSED deep *deep_open(size_t content_max, size_t frame_max)
{
    deep *const d = must_malloc(sizeof *d);
    d->scratch_memory = guarded_open(lmc_scratch_nbytes(&(lmc_scratch_size){content_max, 8, 0}));
    d->source = guarded_open(frame_max);
    d->target = guarded_open(content_max + 1);
    d->content_max = content_max;
    return d;
}

static MAYBE_UNUSED void deep_close(deep *d)
{
    guarded_close(&d->scratch_memory);
    guarded_close(&d->source);
    guarded_close(&d->target);
    free(d);
}

static lmc_status deep_stored(const lmc_kernels *kernels, const lmc_info *info, const uint8_t *content,
                              const uint8_t *tail, uint8_t *dst)
{
    const size_t count = (size_t)info->block_count;
    lmc_block_entry *const entries = must_malloc((count + 1) * sizeof *entries);
    for (size_t i = 0; i < count; i++)
        entries[i].content_hash =
            kernels->hash(content + i * info->block_nbytes, lmc_block_content_nbytes(info, i), 0);
    const uint64_t hash = lmc_content_hash(entries, count);
    free(entries);
    if (info->content_nbytes > 0)
        memcpy(dst, content, (size_t)info->content_nbytes);
    return hash == lmc_load64(tail) ? LMC_OK : LMC_ERR_CHECKSUM;
}

/* As lmc_decode() does it, with these kernels, between guard pages. The status is the first fault's. Contents
 * larger than content_max are LMC_ERR_LIMIT. *content: where it stands, *nbytes: its size. */
static MAYBE_UNUSED lmc_status deep_decode(deep *d, const lmc_kernels *kernels, const uint8_t *bytes,
                                           size_t frame_nbytes, const uint8_t **content, size_t *nbytes)
{
    lmc_info info;
    lmc_coding coding;
    lmc_diag diag;
    const uint8_t *const frame = guarded_copy(&d->source, bytes, frame_nbytes);
    lmc_status status = lmc_head_read(frame, frame_nbytes, &info, &diag);
    if (status != LMC_OK)
        return status;
    const int is_coded = info.mode == LMC_FRAME_CODED;
    const uint64_t least =
        info.head_nbytes + info.tail_nbytes + (is_coded ? info.block_count : info.content_nbytes);
    if (frame_nbytes < least)
        return LMC_ERR_TRUNCATED;
    if (!is_coded && frame_nbytes != least)
        return LMC_ERR_CORRUPT;
    const uint8_t *const tail = frame + frame_nbytes - info.tail_nbytes;
    const size_t body_nbytes = (size_t)lmc_tail_body_nbytes(&info);
    if (lmc_frame_check(kernels, frame, info.head_nbytes, tail, body_nbytes) !=
        lmc_load64(tail + body_nbytes))
        return LMC_ERR_CHECKSUM;
    if (is_coded)
        status = lmc_coding_read(frame + LMC_FMT_HEAD_NBYTES, lmc_section_nbytes(&info), info.element_nbytes,
                                 d->tables, &coding, &diag);
    if (status != LMC_OK)
        return status;
    uint64_t offset = info.head_nbytes;
    for (uint64_t i = 0; is_coded && i < info.block_count; i++) {
        const uint32_t stored_nbytes = lmc_load32(tail + i * LMC_FMT_INDEX_ENTRY_NBYTES);
        if (stored_nbytes == 0 || stored_nbytes > lmc_block_content_nbytes(&info, i) + 1)
            return LMC_ERR_CORRUPT;
        offset += stored_nbytes;
    }
    if (is_coded && offset != frame_nbytes - info.tail_nbytes)
        return LMC_ERR_CORRUPT;
    if (info.content_nbytes > d->content_max)
        return LMC_ERR_LIMIT;
    *nbytes = (size_t)info.content_nbytes;
    uint8_t *const dst = guarded_end(&d->target, *nbytes);
    *content = dst;
    if (!is_coded)
        return deep_stored(kernels, &info, frame + info.head_nbytes, tail, dst);
    offset = info.head_nbytes;
    for (uint64_t i = 0; i < info.block_count; i++) {
        const uint8_t *const entry = tail + i * LMC_FMT_INDEX_ENTRY_NBYTES;
        const size_t block_nbytes = lmc_block_content_nbytes(&info, i);
        const size_t n = (size_t)lmc_div_ceil(block_nbytes, info.element_nbytes);
        const lmc_block_memory memory = {0, (int)(i & 1)};
        uint64_t hash;
        const lmc_scratch_size size = {n, info.element_nbytes, 0};
        lmc_scratch_place(&d->scratch, &size, guarded_end(&d->scratch_memory, lmc_scratch_nbytes(&size)));
        status = lmc_block_decode(kernels, &coding, &d->scratch, frame + offset, lmc_load32(entry), memory,
                                  dst + i * info.block_nbytes, block_nbytes, &hash, &diag);
        if (status == LMC_OK && hash != lmc_load64(entry + 4))
            status = LMC_ERR_CHECKSUM;
        if (status != LMC_OK)
            return status;
        offset += lmc_load32(entry);
    }
    return LMC_OK;
}

/* Makes the check of a damaged frame right (format.md "Tail"), if it still has a place. */
static MAYBE_UNUSED void deep_reseal(uint8_t *frame, size_t frame_nbytes)
{
    lmc_info info;
    if (lmc_head_read(frame, frame_nbytes, &info, NULL) != LMC_OK || frame_nbytes < info.head_nbytes ||
        frame_nbytes - info.head_nbytes < info.tail_nbytes)
        return;
    uint8_t *const tail = frame + frame_nbytes - info.tail_nbytes;
    const size_t body_nbytes = (size_t)lmc_tail_body_nbytes(&info);
    lmc_store64(tail + body_nbytes,
                lmc_frame_check(lmc_kernels_get(), frame, info.head_nbytes, tail, body_nbytes));
}

#endif
