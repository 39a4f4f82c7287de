/*
 * probe.c - see base/probe.h.
 */
#include "safetensors/base/probe.h"

#include "safetensors/base/content.h"

#define LINKS_MAX 8

enum { RESULT, OTHER, STORED, BLOCK, BUFFER_COUNT };

typedef struct probe {
    const lmc_st_file *file, *base;
    int is_trial;
    st_content_room room;
    st_buffer buffers[BUFFER_COUNT];
    unsigned fit_count, differs_count, unknown_count; /* tensors */
} probe;

/* Takes the result of a look; NOMEM alone is passed on. */
static lmc_status note(probe *probe, lmc_status status)
{
    probe->fit_count += status == LMC_OK;
    probe->differs_count += status == LMC_ERR_BASE;
    probe->unknown_count += status != LMC_OK && status != LMC_ERR_BASE;
    return status == LMC_ERR_NOMEM ? status : LMC_OK;
}

static st_base_fit result_of(const probe *probe)
{
    if (probe->differs_count > 0)
        return ST_BASE_DIFFERS;
    if (probe->unknown_count == 0)
        return ST_BASE_FITS;
    return probe->fit_count > 0 ? ST_BASE_PARTLY : ST_BASE_UNKNOWN;
}

/* Decodes block `at` of the frame against `base_bytes`, the block of the base that belongs to it. */
static lmc_status decode_block(probe *probe, const st_link *link, const lmc_frame *frame,
                               const lmc_info *info, uint64_t at, const unsigned char *base_bytes)
{
    lmc_st_diag unused = {0};
    uint64_t offset = 0;
    size_t stored_nbytes = 0;
    const lmc_allocator *const memory = &probe->file->memory;
    lmc_status status =
        st_frame_extent(probe->file, link->tensor, frame, at, 1, &offset, &stored_nbytes, &unused);
    if (status != LMC_OK)
        return status;
    unsigned char *const stored = st_buffer_grow(memory, &probe->buffers[STORED], stored_nbytes);
    unsigned char *const dst = st_buffer_grow(memory, &probe->buffers[BLOCK], info->block_nbytes);
    if (!stored || !dst)
        return LMC_ERR_NOMEM;
    const uint64_t left = info->content_nbytes - at * info->block_nbytes;
    const size_t nbytes = left < info->block_nbytes ? (size_t)left : info->block_nbytes;
    status = os_input_read(&probe->file->input, offset, stored, stored_nbytes, &unused);
    return status != LMC_OK ? status
                            : st_frame_decode(probe->file, probe->room.ctx, link->tensor, frame, at, 1,
                                              stored, stored_nbytes, base_bytes, dst, nbytes, NULL, &unused);
}

static lmc_status look_at_block(probe *probe, const st_link *link, const lmc_frame *frame,
                                const lmc_info *info, uint64_t at, const st_content *content)
{
    lmc_st_diag unused = {0};
    const unsigned char *bytes = NULL;
    const uint64_t begin = at * info->base_block_nbytes;
    const uint64_t left = content->nbytes - begin;
    const uint64_t end = left < info->base_block_nbytes ? content->nbytes : begin + info->base_block_nbytes;
    const lmc_status status = st_content_read(content, &probe->room, begin, end, &bytes, &unused);
    if (status != LMC_OK)
        return status == LMC_ERR_BASE ? LMC_ERR_IO : status; /* its own base: that says nothing of it */
    return decode_block(probe, link, frame, info, at, bytes);
}

static lmc_status look_at_blocks(probe *probe, const st_link *link, const lmc_frame *frame,
                                 const lmc_info *info)
{
    lmc_st_diag unused = {0};
    st_content content;
    lmc_status status =
        st_content_open(&content, probe->base, probe->room.ctx, link->base, probe->room.memory, &unused);
    status = status == LMC_ERR_BASE ? LMC_ERR_IO : status; /* as above */
    if (status == LMC_OK)
        status = look_at_block(probe, link, frame, info, 0, &content);
    if (status == LMC_OK && info->block_count > 1)
        status = look_at_block(probe, link, frame, info, info->block_count - 1, &content);
    st_content_free(&content);
    return status;
}

/* A frame's content hash is over its blocks' hashes: those of other blocks cannot be compared. */
static int has_same_blocks(const lmc_info *wanting, const lmc_info *having)
{
    return having->block_nbytes == wanting->base_block_nbytes ||
           (having->block_count == 1 && wanting->block_count == 1);
}

