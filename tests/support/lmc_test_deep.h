/*
 * lmc_test_deep.h - frames decoded by a kernel set of the test's choice, from the stages up, and damaged frames
 * whose check is made right again, so that the damage reaches the parsers behind it.
 * After lmc_test_data.h.
 */
#ifndef LMC_TEST_DEEP_H
#define LMC_TEST_DEEP_H

#include "lmc_test_data.h"

#include "codec/delta/delta.h"
#include "codec/delta/delta_plan.h"
#include "codec/frame/head_tail.h"
#include "codec/narrow/narrow_block.h"

/* Working memory of deep_decode(). */
typedef struct deep {
    lmc_scratch scratch;
    guarded scratch_memory, source, target;
    guarded block, base; /* delta: a block's stored bytes, and its part of the base */
    guarded columns;     /* offsets of a plan */
    uint8_t *base_values;
    lmc_table tables[LMC_FMT_PLANE_COUNT_MAX];
    lmc_rans rans;
    lmc_bucket_code bucket_code;
    size_t content_max;
} deep;

/* A base that a test has. A frame may claim a larger one: then it gets none. */
typedef struct deep_base {
    const uint8_t *bytes;
    size_t nbytes;
} deep_base;

/* For contents of up to content_max bytes, frames of up to frame_max. */
static MAYBE_UNUSED deep *deep_open(size_t content_max, size_t frame_max)
{
    deep *const d = must_malloc(sizeof *d);
    d->scratch_memory = guarded_open(lmc_scratch_nbytes(&(lmc_scratch_size){content_max, 8, 1, 1}));
    d->source = guarded_open(frame_max);
    d->target = guarded_open(content_max + 1);
    d->block = guarded_open(lmc_block_bound(content_max));
    d->base = guarded_open(2 * content_max);
    d->columns = guarded_open(8 * LMC_FMT_OFFSETS_PLAN_NBYTES_MAX * sizeof(uint16_t));
    d->base_values = must_malloc(content_max);
    d->content_max = content_max;
    lmc_bucket_code_init(&d->bucket_code);
    return d;
}

