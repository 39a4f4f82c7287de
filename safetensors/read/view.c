/*
 * view.c - the elements of a view are gathered box by box. What is stored of a box is read once, in pieces, in the
 * order of its places: so a matrix that is stored by columns is not read again for each of its rows.
 */
#include "safetensors/read/view.h"

#include <string.h>

/* A multiple of every element: none stands in two pieces. */
#define PIECE_NBYTES ((uint64_t)1 << 20)

#define AHEAD_NBYTES_MAX ((uint64_t)64 << 20)

/* ---- boxes ---- */

/* A dimension: how many steps, and the bytes of a step. */
typedef struct axis {
    uint64_t count, src_step, dst_step;
} axis;

/* Elements of a view, or a part of them that is a product of ranges. */
typedef struct box {
    axis axes[ST_VIEW_RANK_MAX];
    unsigned rank;
    uint64_t src; /* where the first element stands */
    unsigned char *dst;
} box;

/* What is done with boxes. */
typedef struct gathering {
    st_view_reader *reader; /* NULL: only the extent is wanted */
    unsigned element_nbytes;
    uint64_t begin, end; /* of the stored bytes: so far */
    lmc_st_diag *diag;
} gathering;

/* The dimensions of the view without those of 1, and with those together that are one run. */
static void make_box(const st_view *view, box *box)
{
    const uint64_t *const strides = st_view_strides(view);
    const uint64_t nbytes = lmc_dtype_nbits((lmc_dtype)view->dtype) / 8;
    uint64_t dst_step = nbytes;
    box->rank = 0;
    box->src = view->offset * nbytes;
    /* from the last to the first, then turned round */
    for (unsigned i = view->rank; i > 0; i--) {
        const axis next = {view->shape[i - 1], strides[i - 1] * nbytes, dst_step};
        axis *const inner = box->rank == 0 ? NULL : &box->axes[box->rank - 1];
        dst_step *= next.count;
        if (next.count == 1)
            continue;
        if (inner && next.src_step == inner->count * inner->src_step)
            inner->count *= next.count;
        else
            box->axes[box->rank++] = next;
    }
    for (unsigned i = 0; i < box->rank / 2; i++) {
        const axis swapped = box->axes[i];
        box->axes[i] = box->axes[box->rank - 1 - i];
        box->axes[box->rank - 1 - i] = swapped;
    }
}

/* From the start of the first element to the end of the last one of these axes. */
static uint64_t span_of(const box *box, unsigned first_axis, unsigned element_nbytes)
{
    uint64_t nbytes = element_nbytes;
    for (unsigned i = first_axis; i < box->rank; i++)
        nbytes += (box->axes[i].count - 1) * box->axes[i].src_step;
    return nbytes;
}

/* ---- a piece of what is stored ---- */

/* Stored bytes [begin, end), and where the elements of a box in it go. */
typedef struct piece {
    const box *box; /* its axes by falling step */
    unsigned element_nbytes;
    uint64_t begin, end;
    uint64_t spans[ST_VIEW_RANK_MAX + 1]; /* of the axes from this one on */
    const unsigned char *bytes;           /* from `first` on; NULL: first and last are looked for */
    uint64_t first, last;                 /* of the elements: begin and end */
} piece;

/* `count` elements one step after the other. */
static void copy_run(const axis *axis, unsigned element_nbytes, uint64_t count, const unsigned char *src,
                     unsigned char *dst)
{
    if (axis->src_step == element_nbytes && axis->dst_step == element_nbytes) {
        memcpy(dst, src, (size_t)(count * element_nbytes));
        return;
    }
    for (; count > 0; count--) {
        switch (element_nbytes) {
        case 1: *dst = *src; break;
        case 2: memcpy(dst, src, 2); break;
        case 4: memcpy(dst, src, 4); break;
        default: memcpy(dst, src, 8); break;
        }
        src += axis->src_step;
        dst += axis->dst_step;
    }
}

