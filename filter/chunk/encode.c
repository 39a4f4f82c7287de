/* encode.c - encodes a chunk: chooses where its elements stand, regroups bytes, and writes frames or rows. */
#include <stdlib.h>
#include <string.h>

#include "filter/chunk/chunk.h"
#include "filter/chunk/context.h"
#include "filter/chunk/error.h"
#include "filter/chunk/head.h"
#include "filter/chunk/regroup.h"

/* How one chunk is going to be coded. */
typedef struct h5_form {
    h5_head head;            /* of a regrouped chunk */
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
    const h5_params *params;
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
        return h5_fail(LMC_ERR_ARG, "lmc: a required pointer is NULL");
    const lmc_status status = frame_bound(chunk_nbytes, bound);
    if (status != LMC_OK)
        return h5_fail(status, "lmc: a chunk of %zu bytes", chunk_nbytes);
    *bound += H5_WIRE_HEAD_NBYTES_MAX;
    return LMC_OK;
}

/* ---- the form ---- */

/* A frame takes 100 to 300 bytes beside its blocks, and a table that it does not share: rows below this are better off
 * together (docs/hdf5-filter.md, section 2). */
#define ROW_NBYTES_MIN 1024

static int may_have_rows(unsigned row_count, size_t chunk_nbytes)
{
    return row_count != 0 && chunk_nbytes % row_count == 0 && chunk_nbytes / row_count >= ROW_NBYTES_MIN;
}

static h5_form choose_form(const h5_job *job)
{
    const h5_params *const params = job->params;
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
    h5_head_complete(&form.head);
    form.row_nbytes = params->row_nbytes;
    if (may_have_rows(params->row_count, job->chunk_nbytes))
        form.row_count = params->row_count;
    return form;
}

/* Of elements in order. */
static h5_content content_of(const h5_form *form, const unsigned char *elements, size_t nbytes)
{
    return (h5_content){.dtype = form->has_dtype ? form->dtype
                                                 : lmc_dtype_guess(elements, nbytes, form->element_nbytes),
                        .row_nbytes = form->row_nbytes};
}

/* ---- frames ---- */

/* A power of two of values in blocks of that many bytes; 0 (the library's choice) for 0. */
static unsigned block_log2(unsigned block_nbytes, lmc_dtype dtype)
{
    return block_nbytes != 0 ? (unsigned)__builtin_ctz(block_nbytes / (lmc_dtype_nbits(dtype) / 8)) : 0;
}

/* Whether rows can be told apart in a frame. Chunks and rows of chunks need not have what the values say. */
static int has_matrix_rows(size_t nbytes, unsigned row_nbytes)
{
    return row_nbytes != 0 && nbytes > row_nbytes && nbytes % row_nbytes == 0;
}

static lmc_status encode_frame(const h5_job *job, const h5_content *content, const unsigned char *src,
                               size_t src_nbytes, const unsigned char *base, unsigned char *dst,
                               size_t dst_capacity, size_t *dst_nbytes)
{
    lmc_params params = job->frame_params;
    params.dtype = content->dtype;
    params.block_log2 = block_log2(job->params->block_nbytes, content->dtype);
    params.row_nbytes = has_matrix_rows(src_nbytes, content->row_nbytes) ? content->row_nbytes : 0;
    const lmc_status status = lmc_encode(job->ctx, &params, src, src_nbytes, base, base ? src_nbytes : 0, dst,
                                         dst_capacity, dst_nbytes);
    return status == LMC_OK ? LMC_OK : h5_fail_codec("lmc: a chunk cannot be encoded", job->ctx, status, 0);
}

/* The chunk as it is, in one frame: what always works. */
static lmc_status encode_plain(const h5_job *job, const h5_form *form, size_t *dst_nbytes)
{
    h5_content content = bytes_content;
    if (!form->is_regrouped)
        content = content_of(form, job->chunk, job->chunk_nbytes);
    return encode_frame(job, &content, job->chunk, job->chunk_nbytes, NULL, job->dst, job->dst_capacity,
                        dst_nbytes);
}

/* Whether lmc_encode() would take so much content with so much room. */
static int has_room(size_t capacity, size_t content_nbytes)
{
    size_t bound;
    return frame_bound(content_nbytes, &bound) == LMC_OK && bound <= capacity;
}

/* One frame for each column or row of the inner bytes, a row against the one before. *dst_nbytes is 0 when they take
 * more room than the chunk. frame_nbytes: room for the sizes of all. */
