/* chunk_encode.c - encodes a chunk: chooses where its elements stand, regroups bytes, and writes frames or rows. */
#include <stdlib.h>
#include <string.h>

#include "filter/chunk/chunk.h"
#include "filter/chunk/chunk_head.h"
#include "filter/chunk/context.h"
#include "filter/chunk/error.h"
#include "filter/chunk/regroup.h"
#include "lmc_experimental.h"

/* How one chunk is going to be coded. */
typedef struct h5_form {
    lmc_h5_head head;        /* of a regrouped chunk */
    int is_regrouped;        /* 0: one frame of the chunk as it is */
    unsigned element_nbytes; /* of the elements in the frame; columns: 1 */
    int has_dtype;           /* else a sample tells */
    lmc_dtype dtype;
    unsigned row_count;  /* to be tried as rows; 0: not */
    unsigned row_nbytes; /* of the elements, once they are in order; 0: unknown */
} h5_form;

/* What the bytes of a frame are. */
typedef struct h5_content {
    lmc_dtype dtype;
    unsigned row_nbytes; /* 0: unknown */
} h5_content;

static const h5_content bytes_content = {LMC_DTYPE_U8, 0};

typedef struct h5_job {
    lmc_ctx *ctx;
    const lmc_h5_params *params;
    lmc_params frame_params; /* all but what the content says, and the block size */
    const unsigned char *chunk;
    size_t chunk_nbytes;
    unsigned char *dst;
    size_t dst_capacity;
} h5_job;

/* Room that lmc_encode() asks for, with the most blocks that a chunk can have, of LMC_H5_BLOCK_KIB_MIN, and the most
 * columns of a matrix. */
static lmc_status frame_bound(size_t content_nbytes, size_t *bound)
{
    lmc_params params;
    lmc_params_init(&params);
    const size_t column_count = content_nbytes / LMC_ROW_COUNT_MIN;
    params.row_nbytes = column_count < LMC_COLUMN_COUNT_MAX ? (unsigned)column_count : LMC_COLUMN_COUNT_MAX;
    params.block_log2 = 10 + (unsigned)__builtin_ctz(LMC_H5_BLOCK_KIB_MIN);
    return lmc_encode_bound(&params, content_nbytes, bound);
}

lmc_status lmc_h5_encode_bound(size_t chunk_nbytes, size_t *bound)
{
    if (!bound)
        return lmc_h5_fail(LMC_ERR_ARG, "lmc: a required pointer is NULL");
    const lmc_status status = frame_bound(chunk_nbytes, bound);
    if (status != LMC_OK)
        return lmc_h5_fail(status, "lmc: a chunk of %zu bytes", chunk_nbytes);
    *bound += H5_WIRE_HEAD_NBYTES_MAX;
    return LMC_OK;
}

/* ---- the form ---- */

/* A frame takes 60 to 300 bytes besides its blocks, and a table that it does not share: rows below this are better off
 * together (docs/hdf5-filter.md, section 1). */
#define ROW_NBYTES_MIN 1024

static h5_form choose_form(const h5_job *job)
{
    const lmc_h5_params *const params = job->params;
    h5_form form = {.element_nbytes = params->element_nbytes};
    if (!params->is_complete) {
        form.element_nbytes = params->override_nbytes;
        if (form.element_nbytes == 0)
            form.element_nbytes = lmc_dtype_nbits(lmc_dtype_guess(job->chunk, job->chunk_nbytes, 0)) / 8;
        return form;
    }
    if (LMC_H5_TYPE_DTYPE(params->type) != 0) {
        form.has_dtype = 1;
        form.dtype = (lmc_dtype)(LMC_H5_TYPE_DTYPE(params->type) - 1);
    }
    if ((params->type & LMC_H5_TYPE_COLUMNS) != 0) {
        form.head.layout = H5_WIRE_LAYOUT_COLUMNS;
        form.head.width = params->element_nbytes;
    } else if ((params->type & LMC_H5_TYPE_SHUFFLED) != 0) {
        form.head.layout = H5_WIRE_LAYOUT_RECORDS;
        form.head.width = params->element_nbytes * LMC_H5_TYPE_SHUFFLE_SPAN(params->type);
    }
    if ((params->type & LMC_H5_TYPE_BIG_ENDIAN) != 0)
        form.head.swap_nbytes = params->element_nbytes;
    form.is_regrouped = form.head.layout != H5_WIRE_LAYOUT_PLAIN || form.head.swap_nbytes != 0;
    lmc_h5_head_complete(&form.head);
    form.row_nbytes = params->row_nbytes;
    if (params->row_count != 0 && job->chunk_nbytes % params->row_count == 0 &&
        job->chunk_nbytes / params->row_count >= ROW_NBYTES_MIN)
        form.row_count = params->row_count;
    return form;
}

/* What elements in order are. */
static h5_content content_of(const h5_form *form, const unsigned char *elements, size_t nbytes)
{
    return (h5_content){.dtype = form->has_dtype ? form->dtype
                                                 : lmc_dtype_guess(elements, nbytes, form->element_nbytes),
                        .row_nbytes = form->row_nbytes};
}

