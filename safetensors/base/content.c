/*
 * content.c - a chain of tensors is opened, and decoded from its end.
 */
#include "safetensors/base/content.h"

#include <stdio.h>
#include <string.h>

/* In each file a tensor of it and one that this was coded against. */
#define STEPS_MAX (2 * LMC_ST_CHAIN_MAX)

/* Bytes of the last base for one byte of the content: F32 that is rounded to 16 bits. */
#define WIDENING_MAX 2

/* ---- opening ---- */

/* link: that leads to it; NULL: it is the first. */
static lmc_status add_step(st_content *content, const lmc_st_file *file, size_t index, unsigned scale,
                           const st_link *link, lmc_ctx *ctx, lmc_st_diag *diag)
{
    if (content->step_count == STEPS_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "a chain of bases is too long");
    const size_t used = content->step_count * sizeof(st_step);
    if (!st_buffer_extend(content->memory, &content->room, used, sizeof(st_step)))
        return st_fail_nomem(diag);
    content->steps = (st_step *)(void *)content->room.bytes;
    st_step *const step = &content->steps[content->step_count++];
    *step = (st_step){.frame = {.file = file, .index = st_file_owner(file, index)},
                      .scale = scale,
                      .nbytes = st_file_tensor_nbytes(file, index),
                      .number = link ? link->file : 0};
    if (!file->is_archive)
        return LMC_OK;
    const lmc_status status = st_frame_open(&step->frame, file, NULL, ctx, step->frame.index, diag);
    if (status != LMC_OK)
        st_diag_set_file(diag, file->path);
    return status;
}

/* The file that a link of `frame` leads to, in which the tensor must be as the frame wants it. */
static lmc_status follow(const st_frame *frame, const st_link *link, const lmc_st_file **base,
                         lmc_st_diag *diag)
{
    const lmc_info *const info = &frame->info;
    *base = frame->file;
    if (link->place == LMC_ST_BASE_FILE)
        LMC_TRY(st_file_open_base(frame->file, link->file, base, diag));
    const st_header *const header = &(*base)->header;
    const lmc_rounding *const rounding = lmc_base_rounding(info->base_form);
    const int dtype = rounding ? (int)rounding->base_dtype : (int)info->dtype;
    /* what is said of a dtype that a file does not tell may differ from version to version */
    const int has_dtypes = (*base)->container == LMC_ST_CONTAINER_SAFETENSORS;
    const int may_differ = link->place == LMC_ST_BASE_FILE && frame->file->bases.has_lengths;
    if (link->base < header->tensor_count && (!has_dtypes || header->tensors[link->base].dtype == dtype) &&
        (may_differ || st_file_tensor_nbytes(*base, link->base) == info->base_nbytes))
        return LMC_OK;
    st_diag_set_file(diag, frame->file->path);
    st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
            "the tensor that it is said to be coded against has another type or size");
    return st_file_blame(frame->file, link->tensor, LMC_ERR_CORRUPT, diag);
}

/* Opens what the frame, of a step or of none, was coded against, and what that needs. */
static lmc_status open_chain(st_content *content, const st_frame *frame, lmc_ctx *ctx, lmc_st_diag *diag)
{
    st_frame above = *frame; /* a copy: steps move when one is added */
    unsigned widening = 1;
    const st_link *link = st_bases_find(&above.file->bases, st_file_owner(above.file, above.index));
    while (link) {
        const lmc_st_file *base = NULL;
        unsigned scale = 1;
        if (content->step_count > 0) {
            scale = content->steps[content->step_count - 1].scale;
            scale *= st_base_scale(above.info.base_form);
        }
        LMC_TRY(follow(&above, link, &base, diag));
        widening *= st_base_scale(above.info.base_form);
        if (widening > WIDENING_MAX) {
            st_diag_set_file(diag, above.file->path);
            return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "a chain of bases rounds F32 twice");
        }
        LMC_TRY(add_step(content, base, link->base, scale, link, ctx, diag));
        above = content->steps[content->step_count - 1].frame;
        link = base->is_archive ? st_bases_find(&base->bases, above.index) : NULL;
    }
    return LMC_OK;
}

