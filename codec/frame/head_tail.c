/* head_tail.c - writes, reads and verifies heads and tails, completes the lmc_info that follows from a head, and hashes
 * the hashes of a frame's blocks. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codec/frame/head_tail.h"

#include "codec/common/dtype.h"
#include "codec/delta/delta.h"
#include "common/abi.h"

/* ---- head ---- */

_Static_assert(LMC_FRAME_STORED == LMC_FMT_MODE_STORED && LMC_FRAME_CODED == LMC_FMT_MODE_CODED &&
                   LMC_FRAME_SHORT == LMC_FMT_MODE_SHORT && LMC_FRAME_DELTA == LMC_FMT_MODE_DELTA,
               "the numbers stand in frames");

void lmc_info_complete(lmc_info *info, size_t section_nbytes)
{
    info->version = LMC_FMT_VERSION;
    info->element_nbytes = lmc_dtype_element_nbytes(info->dtype);
    info->block_nbytes = (size_t)info->element_nbytes << info->block_log2;
    if (info->mode == LMC_FRAME_SHORT) {
        info->block_log2 = 0;
        info->row_nbytes = 0;
        info->block_nbytes = LMC_FMT_SHORT_CONTENT_MAX;
    }
    info->block_count = lmc_div_ceil(info->content_nbytes, info->block_nbytes);
    switch (info->mode) {
    case LMC_FRAME_SHORT:
        info->head_nbytes = LMC_FMT_SHORT_HEAD_NBYTES;
        info->tail_nbytes = 2 * LMC_FMT_HASH_NBYTES;
        break;
    case LMC_FRAME_STORED:
        info->head_nbytes = LMC_FMT_HEAD_NBYTES;
        info->tail_nbytes = 2 * LMC_FMT_HASH_NBYTES;
        break;
    case LMC_FRAME_CODED:
    case LMC_FRAME_DELTA:
        info->head_nbytes = LMC_FMT_HEAD_NBYTES + section_nbytes;
        info->tail_nbytes = info->block_count * lmc_entry_nbytes(info) + LMC_FMT_HASH_NBYTES;
        break;
    }
    const int has_base = info->mode == LMC_FRAME_DELTA;
    const unsigned scale = has_base ? lmc_base_scale(info->base_form) : 0;
    info->base_form = has_base ? info->base_form : LMC_BASE_PLAIN;
    info->base_nbytes = info->content_nbytes * scale;
    info->base_block_nbytes = info->block_nbytes * scale;
    info->frame_nbytes_min = info->head_nbytes + info->tail_nbytes +
                             (lmc_is_coded(info) ? info->block_count : info->content_nbytes);
}

_Static_assert((LMC_FMT_INDEX_ENTRY_NBYTES + UINT64_C(1)) * LMC_EXPANSION_MAX >=
                   UINT64_C(8) << LMC_FMT_BLOCK_LOG2_MAX,
               "a block of the largest elements, and the least that stands for it");

uint32_t lmc_head_features(const lmc_info *info, const uint8_t *head)
{
    return info->mode == LMC_FRAME_SHORT ? 0 : lmc_load32(head + LMC_FMT_HEAD_FEATURES_OFFSET);
}

void lmc_head_write(const lmc_info *info, uint32_t features, uint8_t *dst)
{
    lmc_store32(dst, LMC_FMT_MAGIC);
    dst[LMC_FMT_HEAD_VERSION_OFFSET] = LMC_FMT_VERSION;
    dst[LMC_FMT_HEAD_DTYPE_OFFSET] = (uint8_t)info->dtype;
    dst[LMC_FMT_HEAD_MODE_OFFSET] = (uint8_t)info->mode;
    if (info->mode == LMC_FRAME_SHORT) {
        dst[LMC_FMT_SHORT_HEAD_CONTENT_NBYTES_OFFSET] = (uint8_t)info->content_nbytes;
        return;
    }
    dst[LMC_FMT_HEAD_BLOCK_LOG2_OFFSET] = (uint8_t)info->block_log2;
    lmc_store32(dst + LMC_FMT_HEAD_FEATURES_OFFSET, features);
    lmc_store32(dst + LMC_FMT_HEAD_PLAN_NBYTES_OFFSET, (uint32_t)lmc_section_nbytes(info));
    lmc_store64(dst + LMC_FMT_HEAD_CONTENT_NBYTES_OFFSET, info->content_nbytes);
    lmc_store32(dst + LMC_FMT_HEAD_ROW_NBYTES_OFFSET, info->row_nbytes);
    dst[LMC_FMT_HEAD_ELEMENT_NBYTES_OFFSET] = (uint8_t)info->element_nbytes;
    dst[LMC_FMT_HEAD_BYTE_ORDER_OFFSET] = LMC_FMT_BYTE_ORDER_LITTLE;
    dst[LMC_FMT_HEAD_BASE_FORM_OFFSET] = (uint8_t)info->base_form;
    dst[LMC_FMT_HEAD_RESERVED_OFFSET] = 0;
}