static lmc_status encode_list(const h5_job *job, const h5_head *head, const h5_content *content,
                              const unsigned char *inner, uint32_t *frame_nbytes, size_t *dst_nbytes)
{
    const int is_rows = head->layout == H5_WIRE_LAYOUT_ROWS;
    const size_t count = job->chunk_nbytes / head->frame_count;
    size_t used = head->nbytes;
    *dst_nbytes = 0;
    if (count > UINT32_MAX / 2) /* a frame's size would not fit the head */
        return LMC_OK;
    for (unsigned j = 0; j < head->frame_count; j++) {
        const unsigned char *const src = inner + j * count;
        const size_t nbytes = j + 1 < head->frame_count ? count : job->chunk_nbytes - j * count;
        size_t made;
        if (used > job->dst_capacity || !has_room(job->dst_capacity - used, nbytes))
            return LMC_OK;
        const lmc_status status =
            encode_frame(job, content, src, nbytes, is_rows && j > 0 ? src - count : NULL, job->dst + used,
                         job->dst_capacity - used, &made);
        if (status != LMC_OK)
            return status;
        frame_nbytes[j] = (uint32_t)made;
        used += made;
    }
    h5_head_write(head, frame_nbytes, job->dst);
    *dst_nbytes = used;
    return LMC_OK;
}

static lmc_status encode_columns(const h5_job *job, const h5_form *form, const unsigned char *columns,
                                 size_t *dst_nbytes)
{
    uint32_t frame_nbytes[H5_WIRE_WIDTH_MAX];
    return encode_list(job, &form->head, &bytes_content, columns, frame_nbytes, dst_nbytes);
}

/* One frame of what was made little-endian or put together; *dst_nbytes as above. */
static lmc_status encode_elements(const h5_job *job, const h5_form *form, const unsigned char *elements,
                                  size_t *dst_nbytes)
{
    const size_t head_nbytes = form->head.nbytes;
    const h5_content content = content_of(form, elements, job->chunk_nbytes);
    *dst_nbytes = 0;
    if (job->dst_capacity < head_nbytes || !has_room(job->dst_capacity - head_nbytes, job->chunk_nbytes))
        return LMC_OK;
    const lmc_status status =
        encode_frame(job, &content, elements, job->chunk_nbytes, NULL, job->dst + head_nbytes,
                     job->dst_capacity - head_nbytes, dst_nbytes);
    if (status == LMC_OK) {
        h5_head_write(&form->head, NULL, job->dst);
        *dst_nbytes += head_nbytes;
    }
    return status;
}

static void regroup(const h5_head *head, const unsigned char *chunk, size_t nbytes, unsigned char *dst)
{
    if (head->layout == H5_WIRE_LAYOUT_COLUMNS)
        h5_records_to_columns(chunk, nbytes, head->width, dst);
    else if (head->layout == H5_WIRE_LAYOUT_RECORDS)
        h5_columns_to_records(chunk, nbytes, head->width, dst);
    if (head->swap_nbytes != 0)
        h5_swap_elements(head->layout == H5_WIRE_LAYOUT_PLAIN ? chunk : dst, nbytes, head->swap_nbytes, dst);
}

/* *dst_nbytes is 0 when that does not pay or there is no memory for it. */
static lmc_status encode_regrouped(const h5_job *job, const h5_form *form, size_t *dst_nbytes)
{
    unsigned char *const regrouped = malloc(job->chunk_nbytes);
    *dst_nbytes = 0;
    if (!regrouped)
        return LMC_OK;
    regroup(&form->head, job->chunk, job->chunk_nbytes, regrouped);
    const lmc_status status = form->head.layout == H5_WIRE_LAYOUT_COLUMNS
                                  ? encode_columns(job, form, regrouped, dst_nbytes)
                                  : encode_elements(job, form, regrouped, dst_nbytes);
    free(regrouped);
    if (*dst_nbytes >= job->chunk_nbytes)
        *dst_nbytes = 0;
    return status;
}

/* Without rows. */
static lmc_status encode_alone(const h5_job *job, const h5_form *form, size_t *dst_nbytes)
{
    *dst_nbytes = 0;
    if (form->is_regrouped && job->chunk_nbytes > 0) {
        const lmc_status status = encode_regrouped(job, form, dst_nbytes);
        if (status != LMC_OK || *dst_nbytes > 0)
            return status;
    }
    return encode_plain(job, form, dst_nbytes);
}

/* ---- rows ---- */

/* Whether rows have become so much smaller than the first of them, which has no base, that the chunk without rows need
 * not be tried. That would be about as many first rows, less what each takes for tables of its own. */
static int is_clearly_smaller(size_t nbytes, size_t first_nbytes, unsigned row_count)
{
    const size_t table_nbytes = 512;
    const size_t alone_nbytes = first_nbytes > table_nbytes ? (first_nbytes - table_nbytes) * row_count : 0;
    return nbytes < alone_nbytes - alone_nbytes / 8;
}

/* Encodes the chunk without rows, too, and keeps the smaller one in job->dst. Where there is no memory for both, the
 * rows stay. */