static void set_sizes(st_content *content)
{
    content->nbytes = content->steps[0].nbytes;
    content->unit_nbytes = 1;
    for (size_t i = 0; i < content->step_count; i++) {
        const size_t nbytes = content->steps[i].frame.info.block_nbytes / content->steps[i].scale;
        content->unit_nbytes = nbytes > content->unit_nbytes ? nbytes : content->unit_nbytes;
    }
}

lmc_status st_content_open(st_content *content, const lmc_st_file *file, lmc_ctx *ctx, size_t index,
                           const lmc_allocator *memory, lmc_st_diag *diag)
{
    *content = (st_content){.memory = memory};
    LMC_TRY(add_step(content, file, index, 1, NULL, ctx, diag));
    if (file->is_archive)
        LMC_TRY(open_chain(content, &content->steps[0].frame, ctx, diag));
    set_sizes(content);
    return LMC_OK;
}

lmc_status st_content_open_base(st_content *content, const st_frame *frame, lmc_ctx *ctx,
                                const lmc_allocator *memory, lmc_st_diag *diag)
{
    *content = (st_content){.memory = memory};
    LMC_TRY(open_chain(content, frame, ctx, diag));
    if (content->step_count > 0) {
        set_sizes(content);
        content->nbytes = frame->info.base_nbytes; /* what it lacks is zeros */
    }
    return LMC_OK;
}

void st_content_free(st_content *content)
{
    for (size_t i = 0; i < content->step_count; i++)
        st_frame_close(&content->steps[i].frame);
    if (content->memory)
        st_buffer_free(content->memory, &content->room);
    *content = (st_content){0};
}

size_t st_content_part_nbytes(const st_content *base, const lmc_info *info)
{
    if (base->step_count == 0)
        return info->block_nbytes;
    const size_t unit = base->unit_nbytes / st_base_scale(info->base_form);
    return unit > info->block_nbytes ? unit : info->block_nbytes;
}

/* ---- reading ---- */

typedef struct span {
    uint64_t begin, end;
} span;

/* Decodes the blocks that are bytes `part` of the step to dst. base: the same part of the next step. */
static lmc_status decode_blocks(const st_step *step, const st_content_room *room, span part,
                                const unsigned char *base, unsigned char *dst, lmc_block_entry *entries,
                                lmc_st_diag *diag)
{
    const st_frame *const frame = &step->frame;
    const size_t block_nbytes = frame->info.block_nbytes;
    st_blocks blocks = {.first = part.begin / block_nbytes,
                        .count = (part.end - part.begin + block_nbytes - 1) / block_nbytes,
                        .base = base,
                        .dst = dst,
                        .dst_nbytes = (size_t)(part.end - part.begin),
                        .entries = entries};
    if (part.begin % block_nbytes != 0 ||
        (part.end % block_nbytes != 0 && part.end != frame->info.content_nbytes)) {
        st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "its blocks do not fit those of what needs them");
        return st_file_blame(frame->file, frame->index, LMC_ERR_CORRUPT, diag);
    }
    return st_frame_read(frame, room->ctx, room->memory, room->stored, &blocks, diag);
}

/* Reads bytes `part` of the step, whose blocks, if it has any, they are. */
static lmc_status read_step(const st_step *step, const st_content_room *room, span part,
                            const unsigned char *base, unsigned char *dst, lmc_st_diag *diag)
{
    const st_frame *const frame = &step->frame;
    if (!frame->coded) {
        const uint64_t offset = frame->file->places[frame->index] + part.begin;
        return st_file_blame(
            frame->file, frame->index,
            st_input_read(&frame->file->input, offset, dst, (size_t)(part.end - part.begin), diag), diag);
    }
    if (st_frame_has_index(&frame->info))
        return decode_blocks(step, room, part, base, dst, NULL, diag);
    /* One block at a time: each gives a hash, which nobody asks for here. */
    const uint64_t block_nbytes = frame->info.block_nbytes;
    for (uint64_t at = part.begin; at < part.end; at += block_nbytes) {
        lmc_block_entry entry;
        const span block = {at, part.end - at < block_nbytes ? part.end : at + block_nbytes};
        LMC_TRY(decode_blocks(step, room, block, NULL, dst + (at - part.begin), &entry, diag));
    }
    return LMC_OK;
}

