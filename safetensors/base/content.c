/*
 * content.c - see base/content.h.
 */
#include "safetensors/base/content.h"

#include <stdio.h>
#include <string.h>

/* In each file a tensor of it and one that this was coded against. */
#define LEVELS_MAX (2 * LMC_ST_CHAIN_MAX)
#define LEVELS_BEGIN 4

/* ---- opening ---- */

static st_level *add_level(st_content *content, const lmc_st_file *file, size_t index, lmc_st_diag *diag)
{
    const size_t count = content->level_count;
    if (count == 0 || (count >= LEVELS_BEGIN && (count & (count - 1)) == 0)) {
        const size_t capacity = count == 0 ? LEVELS_BEGIN : 2 * count;
        st_level *const larger = st_allocate(content->memory, capacity * sizeof *larger);
        if (!larger) {
            st_fail_nomem(diag);
            return NULL;
        }
        if (count > 0)
            memcpy(larger, content->levels, count * sizeof *larger);
        st_release(content->memory, content->levels);
        content->levels = larger;
    }
    st_level *const level = &content->levels[content->level_count++];
    memset(level, 0, sizeof *level);
    level->file = file;
    level->index = index;
    level->scale = count == 0 ? 1 : level[-1].scale;
    return level;
}

static lmc_status open_level(st_content *content, const lmc_st_file *file, lmc_ctx *ctx, size_t index,
                             lmc_st_diag *diag)
{
    st_level *const level = add_level(content, file, st_file_owner(file, index), diag);
    if (!level)
        return LMC_ERR_NOMEM;
    if (!file->is_archive)
        return LMC_OK;
    const lmc_status status = st_frame_open(file, NULL, ctx, level->index, &level->frame, diag);
    if (status != LMC_OK) {
        st_diag_set_file(diag, file->path);
        return status;
    }
    level->info = (lmc_info)LMC_INIT(lmc_info);
    lmc_frame_info(level->frame, &level->info);
    return LMC_OK;
}

/* The link of a frame, and the file that it leads to. */
static lmc_status follow(const lmc_st_file *file, const st_link *link, const lmc_info *info,
                         const lmc_st_file **base, lmc_st_diag *diag)
{
    *base = file;
    if (link->place == LMC_ST_BASE_FILE) {
        const lmc_status status = st_file_open_base(file, base, diag);
        if (status != LMC_OK)
            return status;
    }
    const st_header *const header = &(*base)->header;
    const int dtype = info->base_form == LMC_BASE_BF16_OF_F32 ? LMC_DTYPE_F32 : (int)info->dtype;
    if (link->base >= header->tensor_count || header->tensors[link->base].dtype != dtype ||
        st_file_tensor_nbytes(*base, link->base) != info->base_nbytes) {
        st_diag_set_file(diag, file->path);
        st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                "the tensor that it is said to be coded against has another type or size");
        return st_file_blame(file, link->tensor, LMC_ERR_CORRUPT, diag);
    }
    return LMC_OK;
}

/* Opens what `link`, of a frame with this info, leads to, and what that needs. */
static lmc_status open_chain(st_content *content, const lmc_st_file *file, lmc_ctx *ctx, const st_link *link,
                             const lmc_info *info, lmc_st_diag *diag)
{
    while (link) {
        const lmc_st_file *base = NULL;
        const lmc_info above = *info;
        lmc_status status = follow(file, link, &above, &base, diag);
        if (status == LMC_OK && content->level_count == LEVELS_MAX)
            status = st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "a chain of bases is too long");
        if (status == LMC_OK)
            status = open_level(content, base, ctx, link->base, diag);
        if (status != LMC_OK)
            return status;
        st_level *const level = &content->levels[content->level_count - 1];
        level->scale *= content->level_count > 1 && above.base_form == LMC_BASE_BF16_OF_F32 ? 2 : 1;
        file = base;
        info = &level->info;
        link = base->is_archive ? st_bases_find(&base->bases, level->index) : NULL;
    }
    return LMC_OK;
}

static void finish_open(st_content *content)
{
    const st_level *const first = &content->levels[0];
    content->nbytes = st_file_tensor_nbytes(first->file, first->index);
    content->unit_nbytes = 1;
    for (size_t i = 0; i < content->level_count; i++) {
        const st_level *const level = &content->levels[i];
        const size_t nbytes = level->info.block_nbytes / level->scale;
        content->unit_nbytes = nbytes > content->unit_nbytes ? nbytes : content->unit_nbytes;
    }
}