static lmc_status compare_alone(const h5_job *job, const h5_form *form, size_t *dst_nbytes)
{
    h5_job other = *job;
    size_t alone_nbytes;
    other.dst = malloc(job->dst_capacity);
    if (!other.dst)
        return LMC_OK;
    const lmc_status status = encode_alone(&other, form, &alone_nbytes);
    if (status != LMC_OK) {
        *dst_nbytes = 0;
    } else if (alone_nbytes <= *dst_nbytes) {
        memcpy(job->dst, other.dst, alone_nbytes);
        *dst_nbytes = alone_nbytes;
    }
    free(other.dst);
    return status;
}

/* *dst_nbytes is 0 as in encode_list(). */
static lmc_status encode_inner_rows(const h5_job *job, const h5_form *form, const unsigned char *inner,
                                    size_t *dst_nbytes)
{
    h5_head head = {.layout = H5_WIRE_LAYOUT_ROWS,
                    .swap_nbytes = form->head.swap_nbytes,
                    .width = form->head.width,
                    .row_count = form->row_count};
    const h5_content content = content_of(form, inner, job->chunk_nbytes);
    uint32_t *const frame_nbytes = malloc(form->row_count * sizeof *frame_nbytes);
    *dst_nbytes = 0;
    if (!frame_nbytes)
        return LMC_OK;
    h5_head_complete(&head);
    lmc_status status = encode_list(job, &head, &content, inner, frame_nbytes, dst_nbytes);
    if (*dst_nbytes >= job->chunk_nbytes)
        *dst_nbytes = 0;
    if (*dst_nbytes > 0 && !is_clearly_smaller(*dst_nbytes, frame_nbytes[0], form->row_count))
        status = compare_alone(job, form, dst_nbytes);
    free(frame_nbytes);
    return status;
}

/* *dst_nbytes is 0 when that does not pay or there is no memory for it. */
static lmc_status encode_rows(const h5_job *job, const h5_form *form, size_t *dst_nbytes)
{
    if (!form->is_regrouped)
        return encode_inner_rows(job, form, job->chunk, dst_nbytes);
    unsigned char *const regrouped = malloc(job->chunk_nbytes);
    *dst_nbytes = 0;
    if (!regrouped)
        return LMC_OK;
    regroup(&form->head, job->chunk, job->chunk_nbytes, regrouped);
    const lmc_status status = encode_inner_rows(job, form, regrouped, dst_nbytes);
    free(regrouped);
    return status;
}

lmc_status h5_chunk_encode(lmc_ctx *ctx, const h5_params *params, unsigned thread_count,
                           const unsigned char *chunk, size_t chunk_nbytes, unsigned char *dst,
                           size_t dst_capacity, size_t *dst_nbytes)
{
    h5_job job = {.ctx = ctx,
                  .params = params,
                  .chunk = chunk,
                  .chunk_nbytes = chunk_nbytes,
                  .dst = dst,
                  .dst_capacity = dst_capacity};
    lmc_params_init(&job.frame_params);
    job.frame_params.level = params->level;
    job.frame_params.thread_count = thread_count;
    const h5_form form = choose_form(&job);
    *dst_nbytes = 0;
    if (form.row_count != 0) {
        const lmc_status status = encode_rows(&job, &form, dst_nbytes);
        if (status != LMC_OK || *dst_nbytes > 0)
            return status;
    }
    return encode_alone(&job, &form, dst_nbytes);
}

/* ---- the public call ---- */

lmc_status lmc_h5_encode_chunk(lmc_ctx *ctx, const unsigned *values, size_t value_count, const void *chunk,
                               size_t chunk_nbytes, void *dst, size_t dst_capacity, size_t *dst_nbytes)
{
    h5_params params;
    size_t bound;
    if (dst_nbytes)
        *dst_nbytes = 0;
    if (!dst || !dst_nbytes || (!values && value_count > 0) || (!chunk && chunk_nbytes > 0))
        return h5_fail(LMC_ERR_ARG, "lmc: a required pointer is NULL");
    lmc_status status = h5_params_read(values, value_count, &params);
    if (status != LMC_OK)
        return status;
    status = lmc_h5_encode_bound(chunk_nbytes, &bound);
    if (status != LMC_OK)
        return status;
    if (dst_capacity < bound) {
        return h5_fail(LMC_ERR_DST_SMALL, "lmc: encoding a chunk of %zu bytes asks for %zu bytes of room",
                       chunk_nbytes, bound);
    }
    status = h5_check_apart(chunk, chunk_nbytes, dst, bound);
    if (status != LMC_OK)
        return status;
    if (!ctx)
        ctx = h5_context_get(1);
    if (!ctx)
        return h5_fail(LMC_ERR_NOMEM, "lmc: no memory for a context");
    const void *const src = chunk ? chunk : "";
    return h5_chunk_encode(ctx, &params, 1, src, chunk_nbytes, dst, dst_capacity, dst_nbytes);
}