/* What of bytes `wanted` of the step is to be read: what it has of them, in whole blocks. */
static span span_in(const st_step *step, span wanted)
{
    const uint64_t block_nbytes = step->frame.coded ? step->frame.info.block_nbytes : 1;
    const uint64_t end = (wanted.end + block_nbytes - 1) / block_nbytes * block_nbytes;
    return (span){wanted.begin < step->nbytes ? wanted.begin : step->nbytes,
                  end < step->nbytes ? end : step->nbytes};
}

/* Reads `part` of the step to the start of a buffer that has `wanted_nbytes` bytes at least: what it lacks are
 * zeros. What lies in memory is not copied. */
static lmc_status read_padded(const st_step *step, const st_content_room *room, st_buffer *buffer, span part,
                              size_t wanted_nbytes, const unsigned char **bytes, lmc_st_diag *diag)
{
    const size_t nbytes = (size_t)(part.end - part.begin);
    const st_input *const input = &step->frame.file->input;
    if (!step->frame.coded && input->find && nbytes == wanted_nbytes) {
        const uint64_t offset = step->frame.file->places[step->frame.index] + part.begin;
        const unsigned char *const found = input->find(input->user, offset, nbytes);
        if (found) {
            *bytes = found;
            return LMC_OK;
        }
    }
    unsigned char *const dst =
        st_buffer_grow(room->memory, buffer, nbytes > wanted_nbytes ? nbytes : wanted_nbytes);
    if (!dst)
        return st_fail_nomem(diag);
    if (nbytes < wanted_nbytes)
        memset(dst + nbytes, 0, wanted_nbytes - nbytes);
    const unsigned char *const base = *bytes;
    *bytes = dst;
    return nbytes == 0 ? LMC_OK : read_step(step, room, part, base, dst, diag);
}

lmc_status st_content_read(const st_content *content, const st_content_room *room, uint64_t begin,
                           uint64_t end, const unsigned char **bytes, lmc_st_diag *diag)
{
    span wanted[STEPS_MAX];
    span parts[STEPS_MAX];
    const uint64_t unit = content->unit_nbytes;
    const uint64_t last = (end + unit - 1) / unit * unit; /* no overflow: far below 2^64 */
    const span wide = {begin / unit * unit, last < content->nbytes ? last : content->nbytes};
    const unsigned char *below = NULL;
    unsigned scale = 1;
    span next = wide;
    for (size_t i = 0; i < content->step_count; i++) {
        const st_step *const step = &content->steps[i];
        const unsigned wider = step->scale / scale;
        scale = step->scale;
        wanted[i] = (span){next.begin * wider, next.end * wider};
        next = parts[i] = span_in(step, wanted[i]);
    }
    for (size_t i = content->step_count; i-- > 0;) {
        const st_step *const step = &content->steps[i];
        st_buffer *const buffer = i % 2 == 0 ? room->result : room->other;
        lmc_status status = read_padded(step, room, buffer, parts[i],
                                        (size_t)(wanted[i].end - wanted[i].begin), &below, diag);
        if (status == LMC_ERR_BASE && i + 1 < content->step_count) /* else a read function's own */
            status = st_file_fail_base(step->frame.file, step[1].number, step[1].frame.file, diag);
        if (status != LMC_OK) {
            st_diag_set_file(diag, step->frame.file->path);
            return status;
        }
    }
    *bytes = below + (begin - wide.begin);
    return LMC_OK;
}

lmc_status st_content_read_base(const st_content *base, const st_content_room *room, const st_frame *frame,
                                uint64_t first, uint64_t count, const unsigned char **bytes,
                                lmc_st_diag *diag)
{
    *bytes = NULL;
    if (base->step_count == 0)
        return LMC_OK;
    const uint64_t begin = first * frame->info.base_block_nbytes;
    const uint64_t end = begin + count * frame->info.base_block_nbytes;
    const lmc_status status =
        st_content_read(base, room, begin, end < base->nbytes ? end : base->nbytes, bytes, diag);
    return st_content_blame(frame->file, frame->index, status, diag);
}