/* Reads the fields that only long heads have, and checks those that are reserved or follow from others. */
static lmc_status read_long_fields(const uint8_t *head, lmc_info *info, lmc_diag *diag)
{
    const uint32_t features = lmc_load32(head + LMC_FMT_HEAD_FEATURES_OFFSET);
    const uint32_t section_nbytes = lmc_load32(head + LMC_FMT_HEAD_PLAN_NBYTES_OFFSET);
    const unsigned element_nbytes = head[LMC_FMT_HEAD_ELEMENT_NBYTES_OFFSET];
    const unsigned byte_order = head[LMC_FMT_HEAD_BYTE_ORDER_OFFSET];
    const unsigned base_form = head[LMC_FMT_HEAD_BASE_FORM_OFFSET];
    const int has_offsets = (features & LMC_FMT_FEATURE_OFFSETS) != 0;
    const uint32_t of_coded = LMC_FMT_FEATURE_OFFSETS | LMC_FMT_FEATURE_NARROW | LMC_FMT_FEATURE_RANS;
    info->block_log2 = head[LMC_FMT_HEAD_BLOCK_LOG2_OFFSET];
    info->content_nbytes = lmc_load64(head + LMC_FMT_HEAD_CONTENT_NBYTES_OFFSET);
    info->row_nbytes = lmc_load32(head + LMC_FMT_HEAD_ROW_NBYTES_OFFSET);
    if ((features & ~LMC_FMT_FEATURES_KNOWN) != 0)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, LMC_FMT_HEAD_FEATURES_OFFSET,
                        "frame: required feature bit %u", lmc_lowest_bit(features & ~LMC_FMT_FEATURES_KNOWN));
    if (byte_order != LMC_FMT_BYTE_ORDER_LITTLE)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, LMC_FMT_HEAD_BYTE_ORDER_OFFSET,
                        "frame: element byte order %u", byte_order);
    if (head[LMC_FMT_HEAD_RESERVED_OFFSET] != 0)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, LMC_FMT_HEAD_RESERVED_OFFSET,
                        "frame: a reserved byte is set");
    if (element_nbytes != lmc_dtype_element_nbytes(info->dtype))
        return lmc_corrupt(diag, LMC_FMT_HEAD_ELEMENT_NBYTES_OFFSET, "frame: %u-byte elements of dtype %s",
                           element_nbytes, lmc_dtype_name(info->dtype));
    if (info->block_log2 < LMC_FMT_BLOCK_LOG2_MIN || info->block_log2 > LMC_FMT_BLOCK_LOG2_MAX)
        return lmc_corrupt(diag, LMC_FMT_HEAD_BLOCK_LOG2_OFFSET, "frame: blocks of 2^%u values",
                           info->block_log2);
    if (info->content_nbytes > LMC_FMT_CONTENT_NBYTES_MAX)
        return lmc_corrupt(diag, LMC_FMT_HEAD_CONTENT_NBYTES_OFFSET, "frame: content of 2^63 bytes or more");
    if (base_form >= (info->mode == LMC_FRAME_DELTA ? LMC_BASE_FORM_COUNT : LMC_FMT_BASE_PLAIN + 1))
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, LMC_FMT_HEAD_BASE_FORM_OFFSET, "frame: base form %u",
                        base_form);
    info->base_form = (lmc_base_form)base_form;
    const lmc_rounding *const rounding = lmc_base_rounding(info->base_form);
    if (rounding) {
        if (info->dtype != rounding->dtype || info->content_nbytes % 2 != 0)
            return lmc_corrupt(diag, LMC_FMT_HEAD_BASE_FORM_OFFSET,
                               "frame: not %s, but its base is to be rounded to that",
                               lmc_dtype_name(rounding->dtype));
        if (info->content_nbytes > LMC_FMT_CONTENT_NBYTES_MAX / rounding->scale)
            return lmc_corrupt(diag, LMC_FMT_HEAD_CONTENT_NBYTES_OFFSET,
                               "frame: a base of 2^63 bytes or more");
    }
    if ((features & of_coded) != 0 && info->mode != LMC_FRAME_CODED)
        return lmc_corrupt(diag, LMC_FMT_HEAD_FEATURES_OFFSET,
                           "frame: features of coded elements, but it has none");
    if (section_nbytes > (has_offsets ? LMC_FMT_OFFSETS_PLAN_NBYTES_MAX : LMC_FMT_PLAN_NBYTES_MAX) ||
        (section_nbytes != 0) != lmc_is_coded(info))
        return lmc_corrupt(diag, LMC_FMT_HEAD_PLAN_NBYTES_OFFSET, "frame: a plan of %lu bytes",
                           (unsigned long)section_nbytes);
    if (lmc_is_coded(info) && info->content_nbytes == 0)
        return lmc_corrupt(diag, LMC_FMT_HEAD_CONTENT_NBYTES_OFFSET, "frame: coded, but without content");
    lmc_info_complete(info, section_nbytes);
    return LMC_OK;
}