lmc_status st_content_open(st_content *content, const lmc_st_file *file, lmc_ctx *ctx, size_t index,
                           const lmc_allocator *memory, lmc_st_diag *diag)
{
    memset(content, 0, sizeof *content);
    content->memory = memory;
    lmc_status status = open_level(content, file, ctx, index, diag);
    if (status == LMC_OK && file->is_archive) {
        const lmc_info info = content->levels[0].info;
        status = open_chain(content, file, ctx, st_bases_find(&file->bases, content->levels[0].index), &info,
                            diag);
    }
    if (status == LMC_OK)
        finish_open(content);
    return status;
}

lmc_status st_content_open_base(st_content *content, const lmc_st_file *file, lmc_ctx *ctx, size_t index,
                                const lmc_info *info, const lmc_allocator *memory, lmc_st_diag *diag)
{
    const st_link *const link = st_bases_find(&file->bases, st_file_owner(file, index));
    memset(content, 0, sizeof *content);
    content->memory = memory;
    if (!link)
        return LMC_OK;
    const lmc_status status = open_chain(content, file, ctx, link, info, diag);
    if (status == LMC_OK)
        finish_open(content);
    return status;
}

void st_content_free(st_content *content)
{
    for (size_t i = 0; i < content->level_count; i++)
        lmc_frame_free(content->levels[i].frame);
    if (content->memory)
        st_release(content->memory, content->levels);
    memset(content, 0, sizeof *content);
}

size_t st_content_step(const st_content *base, const lmc_info *info)
{
    if (base->level_count == 0)
        return info->block_nbytes;
    const size_t unit = base->unit_nbytes / (info->base_form == LMC_BASE_BF16_OF_F32 ? 2 : 1);
    return unit > info->block_nbytes ? unit : info->block_nbytes;
}

/* ---- reading ---- */

typedef struct span {
    uint64_t begin, end;
} span;

static lmc_status fail_alignment(const st_level *level, lmc_st_diag *diag)
{
    st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "its blocks do not fit those of what needs them");
    return st_file_blame(level->file, level->index, LMC_ERR_CORRUPT, diag);
}

/* Decodes the blocks that are bytes `part` of the level to dst. base: the same part of the level below. */
static lmc_status decode_blocks(const st_level *level, const st_content_room *room, span part,
                                const unsigned char *base, unsigned char *dst, lmc_block_entry *entries,
                                lmc_st_diag *diag)
{
    const size_t block_nbytes = level->info.block_nbytes;
    const uint64_t first = part.begin / block_nbytes;
    const uint64_t count = (part.end - part.begin + block_nbytes - 1) / block_nbytes;
    uint64_t offset = 0;
    size_t stored_nbytes = 0;
    if (part.begin % block_nbytes != 0 ||
        (part.end % block_nbytes != 0 && part.end != level->info.content_nbytes))
        return fail_alignment(level, diag);
    lmc_status status =
        st_frame_extent(level->file, level->index, level->frame, first, count, &offset, &stored_nbytes, diag);
    if (status != LMC_OK)
        return status;
    unsigned char *const stored = st_buffer_grow(room->memory, room->stored, stored_nbytes);
    if (!stored)
        return st_fail_nomem(diag);
    status = os_input_read(&level->file->input, offset, stored, stored_nbytes, diag);
    if (status != LMC_OK)
        return st_file_blame(level->file, level->index, status, diag);
    return st_frame_decode(level->file, room->ctx, level->index, level->frame, first, count, stored,
                           stored_nbytes, base, dst, (size_t)(part.end - part.begin), entries, diag);
}

/* Blocks of a frame without an index give a hash each, which nobody asks for here. One block at a time. */
static lmc_status decode_unindexed(const st_level *level, const st_content_room *room, span part,
                                   unsigned char *dst, lmc_st_diag *diag)
{
    lmc_status status = LMC_OK;
    for (uint64_t at = part.begin; at < part.end && status == LMC_OK; at += level->info.block_nbytes) {
        lmc_block_entry entry;
        const uint64_t left = part.end - at;
        const uint64_t nbytes = left < level->info.block_nbytes ? left : level->info.block_nbytes;
        const span block = {at, at + nbytes};
        status = decode_blocks(level, room, block, NULL, dst + (at - part.begin), &entry, diag);
    }
    return status;
}

static lmc_status read_level(const st_level *level, const st_content_room *room, span part,
                             const unsigned char *base, unsigned char *dst, lmc_st_diag *diag)
{
    if (!level->frame) {
        const lmc_status status =
            os_input_read(&level->file->input, level->file->places[level->index] + part.begin, dst,
                          (size_t)(part.end - part.begin), diag);
        return status == LMC_OK ? LMC_OK : st_file_blame(level->file, level->index, status, diag);
    }
    if (!st_frame_has_index(&level->info))
        return decode_unindexed(level, room, part, dst, diag);
    return decode_blocks(level, room, part, base, dst, NULL, diag);
}