/* Visits the elements from this axis on that stand in the piece. src: of the first of them. */
static void visit(piece *piece, unsigned depth, uint64_t src, unsigned char *dst)
{
    const box *const box = piece->box;
    const int is_last = depth + 1 == box->rank;
    const axis *const axis = &box->axes[depth];
    const uint64_t span = piece->spans[depth + 1];
    uint64_t from = 0, to = axis->count;
    if (src >= piece->end || src + piece->spans[depth] <= piece->begin)
        return;
    if (axis->src_step > 0) {
        /* the first that ends behind the start, and the first that begins behind the end */
        from = src + span > piece->begin ? 0 : (piece->begin - src - span) / axis->src_step + 1;
        const uint64_t most = (piece->end - 1 - src) / axis->src_step + 1;
        to = most < to ? most : to;
    }
    if (from >= to)
        return;
    src += from * axis->src_step;
    dst += piece->bytes ? from * axis->dst_step : 0;
    if (!is_last) {
        for (; from < to; from++) {
            visit(piece, depth + 1, src, dst);
            src += axis->src_step;
            dst += piece->bytes ? axis->dst_step : 0;
        }
    } else if (piece->bytes) {
        copy_run(axis, piece->element_nbytes, to - from, piece->bytes + (src - piece->first), dst);
    } else {
        const uint64_t last = src + (to - from - 1) * axis->src_step + piece->element_nbytes;
        piece->first = src < piece->first ? src : piece->first;
        piece->last = last > piece->last ? last : piece->last;
    }
}

/* Gathers a box: each piece is read from the first to the last element that stands in it. */
static lmc_status gather_pieces(const gathering *gathering, box *box)
{
    st_view_reader *const reader = gathering->reader;
    const lmc_allocator *const memory = &reader->stored.decoder.frame.file->memory;
    piece piece = {.box = box, .element_nbytes = gathering->element_nbytes};
    for (unsigned i = 1; i < box->rank; i++) {
        const axis moved = box->axes[i];
        unsigned at = i;
        for (; at > 0 && box->axes[at - 1].src_step < moved.src_step; at--)
            box->axes[at] = box->axes[at - 1];
        box->axes[at] = moved;
    }
    for (unsigned i = 0; i <= box->rank; i++)
        piece.spans[i] = span_of(box, i, gathering->element_nbytes);
    const uint64_t end = box->src + piece.spans[0];
    for (piece.begin = box->src; piece.begin < end; piece.begin = piece.end) {
        piece.end = end - piece.begin < PIECE_NBYTES ? end : piece.begin + PIECE_NBYTES;
        piece.bytes = NULL;
        piece.first = UINT64_MAX;
        piece.last = 0;
        visit(&piece, 0, box->src, box->dst);
        if (piece.last == 0)
            continue;
        const size_t nbytes = (size_t)(piece.last - piece.first);
        unsigned char *const bytes = st_buffer_grow(memory, &reader->piece, nbytes);
        if (!bytes)
            return st_file_blame(reader->stored.decoder.frame.file, reader->listed.tensor,
                                 st_fail_nomem(gathering->diag), gathering->diag);
        LMC_TRY(st_reader_read(&reader->stored, piece.first, nbytes, bytes, gathering->diag));
        piece.bytes = bytes;
        visit(&piece, 0, box->src, box->dst);
    }
    return LMC_OK;
}

static lmc_status gather_box(gathering *gathering, box *box)
{
    const uint64_t nbytes = span_of(box, 0, gathering->element_nbytes);
    const uint64_t end = box->src + nbytes;
    gathering->begin = box->src < gathering->begin ? box->src : gathering->begin;
    gathering->end = end > gathering->end ? end : gathering->end;
    if (!gathering->reader)
        return LMC_OK;
    const axis *const run = &box->axes[0];
    const int is_run = box->rank == 1 && run->src_step == run->dst_step;
    if (box->rank == 0 || (is_run && run->src_step == gathering->element_nbytes))
        return st_reader_read(&gathering->reader->stored, box->src, (size_t)nbytes, box->dst,
                              gathering->diag);
    return gather_pieces(gathering, box);
}

/* ---- ranges ---- */

/* Gathers elements [first, end) of the axes of `whole` from this one on: what is left of the first row, whole rows, and
 * the start of the last one. */
