/* chunk_head.c - reads, checks and writes the heads of regrouped chunks. */
#include "filter/chunk/chunk_head.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/bytes.h"
#include "filter/chunk/error.h"

/* ---- fields ---- */

enum {
    VERSION_OFFSET = 4,
    LAYOUT_OFFSET = 5,
    SWAP_OFFSET = 6,
    RESERVED_OFFSET = 7,
    WIDTH_OFFSET = 8,
    ROW_COUNT_OFFSET = 10
};

static size_t sizes_offset(const lmc_h5_head *head)
{
    return H5_WIRE_HEAD_NBYTES + (head->layout == H5_WIRE_LAYOUT_ROWS ? H5_WIRE_ROW_COUNT_NBYTES : 0);
}

int lmc_h5_head_has_records(const lmc_h5_head *head)
{
    return head->layout == H5_WIRE_LAYOUT_RECORDS ||
           (head->layout == H5_WIRE_LAYOUT_ROWS && head->width != 0);
}

int lmc_h5_head_is_there(const unsigned char *stored, size_t stored_nbytes)
{
    return stored_nbytes >= 4 && lmc_load_n(stored, 4) == H5_WIRE_MAGIC;
}

void lmc_h5_head_complete(lmc_h5_head *head)
{
    head->frame_count = head->layout == H5_WIRE_LAYOUT_COLUMNS ? head->width
                        : head->layout == H5_WIRE_LAYOUT_ROWS  ? head->row_count
                                                               : 1;
    head->nbytes = sizes_offset(head) + H5_WIRE_FRAME_SIZE_NBYTES * (size_t)(head->frame_count - 1) +
                   H5_WIRE_CHECK_NBYTES;
}

void lmc_h5_head_write(const lmc_h5_head *head, const uint32_t *frame_nbytes, unsigned char *dst)
{
    const size_t before_check = head->nbytes - H5_WIRE_CHECK_NBYTES;
    lmc_store_n(dst, H5_WIRE_MAGIC, 4);
    dst[VERSION_OFFSET] = H5_WIRE_VERSION;
    dst[LAYOUT_OFFSET] = (unsigned char)head->layout;
    dst[SWAP_OFFSET] = (unsigned char)head->swap_nbytes;
    dst[RESERVED_OFFSET] = 0;
    lmc_store_n(dst + WIDTH_OFFSET, head->width, 2);
    if (head->layout == H5_WIRE_LAYOUT_ROWS)
        lmc_store_n(dst + ROW_COUNT_OFFSET, head->row_count, H5_WIRE_ROW_COUNT_NBYTES);
    for (unsigned i = 0; i + 1 < head->frame_count; i++) {
        lmc_store_n(dst + sizes_offset(head) + H5_WIRE_FRAME_SIZE_NBYTES * (size_t)i, frame_nbytes[i],
                    H5_WIRE_FRAME_SIZE_NBYTES);
    }
    lmc_store_n(dst + before_check, XXH3_64bits(dst, before_check), H5_WIRE_CHECK_NBYTES);
}

/* The rules that bind the fields to each other. */
static lmc_status check_fields(const lmc_h5_head *head)
{
    const int is_plain = head->layout == H5_WIRE_LAYOUT_PLAIN;
    const int may_be_0 = is_plain || head->layout == H5_WIRE_LAYOUT_ROWS;
    const int is_width =
        head->width == 0 ? may_be_0
                         : !is_plain && head->width >= H5_WIRE_WIDTH_MIN && head->width <= H5_WIRE_WIDTH_MAX;
    if (!is_width)
        return lmc_h5_fail(LMC_ERR_CORRUPT, "lmc: chunk head at byte %d: records of %u bytes", WIDTH_OFFSET,
                           head->width);
    const unsigned swap = head->swap_nbytes;
    if ((swap != 0 && swap != 2 && swap != 4 && swap != 8) || (is_plain && head->swap_nbytes == 0) ||
        (head->layout == H5_WIRE_LAYOUT_COLUMNS && head->swap_nbytes != 0))
        return lmc_h5_fail(LMC_ERR_CORRUPT, "lmc: chunk head at byte %d: elements of %u bytes", SWAP_OFFSET,
                           head->swap_nbytes);
    return LMC_OK;
}