lmc_status st_content_verify(const st_content *content, const st_content_room *room, lmc_st_diag *diag)
{
    const st_step *const step = &content->steps[0];
    const lmc_info *const info = &step->frame.info;
    if (!step->frame.coded || st_frame_has_index(info))
        return LMC_OK;
    lmc_block_entry *const entries =
        st_allocate_array(content->memory, info->block_count + 1, sizeof *entries);
    unsigned char *const dst = st_buffer_grow(room->memory, room->result, info->block_nbytes);
    lmc_status status = !entries || !dst ? st_fail_nomem(diag) : LMC_OK;
    for (uint64_t i = 0; i < info->block_count && status == LMC_OK; i++) {
        const uint64_t at = i * info->block_nbytes;
        const uint64_t left = content->nbytes - at;
        const span part = {at, at + (left < info->block_nbytes ? left : info->block_nbytes)};
        status = decode_blocks(step, room, part, NULL, dst, &entries[i], diag);
    }
    if (status == LMC_OK)
        status = st_frame_check_entries(&step->frame, entries, diag);
    if (status != LMC_OK)
        st_diag_set_file(diag, step->frame.file->path);
    st_release(content->memory, entries);
    return status;
}

/* A content of at most so many bytes is decoded as a whole. */
#define WHOLE_NBYTES_MAX ((size_t)512 << 10)

lmc_status st_content_copy(const st_content *content, const st_content_room *room, st_content_window *window,
                           uint64_t offset, void *dst, size_t nbytes, lmc_st_diag *diag)
{
    if (offset < window->begin || offset + nbytes > window->end) {
        const int is_whole = content->unit_nbytes > 1 && content->nbytes <= WHOLE_NBYTES_MAX;
        window->begin = is_whole ? 0 : offset;
        window->end = is_whole ? content->nbytes : offset + nbytes;
        LMC_TRY(st_content_read(content, room, window->begin, window->end, &window->bytes, diag));
    }
    memcpy(dst, window->bytes + (offset - window->begin), nbytes);
    return LMC_OK;
}

/* ---- faults ---- */

lmc_status st_content_blame(const lmc_st_file *file, size_t index, lmc_status status, lmc_st_diag *diag)
{
    if (status == LMC_OK)
        return LMC_OK;
    lmc_st_diag own;
    const st_string name = st_header_name(&file->header, index);
    st_diag_init(&own, file->path);
    st_diag_set_tensor(&own, name.bytes, name.nbytes);
    const int is_own_file = strcmp(own.file, diag->file) == 0;
    if (status == LMC_ERR_NOMEM || status == LMC_ERR_CANCELLED ||
        (is_own_file && (!diag->has_tensor || strcmp(own.tensor, diag->tensor) == 0)))
        st_fail(&own, status, diag->offset, "%s", diag->text); /* it is this tensor's own */
    else
        st_fail(&own, status, LMC_ST_NO_OFFSET, "%.300s (in what it was coded against:%s%.160s%s%.80s)",
                diag->text, is_own_file ? "" : " ", is_own_file ? "" : diag->file,
                diag->has_tensor ? " tensor " : "", diag->has_tensor ? diag->tensor : "");
    own.os_errno = diag->os_errno;
    *diag = own;
    return status;
}

lmc_status st_content_open_files(const lmc_st_file *file, lmc_st_diag *diag)
{
    for (size_t i = 0; i < file->bases.link_count; i++) {
        const lmc_st_file *at = file;
        const st_link *link = &file->bases.links[i];
        while (link) {
            const lmc_st_file *base = at;
            if (link->place == LMC_ST_BASE_FILE)
                LMC_TRY(st_file_open_base(at, link->file, &base, diag));
            if (link->base >= base->header.tensor_count)
                break; /* is found again, and told, when its frame is opened */
            link = st_bases_find(&base->bases, st_file_owner(base, link->base));
            at = base;
        }
    }
    return LMC_OK;
}