static lmc_status gather_range(gathering *gathering, const box *whole, unsigned depth, uint64_t first,
                               uint64_t end, uint64_t src, unsigned char *dst)
{
    box part = {.src = src, .dst = dst};
    if (first == end || depth == whole->rank)
        return first == end ? LMC_OK : gather_box(gathering, &part);
    const axis *const axis = &whole->axes[depth];
    const uint64_t row_count = axis->dst_step / gathering->element_nbytes; /* elements */
    uint64_t row = first / row_count;
    const uint64_t end_row = end / row_count;
    const uint64_t first_nbytes = first * gathering->element_nbytes;
    if (first % row_count != 0 || row == end_row) {
        const uint64_t row_end = row == end_row ? end : (row + 1) * row_count;
        LMC_TRY(gather_range(gathering, whole, depth + 1, first - row * row_count, row_end - row * row_count,
                             src + row * axis->src_step, dst));
        if (row == end_row)
            return LMC_OK;
        row++;
    }
    if (row < end_row) {
        part.rank = whole->rank - depth;
        memcpy(part.axes, axis, part.rank * sizeof *axis);
        part.axes[0].count = end_row - row;
        part.src = src + row * axis->src_step;
        part.dst = dst ? dst + (row * axis->dst_step - first_nbytes) : NULL;
        if (part.axes[0].count == 1) {
            part.rank--;
            memmove(part.axes, part.axes + 1, part.rank * sizeof *axis);
        }
        LMC_TRY(gather_box(gathering, &part));
    }
    return gather_range(gathering, whole, depth + 1, 0, end - end_row * row_count,
                        src + end_row * axis->src_step,
                        dst ? dst + (end_row * axis->dst_step - first_nbytes) : NULL);
}

void st_view_swap(const st_view *view, void *content, size_t nbytes)
{
    unsigned char *const bytes = content;
    const size_t width = st_view_swapped_nbytes(view);
    if (!view->is_big_endian || width < 2)
        return;
    for (size_t at = 0; at + width <= nbytes; at += width)
        for (size_t i = 0; i < width / 2; i++) {
            const unsigned char byte = bytes[at + i];
            bytes[at + i] = bytes[at + width - 1 - i];
            bytes[at + width - 1 - i] = byte;
        }
}

/* Elements [first, first + count). */
static lmc_status read_elements(st_view_reader *reader, const box *whole, uint64_t first, uint64_t count,
                                unsigned char *dst, lmc_st_diag *diag)
{
    const st_view *const view = reader->listed.view;
    const unsigned nbytes = lmc_dtype_nbits((lmc_dtype)view->dtype) / 8;
    gathering gathering = {.reader = reader, .element_nbytes = nbytes, .diag = diag};
    LMC_TRY(gather_range(&gathering, whole, 0, first, first + count, whole->src, dst));
    st_view_swap(view, dst, (size_t)(count * nbytes));
    return LMC_OK;
}

/* 1 if a read of any bytes is one of the same bytes behind the offset. */
static int is_direct(const st_view *view)
{
    return !(view->is_big_endian && st_view_swapped_nbytes(view) > 1) && st_view_is_in_order(view);
}

/* A range may begin and end within an element. */
static lmc_status read_view(st_view_reader *reader, uint64_t first_byte, size_t nbytes, unsigned char *dst,
                            lmc_st_diag *diag)
{
    const st_view *const view = reader->listed.view;
    const unsigned nbits = lmc_dtype_nbits((lmc_dtype)view->dtype);
    const unsigned width = nbits / 8;
    box whole;
    if (is_direct(view))
        return st_reader_read(&reader->stored, view->offset * nbits / 8 + first_byte, nbytes, dst, diag);
    make_box(view, &whole);
    while (nbytes > 0) {
        const unsigned skipped = (unsigned)(first_byte % width);
        size_t done = nbytes / width * width;
        if (skipped == 0 && done > 0) {
            LMC_TRY(read_elements(reader, &whole, first_byte / width, done / width, dst, diag));
        } else {
            unsigned char element[8];
            done = width - skipped < nbytes ? width - skipped : nbytes;
            LMC_TRY(read_elements(reader, &whole, first_byte / width, 1, element, diag));
            memcpy(dst, element + skipped, done);
        }
        first_byte += done;
        dst += done;
        nbytes -= done;
    }
    return LMC_OK;
}

void st_view_extent(const st_view *view, uint64_t first_byte, uint64_t nbytes, uint64_t *begin, uint64_t *end)
{
    const unsigned nbits = lmc_dtype_nbits((lmc_dtype)view->dtype);
    box whole;
    *begin = view->offset * nbits / 8 + first_byte;
    *end = *begin + nbytes;
    if (nbits < 8 || nbytes == 0)
        return;
    const uint64_t width = nbits / 8;
    gathering gathering = {.element_nbytes = nbits / 8, .begin = UINT64_MAX};
    make_box(view, &whole);
    (void)gather_range(&gathering, &whole, 0, first_byte / width, (first_byte + nbytes + width - 1) / width,
                       whole.src, NULL);
    *begin = gathering.begin;
    *end = gathering.end;
}

