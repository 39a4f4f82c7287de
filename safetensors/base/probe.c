/*
 * probe.c - a few tensors of a candidate are held against what the archive's frames want.
 */
#include "safetensors/base/probe.h"

#include "safetensors/base/content.h"

#define LINKS_MAX 8

typedef struct probe {
    const lmc_st_file *file, *base;
    int is_trial;
    st_content_room room;
    st_buffer buffers[3], block;
    unsigned fit_count, differs_count, unknown_count; /* tensors */
} probe;

/* A missing base of a file that is looked at says nothing of the file itself: it only could not be read. */
static lmc_status unread(lmc_status status)
{
    return status == LMC_ERR_BASE ? LMC_ERR_IO : status;
}

/* Decodes a block of the frame against `content`. BASE: that is not what the frame was coded against. */
static lmc_status look_at_block(probe *probe, const st_frame *frame, uint64_t block,
                                const st_content *content)
{
    lmc_st_diag unused = {0};
    const lmc_allocator *const memory = probe->room.memory;
    const lmc_info *const info = &frame->info;
    const uint64_t left = info->content_nbytes - block * info->block_nbytes;
    st_blocks one = {.first = block, .count = 1};
    ST_TRY(unread(st_content_read_base(content, &probe->room, frame, block, 1, &one.base, &unused)));
    one.dst = st_buffer_grow(memory, &probe->block, info->block_nbytes);
    one.dst_nbytes = left < info->block_nbytes ? (size_t)left : info->block_nbytes;
    return one.dst ? st_frame_read(frame, probe->room.ctx, memory, probe->room.stored, &one, &unused)
                   : LMC_ERR_NOMEM;
}

static lmc_status look_at_blocks(probe *probe, const st_frame *frame, size_t base_index)
{
    lmc_st_diag unused = {0};
    st_content content;
    lmc_status status = unread(
        st_content_open(&content, probe->base, probe->room.ctx, base_index, probe->room.memory, &unused));
    if (status == LMC_OK)
        status = look_at_block(probe, frame, 0, &content);
    if (status == LMC_OK && frame->info.block_count > 1)
        status = look_at_block(probe, frame, frame->info.block_count - 1, &content);
    st_content_free(&content);
    return status;
}

/* *is_known: the hash of the base's frame has decided. A frame's content hash is over its blocks' hashes: those of
 * other blocks cannot be compared. */
static lmc_status look_at_hash(probe *probe, const st_frame *frame, size_t base_index, int *is_known)
{
    lmc_st_diag unused = {0};
    st_frame having;
    const size_t owner = st_file_owner(probe->base, base_index);
    *is_known = 1;
    ST_TRY(st_frame_open(&having, probe->base, NULL, probe->room.ctx, owner, &unused));
    *is_known = having.info.block_nbytes == frame->info.base_block_nbytes ||
                (having.info.block_count == 1 && frame->info.block_count == 1);
    const int is_same = lmc_frame_content_hash(having.coded) == lmc_frame_base_hash(frame->coded);
    st_frame_close(&having);
    return !*is_known || is_same ? LMC_OK : LMC_ERR_BASE;
}

static lmc_status look_at_frame(probe *probe, const st_link *link, const st_frame *frame)
{
    const lmc_st_file *const base = probe->base;
    int is_known = 0;
    if (link->base >= base->header.tensor_count ||
        st_file_tensor_nbytes(base, link->base) != frame->info.base_nbytes)
        return LMC_ERR_BASE;
    if (base->is_archive)
        ST_TRY(look_at_hash(probe, frame, link->base, &is_known));
    if (is_known)
        return LMC_OK;
    const int needs_more = st_bases_find(&base->bases, st_file_owner(base, link->base)) != NULL;
    return probe->is_trial && needs_more ? LMC_ERR_IO : look_at_blocks(probe, frame, link->base);
}

/* Counts the result of a look; NOMEM alone is passed on. */
static lmc_status look_at_link(probe *probe, const st_link *link)
{
    lmc_st_diag unused = {0};
    st_frame frame;
    lmc_status status =
        unread(st_frame_open(&frame, probe->file, NULL, probe->room.ctx, link->tensor, &unused));
    if (status == LMC_OK)
        status = look_at_frame(probe, link, &frame);
    st_frame_close(&frame);
    probe->fit_count += status == LMC_OK;
    probe->differs_count += status == LMC_ERR_BASE;
    probe->unknown_count += status != LMC_OK && status != LMC_ERR_BASE;
    return status == LMC_ERR_NOMEM ? status : LMC_OK;
}

static int is_worth_a_look(const lmc_st_file *file, const st_link *link)
{
    return link->place == LMC_ST_BASE_FILE && st_file_tensor_nbytes(file, link->tensor) > 0;
}

/* The link with the most stored bytes: of a tensor that has changed much, where others are as they were. */
static const st_link *largest_link(const lmc_st_file *file)
{
    const st_link *largest = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < file->bases.link_count; i++) {
        const st_link *const link = &file->bases.links[i];
        const uint64_t nbytes = is_worth_a_look(file, link) ? st_file_frame_nbytes(file, link->tensor) : 0;
        largest = nbytes > most ? link : largest;
        most = nbytes > most ? nbytes : most;
    }
    return largest;
}

/* Looks at the largest link, and at links that are spread evenly over those worth it, the first and the last among
 * them. */
static lmc_status look_at_links(probe *probe)
{
    const st_bases *const bases = &probe->file->bases;
    size_t count = 0;
    for (size_t i = 0; i < bases->link_count; i++)
        count += (size_t)is_worth_a_look(probe->file, &bases->links[i]);
    const size_t wanted = count < LINKS_MAX ? count : LINKS_MAX;
    size_t taken = 0;
    size_t seen = 0;
    if (count > LINKS_MAX)
        ST_TRY(look_at_link(probe, largest_link(probe->file)));
    for (size_t i = 0; i < bases->link_count && taken < wanted && probe->differs_count == 0; i++) {
        if (!is_worth_a_look(probe->file, &bases->links[i]))
            continue;
        const size_t next = wanted == 1 ? 0 : (size_t)((uint64_t)taken * (count - 1) / (wanted - 1));
        if (seen++ == next) {
            taken++;
            ST_TRY(look_at_link(probe, &bases->links[i]));
        }
    }
    return LMC_OK;
}

lmc_status st_base_probe(const lmc_st_file *file, const lmc_st_file *base, int is_trial, st_base_fit *fit)
{
    const lmc_allocator *const memory = &file->memory;
    probe probe = {.file = file, .base = base, .is_trial = is_trial};
    st_buffer *const buffers = probe.buffers;
    lmc_ctx *ctx = NULL;
    lmc_status status = lmc_ctx_create(memory, &ctx);
    if (status == LMC_OK) {
        probe.room = (st_content_room){memory, ctx, &buffers[0], &buffers[1], &buffers[2]};
        status = look_at_links(&probe);
    }
    for (size_t i = 0; i < 3; i++)
        st_buffer_free(memory, &buffers[i]);
    st_buffer_free(memory, &probe.block);
    lmc_ctx_free(ctx);
    if (probe.differs_count > 0)
        *fit = ST_BASE_DIFFERS;
    else if (probe.unknown_count == 0)
        *fit = ST_BASE_FITS;
    else
        *fit = probe.fit_count > 0 ? ST_BASE_PARTLY : ST_BASE_UNKNOWN;
    return status;
}
