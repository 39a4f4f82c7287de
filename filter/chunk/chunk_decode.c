/* chunk_decode.c - decodes a stored chunk: sizes by its heads first, then memory, then content. */
#include <stdlib.h>
#include <string.h>

#include "filter/chunk/chunk.h"
#include "filter/chunk/chunk_head.h"
#include "filter/chunk/context.h"
#include "filter/chunk/error.h"
#include "filter/chunk/regroup.h"

/* A chunk that is this many times larger than its stored form is rare enough to have its checksums verified before
 * memory is asked for. */
#define TRUSTED_EXPANSION 64

/* ---- sizes ---- */

/* A frame against a base stands behind another one only, whose content is as long. base_nbytes: that length, or
 * NO_BASE. */
#define NO_BASE SIZE_MAX

static lmc_status check_base(const lmc_info *info, size_t offset, size_t base_nbytes)
{
    if (info->mode != LMC_FRAME_DELTA || (base_nbytes != NO_BASE && info->base_nbytes == base_nbytes))
        return LMC_OK;
    return base_nbytes == NO_BASE
               ? lmc_h5_fail(LMC_ERR_CORRUPT, "lmc: chunk: the frame at byte %zu asks for a base", offset)
               : lmc_h5_fail(LMC_ERR_CORRUPT,
                             "lmc: chunk: the frame at byte %zu asks for a base of %llu bytes, there are %zu",
                             offset, (unsigned long long)info->base_nbytes, base_nbytes);
}

/* Content of the frame at stored[offset], by its head, if the frame is long enough for it. */
static lmc_status read_frame_size(const unsigned char *stored, size_t offset, size_t nbytes,
                                  size_t base_nbytes, size_t *content_nbytes)
{
    lmc_info info = LMC_INIT(lmc_info);
    lmc_diag diag = LMC_INIT(lmc_diag);
    const lmc_status status = lmc_frame_read_info(stored + offset, nbytes, &info, &diag);
    if (status != LMC_OK)
        return lmc_h5_fail_diag("lmc: chunk", &diag, offset);
    LMC_TRY(check_base(&info, offset, base_nbytes));
    if (info.frame_nbytes_min > nbytes || info.content_nbytes > SIZE_MAX / 2) {
        return lmc_h5_fail(LMC_ERR_TRUNCATED,
                           "lmc: chunk: truncated at byte %zu: %zu bytes are too few for %llu of content",
                           offset, nbytes, (unsigned long long)info.content_nbytes);
    }
    *content_nbytes = (size_t)info.content_nbytes;
    return LMC_OK;
}

/* A step over the frames of a regrouped chunk. */
typedef struct walk {
    const lmc_h5_head *head;
    const unsigned char *stored;
    size_t stored_nbytes;
    unsigned frame; /* the next one */
    size_t offset;  /* where it begins */
} walk;

static lmc_status next_frame(walk *w, size_t *offset, size_t *nbytes)
{
    *offset = w->offset;
    *nbytes = lmc_h5_head_frame_nbytes(w->head, w->stored, w->stored_nbytes, w->frame, w->offset);
    if (w->offset > w->stored_nbytes || *nbytes > w->stored_nbytes - w->offset) {
        return lmc_h5_fail(LMC_ERR_TRUNCATED, "lmc: chunk: truncated at byte %zu, in frame %u of %u",
                           w->stored_nbytes, w->frame, w->head->frame_count);
    }
    w->offset += *nbytes;
    w->frame++;
    return LMC_OK;
}

/* Rows and columns are of equal length; the last column holds what fills no record, too. A single frame is of any
 * length. */
static lmc_status check_frame_size(const lmc_h5_head *head, unsigned i, size_t offset, size_t nbytes,
                                   size_t first_nbytes)
{
    const int is_row = head->layout == H5_WIRE_LAYOUT_ROWS;
    const size_t surplus_max = i + 1 < head->frame_count || is_row ? 0 : head->frame_count - 1;
    if (nbytes >= first_nbytes && nbytes - first_nbytes <= surplus_max)
        return LMC_OK;
    const char *const what = is_row ? "row" : "column";
    return lmc_h5_fail(LMC_ERR_CORRUPT, "lmc: chunk: %s %u at byte %zu has %zu bytes, %s 0 has %zu", what, i,
                       offset, nbytes, what, first_nbytes);
}