/* ---- readers ---- */

lmc_status st_view_reader_open(st_view_reader *reader, const lmc_st_file *file, lmc_ctx *ctx, size_t index,
                               lmc_st_diag *diag)
{
    const st_listed listed = st_header_listed(&file->header, index);
    *reader = (st_view_reader){.listed = listed, .nbytes = st_listed_nbytes(file, &listed)};
    return st_reader_open(&reader->stored, file, ctx, listed.tensor, diag);
}

lmc_status st_view_reader_read(st_view_reader *reader, uint64_t first_byte, size_t nbytes, void *dst,
                               lmc_st_diag *diag)
{
    const st_frame *const stored = &reader->stored.decoder.frame;
    unsigned char *at = dst;
    if (!reader->listed.view)
        return st_reader_read(&reader->stored, first_byte, nbytes, dst, diag);
    if (is_direct(reader->listed.view))
        return read_view(reader, first_byte, nbytes, dst, diag);
    while (nbytes > 0) {
        const int is_ahead = first_byte >= reader->ahead_begin && first_byte < reader->ahead_end;
        const int follows = first_byte == reader->next && reader->ahead_nbytes > 0;
        reader->next = first_byte + nbytes;
        if (!is_ahead && (!follows || nbytes >= AHEAD_NBYTES_MAX)) {
            reader->ahead_nbytes = nbytes;
            return read_view(reader, first_byte, nbytes, at, diag);
        }
        if (!is_ahead) { /* at least the next byte: more each time, as long as the reads follow each other */
            const uint64_t left = reader->nbytes - first_byte;
            const uint64_t doubled = 2 * reader->ahead_nbytes;
            uint64_t ahead = doubled < AHEAD_NBYTES_MAX ? doubled : AHEAD_NBYTES_MAX;
            ahead = ahead < nbytes ? nbytes : ahead;
            ahead = ahead < left ? ahead : left;
            reader->ahead_end = reader->ahead_begin; /* empty, should it fail */
            unsigned char *const bytes = st_buffer_grow(&stored->file->memory, &reader->ahead, (size_t)ahead);
            if (!bytes)
                return st_file_blame(stored->file, stored->index, st_fail_nomem(diag), diag);
            LMC_TRY(read_view(reader, first_byte, (size_t)ahead, bytes, diag));
            reader->ahead_nbytes = ahead;
            reader->ahead_begin = first_byte;
            reader->ahead_end = first_byte + ahead;
        }
        const uint64_t there = reader->ahead_end - first_byte;
        const size_t done = there < nbytes ? (size_t)there : nbytes;
        memcpy(at, reader->ahead.bytes + (first_byte - reader->ahead_begin), done);
        at += done;
        nbytes -= done;
        first_byte += done;
        reader->next = first_byte;
    }
    return LMC_OK;
}

void st_view_reader_close(st_view_reader *reader)
{
    const lmc_allocator *const memory = &reader->stored.decoder.frame.file->memory;
    st_buffer_free(memory, &reader->piece);
    st_buffer_free(memory, &reader->ahead);
    st_reader_close(&reader->stored);
}

/* ---- at once ---- */

lmc_status st_read_range(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, uint64_t first_byte,
                         size_t nbytes, void *dst, lmc_st_diag *diag)
{
    st_listed listed;
    if (!st_file_find_listed(file, index, &listed))
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
    const uint64_t content_nbytes = st_listed_nbytes(file, &listed);
    if (first_byte > content_nbytes || nbytes > content_nbytes - first_byte) {
        st_diag_set_tensor(diag, listed.name.bytes, listed.name.nbytes);
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the range leaves the tensor's %llu bytes",
                       (unsigned long long)content_nbytes);
    }
    if (nbytes == 0)
        return LMC_OK;
    lmc_status status = LMC_OK;
    if (!file->is_archive && !listed.view) {
        status = st_input_read(&file->input, file->places[listed.tensor] + first_byte, dst, nbytes, diag);
    } else {
        lmc_ctx *own = NULL;
        st_view_reader reader;
        if (!ctx && file->is_archive && lmc_ctx_create(&file->memory, &own) != LMC_OK)
            return st_fail_nomem(diag);
        status = st_view_reader_open(&reader, file, ctx ? ctx : own, (size_t)index, diag);
        if (status == LMC_OK)
            status = listed.view ? read_view(&reader, first_byte, nbytes, dst, diag)
                                 : st_reader_read(&reader.stored, first_byte, nbytes, dst, diag);
        st_view_reader_close(&reader);
        lmc_ctx_free(own);
    }
    return file->is_archive ? status : st_file_blame(file, listed.tensor, status, diag);
}