/* ---- frames ---- */

static lmc_status encode_frame(const h5_job *job, const h5_content *content, const unsigned char *src,
                               size_t src_nbytes, const unsigned char *base, unsigned char *dst,
                               size_t dst_capacity, size_t *dst_nbytes)
{
    lmc_params params = job->frame_params;
    params.dtype = content->dtype;
    if (job->params->block_nbytes != 0) /* a power of two of values */
        params.block_log2 =
            (unsigned)__builtin_ctz(job->params->block_nbytes / (lmc_dtype_nbits(content->dtype) / 8));
    /* Chunks and rows of chunks need not have what the values say. */
    const unsigned row_nbytes = content->row_nbytes;
    params.row_nbytes =
        row_nbytes != 0 && src_nbytes > row_nbytes && src_nbytes % row_nbytes == 0 ? row_nbytes : 0;
    const lmc_status status = lmc_encode_delta(job->ctx, &params, src, src_nbytes, base,
                                               base ? src_nbytes : 0, dst, dst_capacity, dst_nbytes);
    return status == LMC_OK ? LMC_OK
                            : lmc_h5_fail_codec("lmc: a chunk cannot be encoded", job->ctx, status, 0);
}

/* Writes the head and its frames: one for each column or row of the elements (a row against the one before it), or one
 * of them all. *dst_nbytes is 0 when that does not take less room than the chunk. frame_nbytes: room for the sizes of
 * all frames. */
static lmc_status encode_regrouped(const h5_job *job, const lmc_h5_head *head, const h5_content *content,
                                   const unsigned char *elements, uint32_t *frame_nbytes, size_t *dst_nbytes)
{
    const int is_rows = head->layout == H5_WIRE_LAYOUT_ROWS;
    const size_t count = job->chunk_nbytes / head->frame_count;
    size_t used = head->nbytes;
    *dst_nbytes = 0;
    if (head->frame_count > 1 && count > UINT32_MAX / 2) /* a frame's size would not fit the head */
        return LMC_OK;
    for (unsigned j = 0; j < head->frame_count; j++) {
        const unsigned char *const src = elements + j * count;
        const size_t nbytes = j + 1 < head->frame_count ? count : job->chunk_nbytes - j * count;
        size_t bound;
        size_t made;
        if (used > job->dst_capacity || frame_bound(nbytes, &bound) != LMC_OK ||
            bound > job->dst_capacity - used)
            return LMC_OK;
        LMC_TRY(encode_frame(job, content, src, nbytes, is_rows && j > 0 ? src - count : NULL,
                             job->dst + used, job->dst_capacity - used, &made));
        frame_nbytes[j] = (uint32_t)made;
        used += made;
    }
    if (used < job->chunk_nbytes) {
        lmc_h5_head_write(head, frame_nbytes, job->dst);
        *dst_nbytes = used;
    }
    return LMC_OK;
}

/* Without rows: regrouped if that pays, else one frame of the chunk as it is, which always works. elements: NULL if
 * nothing is to be regrouped, or there was no memory for it. */
static lmc_status encode_alone(const h5_job *job, const h5_form *form, const unsigned char *elements,
                               size_t *dst_nbytes)
{
    h5_content content = bytes_content;
    if (form->is_regrouped && elements) {
        uint32_t frame_nbytes[H5_WIRE_WIDTH_MAX];
        if (form->head.layout != H5_WIRE_LAYOUT_COLUMNS)
            content = content_of(form, elements, job->chunk_nbytes);
        LMC_TRY(encode_regrouped(job, &form->head, &content, elements, frame_nbytes, dst_nbytes));
        if (*dst_nbytes > 0)
            return LMC_OK;
    }
    content = form->is_regrouped ? bytes_content : content_of(form, job->chunk, job->chunk_nbytes);
    return encode_frame(job, &content, job->chunk, job->chunk_nbytes, NULL, job->dst, job->dst_capacity,
                        dst_nbytes);
}

/* ---- rows ---- */

/* Encodes the chunk without rows, too, and keeps the smaller one in job->dst. Where there is no memory for both, the
 * rows stay. */
static lmc_status compare_alone(const h5_job *job, const h5_form *form, const unsigned char *elements,
                                size_t *dst_nbytes)
{
    h5_job other = *job;
    size_t alone_nbytes;
    other.dst = malloc(job->dst_capacity);
    if (!other.dst)
        return LMC_OK;
    const lmc_status status = encode_alone(&other, form, elements, &alone_nbytes);
    if (status != LMC_OK) {
        *dst_nbytes = 0;
    } else if (alone_nbytes <= *dst_nbytes) {
        memcpy(job->dst, other.dst, alone_nbytes);
        *dst_nbytes = alone_nbytes;
    }
    free(other.dst);
    return status;
}