/* Adds up the content of all frames. */
static lmc_status read_regrouped_size(const unsigned char *stored, size_t stored_nbytes, size_t *chunk_nbytes)
{
    lmc_h5_head head;
    size_t total = 0;
    size_t first_nbytes = 0;
    LMC_TRY(lmc_h5_head_read(stored, stored_nbytes, &head));
    walk w = {&head, stored, stored_nbytes, 0, head.nbytes};
    for (unsigned i = 0; i < head.frame_count; i++) {
        const int has_base = head.layout == H5_WIRE_LAYOUT_ROWS && i > 0;
        size_t offset;
        size_t nbytes;
        size_t content_nbytes;
        LMC_TRY(next_frame(&w, &offset, &nbytes));
        LMC_TRY(read_frame_size(stored, offset, nbytes, has_base ? first_nbytes : NO_BASE, &content_nbytes));
        first_nbytes = i == 0 ? content_nbytes : first_nbytes;
        LMC_TRY(check_frame_size(&head, i, offset, content_nbytes, first_nbytes));
        if (content_nbytes > SIZE_MAX / 2 - total)
            return lmc_h5_fail(LMC_ERR_LIMIT, "lmc: chunk: content does not fit the memory of this machine");
        total += content_nbytes;
    }
    *chunk_nbytes = total;
    return LMC_OK;
}

static lmc_status read_size(const unsigned char *stored, size_t stored_nbytes, size_t *chunk_nbytes)
{
    *chunk_nbytes = 0;
    return lmc_h5_head_is_there(stored, stored_nbytes)
               ? read_regrouped_size(stored, stored_nbytes, chunk_nbytes)
               : read_frame_size(stored, 0, stored_nbytes, NO_BASE, chunk_nbytes);
}

/* Verifies head and index of a frame that read_frame_size() found long enough. */
static lmc_status verify_frame(lmc_ctx *ctx, const unsigned char *stored, size_t offset, size_t nbytes)
{
    const unsigned char *const start = stored + offset;
    lmc_info info = LMC_INIT(lmc_info);
    lmc_frame *frame = NULL;
    lmc_status status = lmc_frame_read_info(start, nbytes, &info, NULL);
    if (status == LMC_OK) {
        const size_t tail_nbytes = (size_t)info.tail_nbytes;
        status = lmc_frame_create(ctx, start, info.head_nbytes, start + nbytes - tail_nbytes, tail_nbytes,
                                  nbytes, &frame);
    }
    lmc_frame_free(frame);
    return status == LMC_OK ? LMC_OK : lmc_h5_fail_codec("lmc: chunk", ctx, status, offset);
}

static lmc_status verify_frames(lmc_ctx *ctx, const unsigned char *stored, size_t stored_nbytes)
{
    lmc_h5_head head;
    if (!lmc_h5_head_is_there(stored, stored_nbytes))
        return verify_frame(ctx, stored, 0, stored_nbytes);
    LMC_TRY(lmc_h5_head_read(stored, stored_nbytes, &head));
    walk w = {&head, stored, stored_nbytes, 0, head.nbytes};
    for (unsigned i = 0; i < head.frame_count; i++) {
        size_t offset;
        size_t nbytes;
        LMC_TRY(next_frame(&w, &offset, &nbytes));
        LMC_TRY(verify_frame(ctx, stored, offset, nbytes));
    }
    return LMC_OK;
}

lmc_status lmc_h5_chunk_size(lmc_ctx *ctx, const unsigned char *stored, size_t stored_nbytes,
                             size_t *chunk_nbytes)
{
    lmc_status status = read_size(stored, stored_nbytes, chunk_nbytes);
    if (status == LMC_OK && *chunk_nbytes / TRUSTED_EXPANSION > stored_nbytes)
        status = verify_frames(ctx, stored, stored_nbytes);
    if (status != LMC_OK)
        *chunk_nbytes = 0;
    return status;
}

/* ---- content ---- */

static lmc_status decode_frame(lmc_ctx *ctx, const unsigned char *stored, size_t offset, size_t nbytes,
                               const unsigned char *base, size_t base_nbytes, unsigned char *dst,
                               size_t dst_capacity, size_t *dst_nbytes)
{
    const lmc_status status =
        lmc_decode_delta(ctx, stored + offset, nbytes, base, base_nbytes, dst, dst_capacity, dst_nbytes);
    if (status == LMC_ERR_BASE) { /* every row is as it was written, but they do not belong together */
        return lmc_h5_fail(LMC_ERR_CHECKSUM, "lmc: chunk: the row at byte %zu was coded against another one",
                           offset);
    }
    return status == LMC_OK ? LMC_OK : lmc_h5_fail_codec("lmc: chunk", ctx, status, offset);
}