static MAYBE_UNUSED void deep_close(deep *d)
{
    guarded_close(&d->scratch_memory);
    guarded_close(&d->source);
    guarded_close(&d->target);
    guarded_close(&d->block);
    guarded_close(&d->base);
    guarded_close(&d->columns);
    free(d->base_values);
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

/* The base for a frame: NULL if there is none, or it is shorter than the frame claims. */
static MAYBE_UNUSED const uint8_t *deep_base_for(const deep_base *base, const uint8_t *frame,
                                                 size_t frame_nbytes)
{
    lmc_info info;
    if (!base || lmc_head_read(frame, frame_nbytes, &info, NULL) != LMC_OK || info.base_nbytes > base->nbytes)
        return NULL;
    return base->bytes;
}

/* What a frame's plan says. */
typedef struct deep_plan {
    lmc_info info;
    lmc_narrow narrow;
    lmc_coding coding;
    lmc_delta delta;
} deep_plan;

static lmc_status deep_read_coding(deep *d, const uint8_t *frame, deep_plan *plan)
{
    const lmc_info *const info = &plan->info;
    lmc_offsets *const offsets = &plan->coding.offsets;
    lmc_diag diag;
    const lmc_status status = lmc_section_read(
        frame + LMC_FMT_HEAD_NBYTES, lmc_section_nbytes(info), lmc_head_features(info, frame),
        info->element_nbytes, &plan->narrow, d->tables,
        lmc_head_features(info, frame) & LMC_FMT_FEATURE_RANS ? &d->rans : NULL, &plan->coding, &diag);
    if (status != LMC_OK || !offsets->packed)
        return status;
    uint16_t *const columns =
        (uint16_t *)(void *)guarded_end(&d->columns, offsets->column_count * sizeof(uint16_t));
    lmc_offsets_unpack(offsets, columns);
    offsets->columns = columns;
    return LMC_OK;
}

/* Everything before the blocks. *tail: where it begins. */
static lmc_status deep_read_ends(deep *d, const lmc_kernels *kernels, const uint8_t *frame,
                                 size_t frame_nbytes, deep_plan *plan, const uint8_t **tail)
{
    lmc_info *const info = &plan->info;
    lmc_diag diag;
    lmc_status status = lmc_head_read(frame, frame_nbytes, info, &diag);
    if (status != LMC_OK)
        return status;
    const int is_coded = lmc_is_coded(info);
    const uint64_t least =
        info->head_nbytes + info->tail_nbytes + (is_coded ? info->block_count : info->content_nbytes);
    if (frame_nbytes < least)
        return LMC_ERR_TRUNCATED;
    if (!is_coded && frame_nbytes != least)
        return LMC_ERR_CORRUPT;
    *tail = frame + frame_nbytes - info->tail_nbytes;
    if (lmc_tail_hash(kernels, info, frame, *tail) != lmc_load64(*tail + lmc_tail_body_nbytes(info)))
        return LMC_ERR_CHECKSUM;
    const uint8_t *const section = frame + LMC_FMT_HEAD_NBYTES;
    if (info->mode == LMC_FRAME_CODED)
        status = deep_read_coding(d, frame, plan);
    if (info->mode == LMC_FRAME_DELTA)
        status = lmc_delta_read(section, lmc_section_nbytes(info), info->element_nbytes, &plan->delta, &diag);
    if (status != LMC_OK || !is_coded)
        return status;
    uint64_t offset = info->head_nbytes;
    for (uint64_t i = 0; i < info->block_count; i++) {
        const uint32_t stored_nbytes = lmc_load32(*tail + i * lmc_entry_nbytes(info));
        if (stored_nbytes == 0 || stored_nbytes > lmc_block_content_nbytes(info, i) + 1)
            return LMC_ERR_CORRUPT;
        offset += stored_nbytes;
    }
    return offset == frame_nbytes - info->tail_nbytes ? LMC_OK : LMC_ERR_CORRUPT;
}

/* A block of a delta frame: bytes, base and scratch each end at a guard page. entry: of the index. */
static lmc_status deep_delta_block(deep *d, const lmc_kernels *kernels, const deep_plan *plan,
                                   const uint8_t *stored, const uint8_t *entry, const uint8_t *base,
                                   int past_cache, uint8_t *dst, size_t nbytes, uint64_t *hash)
{
    const size_t stored_nbytes = lmc_load32(entry);
    const lmc_delta_job job = {.kernels = kernels,
                               .delta = &plan->delta,
                               .bucket_code = &d->bucket_code,
                               .scratch = &d->scratch,
                               .element_nbytes = plan->info.element_nbytes,
                               .base_form = plan->info.base_form,
                               .base_values = d->base_values,
                               .past_cache = past_cache};
    const size_t base_nbytes = nbytes * lmc_base_scale(job.base_form);
    const lmc_stored block = {.bytes = guarded_copy(&d->block, stored, stored_nbytes),
                              .nbytes = stored_nbytes,
                              .base = guarded_copy(&d->base, base, base_nbytes),
                              .base_nbytes = base_nbytes,
                              .base_hash = lmc_load64(entry + LMC_FMT_INDEX_ENTRY_NBYTES)};
    lmc_diag diag;
    return lmc_delta_decode(&job, &block, dst, nbytes, hash, &diag);
}

/* Block i, verified. */
static lmc_status deep_block(deep *d, const lmc_kernels *kernels, const deep_plan *plan, uint64_t i,
                             const uint8_t *stored, const uint8_t *entry, const uint8_t *base, uint8_t *dst)
{
    const lmc_info *const info = &plan->info;
    const size_t nbytes = lmc_block_content_nbytes(info, i);
    const int is_delta = info->mode == LMC_FRAME_DELTA;
    const lmc_scratch_size size = {(size_t)lmc_div_ceil(nbytes, info->element_nbytes), info->element_nbytes,
                                   is_delta, !is_delta && plan->narrow.is_used};
    const int past_cache = (int)(i & 1);
    lmc_diag diag;
    lmc_status status;
    uint64_t hash = 0;
    lmc_scratch_place(&d->scratch, &size, guarded_end(&d->scratch_memory, lmc_scratch_nbytes(&size)));
    if (is_delta) {
        status = deep_delta_block(d, kernels, plan, stored, entry, base + i * info->base_block_nbytes,
                                  past_cache, dst, nbytes, &hash);
    } else {
        const lmc_narrow_coder coder = {.plain = {kernels, &plan->coding, &d->scratch},
                                        .narrow = &plan->narrow};
        const lmc_stored source = {.bytes = stored,
                                   .nbytes = lmc_load32(entry),
                                   .first = i << info->block_log2,
                                   .past_cache = past_cache};
        status = lmc_narrow_block_decode(&coder, &source, dst, nbytes, &hash, &diag);
    }
    return status == LMC_OK && hash != lmc_load64(entry + 4) ? LMC_ERR_CHECKSUM : status;
}

/* The length that the frame claims of the base that deep_base_for() has for it. */
static MAYBE_UNUSED size_t deep_base_nbytes_for(const deep_base *base, const uint8_t *frame,
                                                size_t frame_nbytes)
{
    lmc_info info;
    const int has_base = deep_base_for(base, frame, frame_nbytes) != NULL;
    return has_base && lmc_head_read(frame, frame_nbytes, &info, NULL) == LMC_OK ? (size_t)info.base_nbytes
                                                                                 : 0;
}

/* As lmc_decode() does it, with these kernels, between guard pages. base: NULL, or what delta frames may have.
 * The status is the first fault's. Contents larger than content_max are LMC_ERR_LIMIT. *content: where it
 * stands, *nbytes: its size. */
static MAYBE_UNUSED lmc_status deep_decode(deep *d, const lmc_kernels *kernels, const uint8_t *bytes,
                                           size_t frame_nbytes, const deep_base *base,
                                           const uint8_t **content, size_t *nbytes)
{
    deep_plan plan;
    const uint8_t *tail;
    const uint8_t *const frame = guarded_copy(&d->source, bytes, frame_nbytes);
    lmc_status status = deep_read_ends(d, kernels, frame, frame_nbytes, &plan, &tail);
    if (status != LMC_OK)
        return status;
    const lmc_info *const info = &plan.info;
    if (info->content_nbytes > d->content_max)
        return LMC_ERR_LIMIT;
    *nbytes = (size_t)info->content_nbytes;
    uint8_t *const dst = guarded_end(&d->target, *nbytes);
    *content = dst;
    if (!lmc_is_coded(info))
        return deep_stored(kernels, info, frame + info->head_nbytes, tail, dst);
    const uint8_t *const base_bytes = deep_base_for(base, bytes, frame_nbytes);
    if (info->mode == LMC_FRAME_DELTA && !base_bytes)
        return LMC_ERR_BASE;
    uint64_t offset = info->head_nbytes;
    for (uint64_t i = 0; i < info->block_count && status == LMC_OK; i++) {
        const uint8_t *const entry = tail + i * lmc_entry_nbytes(info);
        status =
            deep_block(d, kernels, &plan, i, frame + offset, entry, base_bytes, dst + i * info->block_nbytes);
        offset += lmc_load32(entry);
    }
    return status;
}

/* Encodes a block against its part of the base by a plan of the test's choice, between guard pages. Returns the
 * bytes, at *stored, which last until the next call. */
static MAYBE_UNUSED size_t deep_delta_encode(deep *d, const lmc_kernels *kernels, const lmc_delta *delta,
                                             unsigned element_nbytes, const uint8_t *src, const uint8_t *base,
                                             size_t nbytes, const uint8_t **stored)
{
    const lmc_scratch_size size = {(size_t)lmc_div_ceil(nbytes, element_nbytes), element_nbytes, 1, 0};
    const lmc_delta_job job = {.kernels = kernels,
                               .delta = delta,
                               .bucket_code = &d->bucket_code,
                               .scratch = &d->scratch,
                               .element_nbytes = element_nbytes};
    uint64_t content_hash, base_hash;
    uint8_t *const dst = guarded_end(&d->block, lmc_block_bound(nbytes));
    *stored = dst;
    lmc_scratch_place(&d->scratch, &size, guarded_end(&d->scratch_memory, lmc_scratch_nbytes(&size)));
    const lmc_content_block block = {.src = guarded_copy(&d->source, src, nbytes),
                                     .nbytes = nbytes,
                                     .base = guarded_copy(&d->base, base, nbytes)};
    return lmc_delta_encode(&job, &block, dst, &content_hash, &base_hash);
}

/* Decodes what deep_delta_encode() gives, or damaged bytes, between guard pages; *content as deep_decode(). */
static MAYBE_UNUSED lmc_status deep_delta_decode(deep *d, const lmc_kernels *kernels, const lmc_delta *delta,
                                                 unsigned element_nbytes, const uint8_t *stored,
                                                 size_t stored_nbytes, const uint8_t *base, size_t nbytes,
                                                 const uint8_t **content)
{
    const lmc_scratch_size size = {(size_t)lmc_div_ceil(nbytes, element_nbytes), element_nbytes, 1, 0};
    const lmc_delta_job job = {.kernels = kernels,
                               .delta = delta,
                               .bucket_code = &d->bucket_code,
                               .scratch = &d->scratch,
                               .element_nbytes = element_nbytes,
                               .past_cache = (int)(stored_nbytes & 1)};
    const lmc_stored block = {.bytes = guarded_copy(&d->source, stored, stored_nbytes),
                              .nbytes = stored_nbytes,
                              .base = guarded_copy(&d->base, base, nbytes),
                              .base_nbytes = nbytes,
                              .base_hash = kernels->hash(base, nbytes, 0)};
    uint64_t hash;
    uint8_t *const dst = guarded_end(&d->target, nbytes);
    lmc_diag diag;
    *content = dst;
    lmc_scratch_place(&d->scratch, &size, guarded_end(&d->scratch_memory, lmc_scratch_nbytes(&size)));
    return lmc_delta_decode(&job, &block, dst, nbytes, &hash, &diag);
}

/* Makes the check of a damaged frame right (format.md "Tail"), if it still has a place. */
static MAYBE_UNUSED void deep_reseal(uint8_t *frame, size_t frame_nbytes)
{
    lmc_info info;
    if (lmc_head_read(frame, frame_nbytes, &info, NULL) != LMC_OK || frame_nbytes < info.head_nbytes ||
        frame_nbytes - info.head_nbytes < info.tail_nbytes)
        return;
    uint8_t *const tail = frame + frame_nbytes - info.tail_nbytes;
    lmc_store64(tail + lmc_tail_body_nbytes(&info), lmc_tail_hash(lmc_kernels_get(), &info, frame, tail));
}

#endif