static lmc_status read_row_count(const unsigned char *stored, size_t stored_nbytes, lmc_h5_head *head)
{
    if (stored_nbytes < ROW_COUNT_OFFSET + H5_WIRE_ROW_COUNT_NBYTES)
        return lmc_h5_fail(LMC_ERR_TRUNCATED, "lmc: chunk head: truncated at byte %zu", stored_nbytes);
    const uint64_t count = lmc_load_n(stored + ROW_COUNT_OFFSET, H5_WIRE_ROW_COUNT_NBYTES);
    if (count < H5_WIRE_ROW_COUNT_MIN || count > H5_WIRE_ROW_COUNT_MAX) {
        return lmc_h5_fail(LMC_ERR_CORRUPT, "lmc: chunk head at byte %d: %llu rows", ROW_COUNT_OFFSET,
                           (unsigned long long)count);
    }
    head->row_count = (unsigned)count;
    return LMC_OK;
}

lmc_status lmc_h5_head_read(const unsigned char *stored, size_t stored_nbytes, lmc_h5_head *head)
{
    memset(head, 0, sizeof *head);
    if (stored_nbytes < H5_WIRE_HEAD_NBYTES)
        return lmc_h5_fail(LMC_ERR_TRUNCATED, "lmc: chunk head: truncated at byte %zu", stored_nbytes);
    if (stored[VERSION_OFFSET] == 0)
        return lmc_h5_fail(LMC_ERR_CORRUPT, "lmc: chunk head at byte 4: version 0");
    if (stored[VERSION_OFFSET] != H5_WIRE_VERSION)
        return lmc_h5_fail(LMC_ERR_UNSUPPORTED, "lmc: chunk head at byte 4: version %u",
                           stored[VERSION_OFFSET]);
    if (stored[LAYOUT_OFFSET] > H5_WIRE_LAYOUT_ROWS)
        return lmc_h5_fail(LMC_ERR_UNSUPPORTED, "lmc: chunk head at byte 5: layout %u",
                           stored[LAYOUT_OFFSET]);
    if (stored[RESERVED_OFFSET] != 0) {
        return lmc_h5_fail(LMC_ERR_UNSUPPORTED, "lmc: chunk head at byte 7: a reserved %u",
                           stored[RESERVED_OFFSET]);
    }
    head->layout = stored[LAYOUT_OFFSET];
    head->swap_nbytes = stored[SWAP_OFFSET];
    head->width = (unsigned)lmc_load_n(stored + WIDTH_OFFSET, 2);
    LMC_TRY(check_fields(head));
    if (head->layout == H5_WIRE_LAYOUT_ROWS)
        LMC_TRY(read_row_count(stored, stored_nbytes, head));
    lmc_h5_head_complete(head);
    if (stored_nbytes < head->nbytes) {
        return lmc_h5_fail(LMC_ERR_TRUNCATED, "lmc: chunk head: truncated at byte %zu of %zu", stored_nbytes,
                           head->nbytes);
    }
    const size_t before_check = head->nbytes - H5_WIRE_CHECK_NBYTES;
    if (lmc_load_n(stored + before_check, H5_WIRE_CHECK_NBYTES) != XXH3_64bits(stored, before_check)) {
        return lmc_h5_fail(LMC_ERR_CHECKSUM, "lmc: chunk head at byte %zu: does not match its checksum",
                           before_check);
    }
    return LMC_OK;
}

size_t lmc_h5_head_frame_nbytes(const lmc_h5_head *head, const unsigned char *stored, size_t stored_nbytes,
                                unsigned i, size_t offset)
{
    const size_t left = offset <= stored_nbytes ? stored_nbytes - offset : 0;
    if (i + 1 == head->frame_count)
        return left;
    return (size_t)lmc_load_n(stored + sizes_offset(head) + H5_WIRE_FRAME_SIZE_NBYTES * (size_t)i,
                              H5_WIRE_FRAME_SIZE_NBYTES);
}