/* All frames, one behind the other. Only rows ask for a base, which read_regrouped_size() found to be as long. */
static lmc_status decode_frames(lmc_ctx *ctx, const lmc_h5_head *head, const unsigned char *stored,
                                size_t stored_nbytes, unsigned char *dst, size_t chunk_nbytes)
{
    walk w = {head, stored, stored_nbytes, 0, head->nbytes};
    const unsigned char *base = NULL;
    size_t base_nbytes = 0;
    size_t done = 0;
    for (unsigned i = 0; i < head->frame_count; i++) {
        size_t offset;
        size_t nbytes;
        size_t made = 0;
        LMC_TRY(next_frame(&w, &offset, &nbytes));
        LMC_TRY(decode_frame(ctx, stored, offset, nbytes, base, base_nbytes, dst + done, chunk_nbytes - done,
                             &made));
        base = dst + done;
        base_nbytes = made;
        done += made;
    }
    return LMC_OK;
}

static lmc_status decode_regrouped(lmc_ctx *ctx, const unsigned char *stored, size_t stored_nbytes,
                                   unsigned char *dst, size_t chunk_nbytes)
{
    lmc_h5_head head;
    LMC_TRY(lmc_h5_head_read(stored, stored_nbytes, &head));
    const int is_in_place = head.layout != H5_WIRE_LAYOUT_COLUMNS && !lmc_h5_head_has_records(&head);
    unsigned char *const content = is_in_place ? dst : malloc(chunk_nbytes + 1);
    if (!content)
        return lmc_h5_fail(LMC_ERR_NOMEM, "lmc: no memory for %zu bytes", chunk_nbytes);
    const lmc_status status = decode_frames(ctx, &head, stored, stored_nbytes, content, chunk_nbytes);
    if (status == LMC_OK && head.swap_nbytes != 0)
        lmc_h5_swap_elements(content, chunk_nbytes, head.swap_nbytes, content);
    if (status == LMC_OK && head.layout == H5_WIRE_LAYOUT_COLUMNS)
        lmc_h5_columns_to_records(content, chunk_nbytes, head.width, dst);
    else if (status == LMC_OK && lmc_h5_head_has_records(&head))
        lmc_h5_records_to_columns(content, chunk_nbytes, head.width, dst);
    if (!is_in_place)
        free(content);
    return status;
}

lmc_status lmc_h5_chunk_decode(lmc_ctx *ctx, const unsigned char *stored, size_t stored_nbytes,
                               unsigned char *dst, size_t chunk_nbytes)
{
    size_t made;
    return lmc_h5_head_is_there(stored, stored_nbytes)
               ? decode_regrouped(ctx, stored, stored_nbytes, dst, chunk_nbytes)
               : decode_frame(ctx, stored, 0, stored_nbytes, NULL, 0, dst, chunk_nbytes, &made);
}

/* ---- the public calls ---- */

lmc_status lmc_h5_chunk_nbytes(const void *stored, size_t stored_nbytes, size_t *chunk_nbytes)
{
    if (chunk_nbytes)
        *chunk_nbytes = 0;
    if (!chunk_nbytes || (!stored && stored_nbytes > 0))
        return lmc_h5_fail(LMC_ERR_ARG, "lmc: a required pointer is NULL");
    return read_size(stored, stored_nbytes, chunk_nbytes);
}

lmc_status lmc_h5_decode_chunk(lmc_ctx *ctx, const void *stored, size_t stored_nbytes, void *dst,
                               size_t dst_capacity, size_t *dst_nbytes)
{
    unsigned char nothing; /* stands for dst where that may be NULL */
    size_t chunk_nbytes;
    if (dst_nbytes)
        *dst_nbytes = 0;
    if (!dst_nbytes || (!dst && dst_capacity > 0) || (!stored && stored_nbytes > 0))
        return lmc_h5_fail(LMC_ERR_ARG, "lmc: a required pointer is NULL");
    if (!ctx)
        ctx = lmc_h5_context_get(1);
    if (!ctx)
        return lmc_h5_fail(LMC_ERR_NOMEM, "lmc: no memory for a context");
    LMC_TRY(read_size(stored, stored_nbytes, &chunk_nbytes));
    if (dst_capacity < chunk_nbytes) {
        return lmc_h5_fail(LMC_ERR_DST_SMALL, "lmc: a chunk of %zu bytes does not fit %zu", chunk_nbytes,
                           dst_capacity);
    }
    LMC_TRY(lmc_h5_check_apart(stored, stored_nbytes, dst, chunk_nbytes));
    LMC_TRY(lmc_h5_chunk_decode(ctx, stored, stored_nbytes, dst ? dst : &nothing, chunk_nbytes));
    *dst_nbytes = chunk_nbytes;
    return LMC_OK;
}