/* The part, aligned: [begin, end) in bytes of the first level. */
static span widen(const st_content *content, uint64_t begin, uint64_t end)
{
    const uint64_t unit = content->unit_nbytes;
    const uint64_t last = (end + unit - 1) / unit * unit; /* no overflow: far below 2^64 */
    const span wide = {begin / unit * unit, last < content->nbytes ? last : content->nbytes};
    return wide;
}

lmc_status st_content_read(const st_content *content, const st_content_room *room, uint64_t begin,
                           uint64_t end, const unsigned char **bytes, lmc_st_diag *diag)
{
    const span wide = widen(content, begin, end);
    const unsigned char *below = NULL;
    for (size_t i = content->level_count; i-- > 0;) {
        const st_level *const level = &content->levels[i];
        const span part = {wide.begin * level->scale, wide.end * level->scale};
        st_buffer *const buffer = i % 2 == 0 ? room->result : room->other;
        unsigned char *const dst = st_buffer_grow(room->memory, buffer, (size_t)(part.end - part.begin));
        lmc_status status = !dst ? st_fail_nomem(diag) : LMC_OK;
        if (status == LMC_OK)
            status = read_level(level, room, part, below, dst, diag);
        if (status == LMC_ERR_BASE)
            status = st_file_fail_base(level->file, level[1].file, diag);
        if (status != LMC_OK) {
            st_diag_set_file(diag, level->file->path);
            return status;
        }
        below = dst;
    }
    *bytes = below + (begin - wide.begin);
    return LMC_OK;
}

lmc_status st_content_verify(const st_content *content, const st_content_room *room, lmc_st_diag *diag)
{
    const st_level *const level = &content->levels[0];
    if (!level->frame || st_frame_has_index(&level->info))
        return LMC_OK;
    const uint64_t count = level->info.block_count;
    lmc_block_entry *const entries = st_allocate_array(content->memory, count + 1, sizeof *entries);
    unsigned char *const dst = st_buffer_grow(room->memory, room->result, level->info.block_nbytes);
    lmc_status status = !entries || !dst ? st_fail_nomem(diag) : LMC_OK;
    for (uint64_t i = 0; i < count && status == LMC_OK; i++) {
        const uint64_t at = i * level->info.block_nbytes;
        const uint64_t left = content->nbytes - at;
        const span part = {at, at + (left < level->info.block_nbytes ? left : level->info.block_nbytes)};
        status = decode_blocks(level, room, part, NULL, dst, &entries[i], diag);
    }
    if (status == LMC_OK)
        status = st_frame_check_entries(level->file, level->index, entries, count, diag);
    if (status != LMC_OK)
        st_diag_set_file(diag, level->file->path);
    st_release(content->memory, entries);
    return status;
}

/* ---- faults ---- */

lmc_status st_content_blame(const lmc_st_file *file, size_t index, lmc_status status, lmc_st_diag *diag)
{
    lmc_st_diag cause = *diag;
    const st_string name = st_header_name(&file->header, index);
    char own_path[sizeof diag->file];
    char own_name[sizeof diag->tensor];
    st_diag_set_file(diag, file->path);
    st_diag_set_tensor(diag, name.bytes, name.nbytes);
    memcpy(own_path, diag->file, sizeof own_path);
    memcpy(own_name, diag->tensor, sizeof own_name);
    const int is_own = strcmp(own_path, cause.file) == 0;
    if (status == LMC_ERR_NOMEM || status == LMC_ERR_CANCELLED ||
        (is_own && (!cause.has_tensor || strcmp(own_name, cause.tensor) == 0)))
        return status; /* it is this tensor's own */
    const int os_errno = cause.os_errno;
    st_fail(diag, status, LMC_ST_NO_OFFSET, "%.300s (in what it was coded against:%s%.160s%s%.80s)",
            cause.text, is_own ? "" : " ", is_own ? "" : cause.file, cause.has_tensor ? " tensor " : "",
            cause.has_tensor ? cause.tensor : "");
    diag->os_errno = os_errno;
    return status;
}

lmc_status st_content_open_files(const lmc_st_file *file, lmc_st_diag *diag)
{
    for (size_t i = 0; i < file->bases.link_count; i++) {
        const lmc_st_file *at = file;
        const st_link *link = &file->bases.links[i];
        while (link) {
            const lmc_st_file *base = at;
            if (link->place == LMC_ST_BASE_FILE) {
                const lmc_status status = st_file_open_base(at, &base, diag);
                if (status != LMC_OK)
                    return status;
            }
            if (link->base >= base->header.tensor_count)
                break; /* is found again, and told, when its frame is opened */
            link = st_bases_find(&base->bases, st_file_owner(base, link->base));
            at = base;
        }
    }
    return LMC_OK;
}
