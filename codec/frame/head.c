/* head.c - writes and reads the head of a frame, and completes the lmc_info that follows from it. */
#include "codec/frame/head.h"

#include "codec/common/abi.h"
#include "codec/common/dtype.h"

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
}

/* Where the features stand. */
#define FEATURES_OFFSET 8

uint32_t lmc_head_features(const lmc_info *info, const uint8_t *head)
{
    return info->mode == LMC_FRAME_SHORT ? 0 : lmc_load32(head + FEATURES_OFFSET);
}

void lmc_head_write(const lmc_info *info, uint32_t features, uint8_t *dst)
{
    lmc_writer w = {dst, dst + info->head_nbytes - lmc_section_nbytes(info)};
    lmc_write_n(&w, LMC_FMT_MAGIC, 4);
    lmc_write_n(&w, LMC_FMT_VERSION, 1);
    lmc_write_n(&w, info->dtype, 1);
    lmc_write_n(&w, info->mode, 1);
    if (info->mode == LMC_FRAME_SHORT) {
        lmc_write_n(&w, info->content_nbytes, 1);
        return;
    }
    lmc_write_n(&w, info->block_log2, 1);
    lmc_write_n(&w, features, 4);
    lmc_write_n(&w, lmc_section_nbytes(info), 4);
    lmc_write_n(&w, info->content_nbytes, 8);
    lmc_write_n(&w, info->row_nbytes, 4);
    lmc_write_n(&w, info->element_nbytes, 1);
    lmc_write_n(&w, LMC_FMT_BYTE_ORDER_LITTLE, 1);
    lmc_write_n(&w, info->base_form, 1);
    lmc_write_n(&w, 0, 1); /* reserved */
}

/* Reads the first 8 bytes, which all heads have. *last: the byte whose meaning depends on the mode. */
static lmc_status read_start(lmc_reader *r, lmc_info *info, unsigned *last, lmc_diag *diag)
{
    const uint64_t magic = lmc_read_n(r, 4);
    if (r->failed)
        return lmc_fail(diag, LMC_ERR_TRUNCATED, 0, "frame: shorter than its magic number");
    if (magic != LMC_FMT_MAGIC)
        return lmc_corrupt(diag, 0, "frame: no LMC magic number");
    info->version = (unsigned)lmc_read_n(r, 1);
    const unsigned dtype = (unsigned)lmc_read_n(r, 1);
    const unsigned mode = (unsigned)lmc_read_n(r, 1);
    *last = (unsigned)lmc_read_n(r, 1);
    if (r->failed)
        return lmc_fail(diag, LMC_ERR_TRUNCATED, 4, "frame: shorter than its head");
    if (info->version == 0)
        return lmc_corrupt(diag, 4, "frame: version 0");
    if (info->version != LMC_FMT_VERSION)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 4, "frame: format version %u", info->version);
    if (dtype >= LMC_DTYPE_COUNT)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 5, "frame: dtype %u", dtype);
    if (mode > LMC_FMT_MODE_DELTA)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 6, "frame: mode %u", mode);
    info->dtype = (lmc_dtype)dtype;
    info->mode = (lmc_frame_mode)mode;
    return LMC_OK;
}

/* Checks the fields that are reserved, or follow from others. */
static lmc_status check_fields(const lmc_info *info, uint64_t features, unsigned element_nbytes,
                               unsigned byte_order, uint64_t reserved, lmc_diag *diag)
{
    if ((features & ~(uint64_t)LMC_FMT_FEATURES_KNOWN) != 0)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, FEATURES_OFFSET, "frame: required feature bit %u",
                        lmc_lowest_bit(features & ~(uint64_t)LMC_FMT_FEATURES_KNOWN));
    if (byte_order != LMC_FMT_BYTE_ORDER_LITTLE)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 29, "frame: element byte order %u", byte_order);
    if (reserved != 0)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 31, "frame: a reserved byte is set");
    if (element_nbytes != lmc_dtype_element_nbytes(info->dtype))
        return lmc_corrupt(diag, 28, "frame: %u-byte elements of dtype %s", element_nbytes,
                           lmc_dtype_name(info->dtype));
    if (info->block_log2 < LMC_FMT_BLOCK_LOG2_MIN || info->block_log2 > LMC_FMT_BLOCK_LOG2_MAX)
        return lmc_corrupt(diag, 7, "frame: blocks of 2^%u values", info->block_log2);
    if (info->content_nbytes > LMC_FMT_CONTENT_NBYTES_MAX)
        return lmc_corrupt(diag, 16, "frame: content of 2^63 bytes or more");
    return LMC_OK;
}