lmc_status lmc_head_read(const uint8_t *src, size_t nbytes, lmc_info *info, lmc_diag *diag)
{
    memset(info, 0, sizeof *info);
    if (!src || nbytes < sizeof(uint32_t))
        return lmc_fail(diag, LMC_ERR_TRUNCATED, 0, "frame: shorter than its magic number");
    if (lmc_load32(src) != LMC_FMT_MAGIC)
        return lmc_corrupt(diag, 0, "frame: no LMC magic number");
    if (nbytes < LMC_FMT_SHORT_HEAD_NBYTES)
        return lmc_fail(diag, LMC_ERR_TRUNCATED, LMC_FMT_HEAD_VERSION_OFFSET, "frame: shorter than its head");
    info->version = src[LMC_FMT_HEAD_VERSION_OFFSET];
    const unsigned dtype = src[LMC_FMT_HEAD_DTYPE_OFFSET];
    const unsigned mode = src[LMC_FMT_HEAD_MODE_OFFSET];
    if (info->version == 0)
        return lmc_corrupt(diag, LMC_FMT_HEAD_VERSION_OFFSET, "frame: version 0");
    if (info->version != LMC_FMT_VERSION)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, LMC_FMT_HEAD_VERSION_OFFSET, "frame: format version %u",
                        info->version);
    if (dtype >= LMC_DTYPE_COUNT)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, LMC_FMT_HEAD_DTYPE_OFFSET, "frame: dtype %u", dtype);
    if (mode > LMC_FMT_MODE_DELTA)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, LMC_FMT_HEAD_MODE_OFFSET, "frame: mode %u", mode);
    info->dtype = (lmc_dtype)dtype;
    info->mode = (lmc_frame_mode)mode;
    if (info->mode == LMC_FRAME_SHORT) {
        info->content_nbytes = src[LMC_FMT_SHORT_HEAD_CONTENT_NBYTES_OFFSET];
        lmc_info_complete(info, 0);
        return LMC_OK;
    }
    if (nbytes < LMC_FMT_HEAD_NBYTES)
        return lmc_fail(diag, LMC_ERR_TRUNCATED, LMC_FMT_SHORT_HEAD_NBYTES, "frame: shorter than its head");
    return read_long_fields(src, info, diag);
}

lmc_status lmc_info_give(lmc_info *given, const lmc_info *info)
{
    if (!lmc_struct_is_known(given, sizeof *info))
        return LMC_ERR_ARG;
    lmc_struct_copy(given, info, lmc_struct_size(given));
    return LMC_OK;
}

lmc_status lmc_frame_read_info(const void *frame, size_t nbytes, lmc_info *info, lmc_diag *diag)
{
    lmc_diag cause = {.status = LMC_OK};
    lmc_info found = {.version = 0};
    lmc_status status = LMC_OK;
    if (diag && !lmc_struct_is_known(diag, sizeof *diag))
        return LMC_ERR_ARG;
    if (!info || (!frame && nbytes > 0))
        status = lmc_fail(&cause, LMC_ERR_ARG, 0, "a required pointer is NULL");
    else if (!lmc_struct_is_known(info, sizeof *info))
        status = lmc_fail(&cause, LMC_ERR_ARG, 0, "the info is not initialised, or of a newer version");
    else
        status = lmc_head_read(frame, nbytes, &found, &cause);
    if (status != LMC_OK)
        memset(&found, 0, sizeof found);
    if (info && lmc_struct_is_known(info, sizeof *info))
        lmc_struct_copy(info, &found, lmc_struct_size(info));
    if (diag)
        lmc_struct_copy(diag, &cause, lmc_struct_size(diag));
    return status;
}