/* *is_known: the hash of the base's frame has decided. */
static lmc_status look_at_hash(probe *probe, const st_link *link, const lmc_frame *frame,
                               const lmc_info *info, int *is_known)
{
    lmc_st_diag unused = {0};
    lmc_frame *having = NULL;
    lmc_info having_info = LMC_INIT(lmc_info);
    const lmc_st_file *const base = probe->base;
    const size_t owner = st_file_owner(base, link->base);
    const lmc_status status = st_frame_open(base, NULL, probe->room.ctx, owner, &having, &unused);
    if (status != LMC_OK) {
        *is_known = 1;
        return status;
    }
    lmc_frame_info(having, &having_info);
    *is_known = has_same_blocks(info, &having_info);
    const int is_same = lmc_frame_content_hash(having) == lmc_frame_base_hash(frame);
    lmc_frame_free(having);
    return !*is_known || is_same ? LMC_OK : LMC_ERR_BASE;
}

static lmc_status look_at_frame(probe *probe, const st_link *link, const lmc_frame *frame)
{
    lmc_info info = LMC_INIT(lmc_info);
    int is_known = 0;
    const lmc_st_file *const base = probe->base;
    lmc_frame_info(frame, &info);
    if (link->base >= base->header.tensor_count ||
        st_file_tensor_nbytes(base, link->base) != info.base_nbytes)
        return LMC_ERR_BASE;
    const lmc_status status = base->is_archive ? look_at_hash(probe, link, frame, &info, &is_known) : LMC_OK;
    if (is_known || status != LMC_OK)
        return status;
    const int needs_more =
        base->is_archive && st_bases_find(&base->bases, st_file_owner(base, link->base)) != NULL;
    return probe->is_trial && needs_more ? LMC_ERR_IO : look_at_blocks(probe, link, frame, &info);
}

static lmc_status look_at_link(probe *probe, const st_link *link)
{
    lmc_st_diag unused = {0};
    lmc_frame *frame = NULL;
    lmc_status status = st_frame_open(probe->file, NULL, probe->room.ctx, link->tensor, &frame, &unused);
    status = status == LMC_ERR_BASE ? LMC_ERR_IO : status;
    if (status == LMC_OK)
        status = look_at_frame(probe, link, frame);
    lmc_frame_free(frame);
    return note(probe, status);
}

static int is_worth_a_look(const lmc_st_file *file, const st_link *link)
{
    return link->place == LMC_ST_BASE_FILE && st_file_tensor_nbytes(file, link->tensor) > 0;
}

/* Looks at links that are spread evenly over those worth it, the first and the last among them. */
static lmc_status look_at_links(probe *probe)
{
    const st_bases *const bases = &probe->file->bases;
    size_t count = 0;
    for (size_t i = 0; i < bases->link_count; i++)
        count += (size_t)is_worth_a_look(probe->file, &bases->links[i]);
    const size_t wanted = count < LINKS_MAX ? count : LINKS_MAX;
    size_t taken = 0;
    size_t seen = 0;
    for (size_t i = 0; i < bases->link_count && taken < wanted && probe->differs_count == 0; i++) {
        if (!is_worth_a_look(probe->file, &bases->links[i]))
            continue;
        const size_t next = wanted == 1 ? 0 : (size_t)((uint64_t)taken * (count - 1) / (wanted - 1));
        if (seen++ == next) {
            taken++;
            if (look_at_link(probe, &bases->links[i]) != LMC_OK)
                return LMC_ERR_NOMEM;
        }
    }
    return LMC_OK;
}

lmc_status st_base_probe(const lmc_st_file *file, const lmc_st_file *base, int is_trial, st_base_fit *fit)
{
    const lmc_allocator *const memory = &file->memory;
    lmc_ctx *ctx = NULL;
    probe probe = {.file = file, .base = base, .is_trial = is_trial};
    lmc_status status = lmc_ctx_create(memory, &ctx);
    if (status == LMC_OK) {
        const st_content_room room = {memory, ctx, &probe.buffers[RESULT], &probe.buffers[OTHER],
                                      &probe.buffers[STORED]};
        probe.room = room;
        status = look_at_links(&probe);
    }
    for (size_t i = 0; i < BUFFER_COUNT; i++)
        st_buffer_free(memory, &probe.buffers[i]);
    lmc_ctx_free(ctx);
    *fit = result_of(&probe);
    return status;
}