lmc_status lmc_st_read_range(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, uint64_t first_byte,
                             size_t nbytes, void *dst, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    if (status == LMC_OK)
        status = st_read_range(file, ctx, index, first_byte, nbytes, dst, call.diag);
    return st_call_end(&call, status);
}

lmc_status lmc_st_read(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, void *dst, size_t dst_capacity,
                       lmc_st_diag *diag)
{
    st_call call;
    st_listed listed;
    const uint64_t nbytes = st_file_find_listed(file, index, &listed) ? st_listed_nbytes(file, &listed) : 0;
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    if (status == LMC_OK && nbytes > dst_capacity) {
        st_diag_set_tensor(call.diag, listed.name.bytes, listed.name.nbytes);
        status = st_fail(call.diag, LMC_ERR_DST_SMALL, LMC_ST_NO_OFFSET,
                         "the destination is smaller than the tensor");
    } else if (status == LMC_OK) {
        status = st_read_range(file, ctx, index, 0, (size_t)nbytes, dst, call.diag);
    }
    return st_call_end(&call, status);
}

/* ---- many times ---- */

struct lmc_st_reader {
    lmc_ctx *ctx;
    st_view_reader reader;
};

static lmc_status create_reader(const lmc_st_file *file, uint64_t index, int of_storage,
                                lmc_st_reader **reader, lmc_st_diag *diag)
{
    st_call call;
    lmc_st_reader *const created = st_allocate_zeroed(&file->memory, 1, sizeof *created);
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    const int is_known = index < st_header_listed_count(&file->header);
    if (status == LMC_OK && created && !is_known)
        status = st_fail(call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
    else if (status == LMC_OK &&
             (!created || (file->is_archive && lmc_ctx_create(&file->memory, &created->ctx) != LMC_OK)))
        status = st_fail_nomem(call.diag);
    else if (status == LMC_OK)
        status = st_view_reader_open(&created->reader, file, created->ctx, (size_t)index, call.diag);
    if (status == LMC_OK && of_storage) {
        created->reader.listed.view = NULL;
        created->reader.nbytes = st_file_tensor_nbytes(file, created->reader.listed.tensor);
    }
    if (status != LMC_OK && created) {
        created->reader.stored.decoder.frame.file = file;
        lmc_st_reader_free(created);
    }
    *reader = status == LMC_OK ? created : NULL;
    return st_call_end(&call, status);
}

lmc_status lmc_st_reader_create(const lmc_st_file *file, uint64_t index, lmc_st_reader **reader,
                                lmc_st_diag *diag)
{
    return create_reader(file, index, 0, reader, diag);
}

lmc_status lmc_st_reader_create_storage(const lmc_st_file *file, uint64_t index, lmc_st_reader **reader,
                                        lmc_st_diag *diag)
{
    return create_reader(file, index, 1, reader, diag);
}

lmc_status lmc_st_reader_read(lmc_st_reader *reader, uint64_t first_byte, size_t nbytes, void *dst,
                              lmc_st_diag *diag)
{
    st_call call;
    const st_frame *const frame = &reader->reader.stored.decoder.frame;
    const uint64_t content_nbytes = reader->reader.nbytes;
    lmc_status status = st_call_begin(&call, frame->file->path, NULL, diag);
    if (status == LMC_OK && (first_byte > content_nbytes || nbytes > content_nbytes - first_byte))
        status = st_fail(call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the range leaves the tensor");
    if (status == LMC_OK && nbytes > 0)
        status = st_view_reader_read(&reader->reader, first_byte, nbytes, dst, call.diag);
    return st_call_end(&call, status);
}

void lmc_st_reader_free(lmc_st_reader *reader)
{
    if (!reader)
        return;
    const lmc_allocator memory = reader->reader.stored.decoder.frame.file->memory;
    st_view_reader_close(&reader->reader);
    lmc_ctx_free(reader->ctx);
    st_release(&memory, reader);
}