/* ---- tail ---- */

/* Hashes hashes of blocks, of their base or of their content. There may be any number of blocks, so this is done in
 * pieces. */
static uint64_t hash_entries(const lmc_block_entry *entries, uint64_t entry_count, int of_base)
{
    uint64_t hashes[256]; /* hashed as bytes: hosts are little-endian (compiler.h) */
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (uint64_t i = 0; i < entry_count; i += LMC_COUNT(hashes)) {
        const size_t n = (size_t)lmc_min_u64(LMC_COUNT(hashes), entry_count - i);
        for (size_t k = 0; k < n; k++)
            hashes[k] = of_base ? entries[i + k].base_hash : entries[i + k].content_hash;
        XXH3_64bits_update(&state, hashes, n * sizeof hashes[0]);
    }
    return XXH3_64bits_digest(&state);
}

uint64_t lmc_content_hash(const lmc_block_entry *entries, uint64_t entry_count)
{
    return hash_entries(entries, entry_count, 0);
}

uint64_t lmc_base_hash(const lmc_block_entry *entries, uint64_t entry_count)
{
    return hash_entries(entries, entry_count, 1);
}

uint64_t lmc_tail_hash(const lmc_kernels *kernels, const lmc_info *info, const uint8_t *head,
                       const uint8_t *tail)
{
    return kernels->hash(tail, (size_t)lmc_tail_body_nbytes(info), kernels->hash(head, info->head_nbytes, 0));
}

void lmc_tail_write(const lmc_info *info, const uint8_t *head, const lmc_block_entry *entries,
                    uint64_t entry_count, uint8_t *dst)
{
    uint8_t *entry = dst;
    for (uint64_t i = 0; lmc_is_coded(info) && i < entry_count; i++) {
        lmc_store32(entry, entries[i].stored_nbytes);
        lmc_store64(entry + 4, entries[i].content_hash);
        if (info->mode == LMC_FRAME_DELTA)
            lmc_store64(entry + LMC_FMT_INDEX_ENTRY_NBYTES, entries[i].base_hash);
        entry += lmc_entry_nbytes(info);
    }
    if (!lmc_is_coded(info))
        lmc_store64(dst, lmc_content_hash(entries, entry_count));
    lmc_store64(dst + lmc_tail_body_nbytes(info), lmc_tail_hash(lmc_kernels_get(), info, head, dst));
}

lmc_status lmc_tail_check(const lmc_info *info, const uint8_t *head, const uint8_t *tail, lmc_diag *diag)
{
    if (lmc_tail_hash(lmc_kernels_get(), info, head, tail) == lmc_load64(tail + lmc_tail_body_nbytes(info)))
        return LMC_OK;
    return lmc_fail(diag, LMC_ERR_CHECKSUM, 0, "frame: head and index do not match their checksum");
}

lmc_status lmc_index_read(const lmc_info *info, const uint8_t *tail, uint64_t frame_nbytes,
                          lmc_block_entry *entries, uint64_t *offsets, lmc_diag *diag)
{
    const uint64_t tail_offset = frame_nbytes - info->tail_nbytes;
    const size_t entry_nbytes = lmc_entry_nbytes(info);
    uint64_t offset = info->head_nbytes;
    for (uint64_t i = 0; i < info->block_count; i++) {
        const uint8_t *const entry = tail + i * entry_nbytes;
        const uint32_t stored_nbytes = lmc_load32(entry);
        if (stored_nbytes == 0 || stored_nbytes > lmc_block_content_nbytes(info, i) + 1)
            return lmc_corrupt(diag, tail_offset + i * entry_nbytes, "index: block %llu has %u bytes",
                               (unsigned long long)i, stored_nbytes);
        entries[i] = (lmc_block_entry){.stored_nbytes = stored_nbytes, .content_hash = lmc_load64(entry + 4)};
        if (info->mode == LMC_FRAME_DELTA)
            entries[i].base_hash = lmc_load64(entry + LMC_FMT_INDEX_ENTRY_NBYTES);
        offsets[i] = offset;
        offset += stored_nbytes;
    }
    offsets[info->block_count] = offset;
    if (offset != tail_offset)
        return lmc_corrupt(diag, tail_offset, "index: the blocks are not as long as the frame");
    return LMC_OK;
}