static lmc_status check_base_form(lmc_info *info, unsigned form, lmc_diag *diag)
{
    const unsigned last = info->mode == LMC_FRAME_DELTA ? LMC_FMT_BASE_BF16_OF_F32 : LMC_FMT_BASE_PLAIN;
    if (form > last)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 30, "frame: base form %u", form);
    info->base_form = (lmc_base_form)form;
    if (form != LMC_FMT_BASE_BF16_OF_F32)
        return LMC_OK;
    if (info->dtype != LMC_DTYPE_BF16 || info->content_nbytes % 2 != 0)
        return lmc_corrupt(diag, 30, "frame: not BF16, but its base is to be rounded to that");
    if (info->content_nbytes > LMC_FMT_CONTENT_NBYTES_MAX / 2)
        return lmc_corrupt(diag, 16, "frame: a base of 2^63 bytes or more");
    return LMC_OK;
}

lmc_status lmc_head_read(const uint8_t *src, size_t nbytes, lmc_info *info, lmc_diag *diag)
{
    lmc_reader r = {src, src ? src + nbytes : NULL, 0}; /* NULL: 0 bytes */
    unsigned last = 0;
    memset(info, 0, sizeof *info);
    LMC_TRY(read_start(&r, info, &last, diag));
    if (info->mode == LMC_FRAME_SHORT) {
        info->content_nbytes = last;
        lmc_info_complete(info, 0);
        return LMC_OK;
    }
    info->block_log2 = last;
    const uint64_t features = lmc_read_n(&r, 4);
    const uint64_t section_nbytes = lmc_read_n(&r, 4);
    info->content_nbytes = lmc_read_n(&r, 8);
    info->row_nbytes = (uint32_t)lmc_read_n(&r, 4);
    const unsigned element_nbytes = (unsigned)lmc_read_n(&r, 1);
    const unsigned byte_order = (unsigned)lmc_read_n(&r, 1);
    const unsigned base_form = (unsigned)lmc_read_n(&r, 1);
    const uint64_t reserved = lmc_read_n(&r, 1);
    if (r.failed)
        return lmc_fail(diag, LMC_ERR_TRUNCATED, 8, "frame: shorter than its head");
    LMC_TRY(check_fields(info, features, element_nbytes, byte_order, reserved, diag));
    LMC_TRY(check_base_form(info, base_form, diag));
    const int is_coded = lmc_is_coded(info);
    const int has_offsets = (features & LMC_FMT_FEATURE_OFFSETS) != 0;
    if (has_offsets && info->mode != LMC_FRAME_CODED)
        return lmc_corrupt(diag, FEATURES_OFFSET, "frame: offsets, but no elements that are coded");
    if (section_nbytes > (has_offsets ? LMC_FMT_OFFSETS_PLAN_NBYTES_MAX : LMC_FMT_PLAN_NBYTES_MAX) ||
        (section_nbytes != 0) != is_coded)
        return lmc_corrupt(diag, 12, "frame: a plan of %llu bytes", (unsigned long long)section_nbytes);
    if (is_coded && info->content_nbytes == 0)
        return lmc_corrupt(diag, 16, "frame: coded, but without content");
    lmc_info_complete(info, (size_t)section_nbytes);
    return LMC_OK;
}

void lmc_info_give(lmc_info *given, const lmc_info *info)
{
    if (lmc_struct_is_known(given, sizeof *info))
        lmc_struct_copy(given, info, lmc_struct_size(given));
}

lmc_status lmc_read_info(const void *frame, size_t nbytes, lmc_info *info, lmc_diag *diag)
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
    if (info)
        lmc_info_give(info, &found);
    if (diag)
        lmc_struct_copy(diag, &cause, lmc_struct_size(diag));
    return status;
}