/* *dst_nbytes is 0 when rows do not pay or there is no memory for them. */
static lmc_status encode_rows(const h5_job *job, const h5_form *form, const unsigned char *elements,
                              size_t *dst_nbytes)
{
    lmc_h5_head head = {.layout = H5_WIRE_LAYOUT_ROWS,
                        .swap_nbytes = form->head.swap_nbytes,
                        .width = form->head.width,
                        .row_count = form->row_count};
    const h5_content content = content_of(form, elements, job->chunk_nbytes);
    uint32_t *const frame_nbytes = calloc(form->row_count, sizeof *frame_nbytes);
    *dst_nbytes = 0;
    if (!frame_nbytes)
        return LMC_OK;
    lmc_h5_head_complete(&head);
    lmc_status status = encode_regrouped(job, &head, &content, elements, frame_nbytes, dst_nbytes);
    /* The first row has no base. Without rows, the chunk would take about as many first rows, less what each takes for
     * tables of its own: it need not be tried where rows have become clearly smaller than that. */
    const size_t table_nbytes = 512;
    const size_t alone_nbytes =
        frame_nbytes[0] > table_nbytes ? (frame_nbytes[0] - table_nbytes) * form->row_count : 0;
    if (*dst_nbytes > 0 && *dst_nbytes >= alone_nbytes - alone_nbytes / 8)
        status = compare_alone(job, form, elements, dst_nbytes);
    free(frame_nbytes);
    return status;
}

/* ---- chunks ---- */

static void regroup(const lmc_h5_head *head, const unsigned char *chunk, size_t nbytes, unsigned char *dst)
{
    if (head->layout == H5_WIRE_LAYOUT_COLUMNS)
        lmc_h5_records_to_columns(chunk, nbytes, head->width, dst);
    else if (head->layout == H5_WIRE_LAYOUT_RECORDS)
        lmc_h5_columns_to_records(chunk, nbytes, head->width, dst);
    if (head->swap_nbytes != 0)
        lmc_h5_swap_elements(head->layout == H5_WIRE_LAYOUT_PLAIN ? chunk : dst, nbytes, head->swap_nbytes,
                             dst);
}

lmc_status lmc_h5_chunk_encode(lmc_ctx *ctx, const lmc_h5_params *params, const unsigned char *chunk,
                               size_t chunk_nbytes, unsigned char *dst, size_t dst_capacity,
                               size_t *dst_nbytes)
{
    h5_job job = {.ctx = ctx,
                  .params = params,
                  .chunk = chunk,
                  .chunk_nbytes = chunk_nbytes,
                  .dst = dst,
                  .dst_capacity = dst_capacity};
    lmc_params_init(&job.frame_params);
    job.frame_params.level = params->level;
    const h5_form form = choose_form(&job);
    unsigned char *const regrouped = form.is_regrouped && chunk_nbytes > 0 ? malloc(chunk_nbytes) : NULL;
    if (regrouped)
        regroup(&form.head, chunk, chunk_nbytes, regrouped);
    const unsigned char *const elements = form.is_regrouped ? regrouped : chunk;
    lmc_status status = LMC_OK;
    *dst_nbytes = 0;
    if (form.row_count != 0 && elements)
        status = encode_rows(&job, &form, elements, dst_nbytes);
    if (status == LMC_OK && *dst_nbytes == 0)
        status = encode_alone(&job, &form, elements, dst_nbytes);
    free(regrouped);
    return status;
}

/* ---- the public call ---- */

lmc_status lmc_h5_encode_chunk(lmc_ctx *ctx, const unsigned *values, size_t value_count, const void *chunk,
                               size_t chunk_nbytes, void *dst, size_t dst_capacity, size_t *dst_nbytes)
{
    lmc_h5_params params;
    size_t bound;
    if (dst_nbytes)
        *dst_nbytes = 0;
    if (!dst || !dst_nbytes || (!values && value_count > 0) || (!chunk && chunk_nbytes > 0))
        return lmc_h5_fail(LMC_ERR_ARG, "lmc: a required pointer is NULL");
    LMC_TRY(lmc_h5_params_read(values, value_count, &params));
    const uint64_t wanted = lmc_h5_params_filtered_nbytes(&params);
    if (wanted != 0 && chunk_nbytes != wanted)
        return lmc_h5_fail(LMC_ERR_ARG, "lmc: a chunk of %zu bytes where the dataset's values say %llu",
                           chunk_nbytes, (unsigned long long)wanted);
    LMC_TRY(lmc_h5_encode_bound(chunk_nbytes, &bound));
    if (dst_capacity < bound) {
        return lmc_h5_fail(LMC_ERR_DST_SMALL, "lmc: encoding a chunk of %zu bytes asks for %zu bytes of room",
                           chunk_nbytes, bound);
    }
    LMC_TRY(lmc_h5_check_apart(chunk, chunk_nbytes, dst, bound));
    if (!ctx)
        ctx = lmc_h5_context_get(1);
    if (!ctx)
        return lmc_h5_fail(LMC_ERR_NOMEM, "lmc: no memory for a context");
    const void *const src = chunk ? chunk : "";
    /* more room than that is not looked at */
    return lmc_h5_chunk_encode(ctx, &params, src, chunk_nbytes, dst, bound, dst_nbytes);
}
